"""Tables that are not stored: their history lies in files, and the file of the database has only
what changed since.

Law: the rows of such a table are those of its files whose key was not touched since, and those
added since. Both are tables of schema `_ivm`; a view of DuckDB under the table's name joins them,
so whoever reads the table reads all of its rows. A table without a key takes rows, and gives none
back.
Invariant: the files are pinned, by name, size and time. They must not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import Path, literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run

EPOCH = "_ivm_epoch"
"""The column that says with which epoch a row came (in a table without a key), or a key was
touched."""

FILES = "__ivm_files"
"""Stands in a reader for the list of files."""

_STUB = "__ivm_away"
"""Marks the view of `write_stub`."""

_RECORDS = """
CREATE TABLE IF NOT EXISTS _ivm.histories (
    number BIGINT, path VARCHAR[], format VARCHAR, location VARCHAR, options VARCHAR,
    readers VARCHAR[], files VARCHAR, epoch BIGINT)
"""
_COLUMNS = "number, path, format, location, options, readers, files, epoch"


@dataclass(frozen=True)
class PinnedFile:
    """A file of a history.

    Attributes:
        path: where it lies.
        size: in bytes.
        modified: when it was written last, in microseconds since 1970, UTC.
        reader: which of the history's readers reads it.
    """

    path: str
    size: int
    modified: int
    reader: int = 0


@dataclass(frozen=True)
class History:
    """Where the rows of a table lie.

    Attributes:
        number: of its own.
        path: schemas and name of the table.
        format: one of `history_reader.FORMATS`.
        location: of the files: a file, a folder or a pattern, absolute.
        options: of the reader, as the user gave them; of a lake also the version that was found.
        readers: SELECTs of the rows of files, with `FILES` in place of their list.
        files: the files.
        epoch: the files hold the table's rows as of this epoch.
    """

    number: int
    path: Path
    format: str
    location: str
    options: tuple[tuple[str, str], ...]
    readers: tuple[str, ...]
    files: tuple[PinnedFile, ...]
    epoch: int

    @property
    def added(self) -> str:
        """The name of the table with the rows that came since, in schema `_ivm`."""
        return f"history_{self.number}_added"

    @property
    def touched(self) -> str:
        """The name of the table with the keys that were changed since, in schema `_ivm`."""
        return f"history_{self.number}_touched"

    def names_file(self, text: str) -> bool:
        """Whether a text names one of the files."""
        return any(file.path in text for file in self.files)

    def reading(self, files: Sequence[PinnedFile], where: str = "") -> str:
        """A query, in parentheses, for the rows of some of the files.

        Args:
            files: at least one.
            where: a condition on what the readers read.
        """
        paths: dict[int, list[str]] = {}
        for file in files:
            paths.setdefault(file.reader, []).append(file.path)
        return _together([f"({filled(self.readers[i], p)}{where})" for i, p in paths.items()])

    @property
    def source(self) -> str:
        """A query, in parentheses, for all rows in the files."""
        return self.reading(self.files)


def filled(reader: str, paths: Sequence[str]) -> str:
    """The reader of these files."""
    before, after = reader.split(FILES, 1)
    return f"{before}[{', '.join(map(literal, paths))}]{after}"


_WIDTH = 50
"""How many queries one UNION ALL has: DuckDB's time to plan grows with the square."""


def _together(queries: Sequence[str]) -> str:
    while len(queries) > 1:
        queries = [f"({' UNION ALL '.join(some)})" for some in _in_parts(queries)]
    return queries[0]


def _in_parts(queries: Sequence[str]) -> Iterator[Sequence[str]]:
    return (queries[i : i + _WIDTH] for i in range(0, len(queries), _WIDTH))


def rows_of(schema: Schema, source: str) -> str:
    """A SELECT of the rows of a source, in the table's types."""
    listed = ", ".join(f"CAST({quote(n)} AS {t.sql}) AS {quote(n)}" for n, t in schema)
    return f"SELECT {listed} FROM {source}"


