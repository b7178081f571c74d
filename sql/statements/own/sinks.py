"""Reads the statements on sinks, which DuckDB does not know."""

from __future__ import annotations

from ivm.sql.statements.nodes.own_nodes import ChangeSink, CreateSink
from ivm.sql.statements.own.sources import read_change, read_options
from ivm.sql.statements.text.tokens import Reader, SourceText


def create_sink(source: SourceText, reader: Reader) -> CreateSink:
    """Reads CREATE SINK, from the token after these words."""
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.identifier()
    reader.expect("FROM")
    view = reader.name()
    reader.expect("INTO")
    kind = reader.identifier()
    options = read_options(reader)
    reader.finish()
    return CreateSink(source.text, source.offset, name, view, kind, options, if_not_exists)


def change_sink(source: SourceText, reader: Reader) -> ChangeSink:
    """Reads PAUSE SINK, RESUME SINK and DROP SINK [IF EXISTS]."""
    return ChangeSink(source.text, source.offset, *read_change(reader, "SINK"))
