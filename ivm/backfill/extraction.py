"""The rows of a JDBC source, extracted once into Parquet files of a folder of the user's.

Law: the folder is there with all rows, durably, or it is not there. What is under way lies in
`folder.part`, which one process has at a time; what a killed one has left there is removed by the
next. Spark writes the rows as texts, and DuckDB casts these as it casts any text.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from ivm.backfill.spark_call import SparkCall
from ivm.engine.engine import Engine
from ivm.spark_backfill.jdbc import POSTGRES, JdbcSource, write_texts
from ivm.storage.durable_files import sync_folder
from ivm.storage.errors import ConstraintError, UnavailableError, UnsupportedError
from ivm.storage.identifiers import literal, quote
from ivm.storage.interrupts import check
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.own_parquet import reading

_OURS = "ivm-"  # begins the names in `folder.part`
_FILE_BYTES = 128 << 20
_SHOWN = 80  # letters of a value in an error
_CARRIED = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|JSON|UUID|"
    r"BLOB|DATE|TIME|TIMESTAMP|TIMESTAMP WITH TIME ZONE"
)
"""The types whose values are the same after they were written to Parquet."""
_BYTES, _INSTANT = "BLOB", "TIMESTAMP WITH TIME ZONE"
_HEX = r"\\x([0-9a-f]{2})*"
_OFFSET = r".*:\d\d(\.\d+)? ?([+-]\d\d.*|Z)|-?infinity"


def extract(
    engine: Engine,
    cursor: Cursor,
    source: JdbcSource,
    schema: Schema,
    key: Sequence[str],
    to: Path,
) -> None:
    """Extracts columns of the source.

    Args:
        engine: of the database; gives the Spark session.
        cursor: casts the texts; outside of a transaction.
        source: of the rows.
        schema: the columns that are read, and their types.
        key: the columns by which an error tells a row.
        to: the folder, which is not there yet.

    Raises:
        UnsupportedError: a type could not be carried exactly.
        UnavailableError: the source cannot be read, or another process does the same.
        ConstraintError: a value is none of its column's type.
    """
    for name, type in schema:
        _refuse_type(source, name, type)
    with _part(to) as part:
        columns, texts = [name for name, _ in schema], part / "texts"
        SparkCall(
            engine,
            "copy over JDBC",
            lambda spark, check: write_texts(spark, source, columns, texts, check),
        ).wait()
        _cast(cursor, source, schema, key, part)
        _sync(part / "rows")
        check()
        os.rename(part / "rows", to)
        sync_folder(to.parent)


def _refuse_type(source: JdbcSource, name: str, type: ColumnType) -> None:
    if not _CARRIED.fullmatch(type.sql):
        raise UnsupportedError(
            f"the column {name!r} cannot be copied as {type.sql}, which Parquet files do not keep "
            "exactly: declare it as VARCHAR, or as DECIMAL if it is a number"
        )
    if type.sql == _BYTES and source.database != POSTGRES:
        raise UnsupportedError(
            f"the column {name!r} has bytes, which this database's driver writes in a way of its "
            "own: copy them as text (query = 'SELECT …' with the database's function for hex)"
        )


# --- the folder ---


@contextlib.contextmanager
def _part(to: Path) -> Iterator[Path]:
    """A new folder for what is under way, which is removed at the end."""
    import fcntl  # Windows has none

    folder = to.with_name(f"{to.name}.part")
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed = not os.path.samestat(os.fstat(lock), os.stat(folder))
        except OSError:
            removed = True
        if removed:
            raise UnavailableError(
                f"another statement copies to {str(to)!r}: wait for it, or name another folder"
            )
        _clear(folder)
        try:
            # Late tasks of earlier statements write elsewhere.
            own = folder / f"{_OURS}{uuid.uuid4().hex}"
            own.mkdir()
            yield own
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _clear(folder: Path) -> None:
    """Removes what a killed process has left."""
    left = list(folder.iterdir())
    for path in left:
        if not path.name.startswith(_OURS):
            raise UnavailableError(
                f"{str(path)!r} is in the way, which is none of our files: move it, or name "
                "another folder"
            )
    for path in left:
        shutil.rmtree(path)


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


# --- values ---


def _cast(
    cursor: Cursor, source: JdbcSource, schema: Schema, key: Sequence[str], part: Path
) -> None:
    """Writes the texts once more, as values of the columns' types."""
    files = sorted((part / "texts").glob("*.parquet"))
    texts = reading(files)
    if not files:  # Spark writes none where it has no partition
        nulls = ", ".join(f"CAST(NULL AS VARCHAR) AS c{i}" for i in range(len(schema)))
        texts = f"(SELECT {nulls} WHERE FALSE)"
    listed = ", ".join(
        f"{_value(source, type, f'c{i}')} AS {quote(name)}" for i, (name, type) in enumerate(schema)
    )
    try:
        run(
            cursor,
            f"COPY (SELECT {listed} FROM {texts}) TO {literal(str(part / 'rows'))} "
            f"(FORMAT parquet, COMPRESSION zstd, FILE_SIZE_BYTES {_FILE_BYTES})",
        )
    except (duckdb.DataError, duckdb.InvalidInputException):
        _demand_values(cursor, source, schema, key, texts)
        raise


def _value(source: JdbcSource, type: ColumnType, text: str, cast: str = "CAST") -> str:
    """The value of a text: as DuckDB casts it, where that means what the database has meant."""
    if type.sql == _BYTES:
        form, value = _HEX, f"system.main.unhex({text}[3:])"
    else:
        value = f"{cast}({_with_era(source, type, text)} AS {type.sql})"
        form = _OFFSET if type.sql == _INSTANT else ""
    if not form:
        return value
    other = "system.main.error('another form')" if cast == "CAST" else "NULL"
    fits = f"system.main.regexp_full_match({text}, {literal(form)})"
    return f"CASE WHEN {text} IS NULL THEN NULL WHEN {fits} THEN {value} ELSE {other} END"


def _with_era(source: JdbcSource, type: ColumnType, text: str) -> str:
    """PostgreSQL writes `BC` at the end, which DuckDB passes over in times."""
    if source.database != POSTGRES or not type.sql.startswith(("DATE", "TIMESTAMP")):
        return text
    return rf"system.main.regexp_replace({text}, '^(\S+)(.*) BC$', '\1 (BC)\2')"


def _demand_values(
    cursor: Cursor, source: JdbcSource, schema: Schema, key: Sequence[str], texts: str
) -> None:
    """Raises ConstraintError for a value that is none of its type."""
    at = {name: f"c{i}" for i, (name, _) in enumerate(schema)}
    row = ", ".join(["NULL", *(at[name] for name in key)])
    for name, type in schema:
        value = _value(source, type, at[name], "TRY_CAST")
        wrong = f"{at[name]} IS NOT NULL AND {value} IS NULL"
        found = rows(cursor, f"SELECT {at[name]}, {row} FROM {texts} WHERE {wrong} LIMIT 1")
        for text, _, *keys in found:
            where = ", ".join(f"{n} = {v!r}" for n, v in zip(key, keys, strict=True))
            raise ConstraintError(
                f"the column {name!r} of the source has {text[:_SHOWN]!r}"
                f"{f' in the row with {where}' if where else ''}, which is no {type.sql}: declare "
                "another type (VARCHAR takes every text), or have a query = 'SELECT …' give other "
                "values. Nothing was copied"
            )
