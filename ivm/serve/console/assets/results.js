// The result of a statement as a table with its types; a long one grows as it is scrolled.

import { fill, h, write } from "./dom.js";
import { counted, isNumeric, valueText } from "./format.js";

const STEP = 200; // rows that are drawn at a time

/** Draws {columns, rows} into an element. */
export function drawResult(place, { columns, rows }) {
  const numeric = columns.map((column) => isNumeric(column.type));
  const body = h("tbody");
  const said = h("p", { class: "quiet" });
  const more = h("button", { type: "button", text: "Show more", onclick: () => grow() });
  const grow = () => {
    const begin = body.children.length;
    body.append(...rows.slice(begin, begin + STEP).map((row) => rowOf(row, columns, numeric)));
    more.hidden = body.children.length >= rows.length;
    write(said, more.hidden ? "" : `${counted(body.children.length, "row")} of ${counted(rows.length, "row")} are shown`);
  };
  const scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Result", onscroll: () => {
    if (scroll.scrollTop + scroll.clientHeight > scroll.scrollHeight - 200 && !more.hidden) grow();
  } }, h("table", { class: "grid", id: "result" },
    h("caption", { text: "Result" }),
    h("thead", {}, h("tr", {}, columns.map((column, i) =>
      h("th", { scope: "col", class: numeric[i] ? "number" : null }, column.name, h("small", { text: column.type }))))),
    body));
  grow();
  fill(place, scroll, said, more);
}

function rowOf(row, columns, numeric) {
  return h("tr", {}, row.map((value, i) => {
    const text = valueText(value, columns[i].type);
    if (text === null) return h("td", { class: "null", text: "NULL" });
    return h("td", { class: numeric[i] ? "number" : null, text });
  }));
}
