"""The CREATE statements of what is in the open database, to be run again elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.database import Database
from ivm.engine.tables.retention import Rule, stored_rules
from ivm.engine.tables.watermark_rows import Watermark
from ivm.engine.views.clock import spelled_tick
from ivm.session.session import Session
from ivm.shell.editing.completion import quoted
from ivm.shell.listing import RESERVED
from ivm.sql.statements.own.views import written_query
from ivm.storage.errors import InputError
from ivm.storage.identifiers import canonical_name, fold, literal, quote, split_name
from ivm.storage.warehouse.tables.system_tables import StoredView, load_views
from ivm.storage.warehouse.tables.view_indexes import ViewIndex, load_view_indexes

_MADE = """
SELECT kind, schema_name, name, sql FROM (
  SELECT 'schema' AS kind, oid, database_name, schema_name, internal, '' AS name, '' AS sql
    FROM duckdb_schemas() WHERE schema_name <> 'main'
  UNION ALL SELECT 'sequence', sequence_oid, database_name, schema_name, false, sequence_name, sql
    FROM duckdb_sequences()
  UNION ALL SELECT 'table', table_oid, database_name, schema_name, internal, table_name, sql
    FROM duckdb_tables()
  UNION ALL SELECT 'view', view_oid, database_name, schema_name, internal, view_name, sql
    FROM duckdb_views()
  UNION ALL SELECT 'index', index_oid, database_name, schema_name, false, index_name, sql
    FROM duckdb_indexes()
)
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
ORDER BY list_position(['schema', 'sequence', 'table', 'view', 'index'], kind), oid
"""


@dataclass(frozen=True)
class _Made:
    """The CREATE statement of a schema, sequence, table, view or index.

    Attributes:
        kind: "schema", "sequence", "table", "view" (a materialized one too) or "index".
        name: canonical; empty for a schema.
        text: the statement.
        reads: canonical names of the relations in a view's query, folded.
    """

    kind: str
    name: str
    text: str
    reads: tuple[str, ...] = ()


def statements(database: Database, name: str = "") -> Iterator[str]:
    """Yields the CREATE statements of all, in an order that can be run again, or of one relation.

    Raises:
        InputError: there is no relation of that name.
    """
    made = list(_made(database))
    if name:
        wanted = fold(canonical_name(split_name(name)[-2:]))
        found = [one for one in made if fold(one.name) == wanted]
        if not found:
            known = ", ".join(one.name for one in made if one.name) or "none yet"
            raise InputError(f"there is no table or view {name!r}; there are: {known}")
    else:
        found = list(_in_order(made))
    for one in found:
        yield one.text.rstrip().rstrip(";")


class _Records(NamedTuple):
    """What is recorded of views and tables, by name, beside DuckDB's own CREATE statements."""

    views: dict[str, StoredView]
    rules: dict[str, Rule]
    marks: Mapping[str, Watermark]
    indexes: Mapping[str, ViewIndex]


def _recorded(session: Session) -> _Records:
    cursor, database = session.cursor, session.engine.catalog.database
    views = {view.name: view for view in load_views(cursor)}
    rules = {rule.table: rule for rule in stored_rules(cursor, database)}
    marks = session.engine.watermarks.known
    return _Records(views, rules, marks, load_view_indexes(cursor))


def _made(database: Database) -> Iterator[_Made]:
    records = database._with_session(_recorded)
    in_files = {table.name: table.in_files for table in database.tables() if table.in_files}
    reserved = frozenset(word for (word,) in database.execute(RESERVED))
    for kind, schema, plain, text in list(database.execute(_MADE)):
        name = canonical_name((schema, plain))
        written = _path(name, reserved)
        if kind == "schema":
            yield _Made(kind, "", f"CREATE SCHEMA {quoted(schema, reserved)}")
        elif kind == "table" and name in records.views:
            view = records.views[name]
            yield _Made("view", name, _of_view(view, written, reserved), _read_by(view.query))
        elif kind == "view" and name in in_files:
            yield _Made("table", name, in_files[name])
        elif kind == "sequence":  # whose name DuckDB writes without its schema and quotes
            text = f"CREATE SEQUENCE {written}{text.removeprefix(f'CREATE SEQUENCE {plain}')}"
            yield _Made(kind, name, text)
        elif kind == "table":
            text = text.rstrip().rstrip(";")
            rule = records.rules.get(name)
            text += f" WITH {_of_rule(rule)}" if rule and not rule.behind else ""
            text += _of_mark(records.marks[name], written) if name in records.marks else ""
            text += f";\nALTER TABLE {written} SET {_of_rule(rule)}" if rule and rule.behind else ""
            yield _Made(kind, name, text)
        else:
            yield _Made(kind, name, text, _read_by(text) if kind == "view" else ())
    for index in records.indexes.values():
        on = f"{_path(index.view, reserved)}({_columns(index.columns, reserved)})"
        yield _Made("index", index.name, f"CREATE INDEX {quoted(index.name, reserved)} ON {on}")


def _of_view(view: StoredView, written: str, reserved: frozenset[str]) -> str:
    columns = f" ({_columns(view.columns, reserved)})" if view.columns else ""
    tick = "" if view.tick is None else f" WITH (tick = '{spelled_tick(view.tick)}')"
    query = written_query(view.query, view.emits)
    return f"CREATE MATERIALIZED VIEW {written}{columns}{tick} AS\n{query}"


def _of_rule(rule: Rule) -> str:
    if rule.behind:
        return f"(retain = INTERVAL {literal(rule.length)} BEHIND WATERMARK)"
    return f"(retain = INTERVAL {literal(rule.retain)}, retain_by = {quote(rule.column)})"


def _of_mark(mark: Watermark, written: str) -> str:
    """The statement behind CREATE TABLE that gives the table its watermark."""
    column = quote(mark.column)
    delay = f" - INTERVAL '{mark.delay} microseconds'" if mark.delay else ""
    options = [f"late = {literal(mark.late)}"]
    if mark.idle_after is not None:
        options.append(f"idle_after = '{mark.idle_after} microseconds'")
    if mark.by is not None:
        options.append(f"watermark_by = {quote(mark.by)}")
    told = f"SET WATERMARK FOR {column} AS {column}{delay} WITH ({', '.join(options)})"
    return f";\nALTER TABLE {written} {told}"


def _path(name: str, reserved: frozenset[str]) -> str:
    return ".".join([quoted(part, reserved) for part in split_name(name)])


def _columns(names: Iterable[str], reserved: frozenset[str]) -> str:
    return ", ".join([quoted(name, reserved) for name in names])


def _read_by(text: str) -> tuple[str, ...]:
    tree = parsed(text)
    tables = tree.find_all(exp.Table) if tree is not None else ()
    return tuple(fold(canonical_name((table.db or "main", table.name))) for table in tables)


def parsed(sql: str) -> exp.Expr | None:
    """Returns the syntax tree of a statement, None where sqlglot does not know its syntax."""
    with suppress(SqlglotError):
        return sqlglot.parse_one(sql, dialect="duckdb")
    return None


def _in_order(made: list[_Made]) -> Iterator[_Made]:
    """Yields each view after the relations that it reads."""
    relations = {fold(one.name): one for one in made if one.kind in ("table", "view")}

    def after_its_inputs(name: str) -> Iterator[_Made]:
        if (one := relations.pop(name, None)) is not None:
            for read in one.reads:
                yield from after_its_inputs(read)
            yield one

    for one in made:
        yield from after_its_inputs(fold(one.name)) if one.kind in ("table", "view") else [one]
