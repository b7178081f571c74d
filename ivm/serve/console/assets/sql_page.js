// The SQL page: an editor, the result of what was run, and what was run before.

import { fill, h, write } from "./dom.js";
import { Editor } from "./editor.js";
import { counted, duration, parts, quoted, written } from "./format.js";
import { forget, keep, statements } from "./history.js";
import { language } from "./language.js";
import { drawResult } from "./results.js";

const DRAFT = "ivm.draft"; // of this tab

export function open(element, database, [name]) {
  return new SqlPage(element, database, name);
}

class SqlPage {
  constructor(element, database, name) {
    this._database = database;
    this._run = h("button", { class: "main", type: "button", text: "Run", disabled: true, title: "Ctrl+Enter; what is selected, or all", onclick: () => this._act() });
    this._stop = h("button", { type: "button", text: "Stop", disabled: true, onclick: () => this._running?.abort() });
    this._said = h("span", { role: "status", id: "ran" });
    this._result = h("div");
    this._relations = h("ul", { "aria-label": "Tables and views" });
    this._history = h("ul", { "aria-label": "History" });
    this._place = h("div");
    fill(element, h("h1", { class: "hidden-label", text: "SQL" }), h("div", { class: "sql" },
      h("div", {}, this._place, h("div", { class: "tools" }, this._run, this._stop, this._said), this._result),
      h("aside", {}, h("h2", { text: "Tables and views" }), this._relations,
        h("h2", { text: "History" }), this._history,
        h("button", { type: "button", text: "Forget the history", onclick: () => this._forget() }))));
    this._followed = database.follow(() => this._listRelations());
    this._listHistory();
    this._begin(name);
  }

  async _begin(name) {
    const words = await language(this._database.api);
    if (this._closed) return;
    this._editor = new Editor(words, () => this._database.state.relations, () => this._act());
    fill(this._place, this._editor.element);
    this._editor.text = name ? `SELECT * FROM ${quoted(name)} LIMIT 100` : sessionStorage.getItem(DRAFT) ?? "";
    this._editor.focus();
    this._run.disabled = false;
  }

  async _act() {
    if (this._running) return;
    const { text, from } = this._editor.chosen;
    if (!text.trim()) return;
    keep(text);
    this._listHistory();
    this._editor.mark(null);
    this._show(true);
    const began = performance.now();
    try {
      const found = await this._database.api.sql(text, { signal: this._running.signal });
      this._succeeded(found, (performance.now() - began) / 1000);
    } catch (error) {
      this._failed(error, from);
    } finally {
      this._show(false);
    }
    this._database.refresh().catch(() => {}); // the next look tells of it
  }

  _show(running) {
    this._running = running ? new AbortController() : null;
    this._run.disabled = running;
    this._stop.disabled = !running;
    if (running) write(this._said, "Running …");
  }

  _succeeded(found, seconds) {
    if (found.error) return this._failed(Object.assign(new Error(found.error.what), found.error), 0);
    const told = [found.columns.length ? counted(found.rows.length, "row") : found.message ?? "done", duration(seconds)];
    if (found.isCut) told[0] = `the first ${told[0]}: the result is too large to be shown whole`;
    if (found.read_from) told.push(`read from ${found.read_from}`);
    write(this._said, told.join(" · "));
    if (found.columns.length) drawResult(this._result, found);
    else fill(this._result);
  }

  _failed(error, from) {
    if (error.name === "AbortError") {
      write(this._said, "Stopped: the server cancels the statement.");
      return fill(this._result);
    }
    write(this._said, "Failed");
    const hint = error.hint ? `\n\nHint: ${error.hint}` : "";
    fill(this._result, h("div", { class: "error", role: "alert", id: "failed", text: error.message + hint }));
    if (error.position !== null && error.position !== undefined) this._editor.mark(from + error.position, error.message);
  }

  _listRelations() {
    const listed = this._database.state.relations.map(({ name }) => name).join("\n");
    if (listed === this._listed) return; // so that a focus stays where it is
    this._listed = listed;
    fill(this._relations, this._database.state.relations.map(({ name, kind }) => {
      const text = parts(name).map((part) => written(part)).join(".");
      return h("li", {}, h("button", { type: "button", text, title: `${kind}: insert its name`, onclick: () => this._editor?.insert(text) }));
    }));
  }

  _listHistory() {
    fill(this._history, statements().map((text) => h("li", {}, h("button", {
      type: "button", text: text.replace(/\s+/g, " "), title: text, onclick: () => {
        this._editor.text = text;
        this._editor.focus();
      },
    }))));
  }

  _forget() {
    forget();
    this._listHistory();
  }

  close() {
    this._closed = true;
    this._followed.close();
    this._running?.abort();
    if (this._editor) sessionStorage.setItem(DRAFT, this._editor.text);
    this._editor?.close();
  }
}
