// Draws the graph of a dataflow; its places are computed anew only if it has other boxes.

import * as dagre from "./vendor/dagre.js";
import { fill, svg, write } from "./dom.js";
import { count, counted, duration, rate, size } from "./format.js";

const WIDTH = 290;
const LINE = 16;
const HEIGHT = 4 * LINE + 12;
const LETTERS = 36; // of a line
const HOME = /"[^"]*"\."main"\.("[^"]*")/; // a table of the schema main goes without it

/** Draws a graph into an element, or brings the one that is there up to date. */
export function drawGraph(place, graph) {
  const shape = JSON.stringify([graph.boxes.map((box) => [box.id, box.name]), graph.arrows]);
  if (place.shape !== shape) {
    place.shape = shape;
    fill(place, picture(graph));
  }
  for (const box of graph.boxes) describe(place.querySelector(`[data-id="${CSS.escape(box.id)}"]`), box);
}

function picture({ boxes, arrows }) {
  const layout = new dagre.graphlib.Graph();
  layout.setGraph({ rankdir: "BT", nodesep: 24, ranksep: 36, marginx: 12, marginy: 12 });
  layout.setDefaultEdgeLabel(() => ({}));
  boxes.forEach((box) => layout.setNode(box.id, { width: WIDTH, height: HEIGHT }));
  arrows.forEach(([from, to]) => layout.setEdge(from, to));
  dagre.layout(layout);
  const { width, height } = layout.graph();
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("defs", {}, svg("marker", {
      id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto",
    }, svg("path", { d: "M0 0 8 4 0 8z" }))),
    layout.edges().map((edge) => line(layout.edge(edge).points)),
    boxes.map((box) => boxOf(box, layout.node(box.id))));
}

function line(points) {
  return svg("path", { d: `M${points.map(({ x, y }) => `${x} ${y}`).join("L")}`, "marker-end": "url(#head)" });
}

function boxOf(box, { x, y }) {
  const text = (i, name) => svg("text", { x: 10, y: 18 + i * LINE, class: name });
  return svg("g", { "data-id": box.id, transform: `translate(${x - WIDTH / 2} ${y - HEIGHT / 2})` },
    svg("title"), svg("rect", { width: WIDTH, height: HEIGHT }),
    text(0, "name"), text(1, "soft"), text(2, ""), text(3, "soft"));
}

function describe(element, box) {
  element.setAttribute("class", [box.views > 1 ? "shared" : "", box.rate ? "busy" : ""].join(" "));
  write(element.querySelector("title"), `${box.name}\n${box.strategy}: ${box.why}`);
  const held = box.stateRows === null ? "no state" : `${counted(box.stateRows, "row")}, ${size(box.stateBytes)}`;
  const worked = box.rowsIn === null ? "" : `${count(box.rowsIn)} in, ${count(box.rowsOut)} out, ${duration(box.seconds)}`;
  const shared = box.views > 1 ? `↔ ${box.views} views` : "";
  const lines = [box.name.replace(HOME, "$1"), [box.strategy, shared].filter(Boolean).join("  "), held,
    [worked, box.rate === null ? "" : rate(box.rate)].filter(Boolean).join("  ")];
  element.querySelectorAll("text").forEach((text, i) => write(text, cut(lines[i])));
}

function cut(text) {
  return text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text;
}
