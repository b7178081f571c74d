"""Tables of Iceberg, resolved to the Parquet files of one snapshot by the library `pyiceberg`.

Contract: columns are found by their field ids, so every file must have them. Rows that are deleted
by files beside their own are not left out by any reader of Parquet, so a snapshot that has such
deletes is refused; so are columns with a value for files that were written before them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from ivm.storage.errors import UnavailableError, UnsupportedError
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.lake_table import INSTANT, LakeColumn, LakeFile, LakeTable, local

if TYPE_CHECKING:
    from pyiceberg.table import StaticTable
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType, NestedField

_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "uuid": "UUID",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": INSTANT,
}
_DECIMAL, _FIXED = re.compile(r"decimal\((\d+), ?(\d+)\)"), re.compile(r"fixed\[\d+\]")
_REWRITE = "CALL catalog.system.rewrite_data_files"


def iceberg_table(cursor: Cursor, place: str, snapshot: int | None) -> LakeTable:
    """The table at a place.

    Args:
        cursor: any.
        place: its metadata file, or its folder if that names the newest in `version-hint.text`.
        snapshot: the id of one; None for the current one.

    Raises:
        UnavailableError: the library is missing, or cannot read the table.
        UnsupportedError: DuckDB could not read the rows of this snapshot exactly.
    """
    table = _open(place)
    chosen = table.current_snapshot() if snapshot is None else table.snapshot_by_id(snapshot)
    if chosen is None:
        what = "no snapshot" if snapshot is None else f"no snapshot {snapshot}"
        raise UnavailableError(f"the Iceberg table at {place!r} has {what}")
    columns = tuple(_columns(table, chosen))
    files = tuple(_files(table, chosen, place))
    return LakeTable("snapshot", chosen.snapshot_id, columns, files, _REWRITE)


def _open(place: str) -> StaticTable:
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise UnavailableError(
            f"tables FROM ICEBERG need the library pyiceberg ({error}): "
            "pip install 'ivmdb[iceberg]'"
        ) from error
    try:
        return StaticTable.from_metadata(place)
    except Exception as error:  # of the library, of its file systems and of its parser
        raise UnavailableError(
            f"no Iceberg table can be read at {place!r} ({error}): name its newest file "
            "metadata/….metadata.json, as its catalog knows it, or a folder whose "
            "metadata/version-hint.text does"
        ) from error


# --- columns ---


def _columns(table: StaticTable, chosen: Snapshot) -> Iterator[LakeColumn]:
    """The columns as Iceberg's readers see them: of the table now, or of an older snapshot."""
    schemas, schema = table.schemas(), table.schema()
    current = table.current_snapshot()
    if current is None or current.snapshot_id != chosen.snapshot_id:
        schema = schemas.get(chosen.schema_id or 0, schema)
    parted = {
        field.source_id
        for spec in table.specs().values()
        for field in spec.fields
        if str(field.transform) == "identity"
    }
    for field in schema.fields:
        yield _column(field, parted)


def _column(field: NestedField, parted: Collection[int]) -> LakeColumn:
    always = field.field_id in parted
    try:
        if field.initial_default is not None:
            raise _NoTypeError(f"files without it are to have {field.initial_default!r}")
        ids: list[int] = []
        type = _type(field.field_type, ids)
    except _NoTypeError as error:
        return LakeColumn(field.name, "VARCHAR", field.field_id, refused=str(error))
    return LakeColumn(field.name, type, field.field_id, tuple(ids), always=always)


class _NoTypeError(Exception):
    """A column has no type here that holds exactly its values."""


def _type(type: IcebergType, ids: list[int]) -> str:
    """DuckDB's type; the field ids inside of it are appended, in the order of Parquet's schema."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(type, ListType):
        ids.append(type.element_id)
        return f"{_type(type.element_type, ids)}[]"
    if isinstance(type, MapType):
        ids.append(type.key_id)
        key = _type(type.key_type, ids)
        ids.append(type.value_id)
        return f"MAP({key}, {_type(type.value_type, ids)})"
    if isinstance(type, StructType):
        return f"STRUCT({', '.join([_field(field, ids) for field in type.fields])})"
    text = str(type)
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return f"DECIMAL({decimal[1]}, {decimal[2]})"
    if text not in _TYPES and not _FIXED.fullmatch(text):
        raise _NoTypeError(f"its type is {text}")
    return _TYPES.get(text, "BLOB")


def _field(field: NestedField, ids: list[int]) -> str:
    if field.initial_default is not None:
        raise _NoTypeError(f"its field {field.name!r} has a default for files without it")
    ids.append(field.field_id)
    return f"{quote(field.name)} {_type(field.field_type, ids)}"


# --- files ---


def _files(table: StaticTable, chosen: Snapshot, place: str) -> Iterator[LakeFile]:
    for task in _tasks(table, chosen, place):
        file = task.file
        if task.delete_files:
            raise _deletes(chosen, place)
        if str(file.file_format.value).upper() != "PARQUET":
            raise UnsupportedError(
                f"the file {file.file_path} is none of Parquet: have the lake write its files anew "
                f"({_REWRITE}), and name the snapshot after that"
            )
        yield LakeFile(local(file.file_path), file.file_size_in_bytes)


def _tasks(table: StaticTable, chosen: Snapshot, place: str) -> list[Any]:
    try:
        found = list(table.scan(snapshot_id=chosen.snapshot_id).plan_files())
    except Exception as error:  # of the library, which refuses deletes by values itself
        if "delete" in str(error):
            raise _deletes(chosen, place) from error
        raise UnavailableError(
            f"the files of snapshot {chosen.snapshot_id} of the Iceberg table at {place!r} cannot "
            f"be listed: {error}"
        ) from error
    return sorted(found, key=lambda task: str(task.file.file_path))


def _deletes(chosen: Snapshot, place: str) -> UnsupportedError:
    return UnsupportedError(
        f"snapshot {chosen.snapshot_id} of the Iceberg table at {place!r} has deletes (by "
        "position, by value or as vectors), which are no part of its data files: rewrite these "
        f"({_REWRITE}(table => …, options => map('delete-file-threshold', '1'))), and name the "
        "snapshot after that"
    )
