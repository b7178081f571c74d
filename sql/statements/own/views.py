"""Reads the statements on materialized views, which DuckDB does not know.

Invariant: the view's query is the user's text, verbatim, but for WITH TIES (see `with_ties`), and
without what says when its rows come, EMIT ON WINDOW CLOSE and AS OF ARRIVAL (see `arrivals`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ivm.sql.statements.nodes.own_nodes import (
    CreateView,
    DropView,
    RefreshView,
    Subscribe,
    VerifyView,
)
from ivm.sql.statements.own.arrivals import WORDS, with_arrival, without_arrival
from ivm.sql.statements.own.durations import duration
from ivm.sql.statements.own.options import options
from ivm.sql.statements.own.with_ties import without_ties_clause
from ivm.sql.statements.text.tokens import Reader, SourceText
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.tables.system_tables import Emits

LEAST_TICK = 10_000
"""The microseconds between two ticks, each of which is a commit."""
_DAY = 86_400_000_000
CLAUSES: Mapping[Emits, str] = {"final": "EMIT ON WINDOW CLOSE", "arrival": WORDS}
"""What says when the rows of a view come that stay."""
_EMIT = CLAUSES["final"].split()
FILLERS = ("duckdb", "spark", "auto")
"""Who can fill a view first."""


def create_view(source: SourceText, reader: Reader, replace: bool) -> CreateView:
    """Reads CREATE [OR REPLACE] MATERIALIZED VIEW, from the token after these words."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = reader.columns() if reader.peek() == "(" else ()
    found = {}
    if reader.accept("WITH"):
        reader.expect("(")
        found = options(reader, _OPTIONS)
    reader.expect("AS")
    if reader.done:
        raise reader.error("expected the view's query")
    begin = reader.tokens[reader.at].start - source.offset
    written, final = _without_emit(source, reader, begin)
    plain, arrives = without_arrival(written, source.offset + begin)
    if final and arrives:
        raise UnsupportedError(
            f"{WORDS} beside {CLAUSES['final']}, whose rows look up what they join when they are "
            "final",
            source.offset + begin,
        )
    query, ahead = without_ties_clause(plain, source.offset + begin)
    begin -= ahead
    flags = begin, replace, if_not_exists
    given = source.text, source.offset, name, columns, query
    values = {option.lower(): value for option, value in found.items()}
    emits: Emits = "final" if final else "arrival" if arrives else "changes"
    return CreateView(*given, *flags, emits=emits, **values)


def written_query(query: str, emits: Emits) -> str:
    """The query behind AS in the statement that creates a view."""
    if emits == "arrival":
        return with_arrival(query)
    return f"{query} {CLAUSES[emits]}" if emits == "final" else query


def _without_emit(source: SourceText, reader: Reader, begin: int) -> tuple[str, bool]:
    """The text from there on without EMIT ON WINDOW CLOSE at its end, and whether it had that."""
    tail = reader.tokens[-len(_EMIT) :]
    if [token.word for token in tail] != _EMIT or tail[0].start - source.offset <= begin:
        return source.text[begin:], False
    last = reader.tokens[-len(_EMIT) - 1]
    return source.text[begin : last.end - source.offset], True


def _backfill(reader: Reader) -> str:
    value = reader.tokens[reader.at].text.lower() if not reader.done else ""
    if value.strip("'") not in FILLERS:
        raise reader.error(f"backfill is {', '.join(map(repr, FILLERS))}")
    reader.at += 1
    return value.strip("'")


def _tick(reader: Reader) -> int:
    """The microseconds of a tick."""
    begin = reader.at
    found = duration(reader)
    micros = found.days * _DAY + found.micros
    if found.months or micros < LEAST_TICK:
        reader.at = begin
        raise reader.error("a tick takes 10 milliseconds at least, and no months")
    return micros


_OPTIONS: dict[str, Callable[[Reader], Any]] = {"BACKFILL": _backfill, "TICK": _tick}


def drop_view(source: SourceText, reader: Reader) -> DropView:
    """Reads DROP MATERIALIZED VIEW, from the token after these words."""
    if_exists = reader.accept("IF", "EXISTS")
    names = reader.names()
    cascade = reader.accept("CASCADE")
    reader.accept("RESTRICT")
    reader.finish()
    return DropView(source.text, source.offset, names, if_exists, cascade)


def verify_view(source: SourceText, reader: Reader) -> VerifyView:
    """Reads VERIFY MATERIALIZED VIEW name, or VERIFY MATERIALIZED VIEWS, [USING SPARK]."""
    reader.expect("VERIFY", "MATERIALIZED")
    name = None
    if not reader.accept("VIEWS"):
        reader.expect("VIEW")
        name = reader.name()
    spark = reader.accept("USING", "SPARK")
    reader.finish()
    return VerifyView(source.text, source.offset, name, spark)


def subscribe(source: SourceText, reader: Reader) -> Subscribe:
    """Reads SUBSCRIBE [TO] name."""
    reader.expect("SUBSCRIBE")
    if reader.peek() == "TO" and reader.peek(1):
        reader.at += 1
    name = reader.name()
    reader.finish()
    return Subscribe(source.text, source.offset, name)


def refresh_view(source: SourceText, reader: Reader) -> RefreshView:
    """Reads REFRESH MATERIALIZED VIEW name."""
    reader.expect("REFRESH", "MATERIALIZED", "VIEW")
    name = reader.name()
    reader.finish()
    return RefreshView(source.text, source.offset, name)


def refuse_alter(source: SourceText) -> None:
    """Raises UnsupportedError for ALTER MATERIALIZED VIEW."""
    way = "drop it and create it anew, or use CREATE OR REPLACE MATERIALIZED VIEW"
    raise UnsupportedError(f"ALTER MATERIALIZED VIEW is not supported: {way}", source.offset)
