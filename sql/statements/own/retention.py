"""Reads how long a table keeps its rows, and the other options of tables that are ours.

Law: the text that DuckDB gets has blanks in the place of the clause, so offsets in it stay true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ivm.sql.statements.nodes.nodes import Retention, WatermarkClause
from ivm.sql.statements.nodes.own_nodes import SetRetention
from ivm.sql.statements.own.durations import duration
from ivm.sql.statements.own.options import column_name, options
from ivm.sql.statements.own.watermarks import OPTIONS, with_options, with_watermark
from ivm.sql.statements.text.tokens import Reader, SourceText

BEHIND = " behind watermark"
"""What follows a length that counts from the watermark of the table, and not from now."""
_OPTIONS = ("RETAIN", "RETAIN_BY")


def with_own_clauses(
    source: SourceText, reader: Reader
) -> tuple[str, Retention | None, WatermarkClause | None]:
    """Takes `WATERMARK FOR …` and `WITH (retain = …, late = …)` out of a CREATE TABLE.

    Returns:
        The text without them, and what they say; None where there is none.
    """
    at = reader.index("WITH", "(")
    inside = Reader(reader.tokens, at + 2)
    if inside.peek() not in (*_OPTIONS, *OPTIONS):
        text, watermark = with_watermark(source, source.text, reader)
        return text, None, watermark
    found = options(inside, {**_VALUES, **OPTIONS})
    begin = reader.tokens[at].start - source.offset
    end = reader.tokens[inside.at - 1].end - source.offset
    text = source.text[:begin] + " " * (end - begin) + source.text[end:]
    text, watermark = with_watermark(source, text.rstrip(), Reader(reader.tokens[:at]))
    return text.rstrip(), _retention(found, inside), _watermark(watermark, found, inside)


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
        found = options(reader, _VALUES)
        retain, by = found.get("RETAIN"), found.get("RETAIN_BY")
        if retain is None:
            raise reader.error("expected retain, the length of time")
    reader.finish()
    return SetRetention(source.text, source.offset, name, retain, by, if_exists)


def _retention(found: Mapping[str, Any], reader: Reader) -> Retention | None:
    if not found.keys() & {*_OPTIONS}:
        return None
    retain, by = found.get("RETAIN"), found.get("RETAIN_BY")
    if retain is None or (by is None and not retain.endswith(BEHIND)):
        raise reader.error("both retain and retain_by are needed")
    return Retention(retain, by)


def _watermark(
    clause: WatermarkClause | None, found: Mapping[str, Any], reader: Reader
) -> WatermarkClause | None:
    options = [name for name in OPTIONS if name in found]
    if clause is None and options:
        needed = "WATERMARK FOR column AS column - INTERVAL …"
        raise reader.error(f"{options[0].lower()} needs a watermark: {needed}")
    return clause and with_options(clause, found)


def _length(reader: Reader) -> str:
    """A length of time, as DuckDB writes it, and from when it counts."""
    length = duration(reader).text
    return length + BEHIND if reader.accept("BEHIND", "WATERMARK") else length


_VALUES: Mapping[str, Callable[[Reader], str]] = {
    "RETAIN": _length,
    "RETAIN_BY": column_name,
}
