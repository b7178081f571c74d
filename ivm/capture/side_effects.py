"""Finds the tables that a statement changes besides its target: by triggers and CTEs.

Contract: the answer may name too many tables, never too few. The target of a trigger or CTE is
searched by its last name in every schema, and a target that is not found means all tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ivm.sql.statements.nodes.nodes import Dml, Name
from ivm.sql.statements.text.tokens import Reader, tokens
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold, path_of
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.table_info import TableInfo

_TRIGGERS = "SELECT schema_name, table_name, sql FROM system.main.duckdb_triggers()"
_At = tuple[str, ...]
_TARGETS = (("INSERT", "INTO"), ("REPLACE", "INTO"), ("IGNORE", "INTO"), ("DELETE", "FROM"))
_HEADS = (*_TARGETS, ("MERGE", "INTO"), ("TRUNCATE", "TABLE"), ("TRUNCATE",), ("UPDATE",))

_OF_OTHERS = ("DO", "THEN", "AFTER", "BEFORE", "OR", "OF")
"""Behind these an UPDATE or a TRUNCATE is a part of a clause, which names no table."""

_Triggers = Mapping[_At, list[str]]


def tables_changed(
    cursor: Cursor, statement: Dml, table: TableInfo | None, tables: Mapping[str, TableInfo]
) -> list[TableInfo]:
    """The tables to be compared before and after; [] if the statement changes `table` alone.

    Args:
        table: the table that the statement names, if it is a base table.
        tables: all base tables.
    """
    triggers = _triggers(cursor)
    if statement.kind == "other":
        start = _targets(statement.text, tables)
    elif table is not None and _at(table.name) in triggers:
        start = {table.name}
    elif table is None and triggers:  # a temporary table's trigger may write to base tables
        start = set(tables)
    else:
        return []
    return [tables[name] for name in sorted(_closure(start, triggers, tables)) if name in tables]


def _triggers(cursor: Cursor) -> _Triggers:
    found: dict[_At, list[str]] = {}
    for schema, name, sql in rows(cursor, _TRIGGERS):
        found.setdefault((schema, name), []).append(sql)
    return found


def _at(name: str) -> _At:
    """The innermost schema and the name of a table: DuckDB lists no more of a trigger's table."""
    return path_of(name)[-2:]


def _closure(start: Iterable[str], triggers: _Triggers, tables: Mapping[str, Any]) -> set[str]:
    """The tables of `start` and those that their triggers change, and so on."""
    changed: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in changed:
            continue
        changed.add(name)
        for sql in triggers.get(_at(name), ()):
            waiting += _targets(sql, tables)
    return changed


def _targets(sql: str, tables: Mapping[str, Any]) -> set[str]:
    """The tables that a text may change; all of them if it names an unknown one."""
    found: set[str] = set()
    for name in written_names(sql):
        last = fold(name[-1])
        same = {known for known in tables if fold(path_of(known)[-1]) == last}
        if not same:
            return set(tables)
        found |= same
    return found or set(tables)


def written_names(sql: str) -> list[Name]:
    """The names after INSERT INTO, UPDATE, DELETE FROM, … anywhere in a text, as written.

    One that cannot be read is "", which no table has.
    """
    reader = Reader(tokens(sql))
    names = []
    while not reader.done:
        before = reader.peek(-1) if reader.at else ""
        head = next((head for head in _HEADS if reader.accept(*head)), None)
        if head is None:
            reader.at += 1
        elif len(head) > 1 or before not in _OF_OTHERS:
            names.append(_name(reader))
    return names


def _name(reader: Reader) -> Name:
    if reader.peek() == "" and not reader.done and reader.tokens[reader.at].text[0] == "'":
        reader.at += 1  # DuckDB takes a plain string for a name
        return (reader.tokens[reader.at - 1].text[1:-1].replace("''", "'"),)
    try:
        return reader.name()
    except SqlError:
        return ("",)
