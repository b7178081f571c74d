"""EXPLAIN of a materialized view: one line an operator, in the words of its strategy.

Law: the tree is read off the circuit, so it shows what runs and what state it holds, not what was
planned.
"""

from __future__ import annotations

import json
from typing import Any

from ivm.delta_ops.circuit import Circuit
from ivm.sql.compile import Compiler
from ivm.sql.plan import Plan

_WHY = {
    "linear": "a delta's output is the output's delta; no state",
    "indexed": "touches only the keys of the delta",
    "group recompute": "DuckDB's own SQL over the touched groups, before and after",
}


def explain(
    name: str, plan: Plan | None, reason: str | None, compiler: Compiler, format: str = "text"
) -> str:
    """How a view is maintained.

    Args:
        name: the view's name in the circuit.
        plan: its plan; None for whole recompute.
        reason: why there is no plan.
        compiler: its circuit holds the view.
        format: ``text`` or ``json``.
    """
    if plan is None:
        tree = _whole(reason or "it has no plan")
    else:
        tree = _tree(compiler, compiler.circuit.views[name], set())
    return json.dumps(tree, indent=2) if format == "json" else "\n".join(_lines(tree))


def _whole(reason: str) -> dict[str, Any]:
    why = f"{reason} is not maintained by deltas; the query runs anew and its difference is applied"
    return {"operator": "Recompute", "strategy": "whole recompute", "why": why, "inputs": []}


def _tree(compiler: Compiler, number: int, seen: set[int]) -> dict[str, Any]:
    circuit = compiler.circuit
    node = circuit.node(number)
    tree: dict[str, Any] = {
        "node": number,
        "operator": compiler.label(number),
        "strategy": node.operator.strategy,
        "why": _WHY[node.operator.strategy],
    }
    if node.operator.stateful:
        tree |= {"hydrated": node.hydrated, **_state(circuit, number)}
    readers = sum(number in circuit.nodes_of(view) for view in circuit.views)
    if readers > 1:
        tree["views"] = readers
    if number in seen:
        return {**tree, "repeated": True, "inputs": []}
    seen.add(number)
    return {**tree, "inputs": [_tree(compiler, i, seen) for i in node.inputs]}


def _state(circuit: Circuit, number: int) -> dict[str, int]:
    operator = circuit.node(number).operator
    return {"state_rows": operator.state_rows(), "state_bytes": operator.state_bytes()}


def _lines(tree: dict[str, Any], indent: str = "") -> list[str]:
    lines = [f"{indent}{tree['operator']}  [{tree['strategy']}]{_details(tree)}"]
    if tree["strategy"] in ("group recompute", "whole recompute"):
        lines[0] += f": {tree['why']}"
    for part in tree["inputs"]:
        lines += _lines(part, indent + "  ")
    return lines


def _details(tree: dict[str, Any]) -> str:
    parts = []
    if "state_rows" in tree:
        state = f"{tree['state_rows']:,} rows, {_size(tree['state_bytes'])}"
        parts.append(state if tree["hydrated"] else "not hydrated yet")
    if "views" in tree:
        parts.append(f"shared by {tree['views']} views")
    if tree.get("repeated"):
        parts.append("as above")
    return "  " + ", ".join(parts) if parts else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
