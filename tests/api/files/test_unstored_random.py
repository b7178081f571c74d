"""Tables that are not stored against stored ones: the same statements, rows, counts and views."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import ivm
from ivm.errors import ConstraintError
from tests.support.view_oracle import assert_same_rows
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=1)

KEYS = st.integers(0, 12)
NAMES = st.sampled_from(["a", "b", "", None])
AMOUNTS = st.sampled_from(["1.50", "-2.25", "0.00", "NULL"])
COLUMNS = "id INTEGER PRIMARY KEY, name VARCHAR DEFAULT 'd', amount DECIMAL(8, 2)"
VIEWS = {
    "totals": "SELECT name, count(*) AS n, sum(amount) AS s, max(amount) AS m FROM t GROUP BY name",
    "pairs": "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.name = b.name AND a.id < b.id",
    "few": "SELECT * FROM t WHERE amount > 0 OR name IS NULL",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) AS r FROM t",
}


def _text(value: str | None) -> str:
    return "NULL" if value is None else f"'{value}'"


class Unstored(RuleBasedStateMachine):
    """A table in files beside the same table in a plain DuckDB."""

    @initialize(ids=st.sets(KEYS, max_size=9), name=NAMES)
    def begin(self, ids: set[int], name: str | None) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.twin = duckdb.connect()
        self.twin.execute(f"CREATE TABLE t ({COLUMNS})")
        for i in sorted(ids):
            self.twin.execute("INSERT INTO t VALUES (?, ?, ?)", [i, name if i % 2 else "a", i])
        self.number = 0
        self._write()
        self.db = ivm.connect(self.folder / "x.duckdb")
        self.db.execute(
            f"CREATE TABLE t ({COLUMNS}) FROM PARQUET '{self._place}' WITH (stored = false)"
        )
        for view, query in VIEWS.items():
            self.db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")

    @property
    def _place(self) -> Path:
        return self.folder / f"lake{self.number}"

    def _write(self) -> None:
        """Two files with the twin's rows."""
        self._place.mkdir()
        for part in range(2):
            self.twin.execute(
                f"COPY (FROM t WHERE id % 2 = {part}) TO '{self._place}/{part}.parquet'"
            )

    def _both(self, sql: str) -> None:
        try:
            wanted: Any = self.twin.execute(sql).fetchall()
        except duckdb.ConstraintException:
            with pytest.raises(ConstraintError):
                self.db.execute(sql)
            return
        found = self.db.execute(sql)
        if "RETURNING" in sql:
            assert_same_rows(found.fetchall(), wanted, sql)
        else:
            assert found.rowcount == wanted[0][0], sql

    @rule(
        key=KEYS, name=NAMES, amount=AMOUNTS, how=st.sampled_from(["", "OR REPLACE ", "OR IGNORE "])
    )
    def insert(self, key: int, name: str | None, amount: str, how: str) -> None:
        self._both(f"INSERT {how}INTO t VALUES ({key}, {_text(name)}, {amount})")

    @rule(
        low=KEYS,
        name=NAMES,
        how=st.sampled_from(["OR REPLACE ", "OR IGNORE "]),
        shown=st.sampled_from(["", " RETURNING t.id + 1, amount, name"]),
    )
    def insert_some(self, low: int, name: str | None, how: str, shown: str) -> None:
        rows = f"SELECT id + 1, {_text(name)} FROM t WHERE id >= {low} AND id < {low} + 4"
        self._both(f"INSERT {how}INTO t (id, name) {rows}{shown}")

    @rule(low=KEYS, name=NAMES)
    def replace_by_name(self, low: int, name: str | None) -> None:
        known = f"SELECT {_text(name)} AS name, id FROM t WHERE id >= {low} AND id < 30"
        self._both(f"INSERT OR REPLACE INTO t BY NAME {known} UNION ALL SELECT 'q', 30")

    @rule(key=KEYS)
    def insert_default(self, key: int) -> None:
        self._both(f"INSERT INTO t (id) SELECT {key} ON CONFLICT (id) DO NOTHING")

    @rule(key=KEYS, amount=AMOUNTS)
    def update_one(self, key: int, amount: str) -> None:
        self._both(f"UPDATE t SET amount = {amount} WHERE id = {key}")

    @rule(low=KEYS, amount=AMOUNTS)
    def update_some(self, low: int, amount: str) -> None:
        self._both(
            f"UPDATE t AS u SET amount = coalesce(u.amount, {amount}) + 1, name = DEFAULT "
            f"WHERE u.id > {low} RETURNING u.id, amount"
        )

    @rule(step=st.sampled_from([1, 20]))
    def update_keys(self, step: int) -> None:
        self._both(f"UPDATE t SET id = id + {step} WHERE name = 'a' AND id < 6")

    @rule(key=KEYS)
    def update_from(self, key: int) -> None:
        other = f"(SELECT id AS o FROM t WHERE id <= {key}) AS x"
        self._both(f"UPDATE t SET name = 'f' FROM {other} WHERE x.o = t.id")

    @rule(key=KEYS)
    def delete_one(self, key: int) -> None:
        self._both(f"DELETE FROM t WHERE id = {key}")

    @rule(name=NAMES)
    def delete_some(self, name: str | None) -> None:
        self._both(
            f"DELETE FROM t WHERE name IS NOT DISTINCT FROM {_text(name)} RETURNING id, name"
        )

    @rule(key=KEYS)
    def delete_using(self, key: int) -> None:
        self._both(f"DELETE FROM t USING (SELECT {key} AS k UNION ALL SELECT {key}) u WHERE id = k")

    @rule(key=KEYS, name=NAMES)
    def upsert(self, key: int, name: str | None) -> None:
        self.db.upsert("t", [{"id": key, "name": name}])
        self.twin.execute(
            f"INSERT INTO t (id, name) VALUES ({key}, {_text(name)}) "
            "ON CONFLICT DO UPDATE SET name = excluded.name"
        )

    @rule(key=KEYS, keep=st.booleans())
    def transaction(self, key: int, keep: bool) -> None:
        changes = (
            f"DELETE FROM t WHERE id = {key}",
            f"INSERT INTO t VALUES ({key}, 'x', 1)",
            f"UPDATE t SET amount = amount * 2 WHERE id <= {key}",
        )
        self.db.execute("BEGIN")
        self.twin.execute("BEGIN")
        for sql in changes:
            self._both(sql)
            rows = self.twin.execute("FROM t").fetchall()
            assert_same_rows(self.db.execute("FROM t").fetchall(), rows, sql)
        for database in (self.db, self.twin):
            database.execute("COMMIT" if keep else "ROLLBACK")

    @rule()
    def truncate(self) -> None:
        self._both("DELETE FROM t")

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = ivm.connect(self.folder / "x.duckdb")

    @precondition(lambda self: self.number < 4)
    @rule(changes=st.lists(KEYS, max_size=3))
    def set_history(self, changes: list[int]) -> None:
        """Other files have the rows as of an epoch; what came later stays."""
        epoch = self.db.epoch
        self.number += 1
        self._write()
        for key in changes:
            self.upsert(key, "later")
        self.db.execute(f"ALTER TABLE t SET HISTORY '{self._place}/' AT EPOCH {epoch}")

    @invariant()
    def equal(self) -> None:
        assert_same_rows(
            self.db.execute("FROM t").fetchall(), self.twin.execute("FROM t").fetchall(), "t"
        )
        for view, query in VIEWS.items():
            wanted = self.twin.execute(query).fetchall()
            assert_same_rows(self.db.execute(f"FROM {view}").fetchall(), wanted, view)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            self.twin.close()
            shutil.rmtree(self.folder)


FEW = settings(max_examples=examples(6), stateful_step_count=12)


def test_a_table_in_files_is_like_a_stored_one() -> None:
    run_state_machine_as_test(Unstored, settings=FEW)
