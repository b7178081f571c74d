"""Renders the tree of EXPLAIN as text and as a Mermaid flowchart.

Contract: both show every operator with its strategy, reason, state and, if measured, its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def tree_text(tree: dict[str, Any]) -> str:
    """Renders one line per operator, its inputs below it and indented."""
    return "\n".join(_lines(tree, ""))


def _lines(tree: dict[str, Any], indent: str) -> Iterator[str]:
    details = "".join(f"  {part}" for part in [", ".join(_details(tree))] if part)
    yield f"{indent}{tree['operator']}  [{tree['strategy']}: {tree['why']}]{details}"
    if "step" in tree:
        yield f"{indent}  its step:"
        yield from _lines(tree["step"], indent + "    ")
    for part in tree["inputs"]:
        yield from _lines(part, indent + "  ")


def mermaid(tree: dict[str, Any]) -> str:
    """Renders a flowchart from the tables at the bottom to the view at the top."""
    return "\n".join(["flowchart BT", *_boxes(tree), *dict.fromkeys(_arrows(tree))])


def _boxes(tree: dict[str, Any]) -> Iterator[str]:
    if not tree.get("repeated"):
        parts = [tree["operator"], f"{tree['strategy']}: {tree['why']}", ", ".join(_details(tree))]
        text = "<br>".join(_escaped(part) for part in parts if part)
        yield f'  n{tree["node"]}["{text}"]'
    for part in _parts(tree):
        yield from _boxes(part)


def _arrows(tree: dict[str, Any]) -> Iterator[str]:
    for part in _parts(tree):
        yield f"  n{part['node']} --> n{tree['node']}"
        yield from _arrows(part)


def _parts(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """The step of a recursive query, and the inputs."""
    return [*([tree["step"]] if "step" in tree else []), *tree["inputs"]]


def _escaped(text: str) -> str:
    for sign, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, code)
    return text


def _details(tree: dict[str, Any]) -> list[str]:
    """The operator's state, its work, and the number of views that share it."""
    parts = []
    if "state_rows" in tree:
        state = f"{counted(tree['state_rows'], 'row')}, {_size(tree['state_bytes'])}"
        parts.append(state if tree["hydrated"] else "not hydrated yet")
    if "steps" in tree:
        rows = f"{counted(tree['rows_in'], 'row')} in, {tree['rows_out']:,} out"
        steps = counted(tree["steps"], "step")
        parts.append(f"{steps}, {rows}, {tree['milliseconds']:,.3f} ms")
    if "views" in tree:
        parts.append(f"shared by {tree['views']} views")
    if tree.get("repeated"):
        parts.append("as above")
    return parts


def counted(count: int, what: str) -> str:
    """Renders a count and its noun: `1 row`, `1,000 rows`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
