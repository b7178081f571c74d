// The dataflow of a view as a graph: what each operator holds, has done, and does now.

import { graphOf, operatorsOf } from "./dataflow.js";
import { drawGraph } from "./dataflow_graph.js";
import { fill, grid, h, numberCell } from "./dom.js";
import { count, duration, quoted, rate, size } from "./format.js";

const EVERY_MS = 1500;

export function dataflowPanel(place, api, name) {
  const said = h("div");
  const graph = h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": `Dataflow of ${name}` });
  const list = h("div", { class: "scroll" });
  fill(place, said, graph, h("h2", { text: "Operators" }), list);
  let before = null;
  let closed = false;
  const look = async () => {
    if (closed || document.hidden) return;
    try {
      const text = await api.explain(`EXPLAIN (ANALYZE, FORMAT json) MATERIALIZED VIEW ${quoted(name)}`);
      if (closed) return;
      const operators = operatorsOf(JSON.parse(text), performance.now() / 1000, before);
      before = new Map(operators.map((operator) => [operator.id, operator]));
      fill(said, reasonOf(operators));
      drawGraph(graph, graphOf(operators));
      fill(list, operatorList(operators));
    } catch (error) {
      fill(said, h("p", { class: "error", text: error.message }));
    }
  };
  look();
  const timer = setInterval(look, EVERY_MS);
  return {
    close() {
      closed = true;
      clearInterval(timer);
    },
  };
}

function reasonOf([root]) {
  if (root.strategy !== "whole recompute") return h("p", { class: "quiet", text: "Rows flow upwards. A dashed box is shared with other views; a thick one works now. Counts are since the database was opened." });
  return h("p", { class: "note", text: `Recomputed as a whole: ${root.why}.` });
}

function operatorList(operators) {
  const row = (operator) => [
    operator.name,
    h("td", { title: operator.why, text: operator.strategy }),
    numberCell(operator.stateRows === null ? "–" : count(operator.stateRows)),
    numberCell(operator.stateBytes === null ? "–" : size(operator.stateBytes)),
    numberCell(count(operator.rowsIn)), numberCell(count(operator.rowsOut)),
    numberCell(operator.seconds === null ? "–" : duration(operator.seconds)),
    numberCell(rate(operator.rate)),
    operator.views > 1 ? `${operator.views} views` : "",
  ];
  return grid("Operators", ["Operator", "Maintained", "Rows held", "Bytes", "Rows in", "Rows out", "Time", "Now", "Shared by"],
    operators.map(row), { id: "operators" });
}
