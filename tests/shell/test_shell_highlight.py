"""Colours follow DuckDB's tokenizer and never change the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document

from ivm.shell.display.output import Paint
from ivm.shell.editing.highlight import painted, pieces
from ivm.shell.prompt_adapters import SqlLexer


@given(st.text(max_size=40))
def test_the_pieces_are_the_text(text: str) -> None:
    assert "".join(piece for _, piece in pieces(text)) == text


@pytest.mark.parametrize(
    ("text", "word", "style"),
    [
        ("SELECT 1", "SELECT", "keyword"),
        ("VERIFY MATERIALIZED VIEW v", "VERIFY", "keyword"),
        ("SELECT 1; PAUSE SOURCE s", "PAUSE", "keyword"),
        ("RETRY DEAD LETTERS FOR s", "LETTERS", "keyword"),
        ("SELECT x AS pause", "pause", ""),
        ("SELECT 'é' || x", "'é'", "string"),
        ("SELECT 12.5", "12.5", "number"),
        ("SELECT 1 -- why", "-- why", "comment"),
        (".tables", ".tables", "command"),
        ("SELECT total", "total", ""),
        ("SELECT 'open", "'open", "string"),
    ],
)
def test_words_have_their_style(text: str, word: str, style: str) -> None:
    assert (style, word) in [(s, piece.strip()) for s, piece in pieces(text)]


def test_bytes_that_are_no_text_are_no_obstacle() -> None:
    assert "".join(piece for _, piece in pieces("SELECT '\udcff'")) == "SELECT '?'"


def test_the_prompt_gets_a_list_of_fragments_for_each_line() -> None:
    line = SqlLexer().lex_document(Document("SELECT 'a\nb' FROM t"))
    assert ["".join(text for _, text, *_ in line(i)) for i in range(3)] == [
        "SELECT 'a",
        "b' FROM t",
        "",
    ]


def test_printed_sql_is_plain_without_colours() -> None:
    assert painted("SELECT 1", Paint(False)) == "SELECT 1"
    assert painted("SELECT 1", Paint(True)).startswith("\x1b[1;34mSELECT")
