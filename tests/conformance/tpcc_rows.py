"""A little TPC-C content, and random changes to it, as SQL that two databases can run alike.

Domains are small, so that joins match, groups are emptied and filled again, and orders have ties; a
nullable column is NULL in one row of six.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

Row = dict[str, str]

_WORDS = ["", "ab", "Abba", "OUGHT", "PRI", "late PAYMENT", "original", "north", " x "]
_FIXED = {
    "C_CREDIT": ["GC", "BC"],
    "C_MIDDLE": ["OE"],
    "C_DISCOUNT": ["0", "0.01", "0.1", "0.25", "0.5"],
    "W_TAX": ["0", "0.05", "0.1", "0.2"],
    "D_TAX": ["0", "0.05", "0.1", "0.2"],
    "C_BALANCE": ["-10", "0", "0.01", "50", "500", "1000.5", "2500", "-750.25"],
    "C_YTD_PAYMENT": ["0", "10", "10.5", "1000", "0.25"],
    "H_AMOUNT": ["0", "1", "10", "50.5", "100", "2500"],
    "OL_AMOUNT": ["0", "1", "9.99", "50", "100", "250.5", "5000"],
    "OL_QUANTITY": ["0", "1", "5", "5", "10", "20"],
    "S_QUANTITY": ["0", "5", "10", "15", "20", "50", "99"],
    "I_PRICE": ["1", "9.99", "10", "50", "75.5", "99.99"],
}
_RANGES = {
    "W_ID": 3, "D_ID": 4, "C_ID": 8, "I_ID": 12, "O_ID": 8, "OL_NUMBER": 3, "I_IM_ID": 5,
    "O_CARRIER_ID": 10, "O_OL_CNT": 15, "O_ALL_LOCAL": 1, "D_NEXT_O_ID": 9,
}  # fmt: skip
_SIZES = {
    "WAREHOUSE": 3, "DISTRICT": 10, "CUSTOMER": 40, "ITEM": 12, "STOCK": 25, "OORDER": 50,
    "NEW_ORDER": 20, "ORDER_LINE": 80, "HISTORY": 50,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of the schema.

    Attributes:
        name: upper case.
        type: its SQL type.
        nullable: neither NOT NULL nor part of the key.
    """

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Table:
    """A table of the schema.

    Attributes:
        name: upper case.
        columns: in order.
        key: names of the key columns, none for a table of duplicates.
        ddl: the CREATE TABLE, foreign keys left out.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ddl: str


def tables(schema: str) -> list[Table]:
    """The tables of the schema's text."""
    text = re.sub(r"--[^\n]*", "", schema)
    text = re.sub(r",\s*FOREIGN KEY \([^)]*\) REFERENCES \w+\s*\([^)]*\)", "", text)
    return [_table(ddl.strip()) for ddl in text.split(";") if ddl.strip()]


def _table(ddl: str) -> Table:
    found = re.fullmatch(r"CREATE TABLE (\w+) \((.*)\)", ddl, re.DOTALL)
    assert found is not None, ddl
    body = found[2]
    whole = re.search(r",\s*PRIMARY KEY \(([^)]*)\)", body)
    key = tuple(whole[1].split(", ")) if whole else ()
    body = body.replace(whole[0], "") if whole else body
    columns = []
    for name, type, rest in re.findall(r"(\w+) (\w+(?:\([^)]*\))?)([^,]*)", body):
        key = (name,) if "PRIMARY KEY" in rest else key
        columns.append(Column(name, type, "NOT NULL" not in rest and name not in key))
    return Table(found[1], tuple(columns), key, ddl)


