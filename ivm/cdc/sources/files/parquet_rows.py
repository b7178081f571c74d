"""Rows of Parquet files.

Law: row 1 is the first. A file is read only when it is complete, which its last bytes tell; memory
is bounded by a group of rows.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
from pyarrow import parquet

from ivm.cdc.formats.row_columns import rows_type
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.source import SourceError

_MAGIC = b"PAR1"
_LEAST = 12  # bytes around the footer
_BATCH = 10_000
_BUFFER = 1 << 20


class ParquetRows:
    """See `Rows`; they are of `rows_type`, and `at` counts rows.

    Args:
        file: which it is.
        descriptor: of the open file.
    """

    def __init__(self, file: Followed, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._rows: pa.StructArray | None = None
        self._count = self._skip = 0
        self.at = file.at
        self.open = False

    def take(self, limit: int, settled: bool) -> pa.Array | None:
        """See `Rows`."""
        if self._batches is None and not self._open():
            return None
        if self._rows is None or not len(self._rows):
            self._rows = self._next()
        if self._rows is None:
            return None
        found, self._rows = self._rows[:limit], self._rows[limit:]
        self.at += len(found)
        return found

    def has_more(self) -> bool:
        """See `Rows`."""
        return self.at < self._count

    def waits(self) -> bool:
        """See `Rows`; a file that is not complete is not read."""
        return False

    def passed(self) -> int:
        """See `Rows`."""
        return self._file.size * self.at // max(1, self._count)

    def sure(self) -> int:
        """See `Rows`."""
        return self._file.size

    def _open(self) -> bool:
        """Opens the file if it is complete."""
        if not self._is_complete():
            return False
        raw = io.FileIO(self._descriptor, closefd=False)
        try:
            file = parquet.ParquetFile(
                raw,
                pre_buffer=False,
                buffer_size=_BUFFER,
                coerce_int96_timestamp_unit="us",
            )
        except pa.ArrowException as error:
            raise SourceError(f"it is damaged ({error})") from error
        groups = range(file.metadata.num_row_groups)
        ends = list(accumulate(file.metadata.row_group(i).num_rows for i in groups))
        first = bisect_right(ends, self.at)
        self._count = file.metadata.num_rows
        self._skip = self.at - (ends[first - 1] if first else 0)
        self._batches = file.iter_batches(_BATCH, row_groups=list(groups[first:]))
        return True

    def _is_complete(self) -> bool:
        size = self._file.size
        if not _MAGIC.startswith(os.pread(self._descriptor, len(_MAGIC), 0)):
            raise SourceError("it is no Parquet file")
        if size < _LEAST or os.fstat(self._descriptor).st_size != size:
            return False
        tail = os.pread(self._descriptor, 8, size - 8)
        footer = int.from_bytes(tail[:4], "little")
        return tail[4:] == _MAGIC and footer <= size - _LEAST

    def _next(self) -> pa.StructArray | None:
        assert self._batches is not None
        try:
            for batch in self._batches:
                skipped = min(self._skip, len(batch))
                self._skip -= skipped
                if skipped < len(batch):
                    return _rows(batch[skipped:])
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"it is damaged ({error})") from error
        return None


def _rows(batch: pa.RecordBatch) -> pa.StructArray:
    fields = [pa.field(field.name, field.type) for field in batch.schema]
    row = pa.StructArray.from_arrays(batch.columns, fields=fields)
    type = rows_type(row.type)
    own = [pa.nulls(len(row), type.field(i).type) for i in range(1, type.num_fields)]
    return pa.StructArray.from_arrays([row, *own], fields=list(type))
