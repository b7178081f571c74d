"""The statements by which a table follows the schema of its upstream table.

Law: a statement of these loses no value and invents none, and after them there is nothing left to
do. Every value that the upstream's columns can have fits into ours then. Where that cannot be, no
statement is given, and the error names those that resolve it.

A column that upstream has not is ours alone if it has a default (DEFAULT NULL will do) or is
generated; any other was dropped upstream. NOT NULL stays as it is here: a NULL from upstream is a
dead letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb

from ivm.cdc.formats.upstream_types import fits, wider
from ivm.storage.errors import InputError, SchemaMismatchError
from ivm.storage.identifiers import fold, quote, split_name
from ivm.storage.values.types import MOST_DIGITS, ColumnType, named_type
from ivm.storage.warehouse.tables.table_info import TableInfo

_NO_KEYS = frozenset(("INTERVAL", "LIST", "STRUCT", "MAP", "UNION", "VARIANT"))
"""The types of which DuckDB has no indexes."""


@dataclass(frozen=True)
class UpstreamColumn:
    """A column of an upstream table.

    Attributes:
        name: as it is written there.
        type: SQL of the DuckDB type that holds its values.
        nullable: whether it may hold NULL, as far as is known.
        before: SQL of the value that it has upstream in rows that are older than it; None if that
            is NULL, or not known.
        is_number: its values are numbers of any length, as texts: a column of ours that is a DOUBLE
            or a DECIMAL of all digits may have them rounded, as whoever made it wants.
        was: the name under which it was here before, empty if it is new; None if that is not known.
    """

    name: str
    type: str
    nullable: bool = True
    before: str | None = None
    is_number: bool = False
    was: str | None = None


def follow(
    info: TableInfo | None,
    name: str,
    columns: Sequence[UpstreamColumn],
    key: Sequence[str] | None,
    complete: bool = True,
    ours: Mapping[str, str] | None = None,
) -> list[str]:
    """The statements, to be run in order and in one transaction, that make a table follow upstream.

    Args:
        info: our table; None if there is none yet.
        name: its canonical name.
        columns: those upstream, in their order.
        key: names of the upstream's key columns, empty if it has no key; None if it is not known.
        complete: whether upstream has no other columns.
        ours: SQL of the types of columns that are ours alone, by name.

    Returns:
        SQL statements; none if there is nothing to do.

    Raises:
        SchemaMismatchError: it cannot follow.
        InputError: the upstream table can have no equal here.
    """
    upstream = _Upstream(name, columns, key or (), ours or {})
    if info is None:
        return [*_schemas(name), upstream.created("CREATE TABLE")]
    types = _types(info, upstream)
    kinds = (
        _moved(info, upstream),
        _made_anew(info, upstream),
        _other_key(info, upstream, types) if key is not None else [],
        [p for i, type in types.items() if (p := _retyped(info, upstream, i, type)) is not None],
        list(_dropped(info, upstream)) if complete else [],
    )
    for problems in kinds:  # each resolves those of a table that has none of the kinds before
        if problems:
            texts = [f"{p.what}: {p.statement}{p.note}" for p in problems]
            raise SchemaMismatchError("\n".join(texts), tuple([p.statement for p in problems]))
    return [*_additions(info, upstream), *_retype(info, upstream.table, types)]


class _Upstream:
    """An upstream table, its types known.

    Attributes:
        table: SQL of our table's name.
        columns: types by name.
        key: names of the key columns, as `columns` has them.
        was: the names that columns had here before, where that is known; see `UpstreamColumn`.
        ours: see `follow`; what upstream calls so, too, is none of its columns, but for the key.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[UpstreamColumn],
        key: Sequence[str],
        ours: Mapping[str, str],
    ) -> None:
        in_key = {fold(column) for column in key}
        self.ours = {own: type for own, type in ours.items() if fold(own) not in in_key}
        alone = {fold(column) for column in self.ours}
        columns = [column for column in columns if fold(column.name) not in alone]
        self.name = name
        self.table = ".".join([quote(part) for part in split_name(name)])
        self.columns = {column.name: self._type(column) for column in columns}
        self._required = {column.name for column in columns if not column.nullable}
        self._known = {fold(column): column for column in self.columns}
        self._numbers = {column.name for column in columns if column.is_number}
        self.was = {column.name: column.was for column in columns if column.was is not None}
        self._before = {column.name: column.before for column in columns if column.before}
        if not columns or len(self._known) < len(columns):
            why = "two columns whose names differ in case alone" if columns else "no columns"
            raise InputError(f"the upstream table of {name!r} has {why}: change it there")
        missing = [column for column in key if fold(column) not in self._known]
        if missing:
            raise InputError(
                f"the key of the upstream table of {name!r} has the column {missing[0]!r}, which "
                f"its columns lack ({', '.join(self.columns)}): tell all columns of the key"
            )
        self.key = [self._known[fold(column)] for column in key]

    def _type(self, column: UpstreamColumn) -> ColumnType:
        try:
            return named_type(column.type)
        except duckdb.Error as error:
            raise InputError(
                f"column {column.name!r} of the upstream table of {self.name!r} has the type "
                f"{column.type}, which DuckDB does not know: tell another, such as VARCHAR"
            ) from error

    def type(self, column: str) -> ColumnType | None:
        """The type of a column of ours; None if upstream has not it."""
        name = self._known.get(fold(column))
        return None if name is None else self.columns[name]

    def fits(self, column: str, ours: ColumnType) -> bool:
        """Returns whether a column of ours may keep its type; see `type`."""
        name = self._known[fold(column)]
        is_wide = ours.sql == "DOUBLE" or (ours.is_decimal and ours.precision == MOST_DIGITS)
        return fits(self.columns[name], ours) or (name in self._numbers and is_wide)

    def added(self, column: str) -> list[str]:
        """SQL that adds a column; its value in older rows is no default of later ones."""
        alter, name, before = f"ALTER TABLE {self.table}", quote(column), self._before.get(column)
        add = f"{alter} ADD COLUMN {name} {self.columns[column].sql}"
        if before is None:
            return [add]
        return [f"{add} DEFAULT {before}", f"{alter} ALTER COLUMN {name} DROP DEFAULT"]

    def created(self, create: str) -> str:
        """SQL that creates the table.

        Raises:
            InputError: DuckDB has no keys of a type of the key.
        """
        for name in self.key:
            type = self.columns[name]
            if type.base in _NO_KEYS:
                raise InputError(
                    f"the key of the upstream table of {self.name!r} has the column {name!r} of "
                    f"type {type.sql}, of which no key can be here: give it another key, in "
                    "PostgreSQL by REPLICA IDENTITY USING INDEX"
                )
        parts = [
            f"{quote(name)} {type.sql}" + " NOT NULL" * (name in self._required)
            for name, type in self.columns.items()
        ]
        parts += [f"{quote(name)} {type}" for name, type in self.ours.items()]
        if self.key:
            parts.append(f"PRIMARY KEY ({_listed(self.key)})")
        return f"{create} {self.table} ({', '.join(parts)})"


