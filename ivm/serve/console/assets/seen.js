// Whether a page is looked at. One that is not gives up its connection: a browser has only six of
// them to a server, for all its tabs.

export class Seen {
  constructor() {
    this.on = true;
    this._hiding = new AbortController();
    this._shown = Promise.withResolvers();
    this._shown.resolve();
  }

  /** Aborts when the page is not looked at any more. */
  get signal() {
    return this._hiding.signal;
  }

  /** Waits until the page is looked at. */
  wait() {
    return this._shown.promise;
  }

  set(on) {
    if (on === this.on) return;
    this.on = on;
    if (on) {
      this._hiding = new AbortController();
      this._shown.resolve();
    } else {
      this._shown = Promise.withResolvers();
      this._hiding.abort();
    }
  }
}
