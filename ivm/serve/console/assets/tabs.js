// Tabs: one panel of several is shown; arrow keys go from one to the next.

import { fill, h } from "./dom.js";

/**
 * @param {string} label of the group
 * @param {{name: string, open: (place: Element) => ({close: Function}|undefined)}[]} tabs a panel is
 *   opened when it is chosen, and closed when another one is
 */
export class Tabs {
  constructor(label, tabs) {
    this._tabs = tabs;
    this._place = h("div", { role: "tabpanel", id: "tabpanel" });
    this._buttons = tabs.map((tab, i) => h("button", {
      type: "button", role: "tab", text: tab.name, "aria-controls": "tabpanel", onclick: () => this.choose(i),
    }));
    this.element = h("div", {},
      h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: (e) => this._key(e) }, this._buttons),
      this._place);
    this.choose(0);
  }

  choose(index) {
    this._open?.close();
    this._chosen = index;
    this._buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    const panel = h("div");
    fill(this._place, panel);
    this._open = this._tabs[index].open(panel);
  }

  _key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (this._chosen + step + this._tabs.length) % this._tabs.length;
    this.choose(next);
    this._buttons[next].focus();
  }

  close() {
    this._open?.close();
  }
}
