"""A table of a lake (Delta, Iceberg) at one version: its files, and SELECTs that read them exactly.

Law: a file is read as the lake's own readers read it, or the table is refused. A column that a file
lacks is NULL; one that it has in a narrower type is widened; one that has the same value in all of
its rows may be left out of it. Columns are found by name or by field id, as the lake says, and the
schema of every file is compared with that of the table. Of what a reader could misread (instants as
INT96, dates of an older calendar, nested columns that have changed) nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows
from ivm.storage.warehouse.tables.history import FILES, PinnedFile

INSTANT = "TIMESTAMP WITH TIME ZONE"


@dataclass(frozen=True)
class LakeColumn:
    """A column of the table.

    Attributes:
        name: in the table.
        type: DuckDB's, in SQL.
        key: what it is called in the files, or its field id there; None if the files lack it, and
            have one value of it each.
        ids: the field ids inside of it, in order; () if the files have none.
        refused: why it cannot be read; "" if it can.
        always: it is in every file, or its value is elsewhere.
    """

    name: str
    type: str
    key: str | int | None
    ids: tuple[int, ...] = ()
    refused: str = ""
    always: bool = False


@dataclass(frozen=True)
class LakeFile:
    """A file of the table.

    Attributes:
        path: as DuckDB opens it.
        size: in bytes, as the lake has noted it.
        values: of the columns without a key, in their order, as texts.
    """

    path: str
    size: int
    values: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class LakeTable:
    """A table at one version.

    Attributes:
        kind: what the lake calls a version.
        version: its number.
        columns: in their order.
        files: with all of its rows, and no others.
        rewrite: how the lake writes its files anew.
    """

    kind: str
    version: int
    columns: tuple[LakeColumn, ...]
    files: tuple[LakeFile, ...]
    rewrite: str


class _Found(NamedTuple):
    """A column as a file has it: its Parquet type, DuckDB's, its field id and those inside."""

    physical: str
    type: str
    id: int | None
    ids: tuple[int, ...]


def readers_of(
    cursor: Cursor, table: LakeTable, files: Sequence[PinnedFile], columns: Schema | None
) -> tuple[tuple[str, ...], tuple[PinnedFile, ...]]:
    """The SELECTs that read the files, in the types of the table.

    Args:
        cursor: any.
        table: at its version.
        files: those of the table, in its order.
        columns: those that are wanted; None for all.

    Returns:
        The SELECTs, with `FILES` for the list of files; and the files, each with its own SELECT.

    Raises:
        SqlError: the table has not such a column.
        UnsupportedError: a file, or a column, could not be read exactly.
    """
    chosen = _chosen(cursor, table, columns)
    _refuse_old_calendar(cursor, table, files, chosen)
    int96 = _int96(cursor, table, files, chosen)
    readers: dict[str, int] = {}
    pinned = []
    for file, lake_file in zip(files, table.files, strict=True):
        text = _reader(table, chosen, lake_file, int96[file.path])
        pinned.append(replace(file, reader=readers.setdefault(text, len(readers))))
    return tuple(readers), tuple(pinned)


def _chosen(cursor: Cursor, table: LakeTable, columns: Schema | None) -> list[LakeColumn]:
    """The wanted columns, with types as DuckDB writes them."""
    named = {fold(c.name): c for c in table.columns}
    for name in () if columns is None else (name for name, _ in columns):
        if fold(name) not in named:
            raise SqlError(f"{table.kind} {table.version} of the table has no column {name!r}")
    chosen = list(table.columns if columns is None else [named[fold(n)] for n, _ in columns])
    for column in chosen:
        if column.refused:
            raise UnsupportedError(
                f"the column {column.name!r} cannot be read exactly: {column.refused}. List the "
                "other columns of the table, without it"
            )
    casts = ", ".join(f"CAST(NULL AS {c.type})" for c in chosen)
    types = [type.sql for _, type in describe(cursor, f"SELECT {casts}")]
    return [replace(c, type=type) for c, type in zip(chosen, types, strict=True)]


def _reader(
    table: LakeTable, chosen: Sequence[LakeColumn], file: LakeFile, int96: frozenset[str]
) -> str:
    values = dict(zip([c.name for c in table.columns if c.key is None], file.values, strict=True))
    listed, schema = [], []
    for column in chosen:
        name, value, type = quote(column.name), quote(column.name), column.type
        if column.key is None:
            value = f"CAST({_text(values[column.name])} AS {type})"
        elif column.name in int96:
            value, type = f"system.main.timezone('UTC', {name})", "TIMESTAMP"
        listed.append(f"{value} AS {name}")
        if column.key is not None:
            key = column.key if isinstance(column.key, int) else literal(column.key)
            given = f"name: {literal(column.name)}, type: {literal(type)}, default_value: NULL"
            schema.append(f"{key}: {{{given}}}")
    options = ["hive_partitioning = false", "binary_as_string = false", "union_by_name = false"]
    options.append("can_have_nan = true")  # the statistics of most writers leave NaN out
    if schema:
        options.append(f"schema = MAP {{{', '.join(schema)}}}")
    return f"SELECT {', '.join(listed)} FROM read_parquet({FILES}, {', '.join(options)})"


