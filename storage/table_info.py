"""What the DuckDB catalog says of the user's tables.

Law: read anew at every call; nothing here is remembered, so it is never older than the last DDL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ivm.storage.duck import Cursor, quote, rows
from ivm.storage.flush import Target
from ivm.storage.types import Schema, type_of


@dataclass(frozen=True)
class ForeignKey:
    """Columns of a table that must stand in another one.

    Attributes:
        columns: positions in the referencing table.
        table: canonical name of the referenced table.
        referenced: names of its columns.
    """

    columns: tuple[int, ...]
    table: str
    referenced: tuple[str, ...]


@dataclass(frozen=True)
class TableInfo:
    """One table of the user's database file. Columns are meant by position.

    Attributes:
        name: canonical name: `table` in schema main, else `schema.table`.
        qualified: quoted `catalog.schema.table` for SQL.
        schema: names and types of all columns, generated ones included.
        primary_key: in the order of the constraint; empty if there is none.
        uniques: UNIQUE constraints and unique indexes over plain columns.
        not_null: columns that refuse NULL (those of the primary key included).
        checks: CHECK expressions as SQL.
        defaults: SQL of each column's default.
        generated: SQL of each generated column.
        foreign_keys: what this table references.
        referenced_by: canonical names of the tables that reference this one.
        indexes: CREATE INDEX statements.
        unique_expressions: unique indexes over expressions, as SQL.
        collated: the table has columns with a collation.
    """

    name: str
    qualified: str
    schema: Schema
    primary_key: tuple[int, ...] = ()
    uniques: tuple[tuple[int, ...], ...] = ()
    not_null: tuple[int, ...] = ()
    checks: tuple[str, ...] = ()
    defaults: Mapping[int, str] = field(default_factory=dict)
    generated: Mapping[int, str] = field(default_factory=dict)
    foreign_keys: tuple[ForeignKey, ...] = ()
    referenced_by: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    unique_expressions: tuple[str, ...] = ()
    collated: bool = False

    @property
    def keyed(self) -> bool:
        """Whether rows are told apart by a primary key."""
        return bool(self.primary_key)

    @property
    def native_reason(self) -> str | None:
        """Why every change of this table must go through DuckDB itself, or None."""
        if self.foreign_keys or self.referenced_by:
            return "it has foreign keys"
        if self.generated:
            return "it has generated columns"
        if self.unique_expressions:
            return "it has a unique index over an expression"
        if self.collated:
            return "it has columns with a collation"
        return None

    def target(self) -> Target:
        """What a flush needs to know of the table."""
        return Target(
            self.qualified,
            self.schema,
            generated=frozenset(self.generated),
            unique_beside_key=bool(self.uniques or self.indexes),
            parents=tuple([key.table for key in self.foreign_keys]),
            referenced=bool(self.referenced_by),
        )

    def position(self, column: str) -> int | None:
        """A column's position by its name (case does not matter), or None."""
        wanted = column.lower()
        names = (i for i, (name, _) in enumerate(self.schema) if name.lower() == wanted)
        return next(names, None)


def canonical_name(schema: str, table: str) -> str:
    """The name a relation is known by: `table` in schema main, else `schema.table`."""
    return table if schema == "main" else f"{schema}.{table}"


_TABLES = """
SELECT schema_name, table_name, sql FROM duckdb_tables()
WHERE database_name = $1 AND NOT internal AND NOT temporary AND schema_name <> '_ivm'
"""
_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type, column_default, is_nullable,
       is_generated, generation_expression
FROM duckdb_columns() WHERE database_name = $1 AND NOT internal AND schema_name <> '_ivm'
ORDER BY schema_name, table_name, column_index
"""
_CONSTRAINTS = """
SELECT schema_name, table_name, constraint_type, expression, constraint_column_indexes,
       referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE database_name = $1 AND schema_name <> '_ivm'
