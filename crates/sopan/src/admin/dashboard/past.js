// What was in the last five minutes? For each upstream columns of when, what was allowed, what was used, and how many waited.

const KEPT_S = 300;
/** What is further apart was not seen, and is not drawn. */
const GAP_S = 5;
const COLUMNS = ["at", "allowed", "used", "waiting"];

export class Past {
  #of = new Map();

  /** Columns as long as each other, the oldest first. */
  of(name) {
    if (!this.#of.has(name)) this.#of.set(name, { at: [], allowed: [], used: [], waiting: [] });
    return this.#of.get(name);
  }

  /** What sopan remembers itself; what was seen before stays where sopan, started anew, knows nothing of it. */
  absorb({ at, upstreams }) {
    for (const { name, allowed_per_s, used_per_s, waiting } of upstreams) {
      if (at.length > 0) this.#forgetFrom(name, at[0]);
      at.forEach((second, row) => this.#add(name, second, allowed_per_s[row], used_per_s[row], waiting[row]));
    }
  }

  /** How it is now, once a second. */
  add(upstreams, now) {
    for (const upstream of upstreams) {
      const { at } = this.of(upstream.name);
      if (at.length > 0 && at.at(-1) > now) this.#forgetFrom(upstream.name, now);
      if (at.length > 0 && now - at.at(-1) < 0.9) continue;
      this.#add(upstream.name, now, upstream.allowed_per_s, upstream.used_per_s, upstream.queue.waiting);
    }
  }

  /** The most that there was of what is drawn. */
  peaks(name) {
    const { used, waiting } = this.of(name);
    return { most_used: Math.max(0, ...used), most_waiting: Math.max(0, ...waiting) };
  }

  #add(name, now, ...values) {
    const columns = this.of(name);
    const last = columns.at.at(-1);
    const rows = last !== undefined && now - last > GAP_S ? [[last + 1, null, null, null], [now, ...values]] : [[now, ...values]];
    for (const row of rows) COLUMNS.forEach((column, number) => columns[column].push(row[number]));
    const first = columns.at.findIndex((at) => at >= now - KEPT_S);
    for (const column of COLUMNS) columns[column].splice(0, first);
  }

  #forgetFrom(name, second) {
    const columns = this.of(name);
    const end = columns.at.findIndex((at) => at >= second);
    if (end >= 0) for (const column of COLUMNS) columns[column].length = end;
  }
}