class Content:
    """The rows of all tables as they are, as literals, and what is done to them.

    Args:
        tables: of the schema.
        seed: decides everything.
    """

    def __init__(self, tables: list[Table], seed: int) -> None:
        self._tables = tables
        self._random = Random(seed)
        self._rows: dict[str, dict[tuple[str, ...], Row]] = {t.name: {} for t in tables}
        self._serial = 0  # tells the rows of a table without a key apart

    def fill(self) -> Iterator[str]:
        """INSERTs of the first rows."""
        for table in self._tables:
            yield from self._inserts(table, _SIZES[table.name])

    def epochs(self, deltas: list[str]) -> Iterator[list[str]]:
        """Transactions: single rows, mixed ones, whole tables emptied and filled again.

        Args:
            deltas: UPDATE statements of others, run as one transaction in the middle.
        """
        every = self._tables
        yield [s for t in every for s in self._inserts(t, 3)]
        yield [s for t in every for s in self._updates(t, 4)]
        yield [s for t in every for s in self._deletes(t, 3)]
        yield self._mixed(20)
        yield deltas
        for table in self._random.sample(every, min(3, len(every))):  # an epoch of one row
            yield list(self._inserts(table, 1)) or list(self._updates(table, 1))
        emptied = self._random.sample(every, min(3, len(every)))
        yield [s for t in emptied for s in self._deletes(t, 10_000)]
        yield [s for t in emptied for s in self._inserts(t, _SIZES[t.name])]
        yield self._mixed(60)

    def _mixed(self, count: int) -> list[str]:
        ways = [self._inserts, self._updates, self._deletes]
        steps = [
            (self._random.choice(ways), self._random.choice(self._tables)) for _ in range(count)
        ]
        return [s for way, table in steps for s in way(table, self._random.choice([1, 1, 2]))]

    # -- statements -----------------------------------------------------------------------------

    def _inserts(self, table: Table, count: int) -> Iterator[str]:
        added: list[str] = []
        for _ in range(count * 4):
            row = {c.name: self._value(c) for c in table.columns}
            key = self._key(table, row)
            if key not in self._rows[table.name] and len(added) < count:
                self._rows[table.name][key] = row
                added.append(f"({', '.join(row.values())})")
        if added:
            yield f"INSERT INTO {table.name} VALUES {', '.join(added)}"

    def _updates(self, table: Table, count: int) -> Iterator[str]:
        free = [c for c in table.columns if c.name not in table.key]
        for key in self._some(table, count) if free else ():
            columns = self._random.sample(free, min(2, len(free)))
            news = {c.name: self._value(c) for c in columns}
            row = self._rows[table.name].pop(key)
            where = self._where(table, row)
            for other in self._like(table, row):
                self._rows[table.name].pop(other)
            if table.key:
                self._rows[table.name][key] = row | news
            else:
                self._rows[table.name][self._key(table, row)] = row | news
            sets = ", ".join(f"{name} = {value}" for name, value in news.items())
            yield f"UPDATE {table.name} SET {sets} WHERE {where}"

    def _deletes(self, table: Table, count: int) -> Iterator[str]:
        for key in self._some(table, count):
            if key in self._rows[table.name]:
                row = self._rows[table.name].pop(key)
                for other in self._like(table, row):
                    self._rows[table.name].pop(other)
                yield f"DELETE FROM {table.name} WHERE {self._where(table, row)}"

    # -- rows -----------------------------------------------------------------------------------

    def _some(self, table: Table, count: int) -> list[tuple[str, ...]]:
        keys = list(self._rows[table.name])
        return self._random.sample(keys, min(count, len(keys)))

    def _like(self, table: Table, row: Row) -> list[tuple[str, ...]]:
        """Other rows that the row's WHERE finds."""
        return [] if table.key else [k for k, r in self._rows[table.name].items() if r == row]

    def _key(self, table: Table, row: Row) -> tuple[str, ...]:
        self._serial += 1
        return tuple(row[name] for name in table.key) or (str(self._serial),)

    def _where(self, table: Table, row: Row) -> str:
        names = table.key or tuple(row)
        return " AND ".join(f"{name} IS NOT DISTINCT FROM {row[name]}" for name in names)

    def _value(self, column: Column) -> str:
        if column.nullable and self._random.random() < 1 / 6:
            return "NULL"
        value = self._plain(column)
        return f"{value}::{column.type}" if column.type in ("TIMESTAMP", "FLOAT") else value

    def _plain(self, column: Column) -> str:
        pick = self._random.choice
        if column.name in _FIXED:
            value = pick(_FIXED[column.name])
            return f"'{value}'" if "CHAR" in column.type else value
        for ending, most in _RANGES.items():
            if column.name.endswith(ending):
                return str(self._random.randint(1 if most > 1 else 0, most))
        if column.type == "TIMESTAMP":
            return f"'2026-06-{pick(range(1, 27)):02d} {pick(['00:00:00', '12:30:00'])}'"
        if "CHAR" in column.type:
            return f"'{pick(_WORDS)}'"
        return str(pick([0, 1, 2, 5, 10, 100]))
