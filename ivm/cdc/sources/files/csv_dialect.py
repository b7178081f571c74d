"""How a CSV file is written, and where its rows end.

Law: a quote opens a quoted value only where a value begins; in one, ends of line are text.
Elsewhere a quote is text too.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ivm.cdc.sources.files.cutter import Offsets, line_ends
from ivm.storage.errors import InputError

_Bytes = npt.NDArray[np.uint8]
_NEWLINE = 10


@dataclass(frozen=True)
class Dialect:
    """Signs of a CSV file.

    Attributes:
        delimiter: between values.
        quote: around values; "" if there is none. Within them it is doubled.
        null: the text of NULL, without quotes.
        columns: the names of the columns; () if the first row has them.

    Raises:
        InputError: a sign is none.
    """

    delimiter: str
    quote: str
    null: str
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) != 1 or self.delimiter in "\r\n":
            raise InputError(f"a delimiter is one ASCII sign, not {self.delimiter!r}")
        if len(self.quote.encode()) > 1 or self.quote in ("\r", "\n", self.delimiter):
            raise InputError(f"a quote is one ASCII sign or none, not {self.quote!r}")

    def row_ends(self, data: bytes) -> Offsets:
        """Behind each end of a row, in bytes that begin with one."""
        ends = line_ends(data)
        if not self.quote or self.quote.encode() not in data:
            return ends
        bytes = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(bytes == ord(self.quote))
        if not self._all_open_values(bytes, quotes):
            quotes = np.array(self._true_quotes(bytes, quotes), np.int64)
        outside: npt.NDArray[np.bool_] = np.searchsorted(quotes, ends) % 2 == 0
        return np.compress(outside, ends)

    def values(self, row: str) -> list[str]:
        """The values of one row, as texts."""
        lines = io.StringIO(row.rstrip("\r\n"), newline="")
        if not self.quote:
            return next(csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE))
        return next(csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote))

    def _all_open_values(self, bytes: _Bytes, quotes: Offsets) -> bool:
        """Whether every second quote begins a value, or continues one as a doubled quote."""
        opening = quotes[::2]
        before = bytes[np.maximum(opening - 1, 0)]
        begins = (before == ord(self.delimiter)) | (before == _NEWLINE) | (opening == 0)
        doubled = np.zeros(len(opening), np.bool_)
        doubled[1:] = opening[1:] == quotes[1:-1:2][: len(opening) - 1] + 1
        return bool((begins | doubled).all())

    def _true_quotes(self, bytes: _Bytes, quotes: Offsets) -> list[int]:
        """The quotes that open and close values, by turns."""
        found: list[int] = []
        doubled = -1
        for quote in quotes.tolist():
            if quote == doubled:
                continue
            if len(found) % 2 == 0:
                if not self._begins(bytes, quote):
                    continue
            elif quote + 1 < len(bytes) and bytes[quote + 1] == ord(self.quote):
                doubled = quote + 1
                continue
            found.append(quote)
        return found

    def _begins(self, bytes: _Bytes, at: int) -> bool:
        return at == 0 or bytes[at - 1] in (ord(self.delimiter), _NEWLINE)
