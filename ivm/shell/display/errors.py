"""Writes an error with a caret under its position in the statement.

Law: the caret stands under the character that the error's position names, whatever tabs, wide
characters or line breaks come before it; a message of DuckDB that has a caret keeps it.
"""

from __future__ import annotations

import re

import duckdb
from rich.cells import cell_len

from ivm.shell.display.output import Paint
from ivm.shell.display.table import clip
from ivm.sql.statements.own.users import without_passwords
from ivm.storage.errors import InternalError

_DUCKDB_CARET = re.compile(r"\n\n?(LINE \d+: .*)\n( *\^+)\s*$", re.DOTALL)
_BEFORE = 60
_AFTER = 40


def report(
    error: Exception, statement: str, paint: Paint, where: str = "", width: int | None = None
) -> list[str]:
    """Returns the lines of an error message.

    Args:
        error: an IvmError or DuckDB's own.
        statement: the text of the statement; positions count in it.
        paint: colours.
        where: file and line, empty in the shell.
        width: columns of the terminal; None: endless.
    """
    text = str(error).strip()
    drawn = _DUCKDB_CARET.search(text)
    position = getattr(error, "position", None)
    shown: list[str] = []
    if drawn:
        text = text[: drawn.start()]
        shown = [drawn[1], drawn[2]]
    if without_passwords(statement) != statement:
        shown = []  # what is shown may be kept somewhere
    elif position is not None:
        shown = _caret(statement, position, drawn[2].count("^") if drawn else 1, width)
    head, *rest = _headline(error, text, where).split("\n")
    label, _, message = head.partition(": ")
    lines = [f"{paint('error', label + ':')} {message}", *rest]
    if shown:
        lines += ["", *shown[:-1], paint("error", shown[-1])]
    return lines


def _headline(error: Exception, text: str, where: str) -> str:
    prefix = f"{where}: " if where else ""
    if isinstance(error, duckdb.Error) or _has_label(text):
        label, _, message = text.partition(": ")
        return f"{label}: {prefix}{message}"
    if isinstance(error, InternalError):
        text += "\nThis is a fault of ivm: please report it with the statement."
    kind = "Internal error" if isinstance(error, InternalError) else "Error"
    return f"{kind}: {prefix}{text}"


def _has_label(text: str) -> bool:
    """Returns whether our error has DuckDB's wording: `Binder Error: …`."""
    return re.match(r"[A-Z][A-Za-z ]{2,30} Error: ", text) is not None


def _caret(statement: str, position: int, length: int, width: int | None) -> list[str]:
    """Returns the line of `position`, cut to a window, and carets under `length` characters."""
    position = min(max(position, 0), len(statement))
    start = statement.rfind("\n", 0, position) + 1
    end = statement.find("\n", position)
    label = f"LINE {statement.count(chr(10), 0, position) + 1}: "
    before = _clean(statement[start:position])
    after = _clean(statement[position : end if end >= 0 else None])
    room = _BEFORE + _AFTER if width is None else max(width - len(label) - 2, 2)  # 2 ellipses
    after = clip(after, min(max(room * 2 // 5, room - cell_len(before)), _AFTER) + 1)
    before = clip(before[::-1], min(room - cell_len(after) + 1, _BEFORE) + 1)[::-1]  # at its left
    carets = min(max(length, 1), max(cell_len(after), 1))
    return [label + before + after, " " * cell_len(label + before) + "^" * carets]


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.replace("\t", "    "))
