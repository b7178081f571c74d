"""Random changes of one table, by every form of SQL, with values of any type and parameters.

What DuckDB itself leaves open is not drawn: which of several rows of one key stays, a row that
DELETE … USING finds twice, and whether a condition fails on a parameter of another type, which
depends on what its statistics let it leave out. Nor are parameters of letters beyond ASCII: it cuts
them in two in its messages.
"""

from __future__ import annotations

import functools
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import duckdb

from tests.random_sql.random_tables import VALUES, literal
from tests.random_sql.typed_values import SAME, Columns, TypedValues, under
from tests.support.stream_rows import SETTINGS

KEYS = [
    "INTEGER", "INTEGER", "BIGINT", "VARCHAR", "DATE", "DECIMAL(9,2)", "DOUBLE", "UUID",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "HUGEINT", "UBIGINT", "BLOB", "TIME", "FLOAT",
    "BOOLEAN",
]  # fmt: skip
INDEXED = {*KEYS, "mood"}
GIVEN: list[Any] = [
    None, 0, 1, 2, 3, -1, 127, 256, 2**31, 2**63, 0.5, 1.0, -0.0, 1e300, float("nan"), float("inf"),
    True, False, "a", "b", "", "1", "2.5", "2024-02-29", "2024-02-29 12:00:00.5", "low",
    Decimal("2.50"), Decimal("0.005"), Decimal("1"), date(2024, 2, 29), date(1969, 12, 31),
    datetime(2024, 2, 29), datetime(2024, 2, 29, 7, tzinfo=UTC), time(12, 34, 56, 789012),
    timedelta(days=30), uuid.UUID(int=1), b"a", b"\x00", [1], [], [None, 1], {"a": 1, "b": "a"},
]  # fmt: skip
_MARK = re.compile(r"\{\?(\d+)\}")  # a parameter, by its place among those drawn


@functools.cache
def _fitting(kind: str) -> list[Any]:
    """The values that can be cast to a type."""
    with duckdb.connect() as duck:
        duck.execute(SETTINGS)
        sql = f"SELECT TRY_CAST($1 AS {kind}) IS NOT NULL OR $1 IS NULL"
        return [value for value in GIVEN if _is_true(duck, sql, value)]


def _is_true(duck: duckdb.DuckDBPyConnection, sql: str, value: Any) -> bool:
    try:
        return duck.execute(sql, [value]).fetchall() == [(True,)]
    except duckdb.Error:
        return False


