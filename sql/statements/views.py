"""Reads our own statements on materialized views.

Law: the view's query is the user's text, verbatim, but for WITH TIES (see `with_ties`).
"""

from __future__ import annotations

from ivm.sql.statements.nodes import CreateView, DropView, Statement, Subscribe, VerifyView
from ivm.sql.statements.tokens import Reader, SourceText
from ivm.sql.statements.with_ties import without_ties_clause
from ivm.storage.errors import UnsupportedError


def create_view(source: SourceText, reader: Reader, replace: bool) -> CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW, read from behind these words."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = reader.columns() if reader.peek() == "(" else ()
    reader.expect("AS")
    if reader.done:
        raise reader.error("expected the view's query")
    begin = reader.tokens[reader.at].start - source.offset
    query, ahead = without_ties_clause(source.text[begin:], source.offset + begin)
    begin -= ahead
    flags = begin, replace, if_not_exists
    return CreateView(source.text, source.offset, name, columns, query, *flags)


def drop_view(source: SourceText, reader: Reader) -> DropView:
    """DROP MATERIALIZED VIEW, read from behind these words."""
    if_exists = reader.accept("IF", "EXISTS")
    names = reader.names()
    cascade = reader.accept("CASCADE")
    reader.accept("RESTRICT")
    reader.finish()
    return DropView(source.text, source.offset, names, if_exists, cascade)


def verify_view(source: SourceText, reader: Reader) -> VerifyView:
    """VERIFY MATERIALIZED VIEW name, VERIFY MATERIALIZED VIEWS."""
    reader.expect("VERIFY", "MATERIALIZED")
    name = None
    if not reader.accept("VIEWS"):
        reader.expect("VIEW")
        name = reader.name()
    reader.finish()
    return VerifyView(source.text, source.offset, name)


def subscribe(source: SourceText, reader: Reader) -> Subscribe:
    """SUBSCRIBE [TO] name."""
    reader.expect("SUBSCRIBE")
    if reader.peek() == "TO" and reader.peek(1):
        reader.at += 1
    name = reader.name()
    reader.finish()
    return Subscribe(source.text, source.offset, name)


def refuse_refresh(source: SourceText, reader: Reader) -> Statement:
    """REFRESH …: raises UnsupportedError."""
    way = "use VERIFY MATERIALIZED VIEW to compare one with its query"
    reason = f"REFRESH is not needed: views are always up to date; {way}"
    raise UnsupportedError(reason, source.offset)


def refuse_alter(source: SourceText) -> None:
    """ALTER MATERIALIZED VIEW: raises UnsupportedError."""
    way = "drop it and create it anew, or use CREATE OR REPLACE MATERIALIZED VIEW"
    raise UnsupportedError(f"ALTER MATERIALIZED VIEW is not supported: {way}", source.offset)
