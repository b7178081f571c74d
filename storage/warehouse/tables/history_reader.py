"""Which files a history lies in, and the call of DuckDB's reader that reads exactly these.

Contract: nothing is left for the reader to guess when it is called: the files, the dialect of CSV
and the columns are written out, so a call means the same for all files and for one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import duckdb

from ivm.storage.errors import SqlError, UnavailableError, UnsupportedError
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql
from ivm.storage.warehouse.tables import lake_table
from ivm.storage.warehouse.tables.delta_table import delta_table
from ivm.storage.warehouse.tables.history import FILES, PinnedFile, files_at
from ivm.storage.warehouse.tables.iceberg_table import iceberg_table
from ivm.storage.warehouse.tables.lake_table import LakeTable

_ENDINGS = {"parquet": "*.parquet", "csv": "*.csv*", "json": "*.json*"}
LAKES = {"delta": "version", "iceberg": "snapshot"}
"""The formats whose metadata lists the files, and the option that chooses a version."""
FORMATS = (*_ENDINGS, *LAKES)
FILENAME = "filename"
"""The column of files' names, and the option that adds it, or gives it another name."""

_REMOTE = re.compile(r"[a-z0-9]+://", re.IGNORECASE)
_PARTITION = re.compile(r"/[^/=]+=[^/]*/")
_DIALECT = {
    "Delimiter": "delim",
    "Quote": "quote",
    "Escape": "escape",
    "Comment": "comment",
    "SkipRows": "skip",
    "HasHeader": "header",
    "DateFormat": "dateformat",
    "TimestampFormat": "timestampformat",
}
"""What `sniff_csv` finds, and the option of `read_csv` that says it."""


class Found(NamedTuple):
    """What lies at a place now.

    Attributes:
        place: made absolute.
        files: at least one.
        lake: the table that has these files, of a lake.
    """

    place: str
    files: tuple[PinnedFile, ...]
    lake: LakeTable | None = None


def find(cursor: Cursor, format: str, location: str, options: Mapping[str, str]) -> Found:
    """The files at a place.

    Args:
        cursor: any.
        format: one of `FORMATS`.
        location: a file, a folder or a pattern; of a lake what names the table.
        options: as the user gave them.

    Raises:
        SqlError: the format is not known.
        UnavailableError: no file is there.
        UnsupportedError: the files cannot be read exactly.
    """
    if format not in FORMATS:
        known = ", ".join(map(str.upper, FORMATS))
        raise SqlError(f"tables can be made FROM {known} and JDBC, not FROM {format.upper()}")
    place = location if is_remote(location) else os.path.abspath(location)
    if format in LAKES:
        return _find_lake(cursor, format, lake_table.local(place), options)
    return Found(place, _find_files(cursor, format, location, place))


def _find_files(cursor: Cursor, format: str, location: str, place: str) -> tuple[PinnedFile, ...]:
    """The files of a folder, but for hidden ones (`.name`, `_name`), or those of a pattern."""
    folder = location.endswith("/") or os.path.isdir(place)
    pattern = f"{place.rstrip('/')}/**/{_ENDINGS[format]}" if folder else place
    try:
        found = files_at(cursor, literal(pattern))
    except duckdb.IOException as error:
        why = f"no {format.upper()} files can be read at {location!r}: {error}"
        raise UnavailableError(why) from error
    if folder:
        found = tuple([f for f in found if not _is_hidden(f.path[len(place.rstrip("/")) :])])
    if not found:
        raise UnavailableError(f"there is no file {pattern!r}")
    for file in found:
        _refuse_pattern(file.path)
    return found


def _find_lake(cursor: Cursor, format: str, place: str, options: Mapping[str, str]) -> Found:
    option = LAKES[format]
    if set(options) - {option}:
        given = ", ".join(sorted(set(options) - {option}))
        raise SqlError(f"tables FROM {format.upper()} take the option {option}, not {given}")
    chosen = options.get(option)
    if chosen is not None and not chosen.isdigit():
        raise SqlError(f"{option} is a number, not {chosen!r}")
    lake = _LAKES[format](cursor, place, None if chosen is None else int(chosen))
    if not lake.files:
        raise UnavailableError(
            f"{lake.kind} {lake.version} of the table at {place!r} has no files, so it has no "
            f"rows: name a {lake.kind} that has some, or CREATE TABLE without FROM"
        )
    return Found(place, _pinned(cursor, place, lake), lake)


def _pinned(cursor: Cursor, place: str, lake: LakeTable) -> tuple[PinnedFile, ...]:
    """The files of a lake's table, in its order."""
    for file in lake.files:
        _refuse_pattern(file.path)
    listed = ", ".join(literal(file.path) for file in lake.files)
    why = f"{lake.kind} {lake.version} of the table at {place!r} cannot be read: "
    way = f". Name a newer {lake.kind}"
    try:
        found = {file.path: file for file in files_at(cursor, f"[{listed}]")}
    except duckdb.IOException as error:
        raise UnavailableError(f"{why}{error}{way}") from error
    for file in lake.files:
        if file.path not in found:
            raise UnavailableError(f"{why}{file.path} is gone{way}")
        if found[file.path].size != file.size:
            raise UnavailableError(f"{why}{file.path} has not the size that the table notes")
    return tuple([found[file.path] for file in lake.files])


