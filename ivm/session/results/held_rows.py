"""Connections of their own that give rows held in memory as DuckDB gives a query's.

Law: times with a time zone have the zone in which DuckDB gave them, the session's at that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import literal, quote
from ivm.storage.values.types import importable
from ivm.storage.warehouse.duckdb.duck import Cursor, run

if TYPE_CHECKING:
    import polars as pl

_LOST = ("ENUM(", "TUPLE(")
"""Types in whose place Arrow has texts and structs."""


def lossless() -> Cursor:
    """A connection that gives and takes Arrow's columns in DuckDB's own types."""
    connection = duckdb.connect().execute("SET arrow_lossless_conversion = true")
    connection.complete()
    return connection


def polars_frame(table: pa.Table) -> pl.DataFrame:
    """The rows of a table as a polars frame.

    Raises:
        UnsupportedError: polars has no such type.
    """
    import polars

    known = _known_to_polars(table)
    try:
        frame = polars.from_arrow(known)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise UnsupportedError(
            f"polars cannot hold a column of the result ({str(error).partition(chr(10))[0]}): CAST "
            "it to VARCHAR, or read the result with arrow() or df()"
        ) from error
    assert isinstance(frame, polars.DataFrame)
    return frame


def _known_to_polars(table: pa.Table) -> pa.Table:
    """The table without DuckDB's extension types."""
    connection = _zoned(duckdb.connect(), table)
    return connection.register("held", importable(table)).sql("SELECT * FROM held").to_arrow_table()


def over(table: pa.Table, types: Sequence[str]) -> Cursor:
    """A connection that has just executed a query for the rows of a lossless table.

    Args:
        table: the rows.
        types: of its columns, as DuckDB's results name them.
    """
    cursor = _zoned(lossless(), table).register("held", importable(table))
    listed = _typed(cursor.table("held").columns, types) if _has_lost(types) else "*"
    return cursor.execute(f"SELECT {listed} FROM held")


def relation_of(table: pa.Table, types: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """The rows of a lossless table as a relation; see `over`."""
    relation = _zoned(lossless(), table).from_arrow(importable(table))
    return relation.project(_typed(relation.columns, types)) if _has_lost(types) else relation


def _has_lost(types: Sequence[str]) -> bool:
    return any(lost in type for type in types for lost in _LOST)


def _typed(names: Sequence[str], types: Sequence[str]) -> str:
    """All columns, by position, those with a type that is lost in Arrow cast to it again."""
    cells = [
        f"CAST(#{i} AS {type})" if _has_lost([type]) else f"#{i}" for i, type in enumerate(types, 1)
    ]
    return ", ".join([f"{c} AS {quote(name)}" for c, name in zip(cells, names, strict=True)])


def without_rows(columns: Sequence[str], types: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """A relation of no rows.

    Args:
        columns: the names of the columns, at least one.
        types: their types, as DuckDB's results name them.
    """
    pairs = zip(columns, types, strict=True)
    listed = ", ".join([f"CAST(NULL AS {type}) AS {quote(name)}" for name, type in pairs])
    return lossless().sql(f"SELECT {listed} WHERE false")


def _zoned(connection: Cursor, table: pa.Table) -> Cursor:
    zone = next(filter(None, map(_zone, table.schema.types)), None)
    if zone is not None:
        run(connection, f"SET TimeZone = {literal(zone)}")
    return connection


def _zone(type: pa.DataType) -> str | None:
    """The time zone of a type, or of those in it; None if it has none."""
    if pa.types.is_timestamp(type):
        return type.tz  # type: ignore[no-any-return]
    inner = [type.field(i).type for i in range(type.num_fields)]
    return next(filter(None, map(_zone, inner)), None)
