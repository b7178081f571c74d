"""Decides which tables have a fast path, and compiles its constraint checks.

Law: a table has a fast path only where each of its constraints can be enforced without DuckDB, and
every default is a literal or can be evaluated by itself (`evaluated_defaults`); any other table is
changed by DuckDB itself and captured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import duckdb

from ivm.ingest.evaluated_defaults import EvaluatedDefault, evaluated_default
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import FurtherKeys, Reference
from ivm.ingest.table_rules import Check
from ivm.sql.parse.expression_text import expression_of, names_of
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.errors import ConstraintError, EvaluationError
from ivm.storage.identifiers import path_of
from ivm.storage.values.column import Column, FixedColumn, Mask, column_from_arrow
from ivm.storage.values.types import type_of
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, table
from ivm.storage.warehouse.tables.table_info import ForeignKey, TableInfo

_NUMBER = r"-?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
_CONSTANT = rf"NULL|true|false|{_NUMBER}|[xX]?'(?:[^']|'')*'"
_LITERAL = re.compile(
    rf"(?:{_CONSTANT})|CAST\((?:{_CONSTANT}) AS (?P<type>[^()]+(?:\([0-9, ]+\))?)\)"
)
"""Constants as DuckDB prints them; any other default may call a macro or read the clock."""
_ZONED = re.compile("TIMESTAMPTZ|TIMETZ|TIME ZONE", re.IGNORECASE)
_BOOLEAN = type_of("BOOLEAN")


def fast_path_of(
    info: TableInfo, cursor: Cursor, macros: Collection[str], tables: Mapping[str, TableInfo]
) -> FastPath | None:
    """The fast path into a table, or None if only DuckDB can enforce its constraints.

    Args:
        info: the table.
        cursor: evaluates literals.
        macros: names of the user's functions and macros, in small letters.
        tables: all tables, by canonical name.
    """
    further = _further(info, tables)
    if why_none(info, cursor, macros) is not None:
        return None
    checks = [_check(text, info, macros) for text in info.checks]
    known = tuple(check for check in checks if check is not None)
    return FastPath(
        table=info.name,
        schema=info.schema,
        key=info.primary_key,
        required=tuple(sorted({*info.not_null, *info.primary_key})),
        defaults={i: value for i, value in _literals(info, cursor).items() if value is not None},
        checks=known,
        evaluated=_evaluated(info, cursor, macros),
        further=further if further else None,
        takes_only=info.history is not None and not info.primary_key,
    )


def why_none(info: TableInfo, cursor: Cursor, macros: Collection[str]) -> str | None:
    """The reason why a table has no fast path; None if it has one."""
    if info.duckdb_reason is not None:
        return info.duckdb_reason
    if info.history is not None and info.uniques:
        return "it has UNIQUE constraints or indexes"
    if has_trigger(info, cursor):
        return "it has triggers"
    literals = _literals(info, cursor)
    for i in info.defaults:
        name = info.schema[i][0]
        if i not in literals and not _is_evaluated(info, i, cursor, macros):
            return f"the default of {name} is neither a literal nor one of a few calls"
        if i in literals and literals[i] is None:
            return f"the default of {name} cannot be cast to its type"
    for text in info.checks:
        if _check(text, info, macros) is None:
            return f"no kernel evaluates its CHECK ({text})"
    return None


def _further(info: TableInfo, tables: Mapping[str, TableInfo]) -> FurtherKeys:
    """The UNIQUE constraints and the foreign keys from and to a table."""
    parents = [_reference(key, tables[key.table]) for key in info.foreign_keys]
    children = []
    for child in info.referenced_by:
        for key in tables[child].foreign_keys:
            if key.table == info.name:
                up = _reference(key, info)
                names = tuple([tables[child].schema[i][0] for i in up.own])
                children.append(Reference(up.columns, child, up.own, names))
    uniques = [one for one in dict.fromkeys(info.uniques) if one != info.primary_key]
    return FurtherKeys(info.name, tuple(uniques), tuple(parents), tuple(children), info.moved_by)


def _reference(key: ForeignKey, parent: TableInfo) -> Reference:
    """A foreign key as its table sees it, its columns in the order of the parent's key."""
    pairs = dict(zip([parent.position(name) for name in key.referenced], key.columns, strict=True))
    known = (parent.primary_key, *parent.uniques)
    columns = next(one for one in known if set(one) == pairs.keys())
    names = tuple([parent.schema[i][0] for i in columns])
    return Reference(tuple([pairs[i] for i in columns]), parent.name, columns, names)


