"""Readers beside DDL: each answer is that of one moment, and no error but that a name is gone.

The interpreter changes threads every 20 µs, and two threads do nothing but take their turns.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.storage.errors import InternalError
from tests.support.churn import beside, churning
from tests.tiers import examples, seeds

ROWS = 50
SECONDS = examples(25)
VIEWS = (
    "SELECT k, n FROM t",
    "SELECT n, k FROM t",
    "SELECT k, n + 1000 AS n FROM t",
    "SELECT k, CAST(n AS VARCHAR) AS n, g FROM t",
    "SELECT g AS k, count(*) AS n FROM t GROUP BY g",
)
ADDED = (("x", "INTEGER"), ("x", "INTEGER DEFAULT 7"), ("y", "VARCHAR DEFAULT 'a'"))
GONE = ("does not exist", "Table with name")


@pytest.fixture(autouse=True)
def churn() -> Iterator[None]:
    with churning():
        yield


def of_view(k: int) -> list[dict[str, Any]]:
    """The row that a view may have under a key, in each of its forms."""
    found = [{"k": k, "n": k * 10}, {"n": k * 10, "k": k}, {"k": k, "n": k * 10 + 1000}]
    counted = [{"k": k, "n": ROWS // 5}] if k < 5 else []
    return [*found, {"k": k, "n": str(k * 10), "g": k % 5}, *counted]


def of_table(k: int) -> list[dict[str, Any]]:
    row = {"k": k, "n": k * 10, "g": k % 5}
    return [{**row, **more} for more in ({}, {"x": None}, {"x": 7}, {"y": "a"})]


class Reader:
    """A session that asks for rows whose forms are known.

    Args:
        db: has the table and the views.
        seed: of what it asks for.
    """

    def __init__(self, db: ivm.Database, seed: int) -> None:
        self._connection, self._random = db.connection(), random.Random(seed)
        self._asks = (self._of_view, self._of_table, self._joined, self._explained, self._summed)
        self.answers = 0

    def read(self) -> None:
        """Asks once; a name may be gone."""
        k = self._random.randrange(ROWS)
        try:
            self._random.choice(self._asks)(k)
            self.answers += 1
        except InternalError:
            raise
        except IvmError as error:
            if not any(words in str(error) for words in GONE):
                raise

    def _rows(self, query: str, k: int) -> list[dict[str, Any]]:
        given = self._random.random() < 0.5
        result = self._connection.execute(query, [k]) if given else None
        result = result or self._connection.execute(query.replace("?", str(k)))
        rows = result.fetchall()
        names = [name for name, *_ in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _of_view(self, k: int) -> None:
        found = self._rows("SELECT * FROM v WHERE k = ?", k)
        assert len(found) == 1 or (not found and k >= 5)
        assert not found or (found[0], [*found[0]]) in [(row, [*row]) for row in of_view(k)]

    def _of_table(self, k: int) -> None:
        (found,) = self._rows("SELECT * FROM t WHERE k = ?", k)
        assert found in of_table(k)

    def _joined(self, k: int) -> None:
        for row in self._rows("SELECT t.n AS m, v.* FROM t JOIN v ON v.k = t.k WHERE t.k = ?", k):
            assert row.pop("m") == k * 10
            assert row in of_view(k)

    def _explained(self, k: int) -> None:
        self._rows("EXPLAIN SELECT * FROM v WHERE k = ?", k)

    def _summed(self, k: int) -> None:
        (found,) = self._rows("SELECT sum(s) AS s FROM w WHERE g >= 0 AND ? IS NOT NULL", k)
        assert found == {"s": 10 * sum(range(ROWS))}


class Changer:
    """A session that changes what the names mean, and no row.

    Args:
        db: has the table and the views.
        seed: of what it changes.
    """

    def __init__(self, db: ivm.Database, seed: int) -> None:
        self._connection, self._random = db.connection(), random.Random(seed)
        self._added: str | None = None
        self._indexed = False

    def change(self) -> None:
        """Changes once."""
        for statement in self._statements(self._random.randrange(8)):
            self._connection.execute(statement)

    def _statements(self, what: int) -> list[str]:
        view = self._random.choice(VIEWS)
        made = f"CREATE MATERIALIZED VIEW v AS {view}"
        match what:
            case 0 | 1 | 2:
                return [f"CREATE OR REPLACE MATERIALIZED VIEW v AS {view}"]
            case 3:
                return ["BEGIN", "DROP MATERIALIZED VIEW v", made, "COMMIT"]
            case 4:
                bad = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS k"
                return ["BEGIN", bad, "CREATE TABLE other (z INTEGER)", "ROLLBACK"]
            case 5 if not self._indexed:
                return [self._altered()]
            case 6 if self._added is None:
                self._indexed = not self._indexed
                return ["CREATE INDEX i ON t (g)" if self._indexed else "DROP INDEX i"]
            case _:
                return ["CREATE VIEW p AS FROM v", "DROP VIEW p", "REFRESH MATERIALIZED VIEW w"]

    def _altered(self) -> str:
        if self._added is not None:
            name, self._added = self._added, None
            return f"ALTER TABLE t DROP COLUMN {name}"
        self._added, type = self._random.choice(ADDED)
        return f"ALTER TABLE t ADD COLUMN {self._added} {type}"


@pytest.mark.parametrize("seed", seeds(1))
def test_readers_beside_changes_of_names_see_one_moment(seed: int) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, n INTEGER, g INTEGER)")
        db.execute(f"INSERT INTO t SELECT range, range * 10, range % 5 FROM range({ROWS})")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[0]}")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT g, sum(n) AS s FROM t GROUP BY g")
        readers, changer = [Reader(db, 10 * seed + i) for i in range(3)], Changer(db, seed)

        def look() -> None:
            db.views(), db.tables()
            db.execute("SHOW MATERIALIZED VIEWS").fetchall()

        until = time.monotonic() + SECONDS
        with contextlib.ExitStack() as running:
            works = (look, *[reader.read for reader in readers])
            errors = [running.enter_context(beside(work)) for work in works]
            while not any(errors) and (
                time.monotonic() < until or not all(reader.answers for reader in readers)
            ):
                changer.change()


@pytest.mark.full
def test_databases_come_and_go_beside_changes_of_the_catalog() -> None:
    """Bug: DuckDB gave up all databases, as one went between two looks of a transaction."""
    with ivm.connect() as db:

        def come_and_go() -> None:
            db.execute("ATTACH ':memory:' AS z; DETACH z")

        until = time.monotonic() + SECONDS / 3
        with beside(come_and_go) as errors:
            while not errors and time.monotonic() < until:
                db.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS a")
                db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t")
                db.execute("DROP MATERIALIZED VIEW v")
