"""CREATE TABLE … FROM files, DROP TABLE of such a table, and ALTER TABLE … SET HISTORY.

Contract: a statement runs in the session's open transaction, or in one of its own. The rows in the
files are checked against the table's key and constraints when they are named, unless the user says
`check = false`: from then on they are taken for true.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path_rules import fast_path_of
from ivm.ingest.parameters import Params
from ivm.session import jdbc
from ivm.session.ddl import ddl
from ivm.session.dml import refuse_own, run_in_duckdb
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import ConstraintError, SqlError, UnsupportedError
from ivm.storage.identifiers import fold, path_of, quote
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows, run
from ivm.storage.warehouse.tables.history import (
    EPOCH,
    History,
    create_added,
    forget_until,
    keep_epochs,
    next_number,
    rows_of,
    save,
    write_view,
)
from ivm.storage.warehouse.tables.history_reader import LAKES, Found, columns_of, find, readers_of
from ivm.storage.warehouse.tables.table_info import TableInfo

_OURS = ("stored", "check")
_CONSTRAINTS = ("PRIMARY", "CHECK", "CONSTRAINT", "UNIQUE", "FOREIGN")


def create(session: Session, statement: st.CreateHistory, params: Params) -> Result:
    """Runs CREATE TABLE … FROM format 'place' [WITH (stored = false, …)]."""
    refuse_own(statement.name)
    catalog = session.engine.catalog
    stored = _flag(statement.options, "stored", default=True)
    checked = _flag(statement.options, "check", default=True)
    if statement.format == jdbc.FORMAT and not _is_there(session, statement):
        statement = jdbc.copied(session, statement)
    with session.writing() as transaction:
        if _is_there(session, statement):
            return Result("done")
        path = path_of(catalog.names.new(statement.name))
        transaction.change_catalog()
        transaction.begin_in_duckdb()
        if stored:
            _load(session, transaction, statement)
        else:
            _create(session, transaction, statement, path, checked=checked)
    return Result("done")


def _is_there(session: Session, statement: st.CreateHistory) -> bool:
    """Whether there is nothing to do, since the table is there.

    Raises:
        SqlError: it may not be there.
        UnsupportedError: it would be in another database.
    """
    catalog = session.engine.catalog
    if catalog.names.path(statement.name) is None:
        raise UnsupportedError(
            f"{'.'.join(statement.name)!r} lies in another database: there, load the files "
            "with CREATE TABLE … AS FROM read_parquet(…)",
            statement.offset,
        )
    present = catalog.names.resolve(statement.name)
    if present is not None and not statement.if_not_exists:
        raise SqlError(f"{present!r} exists already: drop it first", statement.offset)
    return present is not None


def _flag(options: Sequence[tuple[str, str]], name: str, *, default: bool) -> bool:
    value = dict(options).get(name, str(default).lower())
    if value not in ("true", "false"):
        raise SqlError(f"{name} is true or false, not {value!r}")
    return value == "true"


def _create(
    session: Session,
    transaction: Transaction,
    statement: st.CreateHistory,
    path: tuple[str, ...],
    *,
    checked: bool,
) -> None:
    cursor = session.cursor
    number, format, epoch = next_number(cursor), statement.format, session.engine.epoch
    history = History(number, path, format, "", statement.options, (), (), epoch)
    found = find(cursor, format, statement.location, _readers(statement.options))
    create_added(cursor, history, _columns(cursor, statement, found))
    schema = describe(cursor, f"FROM _ivm.{history.added}")
    _refuse_names(schema)
    history = _in_files(cursor, history, found, schema)
    save(cursor, history)
    info = _info(session, history)
    _demand_fast_path(session, info)
    keep_epochs(cursor, history, info.key_columns)
    write_view(cursor, history, schema, info.key_columns)
    if checked:
        _check(cursor, history, info)
    ddl.changed(session, transaction, _as_ddl(statement))


def _as_ddl(statement: st.CreateHistory) -> st.Ddl:
    return st.Ddl(statement.text, statement.offset, "create", "table", (statement.name,))


def _columns(cursor: Cursor, statement: st.CreateHistory, found: Found) -> str:
    """The columns and constraints of the table, as SQL; the files' columns if it lists none."""
    first = statement.columns.split(maxsplit=1)[:1]
    if first and first[0].upper().split("(")[0] not in _CONSTRAINTS:
        return statement.columns
    source = _source(cursor, statement, found, None)
    schema = columns_of(cursor, statement.format, source)
    listed = [f"{quote(name)} {type.sql}" for name, type in schema]
    return ", ".join([*listed, *([statement.columns] if first else [])])


