// The page's side of a view that is followed by a worker.
//
// Contract: listeners get the newest frame, at most one for each frame of the screen.

const HIDDEN_MS = 5000; // after which a page that is not looked at gives up its connection
const START = { filter: "", sort: { column: 0, descending: false }, limit: 200 };

export class FollowedView {
  constructor(api, view) {
    this.shown = START;
    this.paused = false;
    this._listeners = new Set();
    this._samplers = new Set();
    this._frame = null;
    this._worker = new Worker(new URL("view_worker.js", import.meta.url), { type: "module" });
    this._worker.onmessage = ({ data }) => this._take(data);
    this._look = () => this._looked();
    document.addEventListener("visibilitychange", this._look);
    this._worker.postMessage({ type: "show", shown: this.shown });
    this._worker.postMessage({
      type: "open",
      name: view.name,
      columns: view.columns,
      identity: view.key.map((name) => view.columns.findIndex((column) => column.name === name)),
      rows: view.rows ?? 0,
      authorization: api.authorization,
    });
  }

  /** Shows other rows: a filter, an order, a number. */
  show(change) {
    this.shown = { ...this.shown, ...change };
    this._worker.postMessage({ type: "show", shown: this.shown });
  }

  pause(on) {
    this.paused = on;
    this._worker.postMessage({ type: "pause", on });
  }

  /** Calls a function with each frame. */
  listen(act) {
    this._listeners.add(act);
    if (this._frame) act(this._frame);
    return { close: () => this._listeners.delete(act) };
  }

  /** Calls a function with {time, rows, value} twice a second; `measure` says what the value is. */
  sample(measure, act) {
    this._worker.postMessage({ type: "measure", measure });
    this._samplers.add(act);
    return { close: () => this._samplers.delete(act) };
  }

  _looked() {
    clearTimeout(this._hiding);
    if (!document.hidden) this._worker.postMessage({ type: "seen", on: true });
    else this._hiding = setTimeout(() => this._worker.postMessage({ type: "seen", on: false }), HIDDEN_MS);
  }

  close() {
    document.removeEventListener("visibilitychange", this._look);
    clearTimeout(this._hiding);
    this._worker.postMessage({ type: "close" });
    setTimeout(() => this._worker.terminate(), 200); // the feed's connection is closed by then
  }

  _take(data) {
    if (data.type === "sample") this._samplers.forEach((act) => act(data));
    else {
      this._frame = data;
      requestAnimationFrame(() => this._draw());
    }
  }

  _draw() {
    this._listeners.forEach((act) => act(this._frame));
    this._worker.postMessage({ type: "ready" });
  }
}
