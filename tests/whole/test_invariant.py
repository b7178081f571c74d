"""The invariant of the whole: after every epoch each view equals DuckDB's answer to its query.

A state machine makes random changes by every way in (SQL, rows, transactions, rollbacks, restarts),
creates and drops random views, and compares tables and views with a plain DuckDB after each step.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, settings
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
from tests.random_sql.view_grammar import queries
from tests.support.view_oracle import assert_views_right
from tests.tiers import TIER, examples

TABLES = """
CREATE TABLE a (k INTEGER PRIMARY KEY, g INTEGER, x DOUBLE, s VARCHAR);
CREATE TABLE b (g INTEGER, n BIGINT, d DECIMAL(9, 2));
CREATE TABLE c (k INTEGER, j VARCHAR, day DATE, PRIMARY KEY (k, j));
"""

keys = st.integers(0, 7)
groups = st.none() | st.integers(0, 3)
doubles = st.none() | st.sampled_from(
    [0.0, -0.0, 1.5, -2.25, 0.1, 1e15, float("inf"), float("nan")]
)
words = st.none() | st.sampled_from(["", "a", "b", "B", "é"])
numbers = st.none() | st.integers(-3, 3)
decimals = st.none() | st.sampled_from(["0.00", "1.10", "-2.55", "99.99"])
days = st.none() | st.sampled_from(["2024-01-31", "2024-02-29", "1999-12-31"])

row_a = st.fixed_dictionaries({"k": keys, "g": groups, "x": doubles, "s": words})
row_b = st.fixed_dictionaries({"g": groups, "n": numbers, "d": decimals})
row_c = st.fixed_dictionaries({"k": keys, "j": st.sampled_from(["p", "q"]), "day": days})

updates = st.sampled_from(
    [
        "UPDATE a SET g = g + 1 WHERE g < 2",
        "UPDATE a SET x = x * 2, s = 'a' WHERE k % 2 = 0",
        "UPDATE a SET k = k + 100 WHERE k = 3",
        "UPDATE b SET n = -n, d = d + 1",
        "UPDATE b SET g = NULL WHERE n > 0",
        "UPDATE a SET s = c.j FROM c WHERE a.k = c.k AND c.j = 'p'",
        "UPDATE c SET day = day + INTERVAL 1 DAY WHERE k < 4",
        "DELETE FROM a WHERE g = 1",
        "DELETE FROM a USING b WHERE a.g = b.g AND b.n < 0",
        "DELETE FROM b WHERE d IS NULL",
        "DELETE FROM b",
        "DELETE FROM c WHERE k > 5",
        "TRUNCATE b",
        "INSERT INTO b SELECT g, count(*), 1.5 FROM a GROUP BY g",
        "INSERT INTO b SELECT * FROM b WHERE n < 2",
        "INSERT OR REPLACE INTO a SELECT k, 2, 1.0, 'r' FROM c WHERE j = 'q'",
        "INSERT OR IGNORE INTO a VALUES (1, 1, 1, 'i'), (99, NULL, NULL, NULL)",
        "INSERT INTO a VALUES (2, 0, 0, 'u') ON CONFLICT DO UPDATE SET x = excluded.x + 1",
    ]
)


class Views(RuleBasedStateMachine):
    """A database under test and its plain twin."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.db = ivm.connect(self.folder / "test.duckdb")
        self.twin = duckdb.connect()
        self.count = 0
        self.open = False

    @initialize()
    def tables(self) -> None:
        self.db.execute(TABLES)
        self.twin.execute(TABLES)

    def both(self, sql: str) -> None:
        """Run a change on both sides; both take it or both refuse it."""
        try:
            self.twin.execute(sql)
            refused = False
        except duckdb.ConstraintException:
            refused = True
        if refused and self.open:  # DuckDB gives the transaction up, and so do we
            with pytest.raises(ivm.IvmError):
                self.db.execute(sql)
            self.twin.execute("ROLLBACK")
            self.db.execute("ROLLBACK")
            self.open = False
        elif refused:
            with pytest.raises(ivm.errors.ConstraintError):
                self.db.execute(sql)
        else:
            self.db.execute(sql)

    @rule(query=queries())
    def create_view(self, query: str) -> None:
        if len(self.db.views()) < 5 and not self.open:
            self.count += 1
            self.db.execute(f"CREATE MATERIALIZED VIEW v{self.count} AS {query}")

    @precondition(lambda self: not self.open and self.db.views())
    @rule()
    def drop_view(self) -> None:
        self.db.execute(f"DROP MATERIALIZED VIEW {self.db.views()[-1].name}")

    @rule(rows=st.lists(row_a, min_size=1, max_size=5))
    def upsert_a(self, rows: list[dict[str, Any]]) -> None:
        self.db.upsert("a", rows)
        for row in rows:
            self.twin.execute("INSERT OR REPLACE INTO a VALUES ($k, $g, $x, $s)", row)

    @rule(rows=st.lists(row_b, min_size=1, max_size=5))
    def insert_b(self, rows: list[dict[str, Any]]) -> None:
        self.db.insert("b", rows)
        for row in rows:
            self.twin.execute("INSERT INTO b VALUES ($g, $n, $d)", row)

    @rule(row=row_c)
    def insert_c(self, row: dict[str, Any]) -> None:
        day = "NULL" if row["day"] is None else f"'{row['day']}'"
        self.both(f"INSERT INTO c VALUES ({row['k']}, '{row['j']}', {day})")

    @rule(key=keys)
    def delete_a(self, key: int) -> None:
        stored = self.twin.execute("SELECT 1 FROM a WHERE k = ?", [key]).fetchall()
        if not stored:
            with pytest.raises(ivm.errors.ConstraintError):
                self.db.delete("a", {"k": [key]})
            if self.open:  # a refused call leaves a fast transaction standing, a native one not
                self.end_failed()
            return
        self.db.delete("a", {"k": [key]})
        self.twin.execute("DELETE FROM a WHERE k = ?", [key])

    def end_failed(self) -> None:
        self.db.execute("ROLLBACK")
        self.twin.execute("ROLLBACK")
        self.open = False

    @rule(sql=updates)
    def change(self, sql: str) -> None:
        self.both(sql)

    @precondition(lambda self: not self.open)
    @rule()
    def begin(self) -> None:
        self.db.execute("BEGIN")
        self.twin.execute("BEGIN")
        self.open = True

    @precondition(lambda self: self.open)
    @rule(commit=st.booleans())
    def end(self, commit: bool) -> None:
        word = "COMMIT" if commit else "ROLLBACK"
        self.db.execute(word)
        self.twin.execute(word)
        self.open = False

    @precondition(lambda self: not self.open)
    @rule()
    def restart(self) -> None:
        self.db.close()
        self.db = ivm.connect(self.folder / "test.duckdb")

    @invariant()
    def views_are_right(self) -> None:
        assert_views_right(self.db, self.twin)

    def teardown(self) -> None:
        self.db.close()
        self.twin.close()
        shutil.rmtree(self.folder)


class LazyViews(Views):
    """The same, looked at only at the end: deltas of many epochs meet in one flush."""

    @invariant()
    def views_are_right(self) -> None:
        return

    def teardown(self) -> None:
        assert_views_right(self.db, self.twin)
        super().teardown()


FUZZ = settings(
    deadline=None,
    max_examples=examples(25),
    stateful_step_count=10 if TIER == "quick" else 20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", [Views, LazyViews])
def test_every_view_equals_its_query(machine: type[Views]) -> None:
    run_state_machine_as_test(machine, settings=FUZZ)
