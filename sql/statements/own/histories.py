"""Reads the statements on tables whose history lies in files, which DuckDB does not know."""

from __future__ import annotations

from ivm.sql.statements.nodes.own_nodes import CreateHistory, SetHistory
from ivm.sql.statements.own.sources import Options, read_options
from ivm.sql.statements.text.tokens import Reader, SourceText, text_of
from ivm.storage.errors import SqlError


def begins_create(reader: Reader) -> bool:
    """Whether CREATE TABLE … FROM begins at the current token, TABLE; the reader stays there."""
    ahead = Reader(reader.tokens, reader.at)
    if not ahead.accept("TABLE"):
        return False
    ahead.accept("IF", "NOT", "EXISTS")
    try:
        ahead.name()
        if ahead.peek() == "(":
            ahead.skip_parentheses()
    except SqlError:
        return False  # DuckDB says what is wrong
    return ahead.peek() == "FROM"


def create_history(source: SourceText, reader: Reader) -> CreateHistory:
    """Reads CREATE TABLE [IF NOT EXISTS] name [(columns)] FROM format 'place' [WITH (options)]."""
    reader.expect("TABLE")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = ""
    if reader.peek() == "(":
        begin = reader.at + 1
        reader.skip_parentheses()
        columns = text_of(source.script, reader.tokens[begin : reader.at - 1])
    reader.expect("FROM")
    format = reader.identifier().lower()
    location, options = _place(reader)
    reader.finish()
    flags = columns, format, location, options, if_not_exists
    return CreateHistory(source.text, source.offset, name, *flags)


def begins_set(reader: Reader) -> bool:
    """Whether the statement is ALTER TABLE name SET HISTORY …; the reader stays at its place."""
    return reader.find("SET", "HISTORY") and reader.peek(1) == "TABLE"


def set_history(source: SourceText, reader: Reader) -> SetHistory:
    """Reads ALTER TABLE name SET HISTORY 'place' AT [EPOCH] number [WITH (options)]."""
    reader.expect("ALTER", "TABLE")
    name = reader.name()
    reader.expect("SET", "HISTORY")
    location = _text(reader)
    reader.expect("AT")
    reader.accept("EPOCH")
    if not reader.peek().isdigit():
        raise reader.error("expected the epoch whose rows the files hold, a number")
    epoch = int(reader.peek())
    reader.at += 1
    options = read_options(reader) if reader.accept("WITH") else ()
    reader.finish()
    return SetHistory(source.text, source.offset, name, location, epoch, options)


def _place(reader: Reader) -> tuple[str, Options]:
    location = _text(reader)
    return location, read_options(reader) if reader.accept("WITH") else ()


def _text(reader: Reader) -> str:
    if reader.done or reader.tokens[reader.at].text[:1] != "'":
        raise reader.error("expected the place of the files, a 'text'")
    reader.at += 1
    return reader.tokens[reader.at - 1].text[1:-1].replace("''", "'")
