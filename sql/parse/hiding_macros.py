"""Refuses queries in which a user's macro that hides a built-in function could be missed.

Law: in DuckDB a name without a schema means the macro, and so do the operators, literals and
clauses that stand for a call of that name.
Invariant: a query has a plan only if the planner's tree calls each such name as often as DuckDB's
tree does, and the plan's SQL never calls one without a schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlglot import exp

from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.built_in import call_name, is_ours
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.duckdb_tree import nodes, syntax_tree
from ivm.storage.identifiers import fold, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor

# Brackets and dots stand for calls of these; the names of operators are no identifiers.
_LITERALS = frozenset(
    ["list_value", "struct_pack", "row", "array_extract", "array_slice", "struct_extract"]
)
# Their expressions are evaluated in an empty database, which has no macros.
_ASKED = (exp.Limit, exp.Offset, exp.Fetch, exp.Columns, exp.Star, exp.Like, exp.ILike, exp.Glob)


def refuse_literals(hiding: frozenset[str]) -> None:
    """Refuses to plan if a macro hides an operator or a literal: any plan's SQL may have them.

    Raises:
        NotIncremental: names the macro.
    """
    for name in sorted(hiding):
        if name in _LITERALS or not name.isidentifier():
            raise NotIncremental(f"a macro named {name}, which hides an operator or a literal")


def refuse_unseen(tree: exp.Expr, parsed: Any, hiding: frozenset[str]) -> None:
    """Refuses a tree that does not call the macros as often as DuckDB does.

    Args:
        tree: the planner's syntax tree.
        parsed: DuckDB's own.
        hiding: names of macros that hide built-in functions.

    Raises:
        NotIncremental: names the macro.
    """
    if not hiding:
        return
    called = Counter(name for name in _called(tree) if name in hiding)
    meant = Counter(name for name in _unqualified(parsed) if name in hiding)
    for name in sorted(hiding):
        if called[name] != meant[name]:
            raise NotIncremental(f"syntax that stands for {name}(), which is a macro here")
    for clause in tree.find_all(*_ASKED):
        for name in _called(clause):
            if name in hiding:
                raise NotIncremental(f"the macro {name}() in {clause.key.upper()}")


def refuse_caught(query: str, cursor: Cursor, functions: FunctionList) -> None:
    """Refuses a plan's SQL if it would call a hiding macro, also inside a macro of DuckDB's.

    Raises:
        NotIncremental: names the macro; or DuckDB cannot serialize the SQL.
    """
    hiding = functions.hiding
    if not hiding:
        return
    parsed = syntax_tree(query, cursor)
    if parsed is None:
        raise NotIncremental("SQL of a plan that DuckDB does not serialize, beside such macros")
    callers = _callers(functions, hiding)
    for name in [*_unqualified(parsed), *callers.intersection(_named(parsed))]:
        if name in hiding | callers:
            raise NotIncremental(f"syntax that stands for {name}(), which is a macro here")


def _callers(functions: FunctionList, hiding: frozenset[str]) -> frozenset[str]:
    """DuckDB's own macros whose definitions call one of the names."""
    found = hiding
    for _ in range(3):  # macros that call macros
        own = [m for m in functions.macros if m.internal]
        found |= {m.name for m in own if not found.isdisjoint(words_in(m.definition))}
    return found - hiding


def _called(tree: exp.Expr) -> Iterator[str]:
    for node in tree.find_all(exp.Func):
        if isinstance(node, exp.Expr) and not is_ours(node):
            yield call_name(node)


def _named(parsed: Any) -> set[str]:
    return {fold(node["function_name"]) for node in nodes(parsed) if "function_name" in node}


def _unqualified(parsed: Any) -> Iterator[str]:
    for node in nodes(parsed):
        if "function_name" in node and not node.get("schema"):
            yield fold(node["function_name"])
