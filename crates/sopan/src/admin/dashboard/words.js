// How are numbers written? As few digits as say something, always with their unit, and the same everywhere.

const NOTHING = "–";
const GROUPED = new Intl.NumberFormat("en");

export const count = (number) => (number == null ? NOTHING : GROUPED.format(number));

/** Of tokens, of which a part is none yet, and of which none are free in a hold. */
export const tokens = (number) => count(Math.max(0, Math.floor(number)));

/** So many seconds: `310 ms`, `1.8 s`, `48 s`, `6 min 46 s`, `5 h 12 min`, `3 d 4 h`. */
export function span(seconds) {
  if (seconds == null) return NOTHING;
  if (seconds <= 0) return "0 s";
  if (seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return two(whole, 60, "min", 1, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 2880) return two(minutes, 60, "h", 1, "min");
  return two(Math.round(minutes / 60), 24, "d", 1, "h");
}

function two(number, size, large, unit, small) {
  const rest = Math.floor((number % size) / unit);
  return `${count(Math.floor(number / size))} ${large}${rest > 0 ? ` ${rest} ${small}` : ""}`;
}

/** How long something took that cannot take no time. */
export const took = (seconds) => (seconds === 0 ? "<1 ms" : span(seconds));

/** How long something waited that may not have waited. */
export const waited = (seconds) => (seconds === 0 ? NOTHING : span(seconds));

/** What is left of so many seconds: in tenths at the end, and never beyond it. */
export const left = (seconds) => (seconds > 0 && seconds < 0.95 ? `${seconds.toFixed(1)} s` : span(seconds));

/** The same where there is little room: `17 min`. */
export function short(seconds) {
  if (!(seconds >= 120)) return left(seconds);
  const [size, unit] = seconds < 7200 ? [60, "min"] : seconds < 172_800 ? [3600, "h"] : [86_400, "d"];
  return `${count(Math.round(seconds / size))} ${unit}`;
}

/** `9.9/s`, `100/s`, and `41.4/h` of what is rare. */
export function rate(number) {
  if (number == null) return "unlimited";
  if (number === 0) return "0/s";
  if (number < 0.1) return `${(number * 3600).toFixed(1)}/h`;
  return number < 9.95 ? `${number.toFixed(1)}/s` : `${count(Math.round(number))}/s`;
}

/** What may go: where nothing spaces it, all that comes, as long as a quota lasts. */
export const allowed = (number) => (number == null ? "at once" : rate(number));

export function bytes(number) {
  if (number == null) return NOTHING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  for (let rest = number; rest >= 1023.5 && power < units.length - 1; rest /= 1024) power += 1;
  const scaled = number / 1024 ** power;
  return `${power > 0 && scaled < 9.95 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power]}`;
}

export const percent = (share) => (share == null ? NOTHING : `${Math.round(share * 100)} %`);

/** An instant, as a clock here shows it. */
export function clock(text) {
  const at = new Date(text);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

export const text = (value) => (value == null || value === "" ? NOTHING : String(value));

/** The name of what is counted. */
export const name = (key) => key.replaceAll("_", " ");

/** Words of the page's own, of which there may be none. */
export const words = (value) => value ?? "";

/** What happened, in order. */
export const story = (steps) => steps.join(" · ");

/** A bound, where there is one. */
export const bound = (number) => (number == null ? "any number" : count(number));
