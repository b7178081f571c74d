"""Renders UNNEST and table functions as SQL.

Law: DuckDB's `unnest` in a select list unnests lists in parallel. A row without elements that must
stay gets a list of one NULL, and the ordinality is one more list, of numbers. A table function of
columns becomes a lateral item of FROM.
"""

from __future__ import annotations

from ivm.sql.plan.built_in import MAIN, duck_text, qualified
from ivm.sql.plan.calls import RowCall
from ivm.sql.plan.nodes import TableFunction, Unnest
from ivm.storage.identifiers import quote


def render_unnest(plan: Unnest, source: str) -> str:
    """Renders the node as a SELECT over a FROM item."""
    if plan.call is not None:
        return _render_call(plan, plan.call, source)
    lists = [f"t.c{i}" for i in plan.lists]
    lengths = [f"coalesce({MAIN}len({item}), 0)" for item in lists]
    longest = lengths[0] if len(lengths) == 1 else f"{MAIN}greatest({', '.join(lengths)})"
    items = list(lists)
    if plan.ordinality:
        items.append(f"{MAIN}range(1, {longest} + 1)")
    if plan.outer:
        items = [f"CASE WHEN {longest} = 0 THEN [NULL] ELSE {item} END" for item in items]
    columns = [f"t.c{i}" for i in plan.kept] + [f"{MAIN}unnest({item})" for item in items]
    listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(columns))
    return f"SELECT {listed} FROM {source} AS t"


def _render_call(plan: Unnest, call: RowCall, source: str) -> str:
    columns = [f"t.c{i}" for i in plan.kept] + call_columns(call)
    listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(columns))
    return f"SELECT {listed} FROM {call_source(plan, call, source)}"


def call_columns(call: RowCall) -> list[str]:
    """The function's columns that are read, over `call_source`."""
    return [f"x.{quote(name)}" for name in call.columns]


def call_source(plan: Unnest, call: RowCall, source: str) -> str:
    """Joins a FROM item laterally with the rows of the call."""
    item = f"{qualified(call.name)}({', '.join(f't.c{i}' for i in plan.lists)}) AS x"
    return f"{source} AS t LEFT JOIN {item} ON TRUE" if plan.outer else f"{source} AS t, {item}"


def render_table_function(plan: TableFunction) -> str:
    """Renders the node as a SELECT; the alias names its columns."""
    names = ", ".join(f"c{i}" for i in range(len(plan.schema)))
    return f"SELECT {names} FROM {duck_text(plan.call)} AS t({names})"


def unnest_text(plan: Unnest) -> str:
    """Describes the node, for EXPLAIN."""
    listed = ", ".join(f"c{i}" for i in plan.lists)
    words = ["Unnest", f"{plan.call.name}({listed})" if plan.call else listed]
    words += [f"({', '.join(plan.call.columns)})"] if plan.call and plan.call.columns else []
    words += ["with ordinality"] if plan.ordinality else []
    words += ["keeping rows without elements"] if plan.outer else []
    return " ".join(words)