class _Problem(NamedTuple):
    """Why a table cannot follow.

    Attributes:
        what: names table, column and types.
        statement: resolves it.
        note: what else it does, and other ways.
    """

    what: str
    statement: str
    note: str = ""


def _schemas(name: str) -> list[str]:
    path = [quote(part) for part in split_name(name)[:-1]]
    return [f"CREATE SCHEMA IF NOT EXISTS {'.'.join(path[: i + 1])}" for i in range(len(path))]


def _additions(info: TableInfo, upstream: _Upstream) -> list[str]:
    new = [name for name in upstream.columns if info.position(name) is None]
    return [sql for name in new for sql in upstream.added(name)]


def _moved(info: TableInfo, upstream: _Upstream) -> list[_Problem]:
    """The problems of columns that are new, or had other names, and are not so here."""
    problems = [_moved_column(info, upstream, *column) for column in upstream.was.items()]
    return [problem for problem in problems if problem is not None]


def _moved_column(info: TableInfo, upstream: _Upstream, name: str, was: str) -> _Problem | None:
    here, alter = info.position(name), f"ALTER TABLE {upstream.table}"
    if not was:
        if here is None or not (here in info.generated or here in info.defaults):
            return None
        what = f"column {name!r} of table {info.name!r} is its own, and upstream it is a new one"
        return _Problem(what, f"{alter} DROP COLUMN {quote(name)}", "; it then comes anew")
    before = info.position(was)
    if fold(was) == fold(name) or (here is not None and before is None):
        return None
    what = f"column {was!r} of table {info.name!r} is {name!r} upstream"
    if here is None and before is not None:
        return _Problem(what, f"{alter} RENAME COLUMN {quote(was)} TO {quote(name)}")
    note = " (the table is then empty: load it anew)"
    return _Problem(what, upstream.created("CREATE OR REPLACE TABLE"), note)


