// A view with more rows than are held here: its deltas tell when to read, and what is marked.
//
// Law: what is shown is the view at an epoch no older than the last one told. It is read at most
// once in a second.

import { quoted } from "./format.js";
import { comparer, MARK_MS, matcher } from "./rows.js";
import { changeOf } from "./small_view.js";

const BETWEEN_MS = 1000;
const MOST_MARKED = 2000;

export class LargeView {
  constructor(api, name, columns, changed) {
    this._api = api;
    this._name = quoted(name);
    this._columns = columns;
    this._changed = changed;
    this.total = null;
    this._rows = [];
    this._matching = 0;
    this.clear();
  }

  clear() {
    this._change = { epoch: null, came: 0, went: 0 };
    this._marks = new Map();
    this._read();
  }

  show(shown) {
    this._shown = shown;
    this._read();
  }

  apply(delta, now, epoch) {
    this._change = changeOf(delta, epoch);
    for (const [weight, cells] of delta.slice(0, MOST_MARKED)) {
      const key = JSON.stringify(cells);
      this._marks.delete(key); // so that it is the newest
      this._marks.set(key, { key, cells, weight: Math.abs(weight), mark: weight > 0 ? "came" : "went", at: now });
    }
    for (const key of this._marks.keys()) {
      if (this._marks.size <= MOST_MARKED) break;
      this._marks.delete(key);
    }
    this._read();
  }

  fade(now) {
    const before = this._marks.size;
    for (const [key, mark] of this._marks) {
      if (now - mark.at > MARK_MS) this._marks.delete(key);
    }
    return before > 0;
  }

  frame() {
    const wanted = matcher(this._shown.filter);
    const rows = this._rows.map((row) => ({ ...row, mark: this._mark(row.key) }));
    const went = [...this._marks.values()].filter((row) => row.mark === "went" && wanted(row.cells));
    const all = [...rows, ...went].sort(comparer(this._columns, this._shown.sort));
    return { rows: all.slice(0, this._shown.limit), matching: this._matching, total: this.total, change: this._change };
  }

  _mark(key) {
    return this._marks.get(key)?.mark === "came" ? "came" : "";
  }

  /** See `Rows.measure`; asked for anew once the view has changed. */
  measure(measure) {
    const asked = JSON.stringify([this._change, measure]);
    if (this._asked !== asked) {
      this._asked = asked;
      this._measured = this._measure(measure);
    }
    return this._measured;
  }

  async _measure({ column, how, key, value }) {
    const name = quotedColumn(this._columns[column].name);
    const rest = key === null ? "" : ` WHERE CAST(${quotedColumn(this._columns[key].name)} AS VARCHAR) = ${literal(value)}`;
    const { rows } = await this._api.sql(`SELECT CAST(${FUNCTIONS[how]}(${name}) AS DOUBLE) FROM ${this._name}${rest}`);
    return rows[0][0];
  }

  /** Reads soon, and once more if something has changed while it was read. */
  _read() {
    if (this._shown === undefined) return;
    this._stale = true;
    if (this._reading) return;
    this._reading = this._readAll().finally(() => (this._reading = null));
  }

  async _readAll() {
    while (this._stale) {
      this._stale = false;
      const began = Date.now();
      try {
        await this._readOnce();
        this._changed();
      } catch (error) {
        this._stale = !(error.status >= 400 && error.status < 500); // the feed tells what is wrong
      }
      await new Promise((done) => setTimeout(done, BETWEEN_MS - Math.min(Date.now() - began, BETWEEN_MS - 50)));
    }
  }

  async _readOnce() {
    const { filter, sort, limit } = this._shown;
    const wanted = filterSql(this._columns, filter);
    const order = this._order(sort);
    const found = await this._api.sql(`SELECT * FROM ${this._name} WHERE ${wanted} ORDER BY ${order} LIMIT ${limit}`);
    const counts = `SELECT count(*), count(*) FILTER (WHERE ${wanted}) FROM ${this._name}`;
    const { rows: [[total, matching]] } = await this._api.sql(counts);
    this._rows = found.rows.map((cells) => ({ key: JSON.stringify(cells), cells, weight: 1 }));
    [this.total, this._matching] = [total, matching];
  }

  _order(sort) {
    const column = this._columns[sort?.column ?? 0];
    const others = this._columns.map((_, i) => i + 1).filter((i) => i !== (sort?.column ?? 0) + 1);
    const first = `${quotedColumn(column.name)} ${sort?.descending ? "DESC" : "ASC"} NULLS LAST`;
    return [first, ...others.map((i) => `${i} NULLS LAST`)].join(", ");
  }
}

const FUNCTIONS = { sum: "sum", average: "avg", min: "min", max: "max" };

/** The words of a filter, each in any of the cells and any case, as `matcher` has it. */
function filterSql(columns, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const cells = columns.map(({ name }) => `coalesce(CAST(${quotedColumn(name)} AS VARCHAR), 'null')`);
  const text = `lower(concat_ws(chr(1), ${cells.join(", ")}))`;
  return words.map((word) => `contains(${text}, ${literal(word)})`).join(" AND ") || "true";
}

function quotedColumn(name) {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text) {
  return `'${text.replaceAll("'", "''")}'`;
}