ORDER BY constraint_index
"""
_INDEXES = """
SELECT schema_name, table_name, is_unique, expressions, sql
FROM duckdb_indexes() WHERE database_name = $1 AND schema_name <> '_ivm' ORDER BY index_oid
"""

_Facts = dict[tuple[str, str], list[tuple[Any, ...]]]


def read_tables(cursor: Cursor, catalog: str) -> dict[str, TableInfo]:
    """All tables of the user (views of ours included, they are tables too), by canonical name.

    Args:
        cursor: it sees what its transaction sees.
        catalog: DuckDB's name of the attached file.
    """
    columns, constraints, indexes = (
        _by_table(cursor, sql, catalog) for sql in (_COLUMNS, _CONSTRAINTS, _INDEXES)
    )
    found = {}
    for schema, table, sql in rows(cursor, _TABLES, [catalog]):
        at = (schema, table)
        info = _with_columns(catalog, schema, table, columns[at])
        info = _with_indexes(_with_constraints(info, schema, constraints[at]), indexes[at])
        found[info.name] = replace(info, collated=bool(_COLLATE.search(_unquoted(sql))))
    return _with_references(found)


_COLLATE = re.compile(r"\bCOLLATE\b", re.IGNORECASE)


def _unquoted(sql: str) -> str:
    """The SQL without its quoted names and strings."""
    return re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "", sql)


def _by_table(cursor: Cursor, sql: str, catalog: str) -> _Facts:
    facts: _Facts = defaultdict(list)
    for schema, table, *rest in rows(cursor, sql, [catalog]):
        facts[schema, table].append(tuple(rest))
    return facts


def _with_columns(catalog: str, schema: str, table: str, facts: list[tuple[Any, ...]]) -> TableInfo:
    enumerated = list(enumerate(facts))
    return TableInfo(
        name=canonical_name(schema, table),
        qualified=".".join([quote(catalog), quote(schema), quote(table)]),
        schema=tuple([(fact[0], type_of(fact[1])) for fact in facts]),
        not_null=tuple([i for i, fact in enumerated if not fact[3]]),
        defaults={i: fact[2] for i, fact in enumerated if fact[2] is not None and not fact[4]},
        generated={i: fact[5] for i, fact in enumerated if fact[4]},
    )


def _with_constraints(info: TableInfo, schema: str, facts: list[tuple[Any, ...]]) -> TableInfo:
    def of(kind: str) -> list[tuple[int, ...]]:
        return [tuple(fact[2]) for fact in facts if fact[0] == kind]

    return replace(
        info,
        primary_key=next(iter(of("PRIMARY KEY")), ()),
        uniques=tuple(of("UNIQUE")),
        checks=tuple([fact[1] for fact in facts if fact[0] == "CHECK"]),
        foreign_keys=tuple(
            [
                ForeignKey(tuple(fact[2]), canonical_name(schema, fact[3]), tuple(fact[4]))
                for fact in facts
                if fact[0] == "FOREIGN KEY"
            ]
        ),
    )


def _with_indexes(info: TableInfo, facts: list[tuple[Any, ...]]) -> TableInfo:
    uniques, expressions = list(info.uniques), []
    for is_unique, text, sql in facts:
        if not is_unique:
            continue
        columns = [info.position(part.strip(" '").strip('"')) for part in text[1:-1].split(",")]
        if all(c is not None for c in columns):
            uniques.append(tuple([c for c in columns if c is not None]))
        else:
            expressions.append(sql)
    return replace(
        info,
        uniques=tuple(uniques),
        unique_expressions=tuple(expressions),
        indexes=tuple([fact[2] for fact in facts]),
    )


def _with_references(tables: dict[str, TableInfo]) -> dict[str, TableInfo]:
    referencing: dict[str, list[str]] = defaultdict(list)
    for info in tables.values():
        for key in info.foreign_keys:
            referencing[key.table].append(info.name)
    return {
        name: replace(info, referenced_by=tuple(referencing[name])) if name in referencing else info
        for name, info in tables.items()
    }