def write_view(
    cursor: Cursor, history: History, schema: Schema, key: Schema, *, replace: bool = False
) -> None:
    """Creates, or replaces, the view under the table's name."""
    name = ".".join(map(quote, history.path))
    names = [quote(name) for name, _ in schema]
    kept = ", ".join(f"__ivm_h.{name}" for name in names)
    same = " AND ".join(f"__ivm_t.{quote(name)} = __ivm_h.{quote(name)}" for name, _ in key)
    untouched = f" ANTI JOIN _ivm.{history.touched} AS __ivm_t ON {same}" if key else ""
    query = (
        f"SELECT {kept} FROM ({rows_of(schema, history.source)}) AS __ivm_h{untouched}"
        f" UNION ALL SELECT {', '.join(names)} FROM _ivm.{history.added}"
    )
    run(cursor, f"CREATE {'OR REPLACE ' if replace else ''}VIEW {name} AS {query}")


def write_stub(cursor: Cursor, history: History, schema: Schema) -> None:
    """Replaces the view under the table's name by one that needs no files, and fails when read."""
    name = ".".join(map(quote, history.path))
    why = (
        f"the files of table {name} at {history.location} were away when the database was opened: "
        "open it again when they are back, or name others with ALTER TABLE … SET HISTORY … "
        "WITH (check = false)"
    )
    fails = f"system.main.error({literal(why)})"
    values = ", ".join(f"CAST({fails} AS {type.sql}) AS {quote(name)}" for name, type in schema)
    listed = ", ".join(quote(name) for name, _ in schema)
    failing = f"SELECT {values} FROM (VALUES (1)) AS {_STUB}(one) WHERE CAST({fails} AS BOOLEAN)"
    query = f"SELECT {listed} FROM _ivm.{history.added} UNION ALL {failing}"
    run(cursor, f"CREATE OR REPLACE VIEW {name} AS {query}")


def is_stub(cursor: Cursor, history: History) -> bool:
    """Whether the view under the table's name is that of `write_stub`."""
    *schemas, name = history.path
    sql = "SELECT sql FROM system.main.duckdb_views() WHERE schema_name = $1 AND view_name = $2"
    return any(_STUB in text for (text,) in rows(cursor, sql, [schemas[-1], name]))


def create_added(cursor: Cursor, history: History, columns: str) -> None:
    """Creates the table of the added rows, of columns and constraints in SQL."""
    run(cursor, f"CREATE TABLE _ivm.{history.added} ({columns})")


def keep_epochs(cursor: Cursor, history: History, key: Schema) -> None:
    """Has the epochs of changes kept: of each touched key, or without a key of each added row."""
    if not key:
        run(cursor, f"ALTER TABLE _ivm.{history.added} ADD COLUMN {EPOCH} BIGINT")
        return
    listed = ", ".join(f"{quote(name)} {type.sql}" for name, type in key)
    names = ", ".join(quote(name) for name, _ in key)
    body = f"{listed}, {EPOCH} BIGINT, PRIMARY KEY ({names})"
    run(cursor, f"CREATE TABLE _ivm.{history.touched} ({body})")


def forget_until(cursor: Cursor, history: History, key: Schema, epoch: int) -> None:
    """Removes what changed up to an epoch: other files have it now."""
    if not key:
        run(cursor, f"DELETE FROM _ivm.{history.added} WHERE {EPOCH} <= {epoch}")
        return
    same = " AND ".join(f"a.{quote(name)} = t.{quote(name)}" for name, _ in key)
    gone = f"SELECT 1 FROM _ivm.{history.touched} t WHERE {same} AND t.{EPOCH} <= {epoch}"
    run(cursor, f"DELETE FROM _ivm.{history.added} AS a WHERE EXISTS ({gone})")
    run(cursor, f"DELETE FROM _ivm.{history.touched} WHERE {EPOCH} <= {epoch}")


