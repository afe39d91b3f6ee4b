// The page: takes what sopan tells, says of one upstream all and of the others the most important, and says when nothing comes.

import { fill, runOn, write } from "./fill.js";
import { Past } from "./past.js";
import { Plots } from "./plot.js";
import { follow } from "./stream.js";
import * as words from "./words.js";

/** How often what runs out is written anew. */
const RUN_ON_MS = 100;
/** Situations in which nothing but probes is sent. */
const STOPPED = ["held", "open", "half", "empty"];
/** Exchanges that are shown at first. */
const FEW = 12;
/** An exchange that is worth telling of. */
const LONG_WAIT_S = 0.1;

const $ = (selector) => document.querySelector(selector);
const [all, main, nav, notice] = ["#all", "main", "nav details", "#notice"].map($);

const past = new Past();
let plots;
/** What was told last, and which number it had. */
let last = null;
/** Exchanges as they were when somebody wanted to read them. */
let frozen = null;
let areAllShown = false;
let goneSince = null;
let spoken = "";

follow({ told, link });

function told(name, data, number) {
  if (name === "history") past.absorb(data);
  if (name !== "state") return;
  // A newer sopan brings a newer page.
  if (last !== null && last.state.version !== data.version) location.reload();
  last = { state: data, number };
  past.add(data.upstreams, Date.parse(data.now) / 1000);
  draw();
}

function link(how, why) {
  const was = document.body.dataset.link;
  if (how === "live" && was === how) return;
  if (how === "gone") document.title = "sopan does not answer";
  if (how === "gone" && was === "live") write($("#spoken"), "sopan does not answer");
  if (how === "live" && was === "gone") write($("#spoken"), "sopan answers again");
  if (how === "gone") goneSince ??= Date.now();
  else goneSince = null;
  document.body.dataset.link = how;
  $("#lock").hidden = how !== "locked";
  $("#lock-why").textContent = how === "locked" ? why : "";
  if (how === "locked") {
    all.hidden = true;
    $("#secret").focus();
  }
  notice.dataset.why = why;
  sayLink();
}

/** What is said of the link to sopan, and of sopan as a whole. */
function sayLink() {
  const how = document.body.dataset.link;
  const { why } = notice.dataset;
  const since = goneSince === null ? 0 : Math.round((Date.now() - goneSince) / 1000);
  const isDraining = how === "live" && last?.state.draining;
  const seen = last === null ? "" : ` What stands here is from ${words.clock(last.state.now)}.`;
  const gone = why || (since < 2 ? "It does not answer." : `It has not answered for ${since < 10 ? `${since} s` : words.span(since)}.`);
  write($("#link"), { connecting: "connecting", live: isDraining ? "draining" : "live", gone: "not answering", locked: "locked" }[how]);
  write(notice, how === "gone" ? `${gone}${seen} It is asked again and again.` : isDraining ? "It drains: what has begun is finished, and nothing new is taken." : "");
  notice.hidden = notice.textContent === "";
}

/** The upstream is chosen by the address of the page, which can be kept and sent on. */
const addressOf = ({ name }) => `#/${encodeURIComponent(name)}`;

function chosen(upstreams) {
  return upstreams.find((upstream) => addressOf(upstream) === location.hash) ?? upstreams[0];
}

function draw() {
  if (last === null) return;
  const { state, number } = last;
  for (const upstream of state.upstreams) upstream.shown ??= summary(upstream);
  const stopped = state.upstreams.filter(({ shown }) => STOPPED.includes(shown.kind)).length;
  document.title = stopped > 0 ? `${stopped} stopped – sopan` : "sopan";
  if (document.hidden) return;
  const upstream = chosen(state.upstreams);
  all.hidden = false;
  all.dataset.upstreams = state.upstreams.length === 1 ? "one" : "many";
  state.shown = { store: storeNote(state.store) };
  fill($("header"), state);
  drawList(state.upstreams, upstream, stopped);
  drawExchanges(state.exchanges, upstream);
  Object.assign(upstream.shown, past.peaks(upstream.name));
  fill(main, upstream);
  plots ??= new Plots($("#rates"), $("#waits"));
  plots.show(past.of(upstream.name), Date.parse(state.now) / 1000);
  $("#number").value = number;
  write($("#number"), words.count(number));
  write($("#at"), words.clock(state.now));
  sayLink();
  speak(state, upstream);
}

