// One view: its rows as they change, charts, the dataflow that maintains it, and its definition.

import { dataflowPanel } from "./dataflow_panel.js";
import { fill, grid, h, write } from "./dom.js";
import { FollowedView } from "./followed_view.js";
import { counted, quoted } from "./format.js";
import { LiveTable } from "./live_table.js";
import { freshness } from "./relations_page.js";
import { Tabs } from "./tabs.js";
import { chartsPanel } from "./view_charts.js";

const LIMITS = [100, 200, 500, 1000];

export function open(element, database, [name]) {
  const view = database.relation(name);
  if (!view || view.kind !== "materialized view") {
    fill(element, h("h1", { text: name ?? "" }), h("p", { class: "note" },
      "There is no materialized view of this name. ", h("a", { href: "#/views", text: "All views" })));
    return { close() {} };
  }
  const fresh = h("span", { class: "quiet" });
  const followed = new FollowedView(database.api, view);
  const tabs = new Tabs("What is shown of the view", [
    { name: "Rows", open: (place) => rowsPanel(place, followed, view) },
    { name: "Charts", open: (place) => chartsPanel(place, followed, view) },
    { name: "Dataflow", open: (place) => dataflowPanel(place, database.api, name) },
    { name: "Definition", open: (place) => definitionPanel(place, view) },
  ]);
  fill(element, h("div", { class: "tools" }, h("h1", { text: name }), fresh), tabs.element);
  const state = database.follow(() => {
    const now = database.relation(name);
    if (now && isAnother(view, now)) return window.dispatchEvent(new Event("hashchange")); // begins anew
    write(fresh, now ? `${freshness(now)}, ${now.strategy}` : "dropped");
    if (now?.reason) fresh.title = now.reason;
  });
  return {
    close() {
      state.close();
      tabs.close();
      followed.close();
    },
  };
}

/** Whether a view was replaced, or can be read again. */
function isAnother(before, now) {
  const isMended = before.freshness === "broken" && now.freshness !== "broken";
  return isMended || JSON.stringify(before.columns) !== JSON.stringify(now.columns);
}

function rowsPanel(place, followed, view) {
  const table = new LiveTable(view.name, view.columns, (sort) => followed.show({ sort }));
  const said = h("p", { class: "quiet", id: "said" });
  const filter = h("input", {
    type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", value: followed.shown.filter,
    oninput: () => followed.show({ filter: filter.value }),
  });
  const limit = h("select", { onchange: () => followed.show({ limit: Number(limit.value) }) },
    LIMITS.map((n) => h("option", { text: n, selected: n === followed.shown.limit })));
  table.sorted(followed.shown.sort);
  fill(place,
    h("div", { class: "tools" }, pauseButton(followed), filter, h("label", {}, "Rows shown", limit)),
    said, table.element);
  const listener = followed.listen((frame) => {
    table.draw(frame.rows);
    write(said, toldOf(frame, followed.shown));
  });
  return listener;
}

function pauseButton(followed) {
  const button = h("button", { type: "button" });
  const draw = () => {
    write(button, followed.paused ? "▶ Go on" : "❚❚ Pause");
    button.setAttribute("aria-pressed", String(followed.paused));
  };
  button.addEventListener("click", () => {
    followed.pause(!followed.paused);
    draw();
  });
  draw();
  return button;
}

function toldOf({ status, total, matching, rows, change }, { filter }) {
  const parts = [status.state === "live" ? counted(total, "row") : status.state];
  if (status.reason) parts.push(status.reason);
  if (filter.trim()) parts.push(`${counted(matching, "row")} match`);
  const held = rows.filter((row) => row.mark !== "went").length;
  if (held < matching) parts.push(`the first ${held} are shown`);
  if (change.epoch !== null) parts.push(`epoch ${change.epoch}: +${change.came} −${change.went}`);
  return parts.join(" · ");
}

function definitionPanel(place, view) {
  fill(place,
    view.reason ? h("p", { class: "note", text: view.reason }) : null,
    h("h2", { text: "Query" }), h("pre", { text: `CREATE MATERIALIZED VIEW ${quoted(view.name)} AS\n${view.sql}` }),
    grid("Columns", ["Name", "Type"], view.columns.map((column) => [column.name, column.type])));
}
