"""EXPLAIN of a materialized view: its operators, their strategies and their state.

Invariant: the tree is made from the circuit, so it shows the operators that run, not a plan.
"""

from __future__ import annotations

import json
from typing import Any

from ivm.delta_ops.circuit import Work
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.compile.explain_drawing import mermaid, tree_text
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import SqlError

FORMATS = ("text", "json", "mermaid")


def explain(
    name: str,
    plan: Plan | None,
    reason: str | None,
    compiler: CircuitCompiler,
    format: str = "text",
    *,
    constant: bool = False,
    recomputing: Work | None = None,
    analyze: bool = False,
) -> str:
    """Describes how a view is maintained.

    Args:
        name: the view's name in the circuit.
        plan: its plan; None for whole recompute.
        reason: why there is no plan.
        compiler: its circuit holds the view.
        format: ``text`` (a tree), ``json``, or ``mermaid`` (a flowchart).
        constant: the view reads no table.
        recomputing: the work of recomputing the view so far.
        analyze: adds the work of each operator since the database was opened.

    Raises:
        SqlError: an unknown format.
    """
    if format not in FORMATS:
        raise SqlError(f"EXPLAIN has no format {format!r}: choose one of {', '.join(FORMATS)}")
    if plan is None:
        tree = _CONSTANT.copy() if constant else _recompute(reason or "it has no plan")
        if analyze:
            tree |= _work(recomputing or Work())
    else:
        tree = _tree(compiler, compiler.circuit.views[name], set(), analyze)
    if format == "json":
        return json.dumps(tree, indent=2)
    return mermaid(tree) if format == "mermaid" else tree_text(tree)


_CONSTANT: dict[str, Any] = {
    "node": 0,
    "operator": "Constant",
    "strategy": "linear",
    "why": "it reads no table, so its rows never change",
    "inputs": [],
}


def _recompute(reason: str) -> dict[str, Any]:
    why = f"{reason} is not maintained by deltas; the query runs anew and its difference is applied"
    return {
        "node": 0,
        "operator": "Recompute",
        "strategy": "whole recompute",
        "why": why,
        "inputs": [],
    }


def _tree(
    compiler: CircuitCompiler, number: int, seen: set[int], analyze: bool, prefix: str = ""
) -> dict[str, Any]:
    circuit = compiler.circuit
    node = circuit.node(number)
    operator = node.operator
    tree: dict[str, Any] = {
        "node": f"{prefix}{number}" if prefix else number,
        "operator": compiler.label(number),
        "strategy": operator.strategy,
        "why": operator.why,
    }
    if operator.stateful:
        state = {"state_rows": operator.state_rows(), "state_bytes": operator.state_bytes()}
        tree |= {"hydrated": node.hydrated, **state}
    if analyze and node.inputs:
        tree |= _work(node.work)
    readers = sum(number in circuit.nodes_of(view) for view in circuit.views)
    if readers > 1:
        tree["views"] = readers
    if number in seen:
        return {**tree, "repeated": True, "inputs": []}
    seen.add(number)
    term = compiler.term(number)
    if term is not None:
        root = term.circuit.views["step"]
        tree["step"] = _tree(term, root, set(), analyze, f"{prefix}{number}_")
    inputs = [_tree(compiler, i, seen, analyze, prefix) for i in node.inputs]
    return {**tree, "inputs": inputs}


def _work(work: Work) -> dict[str, Any]:
    return {
        "steps": work.steps,
        "rows_in": work.rows_in,
        "rows_out": work.rows_out,
        "milliseconds": work.nanoseconds / 1e6,
    }
