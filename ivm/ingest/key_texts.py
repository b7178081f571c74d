"""The values of keys and rows in errors, as DuckDB writes them; times with a zone are in UTC."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType, importable
from ivm.storage.values.zset import ZSet, ones

_scratch = Scratch("SET arrow_lossless_conversion = true", "SET TimeZone = 'UTC'")


def texts(columns: Sequence[Column], types: Sequence[ColumnType]) -> list[tuple[str, ...]]:
    """A tuple of texts for each row of at least one column."""
    schema = tuple([(f"c{i}", type) for i, type in enumerate(types)])
    table = importable(ZSet(tuple(columns), ones(len(columns[0]))).to_arrow(schema))
    cells = ", ".join([f"coalesce({name}::VARCHAR, 'NULL')" for name, _ in schema])
    with _scratch.borrow() as connection:
        found: list[tuple[str, ...]] = connection.from_arrow(table).project(cells).fetchall()
        return found


def named(
    names: Sequence[str], columns: Sequence[Column], types: Sequence[ColumnType]
) -> list[str]:
    """Each row as `name: value, …`."""
    return [
        ", ".join([f"{name}: {text}" for name, text in zip(names, row, strict=True)])
        for row in texts(columns, types)
    ]
