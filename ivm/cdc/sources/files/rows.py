"""What the rows of a file are, whatever its format."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Rows(Protocol):
    """The rows of an open file from where it was left.

    Attributes:
        at: how far the text has been taken, in bytes; or the number of rows, of a binary file.
        open: the last row was taken before its end of line had come.
    """

    @property
    def at(self) -> int: ...

    @property
    def open(self) -> bool: ...

    def take(self, limit: int, settled: bool) -> pa.Array | None:
        """The next rows, at most so many; None if there are none for now.

        Args:
            limit: above 0.
            settled: a last row is whole though its end of line has not come.

        Raises:
            SourceError: the file is no such file.
        """

    def has_more(self) -> bool:
        """Whether there is more to read, of the size that the file had."""

    def passed(self) -> int:
        """How many bytes of the file the rows that were taken are, about."""

    def sure(self) -> int:
        """How many bytes of the file will stay what they are, so that it is known by them."""

    def waits(self) -> bool:
        """Whether there is a last row that is taken when the file is settled."""
