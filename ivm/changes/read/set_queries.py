"""What an UPDATE sets, with queries as values: `SET total = (SELECT sum(x) FROM …)`.

Law: DuckDB gives the values of queries with the rows that it finds, as columns of a source of our
own; so each is computed for the rows that are updated, as in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.changes.assignments import assignments
from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.text.tokens import Reader, Token, text_of

ALIAS = "__ivm_sets"
"""By which expressions call the source."""
_BEGINS = frozenset(("SELECT", "FROM", "WITH", "VALUES"))


class Sets(NamedTuple):
    """What is set.

    Attributes:
        sets: column and value.
        queries: the texts of those that are values, in their parentheses.
    """

    sets: tuple[tuple[str, Expression], ...]
    queries: tuple[str, ...]


def read_sets(text: str, tokens: Sequence[Token], marks: Marks) -> Sets | None:
    """Reads `name = value, …`; None if one has another form.

    Args:
        text: of the statement.
        tokens: what stands behind SET.
        marks: number the parameters.
    """
    found: list[tuple[str, Expression]] = []
    queries: list[str] = []
    for column, value in assignments(tokens) or ():
        expression = marks.expression(text, value)
        if _is_query(value):
            expression = Expression(f"{ALIAS}.{_name(len(queries))}")
            queries.append(text_of(text, value))
        if expression is None:
            return None
        found.append((column, expression))
    return Sets(tuple(found), tuple(queries)) if found else None


def _is_query(value: Sequence[Token]) -> bool:
    """Returns whether a value is a query in parentheses."""
    reader = Reader(value)
    if reader.peek() != "(" or reader.peek(1) not in _BEGINS:
        return False
    reader.skip_parentheses()
    return reader.done


def listed_queries(queries: Sequence[str]) -> str:
    """Writes what a query selects to give the source's columns."""
    return ", ".join([f"{query} AS {_name(i)}" for i, query in enumerate(queries)])


def _name(number: int) -> str:
    return f"__ivm_set_{number}"
