"""Parses a user's expression over one table's columns, such as a CHECK.

Contract: the tree means what the text means to DuckDB, and every function in it is DuckDB's own. A
text that calls a macro (an operator is a call, too) has no tree.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb
from sqlglot import exp

from ivm.sql.parse.duckdb_tree import nodes, syntax_tree
from ivm.sql.parse.query import parse_query
from ivm.sql.plan.nodes import NotIncremental
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch

_scratch = Scratch()


def expression_of(text: str, columns: Sequence[str], macros: Collection[str]) -> exp.Expr | None:
    """Parses an expression, its columns written c0, c1, … by position.

    Args:
        text: an expression that DuckDB accepts for the table.
        columns: the names of the table's columns.
        macros: folded names of the user's functions and macros.

    Returns:
        The tree; None if it is not certain to mean the same.
    """
    query = f"SELECT {text}"
    with _scratch.borrow() as cursor:
        try:
            if _called(query, cursor) & set(macros):
                return None
            tree = parse_query(query, cursor)
        except (NotIncremental, duckdb.Error):
            return None
    return _numbered(tree, [fold(name) for name in columns])


def _called(query: str, cursor: duckdb.DuckDBPyConnection) -> set[str]:
    found = nodes(syntax_tree(query, cursor))
    return {fold(node["function_name"]) for node in found if "function_name" in node}


def _numbered(tree: exp.Expr, names: Sequence[str]) -> exp.Expr | None:
    for column in list(tree.find_all(exp.Column)):
        name = fold(column.name)
        if name not in names or column.table:
            return None
        column.replace(exp.column(f"c{names.index(name)}"))
    (expression,) = tree.expressions
    return expression if isinstance(expression, exp.Expr) else None
