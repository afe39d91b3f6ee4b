// What did the last five minutes look like? Two plots of one upstream: what was used of what was allowed, and who waited.

import * as words from "./words.js";

/* global uPlot */

const SHOWN_S = 300;
const HEIGHT = 190;
/** Between two lines of a plot of what comes in ones. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000];
/** Of a limit far above all that is used the line would press the rest to the ground; it is then left out, and named. */
const OUT_OF_SIGHT = 5;

export class Plots {
  #rates;
  #waiting;
  #now = 0;
  #shown = null;

  constructor(rates, waiting) {
    const make = () => {
      this.#rates?.destroy();
      this.#waiting?.destroy();
      const now = () => this.#now;
      this.#rates = plot(rates, now, words.rate, {}, [
        { label: "used", stroke: colour("--used"), fill: colour("--used-fill"), width: 1.5 },
        { label: "allowed", stroke: colour("--allowed"), width: 1.5, dash: [4, 3], paths: uPlot.paths.stepped({ align: 1 }) },
      ]);
      this.#waiting = plot(waiting, now, words.count, { incrs: WHOLE }, [
        { label: "waiting", stroke: colour("--waits"), fill: colour("--waits-fill"), width: 1.5, paths: uPlot.paths.stepped({ align: 1 }) },
      ]);
      if (this.#shown) this.show(this.#shown, this.#now);
    };
    make();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", make);
    new ResizeObserver(() => {
      for (const [plot, place] of [[this.#rates, rates], [this.#waiting, waiting]]) {
        if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: HEIGHT });
      }
    }).observe(rates);
  }

  /** Shows columns of the past, up to now. */
  show(columns, now) {
    [this.#shown, this.#now] = [columns, now];
    set(this.#rates, [columns.at, columns.used, columns.allowed]);
    set(this.#waiting, [columns.at, columns.waiting]);
  }
}

function set(plot, columns) {
  plot.setData(columns);
  // What the pointer does not show is what is now.
  if (plot.cursor.left < 0 && columns[0].length > 0) plot.setLegend({ idx: columns[0].length - 1 });
}

function plot(place, now, write, axis, series) {
  const ink = { stroke: colour("--muted"), font: `12px ${getComputedStyle(document.body).fontFamily}` };
  const grid = { stroke: colour("--line"), width: 1 };
  const minutes = (_, splits) => splits.map((at) => (at >= now() - 1 ? "now" : `−${Math.round((now() - at) / 60)} min`));
  return new uPlot(
    {
      width: place.clientWidth || 320,
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { setScale: false }, points: { size: 6 } },
      legend: { live: true, markers: { width: 2 } },
      scales: {
        x: { time: false, range: () => [now() - SHOWN_S, now()] },
        y: { range: (plot) => [0, top(plot.data)] },
      },
      axes: [
        { ...ink, grid, ticks: { show: false }, size: 26, splits: () => [5, 4, 3, 2, 1, 0].map((ago) => now() - ago * 60), values: minutes },
        { ...ink, grid, ticks: { show: false }, size: room, values: (_, splits) => splits.map(plain), space: 36, ...axis },
      ],
      series: [
        { label: "at", value: (_, at) => (at == null ? "–" : words.clock(at * 1000)) },
        ...series.map((one) => ({ points: { show: false }, value: (_, number) => (number == null ? "–" : write(number)), ...one })),
      ],
    },
    [[]],
    place,
  );
}

/** As high as what was used, or allowed if that is in sight; never so low that nothing looks like much. */
function top(data) {
  const highest = (column) => Math.max(0, ...(column ?? []).filter((value) => value != null));
  const [, used, allowed] = data;
  const [most, limit] = [highest(used), highest(allowed)];
  const isInSight = most === 0 || limit <= most * OUT_OF_SIGHT;
  return 1.15 * Math.max(most, isInSight ? limit : 0) || 1;
}

const plain = (number) => words.count(Number(number.toPrecision(3)));
const room = (_, texts) => 14 + 7 * Math.max(2, ...(texts ?? []).map((text) => text.length));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