def _text(value: str | None) -> str:
    return "NULL" if value is None else literal(value)


# --- what the files have ---

_SHAPES = """
SELECT system.main.list(file_name), shape FROM (
    SELECT file_name, system.main.list(
        {{'name': name, 'physical': type, 'children': num_children, 'id': field_id,
          'type': duckdb_type}} ORDER BY column_id) AS shape
    FROM parquet_schema({files}) GROUP BY file_name)
GROUP BY shape
"""


def _int96(
    cursor: Cursor, table: LakeTable, files: Sequence[PinnedFile], chosen: Sequence[LakeColumn]
) -> Mapping[str, frozenset[str]]:
    """The columns that each file has as INT96, whose instants DuckDB reads as TIMESTAMP.

    Raises:
        UnsupportedError: a file has a column otherwise than it can be read.
    """
    found = {}
    for paths, shape in rows(cursor, _SHAPES.format(files=_list(files))):
        columns = list(_columns_of(shape))
        names = _check(table, chosen, columns, paths[0])
        found.update(dict.fromkeys(paths, names))
    return found


def _columns_of(shape: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, _Found]]:
    """The columns of a file's schema, which lists every node before its children."""
    at = 1
    while at < len(shape):
        node, end = shape[at], _end(shape, at)
        ids = tuple([inner["id"] for inner in shape[at + 1 : end] if inner["id"] is not None])
        yield node["name"], _Found(node["physical"] or "", node["type"], node["id"], ids)
        at = end


def _end(shape: Sequence[Mapping[str, Any]], at: int) -> int:
    end = at + 1
    for _ in range(shape[at]["children"] or 0):
        end = _end(shape, end)
    return end


def _check(
    table: LakeTable,
    chosen: Sequence[LakeColumn],
    columns: Sequence[tuple[str, _Found]],
    path: str,
) -> frozenset[str]:
    """Compares a file's columns with the table's; returns those that it has as INT96."""
    by_name = {fold(name): found for name, found in columns}
    by_id = {found.id: found for _, found in columns if found.id is not None}
    int96 = set()
    for column in chosen:
        key = column.key
        if isinstance(key, int) and len(by_id) < len(columns):
            raise _refusal(table, path, "it has columns without a field id")
        found = by_id.get(key) if isinstance(key, int) else by_name.get(fold(key or ""))
        if found is None and column.always:
            raise _refusal(table, path, f"it lacks {column.name!r}, a column of the partitions")
        if key is None or found is None:
            continue
        inside = found.ids if isinstance(key, int) else ()
        if found.physical == "INT96" and column.type == INSTANT:
            int96.add(column.name)
        elif not _is_exact(found.type, column.type) or inside != column.ids:
            was = f"it has the column {column.name!r} as {found.type}, the table as {column.type}"
            raise _refusal(table, path, was)
    return frozenset(int96)


def _refusal(table: LakeTable, path: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the file {path} of {table.kind} {table.version} cannot be read exactly: {why}. Have the "
        f"lake write its files anew ({table.rewrite}), and name the {table.kind} after that; or "
        "leave the column out"
    )


_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_INTEGERS = list(_DIGITS)


def _is_exact(found: str, wanted: str) -> bool:
    """Whether every value of one type is a value of the other."""
    if found == wanted:
        return True
    decimal, had = _DECIMAL.fullmatch(wanted), _DECIMAL.fullmatch(found)
    if decimal and (had or found in _DIGITS):
        whole, scale = (int(had[1]) - int(had[2]), int(had[2])) if had else (_DIGITS[found], 0)
        return int(decimal[1]) - int(decimal[2]) >= whole and int(decimal[2]) >= scale
    if found in _DIGITS and wanted in _DIGITS:
        return _INTEGERS.index(found) < _INTEGERS.index(wanted)
    if wanted == "DOUBLE":
        return found in ("FLOAT", "TINYINT", "SMALLINT", "INTEGER")
    return (found, wanted) == ("DATE", "TIMESTAMP")


_OLD = """
SELECT system.main.min(file_name) FROM parquet_kv_metadata({files})
WHERE system.main.decode(key) IN ('org.apache.spark.legacyDateTime', 'org.apache.spark.legacyINT96')
OR (system.main.decode(key) = 'org.apache.spark.version'
    AND system.main.decode(value) SIMILAR TO '[12]\\..*')
"""


def _refuse_old_calendar(
    cursor: Cursor, table: LakeTable, files: Sequence[PinnedFile], chosen: Sequence[LakeColumn]
) -> None:
    """Refuses files in which days before 1582 are written otherwise."""
    if not any("DATE" in c.type or "TIMESTAMP" in c.type for c in chosen):
        return
    ((path,),) = rows(cursor, _OLD.format(files=_list(files)))
    if path is not None:
        why = "its dates and times may be of the Julian calendar, by which older Sparks wrote"
        raise _refusal(table, path, why)


def local(address: str) -> str:
    """An address as DuckDB opens it, which reads no `file:` addresses of lakes."""
    return re.sub("^file:/+", "/", address)


def _list(files: Sequence[PinnedFile]) -> str:
    return f"[{', '.join(literal(file.path) for file in files)}]"
