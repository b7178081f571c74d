// What the database does: commits, requests, sources, sinks, first fills, and what has gone wrong.

import { Chart } from "./chart.js";
import { fill, grid, h, numberCell } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { Readings } from "./readings.js";

const SIGNS = { running: "●", waiting: "◔", starting: "◔", paused: "❚❚", stopped: "✕", "not started": "○" };
const LONG = 120; // characters

export function open(element, database) {
  const commits = new Chart("Commits", ["commits"], rate);
  const maintenance = new Chart("Maintenance of the views, a commit", ["time"], duration);
  const requests = new Chart("Requests by HTTP", ["requests"], rate);
  const latency = new Chart("How long requests take", ["half of them", "99 in 100"], duration);
  const clients = new Chart("Clients", ["sessions", "subscribers"], count);
  const charts = [commits, maintenance, requests, latency, clients];
  const lists = h("div", { id: "state" });
  fill(element, h("div", { class: "tools" }, h("h1", { text: "State" })),
    h("div", { class: "charts" }, charts.map((chart) => chart.element)), lists);
  const readings = new Readings();
  const look = async (state) => {
    fill(lists, troubles(state), watermarks(state), sources(state), sinks(state), fills(state));
    const found = readings.add(Date.now() / 1000, state, await database.api.metrics());
    if (found === null) return;
    commits.add(found.time, [found.commits]);
    maintenance.add(found.time, [found.maintenance]);
    requests.add(found.time, [found.requests]);
    latency.add(found.time, found.latency);
    clients.add(found.time, [found.sessions, found.subscribers]);
  };
  const followed = database.follow((state) => look(state).catch(() => {})); // the next look tells of it
  return {
    close() {
      followed.close();
      charts.forEach((chart) => chart.close());
    },
  };
}

function troubles(state) {
  const found = [
    ...state.troubles.map((what) => ["Background work", what]),
    ...state.relations.filter((r) => r.freshness === "broken").map((r) => [`View ${r.name}`, r.reason]),
    ...(state.sources ?? []).filter((s) => s.state === "stopped").map((s) => [`Source ${s.name}`, s.reason]),
    ...(state.sinks ?? []).filter((s) => s.state === "stopped").map((s) => [`Sink ${s.name}`, s.reason]),
    ...state.fills.filter((f) => f.phase === "failed").map((f) => [`First fill of ${f.view}`, f.text]),
  ];
  if (!found.length) return section("Errors", h("p", { class: "quiet", text: "✓ None: no view is broken, and no background work has failed." }));
  return section("Errors", grid("What has gone wrong", ["Where", "What"],
    found.map(([where, what]) => [h("td", { class: "bad", text: `✕ ${where}` }), what]), { id: "errors" }));
}

function watermarks({ relations }) {
  const found = relations.filter((relation) => relation.watermark);
  if (!found.length) return null;
  const row = ({ name, watermark: mark }) => [
    name, mark.column, mark.at ?? "none yet", mark.greatest ?? "–", numberCell(behind(mark)),
    numberCell(mark.late === "refuse" ? "refused" : count(mark.late_rows)), mark.parts?.slowest ?? "", idle(mark.parts),
  ];
  return section("Watermarks", grid("How far the rows of tables have come, in UTC",
    ["Table", "Column", "Watermark", "Greatest time", "Behind it", "Late rows", "Slowest part", "Idle parts"],
    found.map(row), { id: "watermarks" }));
}

function behind({ behind: seconds }) {
  return seconds < 0 ? "past it" : duration(seconds);
}

function idle(parts) {
  if (!parts) return "";
  const more = parts.idle_count > parts.idle.length ? ", …" : "";
  const names = parts.idle.length ? `: ${parts.idle.join(", ")}${more}` : "";
  return `${count(parts.idle_count)} of ${count(parts.count)}${names}`;
}

function sources({ sources: found }) {
  if (found === null) return section("Sources", h("p", { class: "quiet", text: "For admins." }));
  if (!found.length) return section("Sources", h("p", { class: "quiet", text: "None. CREATE SOURCE makes one." }));
  const row = (source) => [
    source.name, source.kind, source.target ?? "", stateCell(source),
    numberCell(count(source.lag_events)), numberCell(duration(source.lag_seconds)),
    numberCell(count(source.events)), numberCell(rate(source.events_per_second)),
    h("td", { class: source.dead_letters ? "number bad" : "number", text: count(source.dead_letters) }),
    positionCell(source.position),
  ];
  return section("Sources", grid("Sources of changes",
    ["Name", "Kind", "Into", "State", "Events behind", "Behind", "Events", "Now", "Dead letters", "Position"],
    found.map(row), { id: "sources" }));
}

/** The end of a position, which may be of many files; all of it is shown where the pointer rests. */
function positionCell(text) {
  return h("td", { title: text, text: text.length > LONG ? `…${text.slice(-LONG)}` : text });
}

function sinks({ sinks: found }) {
  if (found === null) return section("Sinks", h("p", { class: "quiet", text: "For admins." }));
  if (!found.length) return section("Sinks", h("p", { class: "quiet", text: "None. CREATE SINK makes one." }));
  const row = (sink) => [
    sink.name, sink.view, sink.kind, stateCell(sink),
    numberCell(count(sink.lag_epochs)), numberCell(count(sink.lag_rows)), numberCell(count(sink.acknowledged)),
  ];
  return section("Sinks", grid("Sinks of changes",
    ["Name", "View", "Kind", "State", "Epochs behind", "Rows behind", "Acknowledged epoch"], found.map(row), { id: "sinks" }));
}

function fills({ fills: found }) {
  if (!found.length) return null;
  const row = (one) => [one.view,
    h("td", {}, h("progress", { max: 1, value: one.fraction }), ` ${Math.round(one.fraction * 100)} %`), one.text];
  return section("First fills", grid("First fills on Spark", ["View", "Done", "Phase"], found.map(row), { id: "fills" }));
}

function stateCell({ state, reason }) {
  return h("td", { class: state === "stopped" ? "bad" : null, title: reason, text: `${SIGNS[state] ?? "·"} ${state}` });
}

function section(title, content) {
  return h("section", {}, h("h2", { text: title }), h("div", { class: "wide" }, content));
}
