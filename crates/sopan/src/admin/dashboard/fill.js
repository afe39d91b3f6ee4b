// How does the state get into the page? The page is a form: each element says what it shows, and this fills it in.
//
//   data-of="queue.waiting"   what stands there, as data-as (a function of words.js) writes it; of <data> also its value
//   data-each="queue.clients" its <template>, for each; data-key names what tells them apart, so that rows move and stay themselves
//   data-when="hold"          shown only if there is such a thing
//   data-mark="kind"          what stands there becomes data-is, for the styles
//   data-bar="share"          a share from 0 to 1 becomes --share
//
// It writes texts, never markup, and only where something has changed.

import * as words from "./words.js";

/** Spans written so are of something that comes. */
const RUN_OUT = ["left", "short"];

/** Fills all below an element from an object. */
export function fill(root, of) {
  for (const child of root.children) {
    if ("each" in child.dataset) {
      put(child, of);
      repeat(child, of);
    } else {
      put(child, of);
      fill(child, of);
    }
  }
}

export function at(of, path) {
  return path === "" ? of : path.split(".").reduce((value, name) => value?.[name], of);
}

function put(element, of) {
  const { of: path, as, when, mark, bar } = element.dataset;
  if (when !== undefined) element.hidden = !isThere(at(of, when));
  if (mark !== undefined) element.dataset.is = at(of, mark) ?? "";
  if (bar !== undefined) element.style.setProperty("--share", String(Math.min(1, Math.max(0, at(of, bar) ?? 0))));
  if (path === undefined) return;
  const value = at(of, path);
  if (element instanceof HTMLDataElement) element.value = value ?? "";
  if (RUN_OUT.includes(as)) element.ends = value == null ? null : performance.now() + value * 1000;
  write(element, words[as ?? "text"](value));
}

/** Zero of something are none. */
const isThere = (value) => (Array.isArray(value) ? value.length > 0 : value != null && value !== false && value !== 0);

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function repeat(list, of) {
  const { each, key } = list.dataset;
  const value = at(of, each) ?? [];
  const items = Array.isArray(value) ? value : entries(value);
  list.rows_ ??= new Map();
  const template = list.querySelector(":scope > template");
  const before = list.rows_;
  list.rows_ = new Map();
  let place = template.nextElementSibling;
  items.forEach((item, number) => {
    const name = key === undefined ? number : at(item, key);
    // Of those that are called alike each keeps a row, by its place.
    const id = list.rows_.has(name) ? `${name}\n${number}` : name;
    const row = before.get(id) ?? template.content.firstElementChild.cloneNode(true);
    before.delete(id);
    list.rows_.set(id, row);
    row.dataset.row = id;
    if (row === place) place = place.nextElementSibling;
    else list.insertBefore(row, place);
    put(row, item);
    fill(row, item);
  });
  for (const row of before.values()) row.remove();
}

const entries = (object) => Object.entries(object).sort().map(([name, value]) => ({ name, value }));

/** Has what runs out run on, between two states. */
export function runOn(root) {
  for (const as of RUN_OUT) {
    for (const element of root.querySelectorAll(`[data-as="${as}"]`)) {
      if (element.ends != null) write(element, words[as]((element.ends - performance.now()) / 1000));
    }
  }
}
