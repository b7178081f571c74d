"""Parses a user's expression over the columns of rows, such as a CHECK or what SET assigns.

Contract: the tree means what the text means to DuckDB, and every function in it is DuckDB's own. A
text that calls a macro (an operator is a call, too) has no tree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import duckdb
from sqlglot import exp

from ivm.sql.parse.query import parse_query
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.duckdb_tree import nodes, syntax_tree
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch

_scratch = Scratch.of()


Names: TypeAlias = Mapping[tuple[str, str], int]
"""The position of a column by its qualifier ("" for none) and its name, both folded."""


def names_of(columns: Sequence[str], *qualifiers: str, first: int = 0) -> Names:
    """The names of columns without a qualifier, or with one of these ("" for none).

    Args:
        first: the position of the first column.
    """
    folded = [fold(name) for name in columns]
    qualified = [fold(qualifier) for qualifier in qualifiers or ("",)]
    return {(q, name): first + i for q in qualified for i, name in enumerate(folded)}


def expression_of(
    text: str, names: Names, macros: Collection[str], words: Mapping[str, str] | None = None
) -> exp.Expr | None:
    """Parses an expression, its columns written c0, c1, … by position.

    Args:
        text: an expression that DuckDB accepts over these columns.
        names: of the columns.
        macros: folded names of the user's functions and macros.
        words: the functions that names call where no column has them.

    Returns:
        The tree; None if it is not certain to mean the same.
    """
    query = f"SELECT {text}"
    with _scratch.borrow() as cursor:
        try:
            if calls(query, cursor) & set(macros):
                return None
            tree = parse_query(query, cursor)
        except (NotIncremental, duckdb.Error):
            return None
    called = {name: call for name, call in (words or {}).items() if call not in macros}
    return _numbered(tree, names, called)


def calls(query: str, cursor: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of all functions, macros and operators in a query, folded."""
    found = nodes(syntax_tree(query, cursor))
    return {fold(node["function_name"]) for node in found if "function_name" in node}


def _numbered(tree: exp.Expr, names: Names, words: Mapping[str, str]) -> exp.Expr | None:
    for column in list(tree.find_all(exp.Column)):
        position = names.get((fold(column.table), fold(column.name)))
        call = None if column.table or column.this.quoted else words.get(fold(column.name))
        if column.db or (position is None and call is None):
            return None
        known = position is not None
        column.replace(exp.column(f"c{position}") if known else exp.Anonymous(this=call))
    (expression,) = tree.expressions
    return expression if isinstance(expression, exp.Expr) else None
