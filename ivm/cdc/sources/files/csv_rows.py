"""Rows of CSV files.

Law: row 1 is the one after the header, and a blank line counts as a row. The header is read each
time that the file is opened, so its names are those of every piece of the file.
"""

from __future__ import annotations

import pyarrow as pa

from ivm.cdc.sources.files.csv_dialect import Dialect
from ivm.cdc.sources.files.csv_values import parse
from ivm.cdc.sources.files.cut_text import CutText
from ivm.cdc.sources.files.cutter import Cutter
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.text import Text
from ivm.cdc.sources.source import SourceError


class CsvRows(CutText):
    """See `Rows`; they are of `rows_type`, and all values are texts.

    Args:
        file: which it is.
        descriptor: of the open file.
        dialect: how it is written.
    """

    def __init__(self, file: Followed, descriptor: int, dialect: Dialect) -> None:
        self._file = file
        self._descriptor = descriptor
        self._dialect = dialect
        self._names = list(dialect.columns)
        self._text = Text(file, descriptor, 0 if not self._names else file.at)
        at, open = (file.at, file.open) if self._names else (0, False)
        self._cutter = Cutter(self._text.read, dialect.row_ends, at, open)

    def take(self, limit: int, settled: bool) -> pa.Array | None:
        """See `Rows`."""
        if not self._names and not self._read_header():
            return None
        found = self._cutter.take(limit)
        if found is None and settled and self.waits():
            found = self._cutter.take_rest()
        return None if found is None else parse(*found, self._names, self._dialect)

    def waits(self) -> bool:
        """See `Rows`."""
        rest = self._cutter.rest
        whole = len(self._dialect.row_ends(rest + b"\n")) > 0
        return bool(self._names) and bool(rest.strip()) and whole

    def _read_header(self) -> bool:
        """Reads the names, and goes on where the file was left."""
        header = b""
        while not header.strip():
            if (found := self._cutter.take(1)) is None:
                return False
            data, offsets = found
            header = data[offsets[0] : offsets[1]]
        try:
            self._names = self._dialect.values(header.decode())
        except UnicodeDecodeError:
            raise SourceError("its first row is no UTF-8: is it CSV?") from None
        file = self._file
        if file.at > self._cutter.at:
            self._text = Text(file, self._descriptor, file.at)
            self._cutter = Cutter(self._text.read, self._dialect.row_ends, file.at, file.open)
        return True
