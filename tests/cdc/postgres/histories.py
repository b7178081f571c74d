"""Random histories of an upstream database, and whoever does what a stopped source asks for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.errors import LockNotAvailable

import ivm
from tests.cdc.postgres.following import state
from tests.support.postgres import Database

TABLES = {
    "k": "CREATE TABLE k (id int PRIMARY KEY, grp int, a int, b text)",
    "f": "CREATE TABLE f (id int, grp int, a int, b text); ALTER TABLE f REPLICA IDENTITY FULL",
    "p": "CREATE TABLE p (id int PRIMARY KEY, grp int, a int, b text) PARTITION BY RANGE (id);"
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (20);"
    "CREATE TABLE p2 PARTITION OF p DEFAULT",
}
VIEWS = {t: f"SELECT grp, count(*) AS n, sum(id) AS s FROM {t} GROUP BY grp" for t in TABLES}
NAMES = ("a", "b", "c")
TYPES = {
    "int": ("7", "NULL", "-1"),
    "bigint": ("7", "NULL", "10000000000"),
    "smallint": ("7", "NULL"),
    "text": ("'x'", "NULL", "'ab  '"),
    "varchar(9)": ("'x'", "'ab  '", "NULL"),
    "char(5)": ("'x'", "NULL"),
    "numeric(10,2)": ("1.25", "NULL"),
    "numeric(12,3)": ("1.125", "NULL"),
    "numeric": ("1.5", "NULL"),
    "timestamp": ("'2020-01-01 00:00:00.6'", "NULL"),
    "timestamp(0)": ("'2020-01-01 00:00:00.6'", "NULL"),
    "mood": ("'low'", "NULL"),
}
DSN = "dsn '{}', tables 'k, f, p, done', slot 'ivm_shop', publication 'ivm_shop'"
_STATEMENT = re.compile(r"(?:ALTER TABLE|CREATE OR REPLACE TABLE|BEGIN; CREATE) .*")


class History:
    """One random history.

    Args:
        shop: the upstream database.
        file: of ours.
        seed: of what happens.

    Attributes:
        said: what has happened, in order.
        left: the tables that are to be copied anew.
    """

    def __init__(self, shop: Database, file: Path, seed: int) -> None:
        self.shop = shop
        self.file = file
        self.chance = random.Random(seed)
        self.said: list[str] = []
        self.left: list[str] = []
        self._ids = 10

    def begin(self) -> None:
        """Makes the tables and the source."""
        memory = f"ALTER DATABASE \"{self.shop.name}\" SET logical_decoding_work_mem = '64kB'"
        self.shop.execute(memory, "CREATE TYPE mood AS ENUM ('low', 'high')")
        self.shop.execute("CREATE TABLE done (n int PRIMARY KEY)", *TABLES.values())
        for table in TABLES:
            self.shop.execute(
                f"INSERT INTO {table} SELECT i, i % 3, i, 'old' FROM generate_series(1, 9) i"
            )
        dsn = self.shop.dsn.replace("'", "''")
        with ivm.connect(self.file) as db:
            for table in TABLES:
                key = " PRIMARY KEY" * (table != "f")
                db.execute(
                    f"CREATE TABLE {table} (id INTEGER{key}, grp INTEGER, a INTEGER, b VARCHAR);"
                    f"CREATE MATERIALIZED VIEW v{table} AS {VIEWS[table]}"
                )
            db.execute(f"CREATE SOURCE shop FROM POSTGRES ({DSN.format(dsn)})")

    def step(self) -> None:
        """Something happens upstream."""
        kinds: list[tuple[int, Callable[[], list[str]]]] = [
            (8, self._rows),
            (10, self._ddl),
            (3, self._both),
            (1, self._rewrite),
            (1, self._published),
        ]
        weights, makers = zip(*kinds, strict=True)
        (maker,) = self.chance.choices(makers, weights)
        for sql in maker():
            self._run(sql)

    def end(self, number: int) -> None:
        """Touches all tables, and marks the end."""
        for table in TABLES:
            self._run(f"INSERT INTO {table} (id, grp) VALUES ({-number}, 0)")
            # It may lack a value that must not be NULL, but a change shows what columns there are.
            self._run(f"UPDATE {table} SET grp = grp WHERE id = (SELECT max(id) FROM {table})")
        self._run(f"INSERT INTO done VALUES ({number})")

    def _run(self, sql: str) -> None:
        try:
            self.shop.execute("SET lock_timeout = '60s'", sql)
            self.said.append(sql)
        except LockNotAvailable as error:  # nobody of ours holds a lock for so long
            raise AssertionError("\n".join([*self.said, sql])) from error
        except psycopg2.Error as error:
            self.said.append(f"{sql} -- {str(error).splitlines()[0]}")

    def _table(self) -> str:
        return self.chance.choice(list(TABLES))

    def _columns(self, table: str) -> dict[str, str]:
        found = self.shop.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        return {name: type for name, type in found if name not in ("id", "grp")}

    def _value(self, type: str) -> str:
        short = {"integer": "int", "character varying(9)": "varchar(9)", "character(5)": "char(5)"}
        short["timestamp without time zone"] = "timestamp"
        short["timestamp(0) without time zone"] = "timestamp(0)"
        return self.chance.choice(TYPES.get(short.get(type, type), ("NULL",)))

    def _rows(self) -> list[str]:
        table, chance = self._table(), self.chance
        columns = self._columns(table)
        some = [name for name in columns if chance.random() < 0.7]
        where = chance.choice(["id % 3 = 0", "id = 4", "id > 6", "grp = 1", "true"])
        kind = chance.choice(
            ["insert", "insert", "update", "update", "delete", "move", "many", "empty"]
        )
        if kind == "update" and some:
            sets = ", ".join(f"{name} = {self._value(columns[name])}" for name in some)
            return [f"UPDATE {table} SET {sets} WHERE {where}"]
        if kind == "delete":
            return [f"DELETE FROM {table} WHERE id = {chance.randrange(1, self._ids)}"]
        if kind == "move":
            return [
                f"UPDATE {table} SET id = id + 1000 WHERE id = {chance.randrange(1, self._ids)}"
            ]
        if kind == "empty" and chance.random() < 0.3:
            return [f"TRUNCATE {table}"]
        self._ids += 1
        listed = "".join(f", {name}" for name in some)
        values = "".join(f", {self._value(columns[name])}" for name in some)
        if kind == "many":
            first, self._ids = self._ids, self._ids + 400
            return [
                f"INSERT INTO {table} (id, grp{listed}) SELECT i, i % 3{values}"
                f" FROM generate_series({first}, {self._ids}) i"
            ]
        return [f"INSERT INTO {table} (id, grp{listed}) VALUES ({self._ids}, 1{values})"]

    def _ddl(self) -> list[str]:
        table, chance = self._table(), self.chance
        columns = self._columns(table)
        name = chance.choice(sorted(columns) or ["a"])
        new, type = chance.choice(NAMES), chance.choice(list(TYPES))
        alter, value = f"ALTER TABLE {table}", chance.choice(TYPES[type])
        made = [
            f"{alter} ADD {new} {type}",
            f"{alter} ADD {new} {type} DEFAULT {value}",
            f"{alter} ADD {new} {type} NOT NULL DEFAULT {TYPES[type][0]}",
            f"{alter} ADD {new} int DEFAULT 5; {alter} ALTER {new} DROP DEFAULT",
            f"{alter} ADD {new} float DEFAULT random()",
            f"{alter} DROP {name}",
            f"{alter} DROP {name}",
            f"{alter} DROP {name}; {alter} ADD {name} {type}",
            f"{alter} RENAME {name} TO {new}",
            f"{alter} RENAME {name} TO {new}",
            f"{alter} RENAME {name} TO x; {alter} RENAME {new} TO {name};{alter} RENAME x TO {new}",
            f"{alter} ALTER {name} TYPE {type}",
            f"{alter} ALTER {name} TYPE {type}",
            f"{alter} ALTER {name} TYPE {type}, ADD {new} int DEFAULT 3",
            f"{alter} ALTER {name} SET NOT NULL",
            f"{alter} ALTER {name} DROP NOT NULL",
            f"{alter} ALTER {name} SET DEFAULT NULL",
            f"{alter} ALTER grp TYPE bigint",
            f"{alter} REPLICA IDENTITY FULL",
            "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'mid' BEFORE 'high'",
            "ALTER TYPE mood RENAME VALUE 'high' TO 'top'",
        ]
        return [chance.choice(made)]

    def _both(self) -> list[str]:
        """Rows and DDL in one transaction."""
        parts = [*self._rows(), *self._ddl(), *self._rows()]
        return ["; ".join(parts)]

    def _rewrite(self) -> list[str]:
        table = self._table()
        return [self.chance.choice([f"VACUUM FULL {table}", "CLUSTER k USING k_pkey", "ANALYZE k"])]

    def _published(self) -> list[str]:
        table = self._table()
        publication = "ALTER PUBLICATION ivm_shop"
        every = "insert, update, delete, truncate"
        changes = [
            [
                f"{publication} DROP TABLE {table}",
                *self._rows(),
                f"{publication} ADD TABLE ONLY {table}",
            ],
            [
                f"{publication} SET (publish = 'insert')",
                *self._rows(),
                f"{publication} SET (publish = '{every}')",
            ],
        ]
        return self.chance.choice(changes) if self.chance.random() < 0.3 else self._rows()


def obey(db: ivm.Database, history: History, reason: str) -> bool:
    """Does what a stopped source asks for, if it can be done by a statement here."""
    anew = re.search(r"ALTER SOURCE … DROP TABLE ([\w.]+)", reason)
    found = _STATEMENT.search(reason)
    if anew is not None:
        sql = f"ALTER SOURCE shop DROP TABLE {anew[1]}"
        history.left.append(anew[1])
    elif found is not None and "CREATE" not in found[0]:
        sql = re.split(r"; or,|; it then comes| \(", found[0])[0]
    else:
        return False
    history.said.append(f"-- {sql}")
    db.execute(f"{sql}; RESUME SOURCE shop")
    return True


def add_again(db: ivm.Database, history: History) -> None:
    """Adds the tables that are to be copied anew, when the source runs without them."""
    while history.left and db.sources()[0].caught_up and state(db)[0] == "running":
        table = history.left.pop()
        history.said.append(f"-- ADD TABLE {table}")
        db.execute(f"ALTER SOURCE shop ADD TABLE {table}")


def differences(db: ivm.Database, shop: Database) -> list[Any]:
    """What our tables and views have that upstream has not, or the other way round."""
    found: list[Any] = []
    with closing(shop.connect()) as connection, connection.cursor() as cursor:
        for table, view in VIEWS.items():
            cursor.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description or ()]
            theirs = _texts(cursor.fetchall())
            listed = ", ".join(f'"{name}"' for name in names)
            try:
                ours = _texts(db.execute(f"SELECT {listed} FROM {table}").fetchall())
            except ivm.errors.IvmError as error:
                found.append((table, str(error)))
                continue
            found += [(table, names, pair) for pair in _unequal(ours, theirs)]
            cursor.execute(view)
            pairs = _unequal(
                _texts(db.execute(f"FROM v{table}").fetchall()), _texts(cursor.fetchall())
            )
            found += [(f"v{table}", pair) for pair in pairs]
    return found


def _texts(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(str([None if value is None else str(value) for value in row]) for row in rows)


def _unequal(ours: list[str], theirs: list[str]) -> list[tuple[str, str]]:
    if ours == theirs:
        return []
    only = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    return [(f"here {only[0][:2]} of {len(ours)}", f"upstream {only[1][:2]} of {len(theirs)}")]