def _source(
    cursor: Cursor, statement: st.CreateHistory, found: Found, columns: Schema | None
) -> str:
    """A query for all rows in the files that the statement names."""
    format, options = statement.format, _readers(statement.options)
    readers, files = readers_of(cursor, format, found, options, columns)
    return History(0, (), format, "", (), readers, files, 0).source


def _refuse_names(schema: Schema) -> None:
    if any(fold(name) == EPOCH for name, _ in schema):
        raise UnsupportedError(f"{EPOCH} is a name that the database works with: choose another")


def _readers(options: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """The options that are DuckDB's reader's."""
    return {name: value for name, value in options if name not in _OURS}


def _in_files(cursor: Cursor, history: History, found: Found, schema: Schema) -> History:
    """The history in the files that were found at a place."""
    options = dict(history.options)
    if found.lake is not None:
        options[LAKES[history.format]] = str(found.lake.version)
    readers, files = readers_of(cursor, history.format, found, _readers(history.options), schema)
    place, given = found.place, tuple(options.items())
    history = dataclasses.replace(
        history, location=place, options=given, readers=readers, files=files
    )
    columns = columns_of(cursor, history.format, history.source)
    types = {fold(name): type for name, type in columns}
    for name, type in schema:
        if fold(name) not in types:
            theirs = ", ".join([name for name, _ in columns])
            raise SqlError(f"the files at {place!r} have no column {name!r}: theirs are {theirs}")
        _refuse_zone(history.format, name, type, types[fold(name)])
    return history


def _refuse_zone(format: str, name: str, type: ColumnType, in_files: ColumnType) -> None:
    """Refuses a column whose values would depend on the time zone of the session that reads it."""
    zoned, found = "TIME ZONE" in type.sql, "TIME ZONE" in in_files.sql
    if zoned != found or (zoned and format in ("csv", "json")):
        raise UnsupportedError(
            f"the column {name!r} ({type.sql}, in the files {in_files.sql}) would have other "
            "values in other time zones: declare it with the files' own type (if it is text there, "
            "as VARCHAR or TIMESTAMP), or load the table (stored = true)"
        )


def _info(session: Session, history: History) -> TableInfo:
    """The table as DuckDB's catalog describes it."""
    found = session.engine.warehouse.tables(session.cursor).values()
    return next(t for t in found if t.history and t.history.number == history.number)


def _demand_fast_path(session: Session, info: TableInfo) -> None:
    """Refuses a table whose constraints could not be checked without DuckDB.

    Raises:
        UnsupportedError: it has such a constraint.
    """
    why = info.duckdb_reason or ("it has a UNIQUE constraint" if info.uniques else None)
    why = "it has foreign keys" if info.foreign_keys or info.referenced_by else why
    if why is None and fast_path_of(info, session.cursor, session.macros, {}) is None:
        why = "a default is no constant, or a CHECK calls what only DuckDB computes"
    if why is not None:
        raise UnsupportedError(
            f"the table {info.name} cannot be left in its files: {why}. PRIMARY KEY, NOT NULL, "
            "plain CHECKs and constant defaults are possible; or load it (stored = true)"
        )


def _check(cursor: Cursor, history: History, info: TableInfo) -> None:
    """Checks the rows in the files against the key, NOT NULL and CHECKs of the table.

    Raises:
        ConstraintError: they violate one.
    """
    names = [quote(info.schema[i][0]) for i in info.primary_key]
    tests = {}
    if names:
        row = names[0] if len(names) == 1 else f"({', '.join(names)})"
        count = f"system.main.count(*) - system.main.count(DISTINCT {row})"
        tests["PRIMARY KEY: rows whose key another row has"] = count
    for i in sorted({*info.not_null, *info.primary_key}):
        where = f"{quote(info.schema[i][0])} IS NULL"
        tests[f"NOT NULL {info.schema[i][0]}: rows without it"] = _counting(where)
    for text in info.checks:
        tests[f"CHECK {text}: rows for which it is false"] = _counting(f"NOT ({text})")
    if not tests:
        return
    (found,) = rows(
        cursor, f"SELECT {', '.join(tests.values())} FROM ({rows_of(info.schema, history.source)})"
    )
    for what, count in zip(tests, found, strict=True):
        if count:
            raise ConstraintError(
                f"the files at {history.location!r} violate a constraint of table {info.name!r}: "
                f"{what}: {count}. Nothing was changed; `WITH (check = false)` leaves the check "
                "out, where you know better"
            )


def _counting(where: str) -> str:
    return f"system.main.count(*) FILTER (WHERE {where})"


def _load(session: Session, transaction: Transaction, statement: st.CreateHistory) -> None:
    """Creates a table that is stored, and fills it from the files."""
    name = ".".join(map(quote, statement.name))
    options = _readers(statement.options)
    found = find(session.cursor, statement.format, statement.location, options)
    columns = _columns(session.cursor, statement, found)
    (create,) = st.parse(f"CREATE TABLE {name} ({columns})")
    assert isinstance(create, st.Ddl)
    run(session.cursor, create.text)
    ddl.changed(session, transaction, create)
    info = session.engine.catalog.tables[session.engine.catalog.names.new(statement.name)]
    source = _source(session.cursor, statement, found, info.schema)
    (insert,) = st.parse(f"INSERT INTO {name} BY NAME FROM {source}")
    assert isinstance(insert, st.Dml)
    run_in_duckdb(session, transaction, insert, info, None)


def demand_named(session: Session, error: str) -> None:
    """Checks the files of the tables that an error of DuckDB's names.

    Raises:
        UnavailableError: a file has changed, or is gone.
    """
    tables = session.engine.catalog.tables.items()
    named = [name for name, info in tables if info.history and info.history.names_file(error)]
    session.engine.tables.demand_histories(named)


# --- other files ---


def set_history(session: Session, statement: st.SetHistory, params: Params) -> Result:
    """Runs ALTER TABLE … SET HISTORY 'place' AT [EPOCH] number."""
    with session.writing() as transaction:
        engine, cursor = session.engine, session.cursor
        info = _unstored(session, statement)
        assert info.history is not None
        _refuse_epoch(info.history, statement, engine.epoch)
        transaction.change_catalog()
        transaction.begin_in_duckdb()
        checked = _flag(statement.options, "check", default=True)
        before = _fingerprint(cursor, info) if checked else None
        options, epoch = _options(info.history, statement), statement.epoch
        history = dataclasses.replace(info.history, options=options, epoch=epoch)
        found = find(cursor, history.format, statement.location, _readers(options))
        history = _in_files(cursor, history, found, info.schema)
        forget_until(cursor, history, info.key_columns, epoch)
        write_view(cursor, history, info.schema, info.key_columns, replace=True)
        save(cursor, history)
        if checked:
            _check(cursor, history, info)
            _demand_same(info, before, _fingerprint(cursor, info), statement)
        engine.unfilled.outdate_twice([info.name])
        engine.reload_tables(cursor)
        transaction.change_tables()
    return Result("done")


def _options(history: History, statement: st.SetHistory) -> tuple[tuple[str, str], ...]:
    """The options for other files: as before, but for those given, and the version of a lake."""
    given = {n: value for n, value in history.options if n != LAKES.get(history.format)}
    return tuple((given | dict(statement.options)).items())


def _unstored(session: Session, statement: st.SetHistory) -> TableInfo:
    name = session.names.resolve(statement.name)
    info = None if name is None else session.engine.catalog.tables.get(name)
    if info is None or info.history is None:
        raise SqlError(
            f"{'.'.join(statement.name)!r} is no table whose history lies in files: CREATE TABLE … "
            "FROM PARQUET '…' WITH (stored = false) makes one",
            statement.offset,
        )
    return info


def _refuse_epoch(history: History, statement: st.SetHistory, now: int) -> None:
    if not history.epoch <= statement.epoch <= now:
        raise SqlError(
            f"epoch {statement.epoch} is not between {history.epoch}, that of the history so far, "
            f"and {now}, that of the last commit",
            statement.offset,
        )


def _fingerprint(cursor: Cursor, info: TableInfo) -> tuple[object, ...]:
    """Numbers that are equal for equal rows, and hardly ever else."""
    listed = ", ".join(quote(name) for name, _ in info.schema)
    hashed = f"system.main.hash({listed})"
    sums = f"system.main.bit_xor({hashed}), system.main.sum(CAST({hashed} AS HUGEINT))"
    return rows(cursor, f"SELECT system.main.count(*), {sums} FROM {info.qualified}")[0]


def _demand_same(
    info: TableInfo,
    before: tuple[object, ...] | None,
    after: tuple[object, ...],
    statement: st.SetHistory,
) -> None:
    if before != after:
        assert before is not None
        raise ConstraintError(
            f"with the history at {statement.location!r} as of epoch {statement.epoch}, table "
            f"{info.name!r} would have other rows than now ({after[0]} rows, {before[0]} now): "
            "these files do not hold its rows as of that epoch. Nothing was changed"
        )
