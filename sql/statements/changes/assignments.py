"""What is set by UPDATE, MERGE and ON CONFLICT DO UPDATE, column by column.

Law: `(a, b) = (x, y)` means `a = x, b = y`, and `(a) = ROW(x)` means `a = x`. Several columns that
are set to a row that is no list of values (a query, another expression) have no such form.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.text.tokens import NESTING, Reader, Token, is_name, split, tokens, unquoted
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold

_ENDS = frozenset(("WHERE", "FROM", "RETURNING"))
_QUERIES = frozenset(("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"))


class Assignment(NamedTuple):
    """A column, and the tokens of the value that it is set to."""

    column: str
    value: Sequence[Token]


def sets_any(script: str, columns: Collection[str]) -> bool:
    """Returns whether a change sets some of these columns in stored rows.

    Args:
        script: of the change.
        columns: their names, folded.
    """
    found = tokens(script)
    words = ["", *[token.word for token in found], ""]
    depth, outside, listed = 0, -1, False  # where SET stands, and whether a list of columns is open
    for i, token in enumerate(found):
        before, behind = words[i], words[i + 2]
        depth += NESTING.get(token.word, 0)
        if token.word == "SET":
            outside = depth
        elif depth == outside and (token.word in _ENDS or behind == "MATCHED"):
            outside = -1
        elif token.word == "(" and depth == outside + 1:
            listed = before in ("SET", ",")
        elif is_name(token) and fold(unquoted(token)) in columns:
            set_alone = depth == outside and before in ("SET", ",", ".") and behind == "="
            if set_alone or (listed and depth == outside + 1):
                return True
    return False


def assignments(given: Sequence[Token]) -> list[Assignment] | None:
    """Reads what stands behind SET; None if a part of it has another form."""
    found: list[Assignment] = []
    for part in split(given):
        reader = Reader(part)
        try:
            is_list = reader.peek() == "("
            names = reader.columns() if is_list else (reader.label(),)
            reader.expect("=")
            whole = part[reader.at :]
            values = (_listed(reader) if is_list else []) or [whole]
        except SqlError:
            return None
        if len(values) != len(names) or not all(values):
            return None
        found += map(Assignment, names, values)
    return found


def _listed(reader: Reader) -> list[Sequence[Token]]:
    """The values of `[ROW] (value, …)`, with which the tokens end; [] of other expressions."""
    if reader.done:
        return []
    called = reader.name() if is_name(reader.tokens[reader.at]) else ()
    begin = reader.at + 1
    if reader.peek() != "(" or (called and called[-1].lower() != "row"):
        return []
    if reader.peek(1) in _QUERIES:
        return []
    reader.skip_parentheses()
    if not reader.done:
        return []
    values = split(reader.tokens[begin:-1])
    if len(values) == 1 and not called:  # parentheses, in which a row may stand
        return _listed(Reader(values[0])) or values
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
