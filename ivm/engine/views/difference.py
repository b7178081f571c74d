"""The difference of two queries as a Z-set, by exact representation.

Law: before + difference = after, as multisets of exact rows: 0.0 is not −0.0, '1 month' is not
'30 days', 'a' not 'A'. DuckDB's EXCEPT ALL may compare them as equal, so such columns are compared
as strings too, and strings without their collation.
`after` runs once: a second run may round a sum of DOUBLE, or choose among equals, differently.
"""

from __future__ import annotations

import numpy as np

from ivm.storage.interrupts import interruptible
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, table


def difference(cursor: Cursor, before: str, after: str, schema: Schema) -> ZSet:
    """The delta that turns the rows of `before` into those of `after`.

    Args:
        cursor: sees the relations that both read.
        before: a SELECT with the schema's columns.
        after: a SELECT whose columns, by position, are cast to the schema's types.
        schema: names and types of the difference.
    """
    if not schema:
        raise ValueError("a relation has at least one column")
    old, new = (_exact(query, schema) for query in (before, after))
    columns = ", ".join(f"c{i}" for i in range(len(schema)))
    with interruptible(cursor):
        found = table(
            cursor,
            f"WITH old AS ({old}), new AS MATERIALIZED ({new})"
            f" SELECT {columns}, -1 FROM (FROM old EXCEPT ALL FROM new)"
            f" UNION ALL SELECT {columns}, 1 FROM (FROM new EXCEPT ALL FROM old)",
        )
    weights = found.column(len(schema)).to_numpy().astype(np.int64)
    return from_arrow(found.select(range(len(schema))), schema, weights)


def _exact(query: str, schema: Schema) -> str:
    """Writes the query with its columns cast, the ambiguous ones followed by their string forms."""
    given = ", ".join(f"c{i}" for i in range(len(schema)))
    columns = ", ".join(f"{bare(f'c{i}::{t.sql}', t)} AS c{i}" for i, (_, t) in enumerate(schema))
    strings = "".join(f", c{i}::{t.sql}::VARCHAR AS t{i}" for i, t in _ambiguous(schema))
    return f"SELECT {columns}{strings} FROM ({query}) AS q({given})"


def bare(value: str, type: ColumnType) -> str:
    """Writes a value without its collation."""
    return f'({value}) COLLATE "C"' if type.sql == "VARCHAR" else value


def _ambiguous(schema: Schema) -> list[tuple[int, ColumnType]]:
    """The columns whose type has equal values of different representation."""
    return [
        (i, type)
        for i, (_, type) in enumerate(schema)
        if type.is_float or type.sql == "INTERVAL" or (type.dtype is None and not _is_plain(type))
    ]


def _is_plain(type: ColumnType) -> bool:
    return type.sql in ("VARCHAR", "JSON", "BLOB", "BIT") or type.base == "ENUM"
