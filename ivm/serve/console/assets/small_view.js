// A view whose rows are all here, followed by its deltas alone.

import { Rows } from "./rows.js";

export class SmallView {
  constructor(columns, identity) {
    this._columns = columns;
    this._identity = identity;
    this.clear();
  }

  get total() {
    return this._rows.total;
  }

  clear() {
    this._rows = new Rows(this._columns, this._identity);
    this._change = { epoch: null, came: 0, went: 0 };
    this._marked = false;
  }

  show(shown) {
    this._shown = shown;
  }

  apply(delta, now, epoch) {
    this._rows.apply(delta, now);
    this._change = now === null ? { epoch, came: 0, went: 0 } : changeOf(delta, epoch);
    this._marked ||= now !== null;
  }

  /** Forgets old marks; returns whether that is to be drawn. */
  fade(now) {
    const before = this._marked;
    if (before) this._marked = this._rows.fade(now);
    return before;
  }

  frame() {
    return { ...this._rows.first(this._shown), total: this.total, change: this._change };
  }

  async measure(measure) {
    return this._rows.measure(measure);
  }
}

/** How many rows came and went in an epoch. */
export function changeOf(delta, epoch) {
  const change = { epoch, came: 0, went: 0 };
  for (const [weight] of delta) {
    if (weight > 0) change.came += weight;
    else change.went -= weight;
  }
  return change;
}
