"""Colours for the prompt: prompt_toolkit's side of `highlight`."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer

from ivm.shell.highlight import pieces


class SqlLexer(Lexer):
    """prompt_toolkit's view of `pieces`."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        fragments: StyleAndTextTuples = [
            (f"class:{style}" if style else "", piece) for style, piece in pieces(document.text)
        ]
        lines = list(split_lines(fragments))
        return lambda number: lines[number] if number < len(lines) else []