class TypedChange(TypedValues):
    """Changes and reads of a table.

    Args:
        random: decides everything.
        table: its name.
        columns: name → kind.
        key: the names of the primary key's columns; () for none.
    """

    def __init__(self, random: Random, table: str, columns: Columns, key: tuple[str, ...]) -> None:
        super().__init__(random)
        self._table, self._columns, self._key = table, columns, key
        self._free = [name for name in columns if name not in key]
        self._given: list[Any] = []

    def statement(self) -> tuple[str, list[Any] | None]:
        """The next one, and its parameters."""
        self._given = []
        makers = [
            self._insert, self._insert, self._insert_some, self._insert_select, self._upsert,
            self._update, self._update, self._update, self._delete, self._update_from,
            self._delete_using, self._merge, self._merge, self._select,
        ]  # fmt: skip
        text = self._random.choice(makers)()
        params = [self._given[int(mark)] for mark in _MARK.findall(text)]
        return _MARK.sub("?", text), params or None

    # -- values ---------------------------------------------------------------------------------

    def _scalar_query(self, columns: Columns, depth: int) -> str:
        return f"(SELECT max({self._any(self._columns)}) FROM {self._table} AS inside)"

    def _query_predicate(self, columns: Columns, depth: int) -> str:
        x, source = self._any(columns), f"FROM {self._table} AS inside"
        return self._compared(x, x.rpartition(".")[2], source)

    def _free_value(self, kind: str, *, fits: bool = False) -> str:
        """A literal or a parameter, of any type unless it is to fit."""
        if self._chance(0.15):
            return self._parameter(_fitting(kind) if fits else GIVEN)
        return "NULL" if self._chance(0.1) else self._literal(kind)

    def _parameter(self, values: list[Any]) -> str:
        self._given.append(self._random.choice(values))
        return f"{{?{len(self._given) - 1}}}"

    def _computed(self, kind: str, columns: Columns) -> str:
        """A value of a kind, of the columns most often."""
        if self._chance(0.35):
            return self._free_value(kind)
        x, y = self._of(kind, columns), self._of(kind, columns)
        if self._chance(0.4):
            return self._pick(*SAME).format(x=x, y=y, p=self._predicate(columns, 2, 1))
        cast = self._pick("TRY_CAST", "TRY_CAST", "CAST")
        return f"{cast}({self._value(columns, 2)} AS {kind})" if self._chance(0.5) else x

    def _row(self) -> str:
        return f"({', '.join(map(self._free_value, self._columns.values()))})"

    def _where(self) -> str:
        """A condition, by the key as a rule."""
        x = self._random.choice([*self._key, *self._key, *self._columns])
        a, b = (self._free_value(self._columns[x], fits=True) for _ in "ab")
        p = self._predicate(self._columns, 1)
        return self._pick(
            f"{x} = {a}", f"{x} = {a}", f"{x} IN ({a}, {b})", f"{x} IN ({a}, {b}) AND {p}",
            f"{x} BETWEEN {a} AND {b}", f"{x} >= {a}", f"{x} < {a} AND {p}", f"{x} = {a} AND {p}",
            f"{x} IS NOT DISTINCT FROM {a}", p, p,
        )  # fmt: skip

    def _returning(self) -> str:
        if self._chance(0.7):
            return ""
        return (
            f" RETURNING {self._pick('*', self._value(self._columns, 2), self._any(self._columns))}"
        )

    def _sets(self, columns: Columns) -> str:
        picked = self._random.sample(self._free, self._random.choice([1, 1, 2]))
        if self._key and self._chance(0.08):
            picked.append(self._key[0])
        return ", ".join(
            f"{name} = {self._computed(self._columns[name], columns)}" for name in picked
        )

    # -- statements -----------------------------------------------------------------------------

    def _how(self) -> str:
        return self._pick("", "OR REPLACE ", "OR IGNORE ") if self._key else ""

    def _insert(self) -> str:
        rows = ", ".join(self._row() for _ in range(self._random.choice([1, 1, 2, 4])))
        return f"INSERT {self._how()}INTO {self._table} VALUES {rows}{self._returning()}"

    def _insert_some(self) -> str:
        names = [*self._key, *self._random.sample(self._free, 1)]
        values = ", ".join(self._free_value(self._columns[name]) for name in names)
        return (
            f"INSERT {self._how()}INTO {self._table} ({', '.join(names)}) VALUES ({values})"
            f"{self._returning()}"
        )

    def _insert_select(self) -> str:
        where = self._where()
        listed = ", ".join(
            f"TRY_CAST(n AS {kind})" if name in self._key else self._computed(kind, self._columns)
            for name, kind in self._columns.items()
        )
        source = f"(SELECT * FROM {self._table} WHERE {where} ORDER BY ALL LIMIT 3)"
        numbered = f"(SELECT *, row_number() OVER (ORDER BY ALL) % 9 AS n FROM {source})"
        return f"INSERT {self._how()}INTO {self._table} SELECT {listed} FROM {numbered}"

    def _upsert(self) -> str:
        if not self._key:
            return self._insert()
        both = under(self._table, self._columns) | under("excluded", self._columns)
        rows = ", ".join(self._row() for _ in range(self._random.choice([1, 1, 2])))
        target = self._pick("", f" ({', '.join(self._key)})")
        where = self._pick("", "", f" WHERE {self._predicate(both, 2)}")
        return (
            f"INSERT INTO {self._table} VALUES {rows} ON CONFLICT{target} DO UPDATE SET"
            f" {self._sets(both)}{where}{self._returning()}"
        )

    def _update(self) -> str:
        sets, where = self._sets(self._columns), self._where()
        return f"UPDATE {self._table} SET {sets} WHERE {where}{self._returning()}"

    def _delete(self) -> str:
        return f"DELETE FROM {self._table} WHERE {self._where()}{self._returning()}"

    def _source(self) -> tuple[str, str, Columns]:
        """Rows with one of the table's columns each once, and some others; its name and columns."""
        names = list(self._key or self._columns)[:1]
        names += self._random.sample([name for name in self._columns if name not in names], 1)
        columns = under("s", {name: self._columns[name] for name in names})
        if self._chance(0.5):
            rows = f"SELECT {', '.join(names)} FROM {self._table} WHERE {self._where()}"
        else:
            listed = [self._free_value(self._columns[name]) for name in names]
            rows = "SELECT " + ", ".join(
                f"CAST({value} AS {self._columns[name]}) AS {name}"
                for name, value in zip(names, listed, strict=True)
            )
        once = f"SELECT DISTINCT ON ({names[0]}) * FROM ({rows}) ORDER BY ALL"
        return f"({once}) AS s", names[0], columns

    def _update_from(self) -> str:
        source, name, columns = self._source()
        both = under(self._table, self._columns) | columns
        more, sets = self._pick("", f" AND {self._predicate(both, 2)}"), self._sets(both)
        return (
            f"UPDATE {self._table} SET {sets} FROM {source}"
            f" WHERE {self._table}.{name} = s.{name}{more}{self._returning()}"
        )

    def _delete_using(self) -> str:
        source, name, _ = self._source()
        return f"DELETE FROM {self._table} USING {source} WHERE {self._table}.{name} = s.{name}"

    def _merge(self) -> str:
        source, name, columns = self._source()
        own = under(self._table, self._columns)
        both = own | columns
        ways = [f"UPDATE SET {self._sets(both)}", "DELETE", "DO NOTHING"]
        matched = [
            f"WHEN MATCHED{self._and(both)} THEN {self._pick(*ways)}"
            for _ in range(self._random.choice([0, 1, 1, 2]))
        ]
        names = [column.partition(".")[2] for column in columns]
        values = ", ".join(self._computed(self._columns[each], columns) for each in names)
        insert = f"INSERT ({', '.join(names)}) VALUES ({values})"
        rest = [f"WHEN NOT MATCHED{self._and(columns)} THEN {self._pick(insert, 'DO NOTHING')}"]
        if self._chance(0.15):
            way = self._pick("DELETE", f"UPDATE SET {self._sets(own)}")
            rest.append(f"WHEN NOT MATCHED BY SOURCE{self._and(own)} THEN {way}")
        branches = " ".join([*matched, *rest])
        return (
            f"MERGE INTO {self._table} USING {source} ON {self._table}.{name} = s.{name} {branches}"
        )

    def _and(self, columns: Columns) -> str:
        return f" AND {self._predicate(columns, 2)}" if self._chance(0.4) else ""

    def _select(self) -> str:
        listed = self._pick(
            "*", f"{self._value(self._columns, 2)} AS x, {self._any(self._columns)}"
        )
        return f"SELECT {listed} FROM {self._table} WHERE {self._where()}"


def create(name: str, columns: Columns, key: tuple[str, ...]) -> str:
    """The table's definition."""
    listed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    tail = f", PRIMARY KEY ({', '.join(key)})" if key else ""
    return f"CREATE TABLE {name} ({listed}{tail})"


def rows(random: Random, columns: Columns, count: int) -> str:
    """Some rows, as VALUES has them."""
    return ", ".join(
        f"({', '.join(literal(kind, random.choice(VALUES[kind])) for kind in columns.values())})"
        for _ in range(count)
    )
