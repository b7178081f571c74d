"""What is set by UPDATE, MERGE and ON CONFLICT DO UPDATE, column by column.

Law: `(a, b) = (x, y)` means `a = x, b = y`. A row that is no list of values (a query, another
expression) has no such form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.text.tokens import Reader, Token, split
from ivm.storage.errors import SqlError

_QUERIES = frozenset(("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"))


class Assignment(NamedTuple):
    """A column, and the tokens of the value that it is set to."""

    column: str
    value: Sequence[Token]


def assignments(tokens: Sequence[Token]) -> list[Assignment] | None:
    """Reads what stands behind SET; None if a part of it has another form."""
    found: list[Assignment] = []
    for part in split(tokens):
        reader = Reader(part)
        try:
            names = reader.columns() if reader.peek() == "(" else (reader.identifier(),)
            reader.expect("=")
        except SqlError:
            return None
        values = [part[reader.at :]]
        if len(names) > 1:
            values = _listed(reader)
        if len(values) != len(names) or not all(values):
            return None
        found += map(Assignment, names, values)
    return found


def _listed(reader: Reader) -> list[Sequence[Token]]:
    """The values of `[ROW] (value, …)`, with which the tokens end; [] of other expressions."""
    reader.accept("ROW")
    begin = reader.at + 1
    if reader.peek() != "(" or reader.peek(1) in _QUERIES:
        return []
    reader.skip_parentheses()
    if not reader.done:
        return []
    values = split(reader.tokens[begin:-1])
    return values if values[-1] else values[:-1]  # DuckDB allows a comma behind the last


def settings(
    script: str, tokens: Sequence[Token], marks: Marks
) -> tuple[tuple[str, Expression], ...] | None:
    """The same with expressions as values; None too if one is left to DuckDB."""
    found = []
    for column, value in assignments(tokens) or ():
        expression = marks.expression(script, value)
        if expression is None:
            return None
        found.append((column, expression))
    return tuple(found) or None
