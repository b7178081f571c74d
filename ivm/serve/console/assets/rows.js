// The rows of a view in memory: deltas come in, the first rows of an order go out.
//
// Law: the rows of the snapshot plus the weights of all deltas are the view's rows now. A row that
// went is kept for a moment beside them, so that the eye can follow.

import { isNumeric } from "./format.js";

export const MARK_MS = 1800; // how long a row that came or went is marked

export class Rows {
  /**
   * @param {{name: string, type: string}[]} columns
   * @param {number[]} identity the columns by which a row replaces another one; [] if none are known
   */
  constructor(columns, identity = []) {
    this.columns = columns;
    this._identity = identity;
    this._rows = new Map(); // by text of the row: {key, cells, weight, came}
    this._gone = new Map(); // the last row that went of each identity: {…, went}
    this.total = 0;
  }

  /** Adds a snapshot or a delta: [weight, cells] of each row; `now` is null for a snapshot. */
  apply(delta, now) {
    for (const [weight, cells] of delta) {
      if (weight) this._add(JSON.stringify(cells), cells, weight, now);
    }
  }

  _add(key, cells, weight, now) {
    const row = this._rows.get(key) ?? { key, cells, weight: 0, came: null };
    row.weight += weight;
    this.total += weight;
    if (row.weight > 0) {
      if (weight > 0) row.came = now;
      this._rows.set(key, row);
      if (weight > 0 && this._gone.get(this._who(key, cells))?.key === key) this._gone.delete(this._who(key, cells));
    } else {
      this._rows.delete(key);
      if (now !== null) this._gone.set(this._who(key, cells), { key, cells, weight: -weight, went: now });
    }
  }

  /** What stays of a row that is updated. */
  _who(key, cells) {
    return this._identity.length ? JSON.stringify(this._identity.map((i) => cells[i])) : key;
  }

  /** Forgets marks that are old; returns whether any is left. */
  fade(now) {
    for (const [key, row] of this._gone) {
      if (now - row.went > MARK_MS) this._gone.delete(key);
    }
    let marked = this._gone.size > 0;
    for (const row of this._rows.values()) {
      if (row.came === null || row.came === undefined) continue;
      if (now - row.came > MARK_MS) row.came = null;
      else marked = true;
    }
    return marked;
  }

  /**
   * The first rows of an order.
   * @param {{filter: string, sort: {column: number, descending: boolean}|null, limit: number}} view
   * @returns {{rows: Object[], matching: number}} each row with `mark`: "came", "went" or ""
   */
  first({ filter, sort, limit }) {
    const wanted = matcher(filter);
    const chosen = new Best(limit, comparer(this.columns, sort));
    let matching = 0;
    for (const row of this._rows.values()) {
      if (!wanted(row.cells)) continue;
      matching += row.weight;
      chosen.offer({ ...row, mark: row.came === null ? "" : "came" });
    }
    for (const row of this._gone.values()) {
      if (wanted(row.cells)) chosen.offer({ ...row, mark: "went" });
    }
    return { rows: chosen.items, matching };
  }

  /** One number made of a column over the rows whose other column has a value. */
  measure({ column, how, key, value }) {
    const found = { sum: 0, count: 0, min: Infinity, max: -Infinity };
    for (const row of this._rows.values()) {
      if (key !== null && cellText(row.cells[key]) !== value) continue;
      const number = row.cells[column] === null ? NaN : Number(row.cells[column]);
      if (Number.isNaN(number)) continue;
      found.sum += number * row.weight;
      found.count += row.weight;
      found.min = Math.min(found.min, number);
      found.max = Math.max(found.max, number);
    }
    return measured(found, how);
  }
}

function measured(found, how) {
  if (!found.count) return null;
  return how === "average" ? found.sum / found.count : found[how];
}

/** The first items of an order among many, by insertion: most items come after the last one. */
class Best {
  constructor(limit, compare) {
    this.items = [];
    this._limit = limit;
    this._compare = compare;
  }

  offer(item) {
    const { items, _compare: compare } = this;
    if (items.length === this._limit && compare(item, items[items.length - 1]) >= 0) return;
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(items[middle], item) <= 0) low = middle + 1;
      else high = middle;
    }
    items.splice(low, 0, item);
    if (items.length > this._limit) items.pop();
  }
}

/** Orders rows by one column, then by all in turn; NULL comes last, and what went before what came. */
export function comparer(columns, sort) {
  const order = columns.map((column, i) => [i, isNumeric(column.type)]);
  if (sort) order.unshift(order.splice(sort.column, 1)[0]);
  const first = sort?.descending ? -1 : 1;
  return (a, b) => {
    for (let i = 0; i < order.length; i++) {
      const [column, numeric] = order[i];
      const found = compareCells(a.cells[column], b.cells[column], numeric, i === 0 ? first : 1);
      if (found) return found;
    }
    return (a.mark === "went" ? 0 : 1) - (b.mark === "went" ? 0 : 1);
  };
}

function compareCells(a, b, numeric, direction) {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  const [x, y] = numeric ? [Number(a), Number(b)] : [cellText(a), cellText(b)];
  return x === y ? 0 : (x < y ? -1 : 1) * direction;
}

/** A cell as text, by which cells are compared. */
export function cellText(cell) {
  return cell !== null && typeof cell === "object" ? JSON.stringify(cell) : String(cell);
}

/** Whether a row has all words of a filter, in any of its cells and any case. */
export function matcher(filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return () => true;
  return (cells) => {
    const text = cells.map((cell) => (cell === null ? "null" : cellText(cell))).join("\u0000").toLowerCase();
    return words.every((word) => text.includes(word));
  };
}