def has_trigger(info: TableInfo, cursor: Cursor) -> bool:
    """Returns whether a change of the table runs the user's triggers."""
    schema, name = path_of(info.name)[-2:]
    sql = "SELECT 1 FROM system.main.duckdb_triggers() WHERE schema_name = ? AND table_name = ?"
    return bool(rows(cursor, sql, [schema, name]))


def _is_literal(text: str, info: TableInfo, position: int) -> bool:
    """Whether a default is a literal that no setting of the session gives another value."""
    found = _LITERAL.fullmatch(text)
    if found is None:
        return False
    types = (found["type"] or "", info.schema[position][1].sql)
    return not any(_ZONED.search(type) for type in types)


def _is_evaluated(info: TableInfo, position: int, cursor: Cursor, macros: Collection[str]) -> bool:
    stored = info.history is None
    return stored and evaluated_default(info, position, cursor, macros) is not None


def _evaluated(
    info: TableInfo, cursor: Cursor, macros: Collection[str]
) -> Mapping[int, EvaluatedDefault]:
    calls = [i for i, text in info.defaults.items() if not _is_literal(text, info, i)]
    found = {i: evaluated_default(info, i, cursor, macros) for i in calls}
    return {i: default for i, default in found.items() if default is not None}


def _literals(info: TableInfo, cursor: Cursor) -> Mapping[int, Column | None]:
    """The values of literal defaults; None for what cannot be cast to its column's type.

    Such a default fails in DuckDB only where it is used.
    """
    texts = {i: text for i, text in info.defaults.items() if _is_literal(text, info, i)}
    if not texts:
        return {}
    types = {i: info.schema[i][1] for i in texts}
    values = [f"TRY(TRY_CAST({text} AS {types[i].sql})) AS v{i}" for i, text in texts.items()]
    nulls = [f"coalesce(TRY(({text}) IS NULL), false) AS n{i}" for i, text in texts.items()]
    row = table(cursor, f"SELECT {', '.join(values + nulls)}")
    found: dict[int, Column | None] = {}
    for i in texts:
        value = row.column(f"v{i}")
        given = not value.null_count or row.column(f"n{i}")[0].as_py()
        found[i] = column_from_arrow(value, types[i]) if given else None
    return found


def _check(text: str, info: TableInfo, macros: Collection[str]) -> Check | None:
    """A kernel for a CHECK (NULL passes), or None if it is not on the kernels' list.

    DuckDB casts a number to an integer for its truth value: 0.4 is 0, which fails.
    """
    tree = expression_of(text, names_of([name for name, _ in info.schema]), macros)
    if tree is None:
        return None
    types = [type for _, type in info.schema]
    try:
        value = compile_scalar(tree, types, _BOOLEAN, optimized=False)
    except duckdb.Error:
        return None
    if value is None:
        return None

    def holds(columns: Sequence[Column], count: int) -> Mask:
        try:
            found = value(columns, count)
        except EvaluationError as error:
            raise ConstraintError(
                f"CHECK constraint failed on table {info.name}: {text} cannot be evaluated for "
                f"these rows; nothing was changed: {error}"
            ) from error
        assert isinstance(found, FixedColumn)
        return found.values if found.valid is None else found.values | ~found.valid

    why = f"CHECK constraint failed on table {info.name}: {text} is false"
    return Check(holds, lambda _, rows: [why] * len(rows))
