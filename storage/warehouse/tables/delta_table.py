"""Tables of Delta Lake, resolved to the Parquet files of one version by the library `deltalake`.

Contract: a feature of the protocol that changes what a reader must do is one of `_KNOWN`, or the
table is refused. Rows that are deleted by a vector beside their file are not left out by any
reader of Parquet, so a version that has such vectors is refused too.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from ivm.storage.errors import UnavailableError, UnsupportedError
from ivm.storage.identifiers import literal, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.lake_table import INSTANT, LakeColumn, LakeFile, LakeTable, local

if TYPE_CHECKING:
    from deltalake import DeltaTable

_KNOWN = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_TYPES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": INSTANT,
    "timestamp_ntz": "TIMESTAMP",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_NOT_BY_TEXT = (INSTANT, "BLOB")
"""Types whose values in the names of partitions have no one meaning."""

_PHYSICAL, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"


def delta_table(cursor: Cursor, place: str, version: int | None) -> LakeTable:
    """The table at a place.

    Args:
        cursor: any.
        place: its folder.
        version: None for the newest.

    Raises:
        UnavailableError: the library is missing, or cannot read the table.
        UnsupportedError: DuckDB could not read the rows of this version exactly.
    """
    table = _open(place, version)
    number = table.version()
    _refuse_features(table, place)
    metadata = table.metadata()
    mode = metadata.configuration.get("delta.columnMapping.mode", "none")
    fields = json.loads(table.schema().to_json())["fields"]
    columns = tuple([_column(field, mode, metadata.partition_columns) for field in fields])
    constants = [column.name for column in columns if column.key is None]
    files = _files(cursor, table, place, constants)
    return LakeTable("version", number, columns, files, "OPTIMIZE")


def _open(place: str, version: int | None) -> DeltaTable:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise UnavailableError(
            f"tables FROM DELTA need the library deltalake ({error}): pip install 'ivmdb[delta]'"
        ) from error
    try:
        return DeltaTable(place, version=version)
    except (DeltaError, OSError, ValueError) as error:
        at = "" if version is None else f" at version {version}"
        why = " ".join(_COLOUR.sub("", str(error)).split())
        raise UnavailableError(f"no Delta table can be read at {place!r}{at}: {why}") from error


def _refuse_features(table: DeltaTable, place: str) -> None:
    protocol = table.protocol()
    unknown = set(protocol.reader_features or ()) - _KNOWN
    if protocol.min_reader_version > 3 or unknown:
        named = ", ".join(sorted(unknown)) or f"readers of version {protocol.min_reader_version}"
        raise UnsupportedError(
            f"the Delta table at {place!r} needs what is not known here: {named}. Drop the feature "
            "(ALTER TABLE … DROP FEATURE), or load the table by Spark"
        )
    if "deletionVectors" in (protocol.reader_features or ()):
        _refuse_deletion_vectors(table, place)


def _refuse_deletion_vectors(table: DeltaTable, place: str) -> None:
    try:
        found = any(batch.num_rows for batch in table.deletion_vectors())
    except Exception as error:  # the library raises exceptions of its own making
        raise UnsupportedError(
            f"whether rows of the Delta table at {place!r} are deleted by vectors cannot be told: "
            f"{error}. Drop the feature: ALTER TABLE … DROP FEATURE deletionVectors"
        ) from error
    if found:
        raise UnsupportedError(
            f"version {table.version()} of the Delta table at {place!r} has deletion vectors, "
            "which are no part of its Parquet files: run REORG TABLE … APPLY (PURGE), and name "
            "the version after that"
        )


# --- columns ---


def _column(field: Mapping[str, Any], mode: str, partitions: Sequence[str]) -> LakeColumn:
    name = field["name"]
    key = None if name in partitions else _key(field, mode)
    try:
        type = _type(field["type"], mapped=mode != "none")
    except _NoTypeError as error:
        return LakeColumn(name, "VARCHAR", key, refused=str(error))
    if key is None and type in _NOT_BY_TEXT:
        return LakeColumn(name, type, key, refused=f"the table is partitioned by it, a {type}")
    return LakeColumn(name, type, key)


def _key(field: Mapping[str, Any], mode: str) -> str | int:
    """What a column is called in the files, or its field id there."""
    if mode == "none":
        return str(field["name"])
    noted = {"name": _PHYSICAL, "id": _ID}.get(mode, "")
    if noted not in field["metadata"]:
        name = field["name"]
        raise UnsupportedError(
            f"the table maps its columns by {mode!r}, but {name!r} has no {noted}"
        )
    key: str | int = field["metadata"][noted]
    return key


class _NoTypeError(Exception):
    """A column has no type here that holds exactly its values."""


def _type(type: Any, *, mapped: bool) -> str:
    """DuckDB's type.

    Args:
        type: as the schema of Delta has it, in JSON.
        mapped: whether names in the files are others.
    """
    if isinstance(type, str):
        decimal = _DECIMAL.fullmatch(type)
        if decimal is None and type not in _TYPES:
            raise _NoTypeError(f"its type is {type}")
        return f"DECIMAL({decimal[1]}, {decimal[2]})" if decimal else _TYPES[type]
    if type["type"] == "array":
        return f"{_type(type['elementType'], mapped=mapped)}[]"
    if type["type"] == "map":
        parts = [_type(type[part], mapped=mapped) for part in ("keyType", "valueType")]
        return f"MAP({', '.join(parts)})"
    if type["type"] != "struct":
        raise _NoTypeError(f"its type is {type['type']}")
    if mapped:
        raise _NoTypeError("it is nested, and its fields may have other names in the files")
    fields = [f"{quote(f['name'])} {_type(f['type'], mapped=mapped)}" for f in type["fields"]]
    return f"STRUCT({', '.join(fields)})"


# --- files ---


def _files(
    cursor: Cursor, table: DeltaTable, place: str, constants: Sequence[str]
) -> tuple[LakeFile, ...]:
    found = pa.table(table.get_add_actions(flatten=False))
    values = [f"CAST(partition[{literal(name)}] AS VARCHAR)" for name in constants]
    cursor.register("ivm_delta_files", found)
    try:
        listed = ", ".join(["path", "size_bytes", *values])
        files = rows(cursor, f"SELECT {listed} FROM ivm_delta_files ORDER BY path")
    finally:
        cursor.unregister("ivm_delta_files")
    return tuple([LakeFile(_place(place, path), size, tuple(v)) for path, size, *v in files])


def _place(place: str, path: str) -> str:
    """Where a file lies whose path the log has, as part of an address."""
    if path.startswith("file:"):
        return unquote(local(path))
    return path if "://" in path else posixpath.join(place, unquote(path))
