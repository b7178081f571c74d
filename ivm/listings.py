"""Views and tables as the open database lists them."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.storage.values.types import Schema


@dataclass(frozen=True)
class ViewInfo:
    """A materialized view as `Database.views` lists it.

    Attributes:
        name: canonical name.
        sql: the SELECT it was created with.
        strategy: that of its slowest operator: "linear", "indexed", "group recompute" or
            "whole recompute".
        columns: (name, DuckDB type) pairs.
        reads: relations it reads directly.
        reason: why it is recomputed; None if it is not.
        broken: why it cannot be read; None if it can.
    """

    name: str
    sql: str
    strategy: str
    columns: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    reason: str | None
    broken: str | None = None


@dataclass(frozen=True)
class TableListing:
    """A base table as `Database.tables` lists it.

    Attributes:
        name: canonical name.
        columns: (name, DuckDB type) pairs.
        primary_key: names of its key columns, empty without one.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]


def columns_of(schema: Schema) -> tuple[tuple[str, str], ...]:
    """The (name, DuckDB type) pairs of a schema."""
    return tuple((name, type.sql) for name, type in schema)