def _made_anew(info: TableInfo, upstream: _Upstream) -> list[_Problem]:
    """The problem that no row of ours can become one of upstream's."""
    made = upstream.created("CREATE OR REPLACE TABLE")
    note = " (the table is then empty: load it anew)"
    if all(upstream.type(name) is None for name, _ in info.schema):
        what = f"table {info.name!r} has no column of the upstream table"
        return [_Problem(what, made, note)]
    new = [name for name in upstream.key if info.position(name) is None]
    ours = [info.schema[i][0] for i in info.primary_key]
    lost = [name for name in ours if upstream.type(name) is None]
    if new or lost:
        what = f"the primary key of table {info.name!r} is {_shown(ours)}, but upstream "
        what += f"it is {_shown(upstream.key)}" if new else f"there is no column {lost[0]!r}"
        return [_Problem(what, made, note)]
    return []


def _other_key(
    info: TableInfo, upstream: _Upstream, types: Mapping[int, ColumnType]
) -> list[_Problem]:
    ours, theirs = [info.schema[i][0] for i in info.primary_key], upstream.key
    if {fold(name) for name in ours} == {fold(name) for name in theirs}:
        return []
    what = f"the primary key of table {info.name!r} is {_shown(ours)}, but upstream it is "
    key = [i for name in theirs if (i := info.position(name)) is not None]
    if not ours and not types:
        return [_Problem(what + _shown(theirs), _add_key(info, upstream.table, key))]
    statement = _script(_anew(info, upstream.table, types, key))
    return [_Problem(what + _shown(theirs), statement, _left_out(info))]


