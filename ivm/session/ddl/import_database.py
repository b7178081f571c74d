"""IMPORT DATABASE: restores what EXPORT DATABASE wrote, also the materialized views.

EXPORT is DuckDB's own: the folder holds the views' tables and our records too, so that DuckDB alone
can import all of it.
Contract: IMPORT skips these and creates the views anew, in one transaction. As in DuckDB, data is
read from the folder that the statement names, wherever it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ivm.engine.tables.retention import COLUMNS, Rule
from ivm.engine.views.fillings import Kept
from ivm.session.ddl import view_statements
from ivm.session.ddl.retention import restore_rules
from ivm.session.ddl.stored_watermarks import restore_watermarks
from ivm.session.results.result import Result
from ivm.session.session import RunStatement, Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.own.views import written_query
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import fold, literal, path_of, quote, words_in
from ivm.storage.warehouse.duckdb.duck import rows, run
from ivm.storage.warehouse.tables.history import paths, restart_epochs
from ivm.storage.warehouse.tables.system_tables import (
    WATERMARK_TABLES,
    StoredView,
    read_emits,
    read_state,
    read_ticks,
)
from ivm.storage.warehouse.tables.view_indexes import ViewIndex, read_view_indexes

_TEXT = re.compile(r"'((?:[^']|'')*)'")
_FROM = re.compile(r"\bFROM\s+'((?:[^']|'')*)'")
_HISTORY = re.compile(r"_ivm/(histories|history_\d+_(added|touched))")
_RECORDS = "(name VARCHAR, query VARCHAR, columns VARCHAR[], state VARCHAR, number BIGINT)"
_MARKS = (
    'SELECT "table", "column", delay, late, idle_after, system.main.epoch_us(watermark), '
    "system.main.epoch_us(greatest), system.main.epoch_us(seen), late_rows, watermark_by %s"
)
_PARTS = 'SELECT "table", part, system.main.epoch_us(greatest), system.main.epoch_us(seen) %s'
_WATERMARK = '_ivm."watermark '
"""Stands in a macro that reads a watermark, which is there when its table is."""
_IMPORTED = "temp.main._ivm_imported"


def is_import(statement: st.Ddl) -> bool:
    """Returns whether a statement is IMPORT DATABASE, or the PRAGMA that does the same."""
    name = "" if statement.name is None else fold(statement.name[-1])
    pragma = statement.action == "pragma" and name == "import_database"
    return statement.action == "import" or pragma


def import_database(session: Session, statement: st.Ddl, run_statement: RunStatement) -> Result:
    """Runs the scripts of an exported folder, and creates its views."""
    if session.transaction is not None:
        return _import(session, _folder(statement), run_statement)
    session.begin()
    try:
        result = _import(session, _folder(statement), run_statement)
    except BaseException as error:
        session.fail(error)
        session.rollback()
        raise
    session.commit()
    return result


def _folder(statement: st.Ddl) -> Path:
    found = _TEXT.search(statement.text)
    folder = Path(found[1].replace("''", "'") if found else "")
    if found is None or not (folder / "schema.sql").is_file():
        raise InputError(f"{str(folder)!r} is no folder that EXPORT DATABASE has written")
    return folder


def _import(session: Session, folder: Path, run_statement: RunStatement) -> Result:
    schema = st.parse((folder / "schema.sql").read_text("utf-8"))
    load = st.parse(_rebased((folder / "load.sql").read_text("utf-8"), folder))
    meta = _records(session, load, "meta", "(key VARCHAR, value VARCHAR)", "%s")
    views = _views(session, load, meta)
    left_out = {path for path, *_ in views}
    plain = []
    for statement in schema:
        path = _path(statement)
        if path[:1] == ("_ivm",) or path in left_out:
            continue
        waits = isinstance(statement, st.Ddl) and (
            statement.target == "view"
            or (statement.target == "macro" and _WATERMARK in statement.text)
        )
        if waits:
            plain.append((path, statement.text))
        else:
            run_statement(session, statement, None)
    for statement in load:
        path = _path(statement)
        if path[:1] != ("_ivm",) and path not in left_out:
            run_statement(session, statement, None)
    _import_histories(session, schema, load)
    columns = COLUMNS.replace(" NOT NULL", "")
    marks = _records(session, load, "watermarks", _columns("watermarks"), _MARKS)
    parts = _records(session, load, "watermark_parts", _columns("watermark_parts"), _PARTS)
    restore_watermarks(session, marks, parts)
    restore_rules(session, [Rule(*r) for r in _records(session, load, "retention", columns, "%s")])
    reasons = {text: broken for _, text, broken in views}
    kept = {text: _kept(load, path) for path, text, _ in views}
    for text in _ordered([*plain, *[(path, text) for path, text, _ in views]]):
        for statement in st.parse(text):
            if isinstance(statement, st.CreateView):
                view_statements.restore(session, statement, reasons[text], kept[text])
            else:
                run_statement(session, statement, None)
    for index in read_view_indexes(meta).values():
        (statement,) = st.parse(_indexed(index))
        run_statement(session, statement, None)
    return Result("done")


def _import_histories(
    session: Session, schema: Sequence[st.Statement], load: Sequence[st.Statement]
) -> None:
    """Restores the tables whose history lies in files, but for the views under their names.

    What has changed since belongs to this import's epoch, wherever it came from.

    Raises:
        UnsupportedError: this database has such tables already.
    """
    chosen = [s for s in (*schema, *load) if _HISTORY.fullmatch("/".join(_path(s)))]
    if not chosen:
        return
    cursor, engine = session.cursor, session.engine
    with session.writing() as transaction:
        if paths(cursor):
            raise UnsupportedError(
                "tables whose history lies in files can be imported only where there is none yet: "
                "IMPORT into a new database"
            )
        transaction.change_catalog(functions=True)
        transaction.begin_in_duckdb()
        run(cursor, "DROP TABLE IF EXISTS _ivm.histories")
        for statement in chosen:
            run(cursor, statement.text)
        for info in engine.warehouse.tables(cursor).values():
            if info.history is not None:
                restart_epochs(cursor, info.history, engine.epoch, keyed=info.keyed)
        engine.reload_tables(cursor, functions=True)
        transaction.change_tables()


def _rebased(script: str, folder: Path) -> str:
    """The script with its data files looked up in this folder."""

    def moved(found: re.Match[str]) -> str:
        name = re.split(r"[/\\]", found[1].replace("''", "'"))[-1]
        return f"FROM {literal(str(folder / name))}"

    return _FROM.sub(moved, script)


def _path(statement: st.Statement) -> tuple[str, ...]:
    """The folded path, without the main schema, of the relation that a statement makes or fills."""
    name: Sequence[str] | None = None
    if isinstance(statement, st.Dml):
        name = statement.table
    elif isinstance(statement, st.Ddl):
        name = statement.name
    path = tuple([fold(part) for part in name or ()])
    return path[1:] if len(path) > 1 and path[0] == "main" else path


def _views(
    session: Session, load: Sequence[st.Statement], meta: Sequence[tuple[str, str]]
) -> list[tuple[tuple[str, ...], str, str | None]]:
    """The exported materialized views: path, CREATE statement and why it is broken."""
    columns = "name, query, columns, state"
    found = _records(session, load, "views", _RECORDS, f"SELECT {columns} %s ORDER BY number")
    ticks, emits = read_ticks(meta), read_emits(meta)
    views = [
        (
            StoredView(
                name,
                query,
                tuple(given or ()),
                tick=ticks.get(name),
                emits=emits.get(name, "changes"),
            ),
            state,
        )
        for name, query, given, state in found
    ]
    return [(_folded(view.name), _created(view), read_state(state)[1]) for view, state in views]


def _records(
    session: Session, load: Sequence[st.Statement], table: str, columns: str, query: str
) -> list[tuple[Any, ...]]:
    """The rows of a query over an exported table of our records; none if it was not exported.

    Args:
        table: its name in schema _ivm.
        columns: their definitions.
        query: with %s for FROM and the table.
    """
    records = next((s for s in load if _path(s) == ("_ivm", table)), None)
    if records is None:
        return []
    cursor = session.engine.warehouse.cursor()
    run(cursor, f"CREATE TEMP TABLE _ivm_imported {columns}")
    run(cursor, f"COPY {_IMPORTED} {records.text[records.text.index('FROM ') :]}")
    found = rows(cursor, query % f"FROM {_IMPORTED}")
    run(cursor, f"DROP TABLE {_IMPORTED}")
    return found


def _kept(load: Sequence[st.Statement], path: tuple[str, ...]) -> Kept | None:
    """The exported rows of a view, which it keeps if they stay."""
    text = next((s.text for s in load if _path(s) == path), "")
    found = _FROM.search(text)
    return None if found is None else lambda table: f"COPY {table} {text[found.start() :]}"


def _columns(table: str) -> str:
    return WATERMARK_TABLES[table].replace(" NOT NULL", "")


def _folded(name: str) -> tuple[str, ...]:
    path = tuple([fold(part) for part in path_of(name)])
    return path[1:] if path[0] == "main" else path


def _created(view: StoredView) -> str:
    listed = f" ({', '.join(map(quote, view.columns))})" if view.columns else ""
    path = ".".join(map(quote, path_of(view.name)))
    ticks = f" WITH (tick = '{view.tick} microseconds')" if view.tick is not None else ""
    return (
        f"CREATE MATERIALIZED VIEW {path}{listed}{ticks} AS {written_query(view.query, view.emits)}"
    )


def _indexed(index: ViewIndex) -> str:
    view, columns = (
        ".".join(map(quote, path_of(index.view))),
        ", ".join(map(quote, index.columns)),
    )
    return f"CREATE INDEX {quote(index.name)} ON {view} ({columns})"


def _ordered(views: list[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    """The statements of views in an order in which none names a later view (cycles as given)."""
    waiting = [(words_in(path[-1]), text, words_in(text)) for path, text in views]
    while waiting:
        free = (
            i
            for i, (_, _, words) in enumerate(waiting)
            if not any(words >= name for j, (name, _, _) in enumerate(waiting) if j != i)
        )
        yield waiting.pop(next(free, 0))[1]
