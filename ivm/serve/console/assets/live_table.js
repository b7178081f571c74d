// The rows of a view as a table that changes before one's eyes.
//
// Contract: it is drawn at most once in a frame of the screen. A row's element is kept as long as
// the row is shown, so that a change costs what it changes.

import { fill, h, write } from "./dom.js";
import { isNumeric, valueText } from "./format.js";

const SIGNS = { came: "+", went: "−", "": "" };
const WORDS = { came: "came", went: "went", "": "" };

export class LiveTable {
  /**
   * @param {string} name of the view
   * @param {{name: string, type: string}[]} columns
   * @param {(sort: Object) => void} onsort called when a heading is chosen
   */
  constructor(name, columns, onsort) {
    this._columns = columns;
    this._onsort = onsort;
    this._numeric = columns.map((column) => isNumeric(column.type));
    this._body = h("tbody");
    this._elements = new Map();
    this._heads = columns.map((column, i) => this._head(column, i));
    this.element = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Rows of ${name}` },
      h("table", { class: "grid", id: "rows" },
        h("caption", { text: `Rows of ${name}` }),
        h("thead", {}, h("tr", {},
          h("th", { scope: "col", class: "mark" }, h("span", { class: "hidden-label", text: "Change" })),
          this._heads)),
        this._body));
  }

  _head(column, i) {
    const button = h("button", { type: "button", text: column.name, title: "Sort", onclick: () => this._sort(i) });
    return h("th", { scope: "col", class: this._numeric[i] ? "number" : null }, button, h("small", { text: column.type }));
  }

  _sort(column) {
    const descending = this._sorted?.column === column && !this._sorted.descending;
    this.sorted({ column, descending });
    this._onsort({ column, descending });
  }

  /** Shows by which column the rows are sorted. */
  sorted(sort) {
    this._sorted = sort;
    this._heads.forEach((head, i) => {
      const here = sort?.column === i;
      if (here) head.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      const arrow = here ? (sort.descending ? " ▼" : " ▲") : "";
      write(head.querySelector("button"), this._columns[i].name + arrow);
    });
  }

  /** Draws rows: {key, cells, weight, mark} each. */
  draw(rows) {
    const kept = new Map();
    let next = this._body.firstChild;
    for (const row of rows) {
      const key = `${row.mark === "went" ? "-" : "+"}${row.key}`;
      const element = this._elements.get(key) ?? this._row(row);
      kept.set(key, element);
      mark(element, row);
      if (element === next) next = next.nextSibling;
      else this._body.insertBefore(element, next);
    }
    for (const [key, element] of this._elements) {
      if (!kept.has(key)) element.remove();
    }
    this._elements = kept;
  }

  _row(row) {
    const cells = row.cells.map((value, i) => {
      const text = valueText(value, this._columns[i].type);
      if (text === null) return h("td", { class: "null", text: "NULL" });
      return h("td", { class: this._numeric[i] ? "number" : null, text });
    });
    return h("tr", {}, h("td", { class: "mark" }), cells);
  }
}

/** Marks what came or went by a sign, a word and a colour, and tells how often a row is there. */
function mark(element, row) {
  if (element.className !== row.mark) element.className = row.mark;
  const sign = SIGNS[row.mark] + (row.weight > 1 ? ` ×${row.weight}` : "");
  const cell = element.firstChild;
  if (cell.textContent !== sign) {
    fill(cell, sign);
    cell.title = WORDS[row.mark];
  }
}
