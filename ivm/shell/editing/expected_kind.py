"""What completion expects at the cursor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Expected:
    """A kind of text that may follow at the cursor.

    Attributes:
        kind: "statement", "clause", "type", "relation", "table", "view", "column", "function",
            "command", "file", "source", "sink", "option", "value", or "word" (one of `of`).
        of: for "column" a relation or alias, empty for all in scope; for "word" the words; for
            "option" and "value" see `ivm.shell.editing.expected_streams`.
    """

    kind: str
    of: tuple[str, ...] = ()
