// What the console knows of the database, asked anew every now and then while the page is seen.

import { ServerError } from "./api.js";
import { write } from "./dom.js";

const EVERY_MS = 2000;

export class Database extends EventTarget {
  /**
   * @param {Api} api
   * @param {(text: string) => void} tell says what has gone wrong
   * @param {() => void} refused called when the login is no longer good
   */
  constructor(api, tell, refused) {
    super();
    this.api = api;
    this.state = null;
    this._tell = tell;
    this._refused = refused;
  }

  /** Asks for the state now, and tells the pages ("state"). */
  async refresh() {
    this.state = await this.api.state();
    this.dispatchEvent(new Event("state"));
    return this.state;
  }

  /** The relation of a canonical name; undefined if there is none. */
  relation(name) {
    return this.state.relations.find((relation) => relation.name === name);
  }

  /** Refreshes from now on; the number of the last commit is written into an element. */
  start(epoch) {
    this._epoch = epoch;
    this._timer = setInterval(() => document.hidden || this._look(), EVERY_MS);
    write(epoch, `epoch ${this.state.epoch}`);
  }

  stop() {
    clearInterval(this._timer);
    write(this._epoch, "");
  }

  async _look() {
    if (this._looking) return; // a slow server is not asked twice
    this._looking = true;
    try {
      await this.refresh();
      write(this._epoch, `epoch ${this.state.epoch}`);
      if (this._failed) this._tell("");
      this._failed = false;
    } catch (error) {
      if (error instanceof ServerError && error.status === 401) return this._refused();
      this._failed = true;
      this._tell(`The server does not answer: ${error.message}. It is asked again.`);
    } finally {
      this._looking = false;
    }
  }

  /** Calls a function at each refresh until `close` of what is returned; and now. */
  follow(act) {
    const listener = () => act(this.state);
    this.addEventListener("state", listener);
    listener();
    return { close: () => this.removeEventListener("state", listener) };
  }
}
