"""Classifies calls: aggregates, macros, and calls that no plan may have.

Law: a name is an aggregate or table function if DuckDB's own function list says so; built-in macros
are classified by their definitions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from sqlglot import exp

from ivm.sql.parse.function_list import FunctionList
from ivm.sql.parse.query import verbatim
from ivm.sql.plan.built_in import FACTS, call_name, is_ours
from ivm.sql.plan.expressions import nodes_of
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.resolve.macros import Macros
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_REFUSED: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery in an expression",
    exp.Query: "a subquery in an expression",
    exp.Exists: "EXISTS",
    exp.Any: "ANY over a subquery",
    exp.All: "ALL over a subquery",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Columns: "COLUMNS(…)",
    exp.Collate: "COLLATE",
    exp.Comprehension: "a list comprehension",
    exp.Unnest: "UNNEST in an expression",
    exp.SessionParameter: "a session variable",
}


class Functions:
    """The functions that one cursor sees.

    Args:
        cursor: sees the user's macros.
        functions: the list of them.

    Attributes:
        hiding: names of the user's macros that hide a built-in function.
    """

    def __init__(self, cursor: Cursor, functions: FunctionList) -> None:
        self._aggregates, self._tables = _builtin()
        self._aggregates |= functions.aggregates
        self.hiding = functions.hiding
        self.macros = Macros(cursor, functions, self._tables | {"ago"}, self.hiding)

    def is_aggregate(self, node: exp.Expr) -> bool:
        """Returns whether the node is an aggregate call (its FILTER or WITHIN GROUP included)."""
        while isinstance(node, _WRAPPERS):
            node = node.this
        return isinstance(node, exp.Func) and call_name(node) in self._aggregates

    def aggregates(self, tree: exp.Expr) -> Iterator[exp.Expr]:
        """The outermost aggregate calls that are not window functions, outside nested queries."""
        if isinstance(tree, exp.Window):
            # The function over the window is no aggregate call, but its arguments may have some.
            parts = [tree.this]
            if self.is_aggregate(tree.this):
                while isinstance(parts[0], _WRAPPERS):
                    parts = [*parts[0].iter_expressions(), *parts[1:]]
                parts = [*parts[0].iter_expressions(), *parts[1:]]
            rest = [e for k, v in tree.args.items() if k != "this" for e in nodes_of(v)]
            for part in parts + rest:
                yield from self.aggregates(part)
        elif self.is_aggregate(tree):
            yield tree
        elif not isinstance(tree, exp.Query):  # a nested query's aggregates are its own
            for part in tree.iter_expressions():
                yield from self.aggregates(part)

    def expanded(self, node: exp.Expr) -> exp.Expr | None:
        """Expands a call of a macro to an unbound expression; None for any other node.

        Raises:
            NotIncremental: the macro cannot be expanded here.
        """
        if not isinstance(node, exp.Func) or is_ours(node):
            return None
        if not self.macros.has_scalar(name := call_name(node)):
            return None
        if isinstance(node.parent, (*_WRAPPERS, exp.Window)) and node.arg_key == "this":
            raise NotIncremental(f"the macro {name}() with FILTER or OVER")
        call = node if isinstance(node, exp.Anonymous) else verbatim(node)
        return self.macros.expanded(name, list(call.expressions))

    def check(self, node: exp.Expr) -> None:
        """Refuses a node that cannot be a scalar expression of a plan.

        Raises:
            NotIncremental: names the construct.
        """
        for kind, name in _REFUSED.items():
            if isinstance(node, kind):
                raise NotIncremental(name)
        if not isinstance(node, exp.Func):
            return
        name = call_name(node)
        if name == "alias":
            raise NotIncremental("alias(), which tells a name that columns lose in a plan")
        if name in self._tables:
            raise NotIncremental(f"{name}() in an expression")


@functools.cache
def _builtin() -> tuple[frozenset[str], frozenset[str]]:
    """Names of the aggregates, and of the table functions and macros that no plan may call."""
    query = (
        "SELECT lower(function_name), list(DISTINCT function_type), any_value(macro_definition)"
        " FROM duckdb_functions() WHERE internal GROUP BY ALL"
    )
    with FACTS.borrow() as scratch:
        found = rows(scratch, query)
    aggregates = frozenset(n for n, kinds, _ in found if "aggregate" in kinds)
    return aggregates, frozenset(_unbindable(found, aggregates))


def _unbindable(
    found: list[tuple[str, list[str], str | None]], aggregates: frozenset[str]
) -> Iterator[str]:
    known_macros = {name for name, kinds, _ in found if "macro" in kinds}
    bad: set[str] = {"unnest"}
    for _ in range(3):  # macros that call macros
        for name, kinds, definition in found:
            if "table" in kinds and "scalar" not in kinds and "aggregate" not in kinds:
                bad.add(name)
            calls = {c.lower() for c in _CALLS.findall(definition or "")}
            if "SELECT" in (definition or "") or calls & (aggregates | bad):
                bad |= {name} & known_macros
    yield from bad


_CALLS = re.compile(r'"?([A-Za-z_]\w*)"?\(')
