"""Which files a history lies in, and the call of DuckDB's reader that reads exactly these.

Contract: nothing is left for the reader to guess when it is called: the files, the dialect of CSV
and the columns are written out, so a call means the same for all files and for one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import duckdb

from ivm.storage.errors import SqlError, UnavailableError
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, describe, rows
from ivm.storage.warehouse.history import PinnedFile, files_at

_ENDINGS = {"parquet": "*.parquet", "csv": "*.csv*", "json": "*.json*"}
FORMATS = tuple(_ENDINGS)

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


def find_files(cursor: Cursor, format: str, location: str) -> tuple[str, tuple[PinnedFile, ...]]:
    """The place, made absolute, and the files that lie there now.

    Hidden files of a folder (`.name`, `_name`) do not count, as in Spark.

    Raises:
        SqlError: the format is not known.
        UnavailableError: no file is there.
    """
    if format not in _ENDINGS:
        known = ", ".join(map(str.upper, FORMATS))
        raise SqlError(f"tables can be made FROM {known}, not FROM {format.upper()}")
    place = location if _REMOTE.match(location) else os.path.abspath(location)
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
    return place, found


def _is_hidden(path: str) -> bool:
    return any(part[:1] in "._" and "=" not in part for part in PurePath(path).parts if part != "/")


def reader_of(
    cursor: Cursor,
    format: str,
    files: Sequence[PinnedFile],
    options: Mapping[str, str],
    columns: Schema | None,
) -> tuple[str, Schema]:
    """A call of the reader for these files.

    Args:
        cursor: any.
        format: "parquet", "csv" or "json".
        files: at least one.
        options: of the reader.
        columns: of the table; None if the files name them.

    Returns:
        The call, and the columns that the files name, or those given.

    Raises:
        duckdb.Error: the reader cannot take the files, or an option.
    """
    return _READERS[format](cursor, [file.path for file in files], dict(options), columns)


def _parquet(
    cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None
) -> tuple[str, Schema]:
    parted = all(_PARTITION.search(path) for path in files)
    options.setdefault("hive_partitioning", "true" if parted else "false")
    if columns is None:
        columns = describe(cursor, f"FROM {_call('read_parquet', files, options)}")
    if options["hive_partitioning"] == "true":
        options["hive_types_autocast"] = "false"  # else a type would depend on the values
    return _call("read_parquet", files, options), columns


def _csv(
    cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None
) -> tuple[str, Schema]:
    found = _sniffed(cursor, files[0], options)
    for name, option in _DIALECT.items():
        if found[name] is not None:
            options.setdefault(option, str(found[name]))
    named = [(column["name"], column["type"]) for column in found["Columns"]]
    if columns is None:
        columns = describe(
            cursor, "SELECT " + ", ".join(f"NULL::{t} AS {quote(n)}" for n, t in named)
        )
    known = {fold(name): type.sql for name, type in columns}
    listed = {name: known.get(fold(name), "VARCHAR") for name, _ in named}
    options["auto_detect"] = "false"
    return _call("read_csv", files, options, listed), columns


def _sniffed(cursor: Cursor, file: str, options: Mapping[str, str]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if name in _DIALECT.values()}
    call = _call("sniff_csv", file, given)
    (found,) = rows(cursor, f"FROM {call}")
    names = [name for name, _ in describe(cursor, f"FROM {call}")]
    return {name: _plain(value) for name, value in zip(names, found, strict=True)}


def _plain(value: Any) -> Any:
    """A sniffed value; None for what the file does not have."""
    return None if value in ("(empty)", "") else value


def _json(
    cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None
) -> tuple[str, Schema]:
    if columns is None:
        columns = describe(cursor, f"FROM {_call('read_json', files, options)}")
    listed = {name: type.sql for name, type in columns}
    return _call("read_json", files, options, listed), columns


def _call(
    function: str,
    files: Sequence[str] | str,
    options: Mapping[str, str],
    columns: Mapping[str, str] | None = None,
) -> str:
    listed = literal(files) if isinstance(files, str) else f"[{', '.join(map(literal, files))}]"
    given = [f"{quote(name)} = {literal(value)}" for name, value in options.items()]
    if columns is not None:
        pairs = ", ".join(f"{quote(name)}: {literal(type)}" for name, type in columns.items())
        given.append(f"columns = {{{pairs}}}")
    return f"{function}({', '.join([listed, *given])})"


_READERS = {"parquet": _parquet, "csv": _csv, "json": _json}
