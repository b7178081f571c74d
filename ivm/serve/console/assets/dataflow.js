// The operators of EXPLAIN's JSON as a list and a graph.

/**
 * The operators of a tree, each once, the view's own first.
 * @param {Object} tree of EXPLAIN (ANALYZE, FORMAT json)
 * @param {number} now in seconds, by any clock
 * @param {Map<string, Object>|null} before the operators of the reading before, for their rates
 */
export function operatorsOf(tree, now, before) {
  const found = new Map();
  const visit = (node) => {
    const id = String(node.node);
    const parts = [...(node.step ? [node.step] : []), ...node.inputs];
    if (!node.repeated) found.set(id, operatorOf(node, id, parts, now, before?.get(id)));
    parts.forEach(visit);
  };
  visit(tree);
  return [...found.values()];
}

function operatorOf(node, id, parts, now, before) {
  const rowsIn = node.rows_in ?? null;
  const passed = before ? now - before.at : 0;
  return {
    id,
    at: now,
    name: node.operator,
    strategy: node.strategy,
    why: node.why,
    stateRows: node.state_rows ?? null,
    stateBytes: node.state_bytes ?? null,
    rowsIn,
    rowsOut: node.rows_out ?? null,
    seconds: node.milliseconds === undefined ? null : node.milliseconds / 1000,
    rate: passed > 0 && rowsIn !== null ? Math.max(rowsIn - before.rowsIn, 0) / passed : null,
    views: node.views ?? 1,
    inputs: parts.map((part) => String(part.node)),
  };
}

/** The boxes and arrows of operators; an arrow points to where the rows go. */
export function graphOf(operators) {
  return {
    boxes: operators,
    arrows: operators.flatMap(({ id, inputs }) => [...new Set(inputs)].map((input) => [input, id])),
  };
}