def _shown(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "missing"


def _dropped(info: TableInfo, upstream: _Upstream) -> list[_Problem]:
    ours = {fold(name) for name in upstream.ours}
    lost = [
        i
        for i, (name, _) in enumerate(info.schema)
        if upstream.type(name) is None and i not in info.generated and i not in info.defaults
        if fold(name) not in ours
    ]
    problems = [_lost(info, upstream, i) for i in lost]
    keyed = {i for key in (info.primary_key, *info.uniques) for i in key}
    if not lost or not (info.indexes or min(lost) < max(keyed, default=0)):
        return problems
    statement = _script(_anew(info, upstream.table, {}, info.primary_key, without=lost))
    notes = _left_out(info) + "".join([p.note for p in problems])  # DuckDB drops none of these
    return [_Problem("; ".join([p.what for p in problems]), statement, notes)]


def _lost(info: TableInfo, upstream: _Upstream, position: int) -> _Problem:
    """The problem of a column that upstream has not."""
    name, type = info.schema[position]
    alter, column = f"ALTER TABLE {upstream.table}", quote(name)
    ways = [
        f"if {name!r} was renamed, {alter} RENAME COLUMN {column} TO {quote(other)}"
        for other, other_type in upstream.columns.items()
        if not upstream.was and info.position(other) is None and wider(type, other_type) is not None
    ]
    if position not in info.not_null:
        ways.append(f"to keep {name!r}, {alter} ALTER COLUMN {column} SET DEFAULT NULL")
    what = f"column {name!r} ({type}) of table {info.name!r} is missing upstream"
    note = "".join([f"; or, {way}" for way in ways])
    return _Problem(what, f"{alter} DROP COLUMN {column}", note)


def _types(info: TableInfo, upstream: _Upstream) -> dict[int, ColumnType]:
    """The types that our columns must get: wider ones, or where there is none, the upstream's."""
    pairs = [(i, ours, upstream.type(name)) for i, (name, ours) in enumerate(info.schema)]
    return {
        i: wider(ours, theirs) or theirs
        for i, ours, theirs in pairs
        if theirs is not None
        and (i in info.generated or not upstream.fits(info.schema[i][0], ours))
    }


def _retyped(
    info: TableInfo, upstream: _Upstream, position: int, type: ColumnType
) -> _Problem | None:
    """The problem that a column cannot get a type without the user's consent."""
    name, ours = info.schema[position]
    theirs = upstream.type(name)
    what = f"column {name!r} of table {info.name!r} is {ours}, and upstream it is {theirs}"
    drop = f"ALTER TABLE {upstream.table} DROP COLUMN {quote(name)}"
    if position in info.generated:
        return _Problem(f"{what} that is not generated", drop, "; it then comes anew")
    bound = _is_bound(info, position)
    if wider(ours, type) == type and not (bound and _left_out(info)):
        return None
    statement = _script(_retype(info, upstream.table, {position: type}))
    other = f"; or, if its values cannot be cast, {drop}: it then comes anew, old rows NULL"
    return _Problem(what, statement, _left_out(info) if bound else other)


def _is_bound(info: TableInfo, position: int) -> bool:
    """Returns whether DuckDB may refuse to alter the type of a column."""
    in_key = any(position in key for key in (info.primary_key, *info.uniques))
    others = info.indexes or info.checks or info.generated
    return in_key or bool(others or info.foreign_keys or info.referenced_by)


def _retype(info: TableInfo, table: str, types: Mapping[int, ColumnType]) -> list[str]:
    if any(_is_bound(info, i) for i in types):
        return _anew(info, table, types, info.primary_key)
    alter = f"ALTER TABLE {table} ALTER COLUMN"
    return [f"{alter} {quote(info.schema[i][0])} TYPE {type.sql}" for i, type in types.items()]


def _anew(
    info: TableInfo,
    table: str,
    types: Mapping[int, ColumnType],
    key: Sequence[int],
    without: Sequence[int] = (),
) -> list[str]:
    """Statements that make the table anew, with its rows, where ALTER cannot change it."""
    names = {i: quote(name) for i, (name, _) in enumerate(info.schema)}
    casts = ", ".join(f"CAST({names[i]} AS {t.sql}) AS {names[i]}" for i, t in types.items())
    rows = f" EXCLUDE ({', '.join([names[i] for i in without])})" if without else ""
    rows += f" REPLACE ({casts})" if casts else ""
    column = f"ALTER TABLE {table} ALTER COLUMN"
    required = [i for i in info.not_null if i not in (*key, *info.primary_key, *without)]
    return [
        f"CREATE OR REPLACE TABLE {table} AS SELECT *{rows} FROM {table}",
        *([_add_key(info, table, key)] if key else []),
        *[f"{column} {names[i]} SET NOT NULL" for i in required],
        *[f"{column} {names[i]} SET DEFAULT {sql}" for i, sql in info.defaults.items()],
        *[sql.rstrip(";") for sql in info.indexes],
    ]


def _add_key(info: TableInfo, table: str, key: Sequence[int]) -> str:
    return f"ALTER TABLE {table} ADD PRIMARY KEY ({_listed([info.schema[i][0] for i in key])})"


def _left_out(info: TableInfo) -> str:
    """What `_anew` does not make anew, as a note; empty if it makes all."""
    parts = {
        "CHECK constraints": info.checks,
        "UNIQUE constraints": info.uniques,
        "generated columns": info.generated,
        "foreign keys": info.foreign_keys or info.referenced_by,
        "collations": info.collated,
    }
    lost = [what for what, there in parts.items() if there]
    return f" (which leaves out its {' and '.join(lost)})" if lost else ""


def _script(statements: Sequence[str]) -> str:
    return statements[0] if len(statements) == 1 else "; ".join(["BEGIN", *statements, "COMMIT"])


def _listed(names: Sequence[str]) -> str:
    return ", ".join([quote(name) for name in names])
