"""The shell's output: a text stream, with or without colours, of a known or endless width.

Law: without a terminal, with NO_COLOR set or with TERM=dumb not one escape sequence is written; a
reader that leaves (`ivm … | head`) ends the output, never the work.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from ivm.storage.errors import UnavailableError

_CODES = {
    "dim": "2",
    "bold": "1",
    "error": "1;31",
    "added": "32",
    "removed": "31",
    "keyword": "1;34",
    "string": "32",
    "number": "36",
    "comment": "2",
    "command": "35",
}


class Paint:
    """Colours text, or leaves it alone when `on` is false."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        """Returns `text` in one of the styles above, unchanged if the style is empty."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.on and style and text else text


class Output:
    """A stream for results.

    Attributes:
        paint: colours, off without a terminal.
        is_terminal: a person reads it: tables are cut to `width` and to some rows.
    """

    def __init__(self, stream: TextIO, is_terminal: bool | None = None) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty() if is_terminal is None else is_terminal
        self.paint = Paint(self.is_terminal and colours_wanted())
        self.broken = False

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None: endless."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    def line(self, text: str = "") -> None:
        """Writes one line."""
        self.lines((text,))

    def lines(self, texts: Iterable[str]) -> None:
        """Writes lines until they end or the reader has left.

        Raises:
            UnavailableError: they cannot be written (a full disk).
        """
        if self.broken:
            return
        try:
            for text in texts:
                self._stream.write(text + "\n")
            self._stream.flush()
        except OSError as error:
            self.broken = True
            _silence(self._stream)
            if not isinstance(error, BrokenPipeError):
                raise UnavailableError(
                    f"the result cannot be written: {error.strerror}; what was run stays done"
                ) from error


def colours_wanted() -> bool:
    """Returns whether the environment allows colours."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def standard_output() -> Output:
    """Returns the standard output; characters it cannot encode are written as escapes."""
    return _standard(sys.stdout)


def standard_error() -> Output:
    """Returns the standard error."""
    return _standard(sys.stderr)


def _standard(stream: TextIO | None) -> Output:
    if stream is None:  # the process was started without
        stream = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return Output(stream)


def _silence(stream: TextIO) -> None:
    """Discards the rest of the buffer, so that the interpreter's own flush does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
