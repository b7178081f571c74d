"""Colours SQL by DuckDB's own tokenizer, and dot commands, for the prompt and for printed SQL."""

from __future__ import annotations

import duckdb

from ivm.shell.display.output import Paint
from ivm.shell.editing.words import OWN_KEYWORDS, STREAM_KEYWORDS, STREAM_STARTS

_STYLES = {
    duckdb.token_type.keyword: "keyword",
    duckdb.token_type.string_const: "string",
    duckdb.token_type.numeric_const: "number",
    duckdb.token_type.comment: "comment",
}


def pieces(text: str) -> list[tuple[str, str]]:
    """Returns the text as (style, piece) pairs; style is "" or one of `Paint`'s styles."""
    if text.lstrip().startswith("."):
        line, newline, rest = text.partition("\n")
        return [("command", line + newline), *(pieces(rest) if rest else [])]
    data = text.encode(errors="replace")
    marks = duckdb.tokenize(data.decode())
    if not marks:
        return [("", text)]
    ends = [start for start, _ in marks[1:]] + [len(data)]
    head = data[: marks[0][0]].decode()
    found = [("", head)] if head else []
    words: list[str] = []  # of the statement
    for (start, kind), end in zip(marks, ends, strict=True):
        piece = data[start:end].decode()
        if kind != duckdb.token_type.comment:
            words.append(piece.strip().upper())
        found.append(("keyword" if _is_own(words) else _STYLES.get(kind, ""), piece))
        if words[-1:] == [";"]:
            words = []
    return found


def _is_own(words: list[str]) -> bool:
    """Returns whether the last word of a statement so far is a keyword of our own."""
    if not words or words[-1] in OWN_KEYWORDS:
        return bool(words)
    return len(words) <= 3 and words[0] in STREAM_STARTS and words[-1] in STREAM_KEYWORDS


def painted(sql: str, paint: Paint) -> str:
    """Returns SQL with its colours, for printing."""
    return "".join(paint(style, piece) for style, piece in pieces(sql))
