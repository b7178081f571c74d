"""Reads how a table's watermark follows its rows: WATERMARK FOR column AS column - INTERVAL ….

Law: the text that DuckDB gets has blanks in the place of the clause, so offsets in it stay true.
The clause is that of Flink and RisingWave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ivm.sql.statements.nodes.nodes import WatermarkClause
from ivm.sql.statements.nodes.own_nodes import AdvanceWatermark, SetWatermark
from ivm.sql.statements.own.durations import Duration, duration
from ivm.sql.statements.own.options import column_name, options
from ivm.sql.statements.text.tokens import NESTING, Reader, SourceText, Token, text_of
from ivm.storage.identifiers import fold

DEAD_LETTERS = "dead letters"
POLICIES = ("apply", "refuse", DEAD_LETTERS)
_DAY = 86_400_000_000


def with_watermark(
    source: SourceText, text: str, reader: Reader
) -> tuple[str, WatermarkClause | None]:
    """Takes WATERMARK FOR … out of the columns of a CREATE TABLE.

    Args:
        source: of the statement.
        text: its text, perhaps without other clauses of ours.
        reader: of its tokens.

    Returns:
        The text without it, and what it says; None if there is none.
    """
    begin = _begin(reader.tokens)
    if begin is None:
        return text, None
    inside = Reader(reader.tokens, begin)
    clause = _clause(inside)
    if inside.peek() not in (",", ")"):
        raise inside.error("expected the end of the watermark's clause")
    first, last = begin, inside.at
    if reader.tokens[begin - 1].word == ",":
        first -= 1
    elif inside.peek() == ",":
        last += 1
    start = reader.tokens[first].start - source.offset
    stop = reader.tokens[last - 1].end - source.offset
    return text[:start] + " " * (stop - start) + text[stop:], clause


def _begin(tokens: Sequence[Token]) -> int | None:
    """Where the clause begins among the columns; None if there is none."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += NESTING.get(token.word, 0)
        words = [t.word for t in tokens[at - 1 : at + 2]] if at else []
        if depth == 1 and words[1:] == ["WATERMARK", "FOR"] and words[0] in ("(", ","):
            return at
    return None


def _clause(reader: Reader) -> WatermarkClause:
    """Reads `WATERMARK FOR column AS column [- length]`."""
    reader.expect("WATERMARK", "FOR")
    column = reader.label()
    reader.expect("AS")
    if fold(reader.label()) != fold(column):
        reader.at -= 1
        raise reader.error(
            f"a watermark is the column less a length of time: {column} - INTERVAL …"
        )
    return WatermarkClause(column, _delay(reader) if reader.accept("-") else 0)


def _delay(reader: Reader) -> int:
    return _micros(reader, duration(reader))


def _micros(reader: Reader, found: Duration) -> int:
    """The microseconds of a length that has just been read."""
    if found.months:
        reader.at -= 1
        raise reader.error("expected a length of time without months, which differ in length")
    return found.days * _DAY + found.micros


def policy(reader: Reader) -> str:
    """Reads what becomes of late rows."""
    text = "" if reader.done else reader.tokens[reader.at].text.strip("'").lower()
    if text not in POLICIES:
        raise reader.error(f"late is one of {', '.join(map(repr, POLICIES))}")
    reader.at += 1
    return text


OPTIONS: Mapping[str, Callable[[Reader], str | int]] = {
    "LATE": policy,
    "IDLE_AFTER": _delay,
    "WATERMARK_BY": column_name,
}
"""The options of a watermark, and what reads their values."""


def with_options(clause: WatermarkClause, found: Mapping[str, Any]) -> WatermarkClause:
    """The clause with its options."""
    late, idle_after, by = [found.get(name) for name in OPTIONS]
    return clause._replace(late=late, idle_after=idle_after, by=by)


def begins_watermark(reader: Reader) -> bool:
    """Whether the statement is ALTER TABLE name SET | DROP WATERMARK; the reader stays."""
    if reader.peek(1) != "TABLE":
        return False
    words = [token.word for token in reader.tokens]
    if words[-2:] == ["DROP", "WATERMARK"]:
        return True
    forms = [(verb, "WATERMARK", "FOR") for verb in ("SET", "DROP")]
    forms.append(("ADVANCE", "WATERMARK", "TO"))
    return any(reader.find(*form) for form in forms)


def set_watermark(source: SourceText, reader: Reader) -> SetWatermark | AdvanceWatermark:
    """Reads what begins with ALTER TABLE [IF EXISTS] name, and then is one of

    SET WATERMARK FOR … [WITH (late = …)], DROP WATERMARK, ADVANCE WATERMARK TO time.
    """
    reader.expect("ALTER", "TABLE")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name()
    if reader.accept("ADVANCE", "WATERMARK", "TO"):
        to = text_of(source.script, reader.tokens[reader.at :])
        if not to:
            raise reader.error("expected a time")
        return AdvanceWatermark(source.text, source.offset, name, to, if_exists)
    if reader.accept("DROP", "WATERMARK"):
        dropped = reader.label() if reader.accept("FOR") else None
        reader.finish()
        return SetWatermark(source.text, source.offset, name, None, if_exists, dropped)
    reader.expect("SET")
    at = reader.index("WITH", "(")
    before = Reader(reader.tokens[:at], reader.at)
    clause = _clause(before)
    before.finish()
    reader.at = at
    if reader.accept("WITH", "("):
        clause = with_options(clause, options(reader, OPTIONS))
    reader.finish()
    return SetWatermark(source.text, source.offset, name, clause, if_exists)
