"""VERIFY: a view's rows against its query's answer, both ways.

Law: they are equal as multisets; doubles, also those inside lists and structs, may differ by 1e-9
relative, since DuckDB rounds a sum at every addition and the view's sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.catalog import View
from ivm.difference import bare
from ivm.engine import Engine
from ivm.storage.duck import Cursor, rows, run, table
from ivm.storage.types import ColumnType, Schema

TOLERANCE = 1e-9
_ANSWER = "_ivm_answer"


@dataclass(frozen=True)
class Verdict:
    """What VERIFY found.

    Attributes:
        rows: rows of the view.
        missing: rows of the query's answer that the view lacks.
        extra: rows of the view that the answer has not.
    """

    rows: int
    missing: int
    extra: int

    @property
    def ok(self) -> bool:
        return self.missing == 0 and self.extra == 0


def verify_view(engine: Engine, cursor: Cursor, view: View) -> Verdict:
    """Compare a view with its query, as the cursor sees both."""
    stored = f"FROM {engine.catalog.qualified[view.name]}"
    count = int(rows(cursor, f"SELECT count(*) {stored}")[0][0])
    with engine.warehouse.zone.on(cursor):
        missing, extra = compare(cursor, stored, engine.maintenance.text(view), view.schema)
    return Verdict(count, missing, extra)


def compare(cursor: Cursor, stored: str, query: str, schema: Schema) -> tuple[int, int]:
    """Rows (missing, extra) of a stored relation against a query with the same columns.

    The query runs once: DuckDB's parallel sums of DOUBLE differ in the last bits from run to run.
    """
    names = ", ".join(f"c{i}" for i in range(len(schema)))
    columns = ", ".join(f"{bare(f'c{i}', t)} AS c{i}" for i, (_, t) in enumerate(schema))
    answer = f"SELECT {columns} FROM ({query}) AS q({names})"
    run(cursor, f"CREATE OR REPLACE TEMP TABLE {_ANSWER} AS {answer}")
    try:
        return _compare(cursor, f"FROM ({stored}) AS q({names})", f"FROM {_ANSWER}", schema)
    finally:
        run(cursor, f"DROP TABLE temp.{_ANSWER}")


def _compare(cursor: Cursor, old: str, new: str, schema: Schema) -> tuple[int, int]:
    if not any(_has_floats(type) for _, type in schema):
        return _count(cursor, new, old), _count(cursor, old, new)
    order = _order(schema)
    missing = table(cursor, f"FROM ({new} EXCEPT ALL {old}) ORDER BY {order}")
    extra = table(cursor, f"FROM ({old} EXCEPT ALL {new}) ORDER BY {order}")
    if missing.num_rows == extra.num_rows and _close(missing, extra, schema):
        return 0, 0
    return missing.num_rows, extra.num_rows


def _count(cursor: Cursor, left: str, right: str) -> int:
    return int(rows(cursor, f"SELECT count(*) FROM ({left} EXCEPT ALL {right})")[0][0])


def _order(schema: Schema) -> str:
    """Exact columns first, so that rows that differ by rounding stand at the same place."""
    floats = [i for i, (_, type) in enumerate(schema) if _has_floats(type)]
    return ", ".join(f"c{i}" for i in sorted(range(len(schema)), key=lambda i: (i in floats, i)))


def _has_floats(type: ColumnType) -> bool:
    """Whether values of the type are doubles or contain some."""
    return any(word in type.sql for word in ("DOUBLE", "FLOAT"))


def _close(missing: pa.Table, extra: pa.Table, schema: Schema) -> bool:
    """Whether the rows agree at their places, doubles within the tolerance."""
    for (_, type), left, right in zip(schema, missing.columns, extra.columns, strict=True):
        if not _has_floats(type):
            if not left.equals(right):
                return False
        elif type.is_float:
            if not _close_numbers(left, right):
                return False
        elif not all(map(_close_values, left.to_pylist(), right.to_pylist())):
            return False
    return True


def _close_numbers(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if left.is_null().to_pylist() != right.is_null().to_pylist():
        return False
    a = left.to_numpy(zero_copy_only=False).astype(np.float64)
    b = right.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.allclose(a, b, rtol=TOLERANCE, atol=1e-12, equal_nan=True)


def _close_values(left: Any, right: Any) -> bool:
    """Values that contain doubles somewhere."""
    if isinstance(left, float) and isinstance(right, float):
        return np.allclose(left, right, rtol=TOLERANCE, atol=1e-12, equal_nan=True)
    if isinstance(left, dict) and isinstance(right, dict):
        return _close_values(list(left.items()), list(right.items()))
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_close_values, left, right))
    return bool(left == right)