function drawList(upstreams, upstream, stopped) {
  fill($("nav"), { upstreams });
  const links = nav.querySelectorAll("li a");
  upstreams.forEach((one, number) => {
    const link = links[number];
    link.href = addressOf(one);
    if (one === upstream) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  write($("#chosen"), upstream.name);
  write($("#others"), `of ${upstreams.length} upstreams${stopped > 0 ? `, ${stopped} stopped` : ""}`);
}

function drawExchanges(exchanges, upstream) {
  const [areOfAll, areEventful] = [$("#of-all").checked, $("#only-eventful").checked];
  const isShown = (exchange) => (areOfAll || exchange.upstream === upstream.name) && (!areEventful || isEventful(exchange));
  const shown = (frozen ?? exchanges).filter(isShown);
  for (const exchange of shown) {
    const ended = Date.parse(exchange.began) + exchange.total_s * 1000;
    exchange.shown = { kind: judgement(exchange.status), ended, of: areOfAll ? placeOf(exchange) : null };
  }
  const more = shown.length - FEW;
  Object.assign(upstream.shown, {
    exchanges: areAllShown ? shown : shown.slice(0, FEW),
    no_exchange: shown.length === 0,
    has_more: more > 0,
    more: areAllShown ? "Show fewer" : `Show ${words.count(more)} more`,
  });
}

/** What was refused before it came to an upstream belongs to none. */
const placeOf = ({ upstream }) => (upstream === "none" ? "at the door" : upstream);
const judgement = (status) => (status === null || status >= 500 ? "bad" : status >= 400 ? "poor" : "good");
const isEventful = ({ wait_s, attempts, status }) => wait_s >= LONG_WAIT_S || attempts > 1 || status === null || status >= 400;

/** What is said of the store that instances share when it is not reached. */
function storeNote(store) {
  const goesOn = { silent: "waiting for it", alone: `keeping to 1 of ${store?.parts} parts`, refuse: "refusing", ignore: "taking the whole limit" }[store?.mode];
  return goesOn === undefined ? null : `not reached for ${words.span(store.since_s)}, ${goesOn}`;
}

/** What is said of an upstream beyond what is told. */
function summary(upstream) {
  const { limits, queue, cache, breaker, route } = upstream;
  for (const limit of limits) limit.shown = { share: limit.capacity > 0 ? limit.free / limit.capacity : 0 };
  return {
    ...situation(upstream),
    breaker: { closed: "closed", open: "open", "half-open": "half-open", off: "none" }[breaker.state],
    empty_note: emptyNote(upstream),
    ...saved(cache),
    clients_more: queue.clients_total - queue.clients.length,
    nobody_waits: queue.clients.length === 0,
    longest_wait_s: Math.max(0, ...queue.clients.map(({ wait_s }) => wait_s)),
    has_no_limit: limits.length === 0,
    takes: route === "any" ? "All requests" : `Requests for ${route}`,
    was_nothing: !isAny(upstream.exchanges) && !isAny(upstream.attempts),
    was_exchanged: isAny(upstream.exchanges),
    was_attempted: isAny(upstream.attempts),
    was_looked_up: isAny(cache ?? {}),
    was_refused: isAny(upstream.refusals),
  };
}

const usedUp = (limits) => limits.find(({ kind, free }) => kind === "quota" && free < 1);

function emptyNote({ limits, empty_in_s }) {
  if (!limits.some(({ kind }) => kind === "quota")) return "there is no quota";
  if (usedUp(limits)) return "it is used up";
  return empty_in_s === null ? "it lasts" : "if all goes on so";
}

const isAny = (counts) => Object.values(counts).some((count) => count > 0);

/** Of the requests that the cache has a part in, those that needed no whole answer from the upstream. */
function saved(cache) {
  if (cache === null) return { saved_note: "it has no cache" };
  const { hit, stale, revalidated, coalesced, miss } = cache;
  const answered = hit + stale + revalidated + coalesced;
  if (answered + miss === 0) return { saved_note: "nothing to answer yet" };
  return { has_share: true, saved_share: answered / (answered + miss), saved_note: "from the cache" };
}

/** How it is, in a word for the list and in a sentence; and what that waits for, if time ends it. */
function situation({ limits, hold, breaker, queue, places, used_per_s }) {
  if (hold !== null) {
    const by = hold.by === "operator" ? "Held by hand" : "Held, as the upstream asked";
    return { kind: "held", how: "held ", says: `${by}: nothing is sent for another `, runs_out: true, left_s: hold.ends_in_s };
  }
  if (breaker.state === "open") {
    return { kind: "open", how: "open ", says: "The breaker is open: nothing is sent, and probes go in ", runs_out: true, left_s: breaker.half_open_in_s };
  }
  if (breaker.state === "half-open") return { kind: "half", how: "half-open", says: "The breaker is half-open: probes show whether it is back." };
  const empty = usedUp(limits);
  if (empty) return { kind: "empty", how: "used up ", says: `${empty.limit} is used up: the next one goes in `, runs_out: true, left_s: queue.wait_s };
  if (queue.waiting > 0) return { kind: "waits", how: `${words.count(queue.waiting)} waiting`, says: "Requests wait for their turn." };
  if (used_per_s > 0 || places.used > 0) return { kind: "goes", how: "", says: "All goes at once." };
  return { kind: "idle", how: "", says: "Nothing was sent in the last 10 s." };
}

/** Says aloud what has changed, where that matters: not the numbers. */
function speak(state, { name, shown }) {
  const kinds = { held: "is held", open: "has its breaker open", half: "has its breaker half-open", empty: "has used up its quota" };
  const now = state.draining ? "sopan drains" : `${name} ${kinds[shown.kind] ?? "sends"}`;
  if (now !== spoken && spoken !== "") write($("#spoken"), now);
  spoken = now;
}

$("#freeze").addEventListener("click", ({ currentTarget: button }) => {
  frozen = frozen === null ? (last?.state.exchanges ?? null) : null;
  button.setAttribute("aria-pressed", String(frozen !== null));
  draw();
});
$("#more").addEventListener("click", ({ currentTarget: button }) => {
  areAllShown = !areAllShown;
  button.setAttribute("aria-expanded", String(areAllShown));
  draw();
});
for (const choice of ["#of-all", "#only-eventful"]) $(choice).addEventListener("change", draw);
window.addEventListener("hashchange", () => {
  draw();
  if (isNarrow.matches) nav.open = false;
});
document.addEventListener("visibilitychange", draw);

// Where there is room the list is always open.
const isNarrow = matchMedia("(width < 56rem)");
const unfold = () => (nav.open = !isNarrow.matches);
isNarrow.addEventListener("change", unfold);
unfold();

setInterval(() => {
  if (document.body.dataset.link === "live") runOn(all);
  else sayLink();
}, RUN_ON_MS);
