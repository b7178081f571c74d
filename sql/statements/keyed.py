"""Reads UPDATE and DELETE of one row: `… WHERE key = value [AND …]`, values being literals.

Law: what is read here says the same to DuckDB; anything else (other conditions, FROM, RETURNING,
parameters inside an expression) is not read, and DuckDB runs the statement. Whether the columns of
the WHERE clause are a key is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ivm.sql.statements import values_list
from ivm.sql.statements.nodes import KeyedChange, Name
from ivm.sql.statements.tokens import CLOSING, OPENING, Reader, Source, Token
from ivm.storage.errors import SqlError

_UNREAD = frozenset(("SELECT", "FROM", "WITH", "RETURNING", "OVER", "DEFAULT", "?", "$"))
_Pair: TypeAlias = tuple[str, Sequence[Token], str]
"""A name, and the tokens and the text of its value."""


def keyed_change(source: Source, reader: Reader, kind: str, table: Name) -> KeyedChange | None:
    """The statement, whose tokens behind the table's name stand here; None if it is another.

    Args:
        kind: "update" or "delete".
    """
    if reader.tokens[0].word != kind.upper():
        return None  # a WITH clause stands before it
    reader = Reader(reader.tokens, reader.at)
    try:
        settings: list[_Pair] = []
        if kind == "update":
            reader.expect("SET")
            settings = _pairs(source, reader, ",", "WHERE")
        reader.expect("WHERE")
        keys = _pairs(source, reader, "AND", "")
    except SqlError:
        return None
    literals = [(name, text) for name, _, text in settings if _is_cell(text)]
    computed = [(name, value, text) for name, value, text in settings if not _is_cell(text)]
    if any(_UNREAD & {token.word for token in value} for _, value, _ in computed):
        return None
    cells = [*literals, *[(name, text) for name, _, text in keys]]
    rows = _scan([text for _, text in cells])
    if rows is None:
        return None
    names = tuple([name for name, _ in cells])
    head = (source.text, source.offset, kind, table)
    expressions = tuple([(name, text) for name, _, text in computed])
    return KeyedChange(*head, columns=names, rows=rows, keys=len(keys), computed=expressions)


def _pairs(source: Source, reader: Reader, between: str, end: str) -> list[_Pair]:
    """`name = value` again and again, up to the word that ends them or the statement's end."""
    found: list[_Pair] = []
    while True:
        name = reader.identifier()
        reader.expect("=")
        value = _value(reader, between, end)
        if not value:
            raise reader.error("expected a value")
        found.append((name, value, source.script[value[0].start : value[-1].end]))
        if not reader.accept(between):
            return found


def _value(reader: Reader, between: str, end: str) -> Sequence[Token]:
    """The tokens up to a word outside parentheses."""
    first, depth = reader.at, 0
    while not reader.done:
        word = reader.peek()
        if depth == 0 and word and word in (between, end):
            break
        depth += (word in OPENING) - (word in CLOSING)
        reader.at += 1
    return reader.tokens[first : reader.at]


def _is_cell(text: str) -> bool:
    return _scan([text]) is not None


def _scan(texts: Sequence[str]) -> values_list.LiteralRows | None:
    row = f"({', '.join(texts)})"
    return values_list.scan(row, 0, len(row))
