"""Which tables have a fast way in, and what it must enforce.

Law: a door is given only where every constraint of the table can be enforced without DuckDB; any
other table is changed by DuckDB itself and captured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import sqlglot
from sqlglot import exp

from ivm.door import Check, Door
from ivm.sql.scalar import compile_predicate
from ivm.storage.column import Column, column_from_arrow
from ivm.storage.duck import Cursor, rows, table
from ivm.storage.table_info import TableInfo

_VOLATILE = re.compile(r"nextval|random|uuid|now\(|current_|get_current|today|setseed", re.I)


def door_of(info: TableInfo, cursor: Cursor) -> Door | None:
    """The fast way into a table, or None if only DuckDB can enforce what it demands.

    Args:
        info: the table.
        cursor: evaluates constant defaults.
    """
    if info.native_reason is not None or info.uniques or _has_trigger(info, cursor):
        return None
    if any(_VOLATILE.search(text) for text in info.defaults.values()):
        return None
    checks = [_check(text, info) for text in info.checks]
    known = tuple(check for check in checks if check is not None)
    if len(known) < len(checks):
        return None
    return Door(
        table=info.name,
        schema=info.schema,
        key=info.primary_key,
        required=tuple(sorted({*info.not_null, *info.primary_key})),
        defaults=_defaults(info, cursor),
        checks=known,
    )


def _has_trigger(info: TableInfo, cursor: Cursor) -> bool:
    schema, _, name = info.name.rpartition(".")
    sql = "SELECT 1 FROM duckdb_triggers() WHERE schema_name = ? AND table_name = ?"
    return bool(rows(cursor, sql, [schema or "main", name]))


def _defaults(info: TableInfo, cursor: Cursor) -> Mapping[int, Column]:
    found = {}
    for position, text in info.defaults.items():
        type = info.schema[position][1]
        value = table(cursor, f"SELECT CAST({text} AS {type.sql}) AS v")
        found[position] = column_from_arrow(value.column(0), type)
    return found


def _check(text: str, info: TableInfo) -> Check | None:
    """A kernel for a CHECK (NULL passes), or None if it is not on the kernels' list."""
    try:
        parsed = sqlglot.parse_one(text, read="duckdb")
    except sqlglot.ParseError:
        return None
    for column in list(parsed.find_all(exp.Column)):
        position = info.position(column.name)
        if position is None:
            return None
        column.replace(exp.column(f"c{position}"))
    passes = exp.func(
        "COALESCE", parsed if not isinstance(parsed, exp.Column) else parsed.copy(), exp.true()
    )
    try:
        holds = compile_predicate(passes, [type for _, type in info.schema])
    except duckdb.Error:
        return None
    return None if holds is None else (text, holds)
