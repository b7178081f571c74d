"""Reads how long a table keeps its rows, which DuckDB does not know.

Law: the text that DuckDB gets has blanks in the place of the clause, so offsets in it stay true.
"""

from __future__ import annotations

from ivm.sql.statements.nodes.nodes import Retention
from ivm.sql.statements.nodes.own_nodes import SetRetention
from ivm.sql.statements.own.durations import duration
from ivm.sql.statements.text.tokens import Reader, SourceText, unquoted

_OPTIONS = ("RETAIN", "RETAIN_BY")


def with_retention(source: SourceText, reader: Reader) -> tuple[str, Retention | None]:
    """Takes `WITH (retain = …, retain_by = …)` out of a CREATE TABLE.

    Returns:
        The text without it, and what it says; None if there is none.
    """
    at = reader.index("WITH", "(")
    inside = Reader(reader.tokens, at + 2)
    if inside.peek() not in _OPTIONS:
        return source.text, None
    retain, by = _options(inside)
    if retain is None or by is None:
        raise inside.error("both retain and retain_by are needed")
    begin = reader.tokens[at].start - source.offset
    end = reader.tokens[inside.at - 1].end - source.offset
    text = source.text[:begin] + " " * (end - begin) + source.text[end:]
    return text.rstrip(), Retention(retain, by)


def begins_retention(reader: Reader) -> bool:
    """Whether the statement is ALTER TABLE name SET | RESET (retain …); the reader stays."""
    if reader.peek(1) != "TABLE":
        return False
    verbs = [reader.index(verb, "(") for verb in ("SET", "RESET")]
    return any(Reader(reader.tokens, at + 2).peek() in _OPTIONS for at in verbs)


def set_retention(source: SourceText, reader: Reader) -> SetRetention:
    """Reads ALTER TABLE [IF EXISTS] name SET (retain = …[, retain_by = …]) | RESET (retain)."""
    reader.expect("ALTER", "TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    if reader.accept("RESET", "("):
        reader.expect("RETAIN")
        if reader.accept(","):
            reader.expect("RETAIN_BY")
        reader.expect(")")
        retain = by = None
    else:
        reader.expect("SET", "(")
        retain, by = _options(reader)
        if retain is None:
            raise reader.error("expected retain, the length of time")
    reader.finish()
    return SetRetention(source.text, source.offset, name, retain, by, if_exists)


def _options(reader: Reader) -> tuple[str | None, str | None]:
    """The length of time, as DuckDB writes it, and the column's name; the reader is behind `)`."""
    retain = by = None
    while True:
        if retain is None and reader.accept("RETAIN", "="):
            retain = duration(reader).text
        elif by is None and reader.accept("RETAIN_BY", "="):
            by = _column(reader)
        else:
            raise reader.error("expected retain or retain_by, each once")
        if not reader.accept(","):
            break
    reader.expect(")")
    return retain, by


def _column(reader: Reader) -> str:
    """A column's name, which may be quoted as a text too."""
    if not reader.done and reader.tokens[reader.at].text[:1] == "'":
        reader.at += 1
        return reader.tokens[reader.at - 1].text[1:-1].replace("''", "'")
    reader.identifier()
    return unquoted(reader.tokens[reader.at - 1])
