"""What an UPDATE sets, with queries as values: `SET total = (SELECT sum(x) FROM …)`.

Law: DuckDB gives the values of queries with the rows that it finds, as columns of a source of our
own; so each is computed for the rows that are updated, as in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.changes.inserts import settings
from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.text.tokens import Reader, Token, split, text_of
from ivm.storage.errors import SqlError

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
    for part in split(tokens):
        query = _query(text, part)
        if query is not None:
            found.append((Reader(part).identifier(), Expression(f"{ALIAS}.{_name(len(queries))}")))
            queries.append(query)
            continue
        read = settings(text, part, marks)
        if read is None:
            return None
        found += read
    return Sets(tuple(found), tuple(queries))


def _query(text: str, part: Sequence[Token]) -> str | None:
    """The query of `name = (query)`; None for another value."""
    reader = Reader(part)
    try:
        reader.identifier()
        reader.expect("=", "(")
        begins = reader.peek() in _BEGINS
        reader.at -= 1
        reader.skip_parentheses()
        reader.finish()
    except SqlError:
        return None
    return text_of(text, part[2:]) if begins else None


def listed_queries(queries: Sequence[str]) -> str:
    """Writes what a query selects to give the source's columns."""
    return ", ".join([f"{query} AS {_name(i)}" for i, query in enumerate(queries)])


def _name(number: int) -> str:
    return f"__ivm_set_{number}"