def is_remote(path: str) -> bool:
    """Whether a path begins with a protocol, such as s3://."""
    return _REMOTE.match(path) is not None


def _refuse_pattern(path: str) -> None:
    """Refuses a file whose name DuckDB would take for a pattern: others could match it too."""
    if any(sign in path for sign in "*?["):
        raise UnsupportedError(
            f"the file {path!r} cannot be named exactly, since * ? [ stand for other letters "
            "in names that DuckDB reads: rename it"
        )


def _is_hidden(path: str) -> bool:
    return any(part[:1] in "._" and "=" not in part for part in PurePath(path).parts if part != "/")


def readers_of(
    cursor: Cursor,
    format: str,
    found: Found,
    options: Mapping[str, str],
    columns: Schema | None,
) -> tuple[tuple[str, ...], tuple[PinnedFile, ...]]:
    """What reads these files; see `History.readers`.

    Args:
        cursor: any.
        format: one of `FORMATS`.
        found: the files.
        options: of the reader.
        columns: of the table; None if the files name them.

    Returns:
        The readers, and the files, each with its reader.

    Raises:
        SqlError: the reader cannot take the files, or an option.
        UnsupportedError: the files cannot be read exactly.
    """
    try:
        if found.lake is not None:
            return lake_table.readers_of(cursor, found.lake, found.files, columns)
        paths = [file.path for file in found.files]
        call = _READERS[format](cursor, paths, dict(options), columns)
        return (f"SELECT * FROM {call}",), found.files
    except duckdb.Error as error:
        raise _cannot_read(format, error) from error


def columns_of(cursor: Cursor, format: str, source: str) -> Schema:
    """The columns that a query over the files gives.

    Raises:
        SqlError: the reader cannot take the files, or an option.
    """
    try:
        return describe(cursor, f"FROM {source}")
    except duckdb.Error as error:
        raise _cannot_read(format, error) from error


def _cannot_read(format: str, error: duckdb.Error) -> SqlError:
    return SqlError(f"the {format.upper()} files cannot be read: {of_our_sql(error)}")


def _parquet(
    cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None
) -> str:
    parted = all(_PARTITION.search(path) for path in files)
    options.setdefault("hive_partitioning", "true" if parted else "false")
    options.setdefault("binary_as_string", "false")
    options.setdefault("can_have_nan", "true")  # other writers' statistics leave NaN out
    if columns is not None and options["hive_partitioning"] == "true":
        options["hive_types_autocast"] = "false"  # else a type would depend on the values
    return _call("read_parquet", FILES, options)


def _csv(cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None) -> str:
    found = _sniffed(cursor, files[0], options)
    for name, option in _DIALECT.items():
        if found[name] not in (None, ""):
            options.setdefault(option, str(found[name]).removeprefix("(empty)"))
    known = {fold(name): type.sql for name, type in columns or ()}
    texts = "" if columns is None else "VARCHAR"  # of columns that the table does not have
    listed = {c["name"]: known.get(fold(c["name"]), texts or c["type"]) for c in found["Columns"]}
    options["auto_detect"] = "false"
    return _call("read_csv", FILES, options, listed)


def _sniffed(cursor: Cursor, file: str, options: Mapping[str, str]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if name in _DIALECT.values()}
    call = _call("sniff_csv", literal(file), given)
    (found,) = rows(cursor, f"FROM {call}")
    names = [name for name, _ in describe(cursor, f"FROM {call}")]
    return dict(zip(names, found, strict=True))


def _json(cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None) -> str:
    listed = None if columns is None else {name: type.sql for name, type in columns}
    return _call("read_json", FILES, options, listed)


def _call(
    function: str,
    files: str,
    options: Mapping[str, str],
    columns: Mapping[str, str] | None = None,
) -> str:
    given = [f"{quote(name)} = {_option(name, value)}" for name, value in options.items()]
    if columns is not None:
        pairs = ", ".join(f"{quote(name)}: {literal(type)}" for name, type in columns.items())
        given.append(f"columns = {{{pairs}}}")
    return f"{function}({', '.join([files, *given])})"


def _option(name: str, value: str) -> str:
    """The value of an option, of which the reader casts the text; but a text names a column."""
    is_flag = name == FILENAME and value.lower() in ("true", "false")
    return value if is_flag else literal(value)


_READERS = {"parquet": _parquet, "csv": _csv, "json": _json}
_LAKES = {"delta": delta_table, "iceberg": iceberg_table}
