"""Adapters of completion and highlighting to prompt_toolkit, which scripts need not load."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import duckdb
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    PathCompleter,
)
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer

from ivm.shell.editing.completion import Vocabulary, suggest
from ivm.shell.editing.expected import expected_kinds
from ivm.shell.editing.highlight import pieces
from ivm.shell.listing import RESERVED

_FUNCTIONS = r"""
SELECT DISTINCT function_name FROM duckdb_functions()
WHERE regexp_matches(function_name, '^[a-z][a-z0-9_]*$') ORDER BY 1
"""


class SqlCompleter(Completer):
    """Suggestions for the prompt.

    Args:
        names: returns the names in the database now.
    """

    def __init__(self, names: Callable[[], Vocabulary]) -> None:
        self._names = names
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor.encode(errors="replace").decode()
        after = document.text_after_cursor.encode(errors="replace").decode()
        if any(expected.kind == "file" for expected in expected_kinds(before)):
            yield from self._files(before, event)
            return
        for suggestion in suggest(before, after, self._names()):
            if suggestion.replaces or event.completion_requested or before.endswith("."):
                yield Completion(
                    suggestion.text,
                    start_position=-suggestion.replaces,
                    display_meta=suggestion.detail or suggestion.kind,
                )

    def _files(self, before: str, event: CompleteEvent) -> Iterable[Completion]:
        path = before.rpartition("'")[2] if "'" in before else before.split(maxsplit=1)[-1]
        line = "" if before.rstrip().startswith(".") and before.endswith(" ") else path
        yield from self._paths.get_completions(Document(line), event)


def vocabulary() -> tuple[list[str], frozenset[str]]:
    """Returns the names of all DuckDB's functions, and its reserved words."""
    with duckdb.connect(":memory:") as connection:
        functions = [name for (name,) in connection.execute(_FUNCTIONS).fetchall()]
        reserved = frozenset(word for (word,) in connection.execute(RESERVED).fetchall())
    return functions, reserved


class SqlLexer(Lexer):
    """Colours for the prompt, by `pieces`."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        fragments: StyleAndTextTuples = [
            (f"class:{style}" if style else "", piece) for style, piece in pieces(document.text)
        ]
        lines = list(split_lines(fragments))
        return lambda number: lines[number] if number < len(lines) else []
