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

from ivm.storage.errors import SqlError, UnavailableError, UnsupportedError
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, describe, rows
from ivm.storage.warehouse.duckdb_errors import of_our_sql
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
    place = location if is_remote(location) else os.path.abspath(location)
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
        _refuse_pattern(file)
    return place, found


def is_remote(path: str) -> bool:
    """Whether a path begins with a protocol, such as s3://."""
    return _REMOTE.match(path) is not None


def _refuse_pattern(file: PinnedFile) -> None:
    """Refuses a file whose name DuckDB would take for a pattern: others could match it too."""
    if any(sign in file.path for sign in "*?["):
        raise UnsupportedError(
            f"the file {file.path!r} cannot be named exactly, since * ? [ stand for other letters "
            "in names that DuckDB reads: rename it"
        )


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
        The call, and the columns that it gives.

    Raises:
        SqlError: the reader cannot take the files, or an option.
    """
    paths = [file.path for file in files]
    try:
        reader = _READERS[format](cursor, paths, dict(options), columns)
        return reader, describe(cursor, f"FROM {reader}")
    except duckdb.Error as error:
        why = of_our_sql(error)
        raise SqlError(f"the {format.upper()} files cannot be read: {why}") from error


def _parquet(
    cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None
) -> str:
    parted = all(_PARTITION.search(path) for path in files)
    options.setdefault("hive_partitioning", "true" if parted else "false")
    options.setdefault("binary_as_string", "false")
    if columns is not None and options["hive_partitioning"] == "true":
        options["hive_types_autocast"] = "false"  # else a type would depend on the values
    return _call("read_parquet", files, options)


def _csv(cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None) -> str:
    found = _sniffed(cursor, files[0], options)
    for name, option in _DIALECT.items():
        if found[name] not in (None, ""):
            options.setdefault(option, str(found[name]).removeprefix("(empty)"))
    known = {fold(name): type.sql for name, type in columns or ()}
    texts = "" if columns is None else "VARCHAR"  # of columns that the table does not have
    listed = {c["name"]: known.get(fold(c["name"]), texts or c["type"]) for c in found["Columns"]}
    options["auto_detect"] = "false"
    return _call("read_csv", files, options, listed)


def _sniffed(cursor: Cursor, file: str, options: Mapping[str, str]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if name in _DIALECT.values()}
    call = _call("sniff_csv", file, given)
    (found,) = rows(cursor, f"FROM {call}")
    names = [name for name, _ in describe(cursor, f"FROM {call}")]
    return dict(zip(names, found, strict=True))


def _json(cursor: Cursor, files: list[str], options: dict[str, str], columns: Schema | None) -> str:
    listed = None if columns is None else {name: type.sql for name, type in columns}
    return _call("read_json", files, options, listed)


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
