"""Events of one table that are rows in columns.

Law: `retried_rows(part.payloads(lines))` are these rows, with their values as texts; `decode`
makes the same of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ivm.cdc.formats.events import Decoded
from ivm.cdc.formats.row_columns import decode_rows, rows_type
from ivm.cdc.sources.source import Upstream
from ivm.storage.identifiers import fold
from ivm.storage.scratch import Scratch
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_scratch = Scratch()


@dataclass(frozen=True)
class ColumnsPart:
    """Rows of one table; see `Part`.

    Attributes:
        table: our table.
        rows: see `rows_type`; those that are `refused` have their text in `raw`.
        operations: by their names in column `op`; None if every row is an insert.
        version: see `Part`.
        upstream: see `Part`.
    """

    table: str
    rows: pa.StructArray
    operations: Mapping[str, int] | None
    version: str = ""
    upstream: Upstream | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        return decode_rows(cursor, self.rows, info, self.operations)

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Part`."""
        return ()

    @property
    def is_exact(self) -> bool:
        """See `Part`."""
        return False

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> None:
        """See `Part`: there is one row, that after the change."""
        return None

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        rows = self.rows.take(pa.array(lines, pa.int64()))
        return decode_rows(cursor, rows, key, self.operations)

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`: the values of a row as an object of texts, as DuckDB casts them."""
        if not len(lines):
            return []
        rows = self.rows.take(pa.array(lines, pa.int64()))
        texts = _as_texts(rows.field("row"))
        raws, unsent = rows.field("raw").to_pylist(), rows.field("unsent").to_pylist()
        return [_payload(*each) for each in zip(texts, raws, unsent, strict=True)]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`; the rows do not know where they stood."""
        return [("", line) for line in lines]


def retried_rows(payloads: Sequence[str | None]) -> pa.StructArray:
    """Rows of `payloads`, see `rows_type`; all their values are texts."""
    objects = [_object(text) for text in payloads]
    names = sorted({name for each in objects if each for name in each})
    row = pa.struct([(name, pa.large_string()) for name in names])
    rows = [_retried(*each, names) for each in zip(objects, payloads, strict=True)]
    return pa.array(rows, rows_type(row))


def _retried(
    object: dict[str, str | None] | None, payload: str | None, names: Sequence[str]
) -> dict[str, Any]:
    if object is None:
        return {"refused": None if payload is None else "it is no row", "raw": payload}
    return {"row": object, "unsent": [fold(name) for name in names if name not in object]}


def _object(payload: str | None) -> dict[str, str | None] | None:
    try:
        found = None if payload is None else json.loads(payload)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return {
        fold(name): value if value is None or isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
    }


def _as_texts(rows: pa.StructArray) -> list[dict[str, str | None] | None]:
    if not rows.type.num_fields:
        return [None] * len(rows)
    columns = {f"f{j}": child for j, child in enumerate(rows.flatten())}
    casts = ", ".join([f"CAST({name} AS VARCHAR) AS {name}" for name in columns])
    with _scratch.borrow() as cursor:
        cursor.register("given", pa.table(columns))
        found = cursor.sql(f"SELECT {casts} FROM given").fetchall()
        cursor.unregister("given")
    names = [field.name for field in rows.type]
    return [
        dict(zip(names, values, strict=True)) if sent else None
        for values, sent in zip(found, rows.is_valid().to_pylist(), strict=True)
    ]


def _payload(
    row: dict[str, str | None] | None, raw: str | None, unsent: Sequence[str] | None
) -> str | None:
    if row is None:
        return raw
    left_out = set(unsent or ())
    sent = {name: value for name, value in row.items() if fold(name) not in left_out}
    return json.dumps(sent, ensure_ascii=False)
