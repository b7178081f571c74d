"""Views and tables as the open database lists them."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.storage.identifiers import literal, quote, split_name
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.tables.history import History
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class ViewInfo:
    """A materialized view as `Database.views` lists it.

    Attributes:
        name: canonical name.
        sql: the SELECT it was created with, and EMIT ON WINDOW CLOSE behind it if it had that.
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
        in_files: the statement that makes it, of a table whose history lies in files; else None.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    in_files: str | None = None


def listing_of(info: TableInfo) -> TableListing:
    """The listing of a base table."""
    key = tuple([info.schema[i][0] for i in info.primary_key])
    made = None if info.history is None else _made(info, info.history)
    return TableListing(info.name, columns_of(info.schema), key, made)


def _made(info: TableInfo, history: History) -> str:
    """The CREATE TABLE of a table whose history lies in files."""
    parts = []
    for i, (name, type) in enumerate(info.schema):
        default = f" DEFAULT {info.defaults[i]}" if i in info.defaults else ""
        null = " NOT NULL" if i in info.not_null and i not in info.primary_key else ""
        parts.append(f"{quote(name)} {type.sql}{default}{null}")
    if info.primary_key:
        names = ", ".join(quote(info.schema[i][0]) for i in info.primary_key)
        parts.append(f"PRIMARY KEY ({names})")
    parts += [f"CHECK ({text})" for text in info.checks]
    given = {"stored": "false", **dict(history.options)}
    options = ", ".join(f"{name} = {_value(value)}" for name, value in given.items())
    path = ".".join(map(quote, split_name(info.name)))
    place = f"{history.format.upper()} {literal(history.location)}"
    return f"CREATE TABLE {path} ({', '.join(parts)}) FROM {place} WITH ({options})"


def _value(text: str) -> str:
    """An option's value as the user may have written it."""
    return text if text in ("true", "false") or text.isdigit() else literal(text)


def columns_of(schema: Schema) -> tuple[tuple[str, str], ...]:
    """The (name, DuckDB type) pairs of a schema."""
    return tuple((name, type.sql) for name, type in schema)
