// Charts of a view from now on: its rows, and a number made of one of its columns.

import { Chart } from "./chart.js";
import { fill, h } from "./dom.js";
import { count, isNumeric } from "./format.js";
import { cellText } from "./rows.js";

const MOST = 100; // values that are proposed
const HOW = ["sum", "average", "min", "max"];

export function chartsPanel(place, followed, view) {
  const rows = new Chart("Rows", ["rows"], count);
  const made = h("div");
  const chosen = new Choice(view.columns);
  let chart = null;
  let sampling = null;
  const restart = () => {
    sampling?.close();
    chart?.close();
    chart = chosen.measure && new Chart(chosen.title, [chosen.title], (value) => String(Number(value.toPrecision(6))), false);
    fill(made, chart ? chart.element : h("p", { class: "quiet", text: "No column of this view holds numbers." }));
    sampling = followed.sample(chosen.measure, ({ time, rows: n, value }) => {
      if (n !== null) rows.add(time, [n]);
      chart?.add(time, [value]);
    });
  };
  chosen.element.addEventListener("change", restart);
  const values = followed.listen((frame) => chosen.propose(frame.rows));
  fill(place, chosen.element, h("div", { class: "charts" }, rows.element, made));
  restart();
  return {
    close() {
      values.close();
      sampling.close();
      chart?.close();
      rows.close();
    },
  };
}

/** Which column is drawn, how its values become one, and of which rows. */
class Choice {
  constructor(columns) {
    this._columns = columns;
    const numeric = columns.filter((column) => isNumeric(column.type));
    this._column = select(numeric.map((column) => column.name), numeric.at(-1)?.name, "Column");
    this._how = select(HOW, "sum", "Made by");
    this._key = select(["all rows", ...columns.map((column) => column.name)], "all rows", "Key");
    this._values = h("datalist", { id: "values" });
    this._value = h("input", { "aria-label": "Value of the key", size: 12, list: "values" });
    this.element = h("div", { class: "tools" },
      h("label", {}, "Draw the", this._how), h("label", {}, "of", this._column),
      h("label", {}, "over", this._key), h("label", {}, "=", this._value), this._values);
    this.element.addEventListener("change", () => (this._value.disabled = this._keyed === null));
    this._value.disabled = true;
  }

  /** See `Rows.measure`; null if there is no column with numbers. */
  get measure() {
    const column = this._columns.findIndex(({ name }) => name === this._column.value);
    if (column < 0) return null;
    return { column, how: this._how.value, key: this._keyed, value: this._value.value };
  }

  /** Proposes the values that the key has in some rows. */
  propose(rows) {
    if (this._keyed === null || this._proposed === this._keyed) return;
    this._proposed = this._keyed;
    const found = new Set(rows.map(({ cells }) => cellText(cells[this._keyed])));
    fill(this._values, [...found].slice(0, MOST).map((value) => h("option", { value })));
  }

  get title() {
    const keyed = this._keyed !== null ? ` where ${this._key.value} = ${this._value.value}` : "";
    return `${this._how.value} of ${this._column.value}${keyed}`;
  }

  /** The position of the key's column; null for all rows. */
  get _keyed() {
    return this._key.selectedIndex > 0 ? this._key.selectedIndex - 1 : null;
  }
}

function select(choices, chosen, label) {
  return h("select", { "aria-label": label }, choices.map((text) => h("option", { text, selected: text === chosen })));
}
