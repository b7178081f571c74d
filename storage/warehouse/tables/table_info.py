"""The user's tables as DuckDB's catalog describes them.

Contract: the catalog is read anew at every call, so the answer is never older than the last DDL.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ivm.storage.identifiers import Path, canonical_name, fold, quote, written_name
from ivm.storage.values.types import Schema, type_of
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.flush.flush import Target
from ivm.storage.warehouse.tables.history import EPOCH, History, load
from ivm.storage.warehouse.tables.system_tables import (
    CLOCK_TABLES,
    REQUEST_TABLES,
    STREAM_TABLES,
    WATERMARK_TABLES,
)


@dataclass(frozen=True)
class ForeignKey:
    """Columns of a table whose values must be in another one.

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
    """One table of the user's database file. Columns are given by position.

    Attributes:
        name: canonical name, see `identifiers`.
        qualified: the whole path in quotes, for SQL.
        schema: names and types of all columns, generated ones included.
        primary_key: in the order of the constraint; empty if there is none.
        uniques: UNIQUE constraints and unique indexes over plain columns.
        not_null: columns that refuse NULL (those of the primary key included).
        checks: CHECK expressions as SQL.
        defaults: SQL of each column's default.
        generated: SQL of each generated column.
        foreign_keys: of this table to others.
        referenced_by: canonical names of the tables that reference this one.
        indexes: CREATE INDEX statements.
        indexed: the columns of the indexes over plain columns that are not unique.
        unique_expressions: unique indexes over expressions, as SQL.
        expression_indexes: it has indexes over expressions that are not unique.
        collated: the table has columns with a collation.
        oid: DuckDB's number of the table; another table of the same name has another one.
        history: where its rows lie, if it is not stored; see `History`.
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
    indexed: tuple[tuple[int, ...], ...] = ()
    unique_expressions: tuple[str, ...] = ()
    expression_indexes: bool = False
    collated: bool = False
    oid: int = 0
    history: History | None = None

    @property
    def keyed(self) -> bool:
        """Returns whether a primary key distinguishes the rows."""
        return bool(self.primary_key)

    @property
    def key_columns(self) -> Schema:
        """Names and types of the primary key's columns, in its order."""
        return tuple([self.schema[i] for i in self.primary_key])

    @property
    def duckdb_reason(self) -> str | None:
        """The reason why every change of this table must go through DuckDB itself, or None."""
        if self.generated:
            return "it has generated columns"
        if self.unique_expressions:
            return "it has a unique index over an expression"
        if self.collated:
            return "it has columns with a collation"
        if sum([key.table == self.name for key in self.foreign_keys]) > 1:
            return "several foreign keys of it refer to itself"
        if self.referenced_by and self.expression_indexes:
            return "foreign keys refer to it, and it has an index over an expression"
        return None

    @property
    def looked_up(self) -> frozenset[tuple[int, ...]]:
        """The columns by which rows are looked up besides the primary key."""
        references = [key.columns for key in self.foreign_keys]
        return frozenset([*self.indexed, *self.uniques, *references])

    @functools.cached_property
    def constrained(self) -> frozenset[int]:
        """The columns of UNIQUE constraints and foreign keys."""
        references = [key.columns for key in self.foreign_keys]
        return frozenset([i for columns in (*self.uniques, *references) for i in columns])

    @property
    def moved_by(self) -> frozenset[int]:
        """The columns that DuckDB may update by a removal and an insertion, not in place.

        Those that a CHECK names are updated together with the others that it names.
        """
        if self.checks:
            return frozenset(range(len(self.schema)))
        indexed = {position for columns in self.looked_up for position in columns}
        nested = {i for i, (_, type) in enumerate(self.schema) if type.base in _NESTED}
        return frozenset({*self.primary_key, *indexed, *nested})

    def target(self) -> Target:
        """The facts that a flush needs of the table."""
        if self.history is not None:
            return self._target_of_changes(self.history)
        return Target(
            self.qualified,
            self.schema,
            generated=frozenset(self.generated),
            exchanged=self._exchanged,
            parents=tuple([key.table for key in self.foreign_keys]),
            referenced=bool(self.referenced_by),
            own_reference=self._own_reference,
            moved_by=self.moved_by if self.referenced_by else frozenset(),
        )

    @property
    def _exchanged(self) -> frozenset[int]:
        if not self.uniques and not self.indexes:
            return frozenset()
        every = frozenset(range(len(self.schema)))
        return every if self.expression_indexes else self.moved_by

    @property
    def _own_reference(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The columns of the foreign key to the table itself, and those that they refer to."""
        for key in self.foreign_keys:
            if key.table == self.name:
                referred = [self.position(name) for name in key.referenced]
                return key.columns, tuple([i for i in referred if i is not None])
        return None

    def _target_of_changes(self, history: History) -> Target:
        """The tables that take the changes of a table that is not stored."""
        added = f"_ivm.{history.added}"
        if not self.primary_key:
            schema = (*self.schema, (EPOCH, type_of("BIGINT")))
            return Target(added, schema)
        return Target(
            added,
            self.schema,
            touched=f"_ivm.{history.touched}",
        )

    def position(self, column: str) -> int | None:
        """A column's position by its name (the case of A to Z does not matter), or None."""
        return self._positions.get(fold(column))

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The folded names of all columns."""
        return frozenset(self._positions)

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        return {fold(name): i for i, (name, _) in enumerate(self.schema)}


_NESTED = ("LIST", "STRUCT", "MAP", "UNION", "TUPLE", "VARIANT")
_SCHEMAS = """
SELECT oid, parent_schema_oid, schema_name FROM system.main.duckdb_schemas()
WHERE database_name = $1
"""
_TABLES = """
SELECT table_oid, schema_oid, table_name, sql FROM system.main.duckdb_tables()
WHERE database_name = $1 AND NOT internal AND NOT temporary
"""
_COLUMNS = """
SELECT table_oid, column_name, data_type, column_default, is_nullable,
       is_generated, generation_expression
FROM system.main.duckdb_columns() WHERE database_name = $1 AND NOT internal ORDER BY column_index
"""
_CONSTRAINTS = """
SELECT table_oid, constraint_type, expression, constraint_column_indexes,
       referenced_table, referenced_column_names
FROM system.main.duckdb_constraints() WHERE database_name = $1 ORDER BY constraint_index
"""
_INDEXES = """
SELECT table_oid, is_unique, CAST(expressions AS VARCHAR[]), sql
FROM system.main.duckdb_indexes() WHERE database_name = $1 ORDER BY index_oid
"""

_Facts = dict[int, list[tuple[Any, ...]]]


def read_tables(cursor: Cursor, catalog: str) -> dict[str, TableInfo]:
    """All tables of the user (views of ours included, they are tables too), by canonical name.

    Args:
        cursor: it sees what its transaction sees.
        catalog: DuckDB's name of the attached file.
    """
    columns, constraints, indexes = (
        _by_table(cursor, sql, catalog) for sql in (_COLUMNS, _CONSTRAINTS, _INDEXES)
    )
    schemas = read_schemas(cursor, catalog)
    tables = [(oid, schemas[at], name, sql) for oid, at, name, sql in _listed(cursor, catalog)]
    histories = _histories(cursor) if any(t[1:3] == _HISTORIES for t in tables) else {}
    found = {}
    for oid, schema, table, sql in tables:
        history = histories.get(table) if schema == ("_ivm",) else None
        if schema == ("_ivm",) and table not in _FOLLOWED and history is None:
            continue
        info = _with_columns(catalog, (*schema, table), columns[oid])
        info = _with_indexes(_with_constraints(info, schema, constraints[oid]), indexes[oid])
        collated = bool(_COLLATE.search(_unquoted(sql)))
        info = replace(info, collated=collated, oid=oid)
        if history is not None:
            info = _not_stored(info, history, catalog)
        found[info.name] = info
    return _with_references(found)


_FOLLOWED = (
    STREAM_TABLES.keys() | CLOCK_TABLES.keys() | WATERMARK_TABLES.keys() | REQUEST_TABLES.keys()
)
_HISTORIES = (("_ivm",), "histories")


def _listed(cursor: Cursor, catalog: str) -> list[tuple[Any, ...]]:
    return rows(cursor, _TABLES, [catalog])


def _histories(cursor: Cursor) -> dict[str, History]:
    """The histories by the name of the table that has what was added since."""
    return {history.added: history for history in load(cursor)}


def _not_stored(added: TableInfo, history: History, catalog: str) -> TableInfo:
    """The table whose history this is, from the table of what was added to it."""
    return replace(
        added,
        name=canonical_name(history.path),
        qualified=".".join([quote(part) for part in (catalog, *history.path)]),
        schema=tuple([column for column in added.schema if column[0] != EPOCH]),
        history=history,
    )


def read_schemas(cursor: Cursor, catalog: str) -> dict[int, Path]:
    """The path of each schema of a database (they may be nested), by its number."""
    known = {oid: (parent, name) for oid, parent, name in rows(cursor, _SCHEMAS, [catalog])}

    def path(oid: int) -> Path:
        parent, name = known[oid]
        return (name,) if parent is None else (*path(parent), name)

    return {oid: path(oid) for oid in known}


_COLLATE = re.compile(r"\bCOLLATE\b", re.IGNORECASE)


def _unquoted(sql: str) -> str:
    """The SQL without its quoted names and strings."""
    return re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "", sql)


def _by_table(cursor: Cursor, sql: str, catalog: str) -> _Facts:
    facts: _Facts = defaultdict(list)
    for oid, *rest in rows(cursor, sql, [catalog]):
        facts[oid].append(tuple(rest))
    return facts


def _with_columns(catalog: str, path: Path, facts: list[tuple[Any, ...]]) -> TableInfo:
    enumerated = list(enumerate(facts))
    return TableInfo(
        name=canonical_name(path),
        qualified=".".join([quote(part) for part in (catalog, *path)]),
        schema=tuple([(fact[0], type_of(fact[1])) for fact in facts]),
        not_null=tuple([i for i, fact in enumerated if not fact[3]]),
        defaults={i: fact[2] for i, fact in enumerated if fact[2] is not None and not fact[4]},
        generated={i: fact[5] for i, fact in enumerated if fact[4]},
    )


def _with_constraints(info: TableInfo, schema: Path, facts: list[tuple[Any, ...]]) -> TableInfo:
    def of(kind: str) -> list[tuple[int, ...]]:
        return [tuple(fact[2]) for fact in facts if fact[0] == kind]

    return replace(
        info,
        primary_key=next(iter(of("PRIMARY KEY")), ()),
        uniques=tuple(of("UNIQUE")),
        checks=tuple([fact[1] for fact in facts if fact[0] == "CHECK"]),
        foreign_keys=tuple(
            [
                ForeignKey(tuple(fact[2]), canonical_name((*schema, fact[3])), tuple(fact[4]))
                for fact in facts
                if fact[0] == "FOREIGN KEY"
            ]
        ),
    )


def _with_indexes(info: TableInfo, facts: list[tuple[Any, ...]]) -> TableInfo:
    uniques, expressions, others = list(info.uniques), [], False
    indexed: list[tuple[int, ...]] = []
    for is_unique, keys, sql in facts:
        names = [written_name(key) for key in keys]
        found = [None if name is None else info.position(name) for name in names]
        columns = tuple([c for c in found if c is not None])
        plain = len(columns) == len(found)
        if plain:
            (uniques if is_unique else indexed).append(columns)
        elif is_unique:
            expressions.append(sql)
        else:
            others = True
    return replace(
        info,
        uniques=tuple(uniques),
        unique_expressions=tuple(expressions),
        expression_indexes=others,
        indexes=tuple([fact[2] for fact in facts]),
        indexed=tuple(dict.fromkeys(indexed)),
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
