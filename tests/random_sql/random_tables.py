"""Random tables of every kind of type, and random changes of them by every way in.

Values are few, so that rows join, group and repeat; each kind has its hard ones (NULL, NaN, -0.0,
±Inf, 38 digits, empty lists, equal intervals of different form). Sums of the doubles are exact, so
that no answer depends on the order of addition.
"""

from __future__ import annotations

from random import Random

BIG = "9" * 30
VALUES: dict[str, list[str]] = {
    "INTEGER": ["0", "1", "2", "3", "5", "-1"],
    "BIGINT": ["0", "1", "2", "4", "-9007199254740993", "9007199254740993"],
    "HUGEINT": ["0", "1", "2", "18446744073709551616", "-170141183460469231731687303715884105"],
    "UBIGINT": ["0", "1", "3", "9223372036854775808"],
    "DECIMAL(38,4)": ["0", "1", "2.5", "-0.0001", f"{BIG}.9999", f"-{BIG}.9999"],
    "DECIMAL(9,2)": ["0", "1", "2.50", "-3.75", "99.99"],
    "DOUBLE": ["0.0", "'-0.0'", "1", "2", "1.5", "-2.25", "1e15", "'nan'", "'inf'", "'-inf'"],
    "FLOAT": ["0.0", "1", "2", "-0.5", "'nan'"],
    "VARCHAR": ["''", "'a'", "'b'", "'ab'", "'B'", "'é'", "'a longer text, not inlined'"],
    "BLOB": [r"'\x00'", r"'\xFF'", "'a'", "''"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["'2024-02-29'", "'2024-01-31'", "'1969-12-31'", "'2024-03-01'"],
    "TIME": ["'00:00:00'", "'12:34:56.789012'", "'23:59:59'"],
    "TIMESTAMP": ["'2024-02-29 00:00:00'", "'2024-02-29 12:00:00.5'", "'1969-12-31 23:59:59'"],
    "TIMESTAMP WITH TIME ZONE": ["'2024-02-29 12:00:00+05'", "'2024-02-29 07:00:00+00'"],
    "INTERVAL": ["'1 month'", "'30 days'", "'720 hours'", "'1 day'", "'0 days'", "'-1 day'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "mood": ["'low'", "'mid'", "'high'"],
    "INTEGER[]": ["[]", "[1]", "[1, 2]", "[NULL, 1]", "[2, 1, 1]"],
    "VARCHAR[]": ["[]", "['a']", "['a', NULL]", "['b', 'a']"],
    "STRUCT(a INTEGER, b VARCHAR)": [
        "{'a': 1, 'b': 'a'}", "{'a': NULL, 'b': 'b'}", "{'a': 2, 'b': NULL}", "{'a': 1, 'b': 'b'}",
    ],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}", "MAP {'a': 1, 'b': 2}", "MAP {}", "MAP {'b': NULL}"],
    "JSON": ["'{\"a\":1}'", "'[1,2]'", "'null'", "'{\"a\":{\"b\":2}}'"],
    "BIT": ["'101'", "'0101'", "'0'"],
    "BIGNUM": ["'5'", f"'{BIG}{BIG}'", "'-7'"],
}  # fmt: skip
KINDS = [kind for kind in VALUES if kind != "INTEGER"]


def literal(kind: str, text: str) -> str:
    """A value of the kind, by its literal."""
    return f"CAST({text} AS {kind})"


class Table:
    """A table with random columns.

    Attributes:
        name: its name.
        columns: name → kind.
        key: its primary key's columns.
    """

    def __init__(self, name: str, key: tuple[str, ...], random: Random) -> None:
        self.name, self.key = name, key
        picked = random.sample(KINDS, random.randint(2, 5))
        self.columns = {"i": "INTEGER", "j": random.choice(["INTEGER", "VARCHAR", "BIGINT"])}
        self.columns |= {f"{name}{n}": kind for n, kind in enumerate(picked)}
        self._random = random

    def create(self) -> str:
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        key = f", PRIMARY KEY ({', '.join(self.key)})" if self.key else ""
        return f"CREATE TABLE {self.name} ({listed}{key})"

    def value(self, column: str, nulls: float = 0.2) -> str:
        if column not in self.key and self._random.random() < nulls:
            return "NULL"
        kind = self.columns[column]
        if kind == "INTEGER" and column in self.key:
            return str(self._random.randrange(12))
        return literal(kind, self._random.choice(VALUES[kind]))

    def row(self) -> str:
        return f"({', '.join(self.value(column) for column in self.columns)})"


class Changes:
    """Random statements that change the tables.

    Args:
        random: decides everything.
        tables: what they change.
    """

    def __init__(self, random: Random, tables: list[Table]) -> None:
        self._random = random
        self._tables = tables
        self._next = 100

    def statement(self) -> str:
        table = self._random.choice(self._tables)
        makers = [
            self._insert, self._insert, self._insert, self._insert_again, self._update,
            self._update, self._update_key, self._delete, self._delete_some, self._clear,
            self._many, self._update_from, self._delete_using, self._merge, self._swap,
        ]  # fmt: skip
        return self._random.choice(makers)(table)

    def _insert(self, table: Table) -> str:
        rows = ", ".join(table.row() for _ in range(self._random.choice([1, 1, 2, 5, 12])))
        how = self._random.choice(["OR REPLACE ", "OR IGNORE "]) if table.key else ""
        if self._random.random() < 0.2:
            how = ""
        return f"INSERT {how}INTO {table.name} VALUES {rows}"

    def _insert_again(self, table: Table) -> str:
        """Rows that are there already, once more."""
        if not table.key:
            where = f"{self._where(table)} AND i < 4"
            return f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE {where}"
        self._next += 1
        listed = ", ".join(f"i + {self._next * 10} AS i" if c == "i" else c for c in table.columns)
        return f"INSERT INTO {table.name} SELECT {listed} FROM {table.name} WHERE i < 4"

    def _where(self, table: Table) -> str:
        column = self._random.choice(list(table.columns))
        value = table.value(column, 0)
        return self._random.choice(
            [f"{column} = {value}", f"{column} IS NULL", f"i < {self._random.randrange(6)}",
             f"{column} IS DISTINCT FROM {value}", f"i % 3 = {self._random.randrange(3)}"]
        )  # fmt: skip

    def _update(self, table: Table) -> str:
        free = [c for c in table.columns if c not in table.key]
        picked = self._random.sample(free, self._random.randint(1, min(2, len(free))))
        sets = ", ".join(f"{c} = {table.value(c)}" for c in picked)
        return f"UPDATE {table.name} SET {sets} WHERE {self._where(table)}"

    def _update_key(self, table: Table) -> str:
        step = self._random.choice(["i + 100", "i + 1", "-i", "i % 100"])
        return f"UPDATE {table.name} SET i = {step} WHERE {self._where(table)}"

    def _delete(self, table: Table) -> str:
        return f"DELETE FROM {table.name} WHERE {self._where(table)}"

    def _delete_some(self, table: Table) -> str:
        return f"DELETE FROM {table.name} WHERE i = {self._random.randrange(8)}"

    def _clear(self, table: Table) -> str:
        if self._random.random() < 0.6:
            return self._insert(table)
        return self._random.choice([f"TRUNCATE {table.name}", f"DELETE FROM {table.name}"])

    def _many(self, table: Table) -> str:
        """More rows than a run holds at first, few of each key."""
        if self._random.random() < 0.5:
            return f"DELETE FROM {table.name} WHERE i > 500"
        first, count = self._next * 1000, self._random.choice([50, 700])
        self._next += 1
        listed = ", ".join(
            f"({first} + n)::INTEGER" if column == "i" else table.value(column, 0.1)
            for column in table.columns
        )
        return f"INSERT INTO {table.name} SELECT {listed} FROM range({count}) AS r(n)"

    def _update_from(self, table: Table) -> str:
        other = self._random.choice(self._tables)
        free = [c for c in table.columns if c not in table.key]
        column = self._random.choice(free)
        return (
            f"UPDATE {table.name} SET {column} = {table.value(column)} FROM {other.name} AS o"
            f" WHERE o.i = {table.name}.i + 1"
        )

    def _delete_using(self, table: Table) -> str:
        other = self._random.choice(self._tables)
        return f"DELETE FROM {table.name} USING {other.name} AS o WHERE o.i = {table.name}.i - 2"

    def _merge(self, table: Table) -> str:
        values = [table.value(c, 0) for c in table.columns]
        listed = ", ".join(f"{v} AS {c}" for c, v in zip(table.columns, values, strict=True))
        on = " AND ".join(f"{table.name}.{c} = n.{c}" for c in table.key or ("i",))
        free = next(c for c in reversed(table.columns) if c not in table.key)
        insert = ", ".join(f"n.{c}" for c in table.columns)
        matched = self._random.choice(["DELETE", f"UPDATE SET {free} = n.{free}"])
        return (
            f"MERGE INTO {table.name} USING (SELECT {listed}) AS n ON {on}"
            f" WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT VALUES ({insert})"
        )

    def _swap(self, table: Table) -> str:
        """Every row goes and comes with another value, within one statement."""
        free = [c for c in table.columns if c not in table.key]
        column = self._random.choice(free)
        return f"UPDATE {table.name} SET {column} = {table.value(column)}"