def restart_epochs(cursor: Cursor, history: History, epoch: int, *, keyed: bool) -> None:
    """Lets all that changed since the history be of the epoch after this one.

    For changes that come from another database, whose epochs have no meaning here.
    """
    table = history.touched if keyed else history.added
    run(cursor, f"UPDATE _ivm.{table} SET {EPOCH} = {epoch + 1}")
    where = f"WHERE number = {history.number}"
    run(cursor, f"UPDATE _ivm.histories SET epoch = {epoch} {where}")


# --- the records ---


def save(cursor: Cursor, history: History) -> None:
    """Adds or replaces the record of a history."""
    run(cursor, _RECORDS)
    run(cursor, "DELETE FROM _ivm.histories WHERE number = $1", [history.number])
    files = json.dumps([[f.path, f.size, f.modified, f.reader] for f in history.files])
    given = [history.number, list(history.path), history.format, history.location]
    texts = [json.dumps(history.options), list(history.readers), files, history.epoch]
    run(cursor, "INSERT INTO _ivm.histories VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", given + texts)


def next_number(cursor: Cursor) -> int:
    """A number that no history has."""
    run(cursor, _RECORDS)
    found = rows(cursor, "SELECT system.main.max(number) FROM _ivm.histories")
    return int(found[0][0] or 0) + 1


def load(cursor: Cursor) -> list[History]:
    """All histories; the records must be there."""
    return [
        History(
            number,
            tuple(path),
            format,
            location,
            tuple((name, value) for name, value in json.loads(options)),
            tuple(readers),
            tuple(PinnedFile(*file) for file in json.loads(files)),
            epoch,
        )
        for number, path, format, location, options, readers, files, epoch in rows(
            cursor, f"SELECT {_COLUMNS} FROM _ivm.histories"
        )
    ]


_PRESENT = """
SELECT 1 FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND schema_name = '_ivm'
AND table_name = 'histories'
"""


def paths(cursor: Cursor) -> frozenset[Path]:
    """Schemas and name of each table that is not stored, under which DuckDB has a view."""
    if not rows(cursor, _PRESENT):
        return frozenset()
    return frozenset(tuple(path) for (path,) in rows(cursor, "SELECT path FROM _ivm.histories"))


def removal(history: History, keyed: bool) -> list[str]:
    """The statements that drop a table whose history this is."""
    name = ".".join(map(quote, history.path))
    tables = [history.added, *([history.touched] if keyed else [])]
    return [
        f"DROP VIEW IF EXISTS {name}",  # another program may have dropped it
        *[f"DROP TABLE _ivm.{table}" for table in tables],
        f"DELETE FROM _ivm.histories WHERE number = {history.number}",
    ]


# --- the files ---


def files_at(cursor: Cursor, pattern: str) -> tuple[PinnedFile, ...]:
    """The files that a pattern matches now, in the order of their names."""
    sql = (
        "SELECT filename, size, system.main.epoch_us(last_modified) "
        f"FROM read_blob({pattern}) ORDER BY filename"
    )
    return tuple(PinnedFile(*found) for found in rows(cursor, sql))


def demand_unchanged(cursor: Cursor, tables: Mapping[str, History]) -> None:
    """Checks that the files of histories are those that were pinned.

    Args:
        cursor: any.
        tables: the history of each table.

    Raises:
        UnavailableError: names the table, the file, and the way out.
    """
    for name, history in tables.items():
        listed = f"[{', '.join(literal(file.path) for file in history.files)}]"
        try:
            found = {file.path: file for file in files_at(cursor, listed)}
        except duckdb.Error as error:
            raise _changed(name, f"it cannot be read ({error})") from error
        for file in history.files:
            if file.path not in found:
                raise _changed(name, f"{file.path} is gone")
            if (found[file.path].size, found[file.path].modified) != (file.size, file.modified):
                raise _changed(name, f"{file.path} is not what it was")


def _changed(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the history of table {name!r} has changed: {why}. Its files are pinned: restore them, or "
        "name others with ALTER TABLE … SET HISTORY '…' AT EPOCH …, and WITH (check = false) where "
        "the rows so far cannot be compared"
    )
