"""Files of events: those there are, as they grow, and those that come."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from ivm.cdc.formats.envelopes import FORMATS, envelope_of
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.plain import OPERATIONS
from ivm.cdc.sources.columns_part import ColumnsPart, retried_rows
from ivm.cdc.sources.files.csv_dialect import Dialect
from ivm.cdc.sources.files.csv_rows import CsvRows
from ivm.cdc.sources.files.facts import FACTS
from ivm.cdc.sources.files.folder import Folder
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.lines import Lines
from ivm.cdc.sources.files.parquet_rows import ParquetRows
from ivm.cdc.sources.files.reader import FilesReader
from ivm.cdc.sources.files.rows import Rows
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.metadata import Facts, Metadata, parse_metadata
from ivm.cdc.sources.source import Into, Limits, Part, Position, Reader, SourceError
from ivm.storage.errors import InputError

_COLUMNS: dict[str, tuple[str, Mapping[str, int] | None]] = {
    **{kind: (kind, OPERATIONS) for kind in ("csv", "parquet")},
    **{f"{kind} appends": (kind, None) for kind in ("csv", "parquet")},
}
"""The formats of rows in columns: what the files are, and the operations in column `op`."""
PIPELINE = "spark"
"""The only stream of a source that a pipeline reads; the others are paths, which are absolute."""


@dataclass(frozen=True)
class Files(Limits):
    """Files that match a pattern, followed as they grow and as new ones come.

    Args:
        path: of one file, or a pattern with `*`, `?`, `[…]` and `**`; a relative one is taken from
            the folder of the process that creates the source, and kept as an absolute one.
        format: of the events, see `Database.ingest`.
        times, decimals, tables: see `Database.ingest`.
        delimiter, quote, null: of CSV; what stands for NULL, without quotes.
        columns: the names of CSV's columns, with commas between them; without, a file's first row
            has them.
        settle: seconds that a file must not have changed for its last line to be taken without an
            end of line.
        skip_lost: go on without the rows of files that were gone before they were read to the end.
        metadata: which columns get facts of a row, see `parse_metadata` and `FACTS`.

    Raises:
        InputError: there is no such format, or it does not go with the other options.
    """

    kind: ClassVar[str] = "FILES"
    into: ClassVar[Into] = "required"
    stays: ClassVar[str] = (
        "a file is known again by the bytes before its position, so it can only be read on. To "
        "read all files anew, DROP SOURCE and CREATE SOURCE with the same options"
    )
    facts: ClassVar[Facts] = FACTS

    path: str
    format: str = field(metadata={"values": (*FORMATS, *_COLUMNS)})
    times: str | None = None
    decimals: str | None = None
    tables: str = ""
    delimiter: str = ","
    quote: str = '"'
    null: str = ""
    columns: str = ""
    settle: float = 5.0
    skip_lost: bool = False
    metadata: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.path.abspath(os.path.expanduser(self.path)))
        self._demand_options()

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """See `Source`."""
        if PIPELINE in positions:
            raise SourceError("`ivm pipeline` has begun to read its files, and goes on there")
        folder = Folder(self.path, self.settle, self.skip_lost, positions)

        def part(rows: pa.Array) -> Part:
            return self._part(into or "", rows)

        return FilesReader(folder, self._open_rows, part, self.told())

    def told(self) -> Metadata:
        """See `TellsFacts`."""
        if self.format in _COLUMNS:
            appends = _COLUMNS[self.format][1] is None
        else:
            appends = self._envelope().operation is None
        return parse_metadata(self.metadata, FACTS, appends=appends)

    def tables_of(self, into: str | None) -> list[str]:
        """See `TellsFacts`."""
        return [into] if into is not None else []

    def _demand_options(self) -> None:
        known = [*FORMATS, *_COLUMNS]
        if self.format not in known:
            raise InputError(f"there is no format {self.format!r}; there are: {', '.join(known)}")
        if self.format in FORMATS:
            self._envelope()
        elif self.times or self.decimals:
            raise InputError(f"format {self.format!r} takes no times and decimals: it has casts")
        elif self.tables:
            raise InputError(f"rows of format {self.format!r} do not name their tables")
        self.told()
        written = (self.delimiter, self.quote, self.null, self.columns)
        if self._kind() == "csv":
            self._dialect()
        elif written != (",", '"', "", ""):
            raise InputError(f"format {self.format!r} has no delimiter, quote, null and columns")

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """See `Source`."""
        if self._kind() == "json":
            return self._part(table, pa.array(payloads, pa.large_string()))
        return self._part(table, retried_rows(payloads))

    def forget(self, name: str, positions: Mapping[str, Position]) -> None:
        """See `Source`; files keep nothing of it."""

    def lines_envelope(self) -> Envelope | None:
        """Of the format, if the files are lines of JSON."""
        return self._envelope() if self.format in FORMATS else None

    def _kind(self) -> str:
        return _COLUMNS.get(self.format, ("json", None))[0]

    def _open_rows(self, file: Followed, descriptor: int) -> Rows:
        match self._kind():
            case "csv":
                return CsvRows(file, descriptor, self._dialect())
            case "parquet":
                return ParquetRows(file, descriptor)
            case _:
                return Lines(file, descriptor)

    def _dialect(self) -> Dialect:
        names = csv.reader([self.columns], skipinitialspace=True)
        columns = tuple(next(names)) if self.columns else ()
        return Dialect(self.delimiter, self.quote, self.null, columns)

    def _part(self, table: str, rows: pa.Array) -> Part:
        if self.format in _COLUMNS:
            return ColumnsPart(table, rows, _COLUMNS[self.format][1], self.version)
        return JsonPart(table, rows, self._envelope(), "")

    def _envelope(self) -> Envelope:
        return envelope_of(self.format, self.times, self.decimals, self.version, self.tables)
