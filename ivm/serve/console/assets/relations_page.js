// The list of views and tables, with their rows and how fresh they are.

import { fill, grid, h, numberCell } from "./dom.js";
import { count, counted } from "./format.js";

const SIGNS = { live: "●", stale: "○", filling: "◔", broken: "✕" };

export function open(element, database) {
  const views = h("div", { class: "wide" });
  const tables = h("div", { class: "wide" });
  const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name" });
  let state = database.state;
  const draw = () => {
    const wanted = state.relations.filter((r) => r.name.toLowerCase().includes(filter.value.toLowerCase()));
    keepFocus(views, () => fill(views, viewList(wanted.filter((r) => r.kind === "materialized view"))));
    keepFocus(tables, () => fill(tables, tableList(wanted.filter((r) => r.kind !== "materialized view"))));
  };
  filter.addEventListener("input", draw);
  fill(element,
    h("div", { class: "tools" }, h("h1", { text: "Views and tables" }), filter), views, tables);
  return database.follow((next) => {
    state = next;
    draw();
  });
}

function viewList(views) {
  if (!views.length) {
    return h("p", { class: "note" }, "No materialized views here. ",
      h("a", { href: "#/sql", text: "Create one" }), ": CREATE MATERIALIZED VIEW name AS SELECT …");
  }
  const row = (view) => [
    h("td", {}, h("a", { href: `#/view/${encodeURIComponent(view.name)}`, text: view.name })),
    h("td", { class: view.freshness === "broken" ? "bad" : null, title: view.reason, text: freshness(view) }),
    numberCell(count(view.rows)), view.strategy, view.reads.join(", "),
  ];
  return grid(counted(views.length, "materialized view"),
    ["Name", "Freshness", "Rows", "Maintained", "Reads"], views.map(row), { id: "views" });
}

/** How fresh a view is, in a sign and a word. */
export function freshness(view) {
  const words = {
    live: view.final ? `live, ${finality(view.final)}` : "live",
    stale: "recomputed when read",
    filling: `being filled${view.filled === null ? "" : `: ${Math.round(view.filled * 100)} %`}`,
    broken: "broken",
  };
  return `${SIGNS[view.freshness]} ${words[view.freshness]}`;
}

function finality({ until }) {
  return until === null ? "nothing is final yet" : `final until ${until}`;
}

function tableList(tables) {
  const isMarked = tables.some((table) => table.watermark);
  const row = (table) => [
    h("td", {}, h("a", { href: `#/sql/${encodeURIComponent(table.name)}`, text: table.name, title: "Query it" })),
    table.kind, numberCell(count(table.rows)), table.primary_key.join(", "),
    ...(isMarked ? [watermarkCell(table)] : []), table.columns.map((column) => column.name).join(", "),
  ];
  const headings = ["Name", "Kind", "Rows", "Key", ...(isMarked ? ["Watermark"] : []), "Columns"];
  return grid(counted(tables.length, "table"), headings, tables.map(row), { id: "tables" });
}

function watermarkCell({ watermark }) {
  if (!watermark) return "";
  return h("td", { text: watermark.at ?? "none yet", title: `Of ${watermark.column}, in UTC; more under State` });
}

/** Draws anew, and keeps the focus on the link that has it. */
function keepFocus(place, draw) {
  const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  draw();
  if (focused !== null) place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}
