"""Tables that keep their rows for some time, against a DELETE by the same condition in DuckDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import ivm
from ivm.engine.opening import expired_rows, ticking
from ivm.engine.tables import retention
from ivm.errors import SqlError, UnsupportedError
from tests.support.clocks import NOON, BesideTwin, HandMoved
from tests.support.view_oracle import assert_same_rows
from tests.tiers import examples

RETAINED = "WITH (retain = INTERVAL '1 hour', retain_by = ts)"


@pytest.fixture
def clock() -> HandMoved:
    return HandMoved()


@pytest.fixture
def db(clock: HandMoved) -> Iterator[ivm.Database]:
    with ivm.connect(":memory:", clock=clock) as opened:
        opened.execute("SET TimeZone = 'UTC'")
        yield opened


def count(db: ivm.Database, table: str) -> int:
    found = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert found is not None
    return int(found[0])


def rules(db: ivm.Database) -> list[Any]:
    return db.execute("FROM _ivm.retention ORDER BY ALL").fetchall()


def fill(db: ivm.Database, table: str, rows: int) -> None:
    """A row a second, up to the clock's time at first."""
    db.execute(
        f"INSERT INTO {table} SELECT i, TIMESTAMPTZ '{NOON}' - INTERVAL 1 SECOND * i"
        f" FROM range({rows}) r(i)"
    )


@pytest.mark.full
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_rows_go_in_batches_when_they_are_old(
    db: ivm.Database, clock: HandMoved, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 100)
    monkeypatch.setattr(retention, "HELD", 250)
    db.execute(f"CREATE TABLE e (id INTEGER {key}, ts TIMESTAMPTZ) {RETAINED}")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM e")
    fill(db, "e", 4601)
    before = db.epoch
    db.tick()
    assert (count(db, "e"), db.execute("FROM n").fetchall()) == (3601, [(3601,)])
    assert before + 10 <= db.epoch <= before + 15  # 1 000 rows, read ahead in four parts
    before = db.epoch
    clock.move(db, seconds=7)
    assert count(db, "e") == 3594
    before, old = db.epoch, before
    assert old < before <= old + 2  # some of them were read ahead later
    clock.move(db, seconds=0.5)  # the time is that of the last second
    assert db.epoch == before
    clock.move(db, days=1)
    assert count(db, "e") == 0


@pytest.mark.full
def test_as_many_rows_go_at_once_as_have_come(
    db: ivm.Database, clock: HandMoved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 100)
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ) {RETAINED}")
    fill(db, "e", 10)
    db.tick()
    for part in range(1, 3):
        db.execute(
            f"INSERT INTO e SELECT {part} * 1000 + i, TIMESTAMPTZ '{NOON}' - INTERVAL 2 HOUR"
            " FROM range(500) r(i)"
        )
    before = db.epoch
    db.tick()
    assert count(db, "e") == 10
    assert db.epoch == before + 1  # 1 000 rows, of 2 000 that it may be
    db.execute(f"INSERT INTO e SELECT 5000 + i, TIMESTAMPTZ '{NOON}' FROM range(150) r(i)")
    clock.move(db, hours=2)
    assert count(db, "e") == 0
    assert before + 1 < db.epoch


def test_what_does_not_get_its_turn_asks_again_at_once(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: beside commits that took longer than a second it missed most of its turns."""
    monkeypatch.setattr(ticking, "RETAINED", 0.05)
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ) {RETAINED}")
    job = ticking.ClockJob(db._engine, None)
    job.stop()
    assert job.join(10)
    with contextlib.closing(db._engine.warehouse.cursor()) as cursor:
        db.execute("BEGIN")
        fill(db, "e", 1)
        assert job._tick(cursor) == 0.0
        db.execute("COMMIT")
        assert job._tick(cursor) == 0.05


def test_twice_as_many_rows_are_read_ahead_as_have_come(
    db: ivm.Database, clock: HandMoved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: a table with a writer that takes all the machine grew, however often rows were read."""
    monkeypatch.setattr(retention, "HELD", 10)
    read, begin = list[int](), retention.Retention.begin

    def noted(*given: Any) -> Any:
        found = begin(*given)
        read.append(found[0].wanted)
        return found

    monkeypatch.setattr(retention.Retention, "begin", noted)
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ) {RETAINED}")
    fill(db, "e", 20)
    db.tick()
    db.execute(
        "INSERT INTO e SELECT 1000 + i, TIMESTAMPTZ '2026-03-01 14:00:00+00' FROM range(300) r(i)"
    )
    clock.move(db, days=1000)
    assert count(db, "e") == 0
    assert read[:2] == [10, 600]
    assert len(read) < 5


@pytest.mark.full
def test_the_table_is_not_read_at_each_tick(
    db: ivm.Database, clock: HandMoved, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ) {RETAINED}")
    fill(db, "e", 3600)
    db.tick()
    engine = db._engine
    monkeypatch.setattr(engine.retention, "read", None)  # would fail
    for _ in range(20):
        clock.move(db, seconds=10)
    assert count(db, "e") == 3401


@pytest.mark.full
@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
def test_each_type_of_time(db: ivm.Database, clock: HandMoved, type: str) -> None:
    db.execute(f"CREATE TABLE e (id INTEGER, t {type}) WITH (retain = '1 month', retain_by = t)")
    values = ["2024-02-29 12:00:00", "2024-02-29 11:59:59", "2024-02-28", "infinity", "-infinity"]
    for i, value in enumerate(values):
        db.execute(f"INSERT INTO e VALUES ({i}, '{value}')")
    db.execute("INSERT INTO e VALUES (9, NULL)")
    wanted = f"SELECT id FROM e WHERE t >= TIMESTAMPTZ '{NOON}' - INTERVAL 1 MONTH OR t IS NULL"
    kept = sorted(db.execute(wanted).fetchall())
    db.tick()
    assert sorted(db.execute("SELECT id FROM e").fetchall()) == kept
    assert (9,) in kept
    assert len(kept) < 6


@pytest.mark.full
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_late_rows_stay_where_the_bound_has_gone_back(
    db: ivm.Database, clock: HandMoved, key: str
) -> None:
    """Bug: all rows before the bound of an earlier tick went."""
    db.execute(f"CREATE TABLE e (id INTEGER {key}, ts TIMESTAMPTZ) {RETAINED}")
    db.tick()
    for id, minutes in enumerate((59, 61, 119, 121)):
        db.execute(f"INSERT INTO e VALUES ({id}, '{NOON - timedelta(minutes=minutes)}')")
    clock.move(db, hours=-1)
    assert db.execute("SELECT id FROM e ORDER BY id").fetchall() == [(0,), (1,), (2,)]
    clock.move(db, hours=1)
    assert db.execute("SELECT id FROM e").fetchall() == [(0,)]


@pytest.mark.full
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_another_rule_begins_anew(db: ivm.Database, clock: HandMoved, key: str) -> None:
    """Bug: rows went by the column of the rule before."""
    db.execute(f"CREATE TABLE e (id INTEGER {key}, ts TIMESTAMPTZ, other TIMESTAMPTZ) {RETAINED}")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM e")
    old, new = (f"'{NOON - timedelta(hours=hours)}'" for hours in (2, 0))
    db.execute(f"INSERT INTO e VALUES (1, {new}, {old}), (2, {new}, NULL), (3, NULL, {old})")
    db.tick()
    db.execute(f"INSERT INTO e VALUES (4, {old}, {new})")
    db.execute("ALTER TABLE e SET (retain = '1 hour', retain_by = other)")
    db.tick()
    assert db.execute("SELECT id FROM e ORDER BY id").fetchall() == [(2,), (4,)]
    db.execute(f"INSERT INTO e VALUES (5, {new}, {old})")
    db.execute("ALTER TABLE e SET (retain = '3 hours')")
    db.tick()
    assert db.execute("SELECT id FROM e ORDER BY id").fetchall() == [(2,), (4,), (5,)]


def test_any_constraint_may_stand_beside_it(db: ivm.Database, clock: HandMoved) -> None:
    db.execute(f"""
        CREATE TABLE kinds (k INTEGER PRIMARY KEY);
        CREATE SEQUENCE s;
        CREATE TABLE e (id INTEGER DEFAULT nextval('s') UNIQUE, ts TIMESTAMPTZ DEFAULT now(),
            k INTEGER REFERENCES kinds (k), l INTEGER[]) {RETAINED};
        INSERT INTO kinds VALUES (1);
        INSERT INTO e (ts, k, l) VALUES
            ('2024-03-30 11:00:00+00', 1, [1]), ('2024-03-30 10:59:59+00', 1, []);
    """)
    db.tick()
    assert count(db, "e") == 1
    clock.move(db, seconds=1)
    assert count(db, "e") == 0
    db.execute("INSERT INTO e (k) VALUES (1)")
    db.flush()


@pytest.mark.full
def test_rules_follow_their_tables(db: ivm.Database, clock: HandMoved) -> None:
    db.execute(f"CREATE TABLE e (id INTEGER, ts TIMESTAMPTZ) {RETAINED}")
    assert rules(db) == [("e", "ts", "01:00:00")]
    db.execute("ALTER TABLE e RENAME TO f; ALTER TABLE f RENAME COLUMN ts TO time")
    db.execute("ALTER TABLE f ADD COLUMN x INTEGER")
    assert rules(db) == [("f", "time", "01:00:00")]
    db.execute("ALTER TABLE f SET (retain = '2 hours')")
    assert rules(db) == [("f", "time", "02:00:00")]
    db.execute(f"INSERT INTO f VALUES (1, '{NOON - timedelta(hours=2)}', 1)")
    db.tick()
    assert count(db, "f") == 1
    clock.move(db, seconds=1)
    assert count(db, "f") == 0
    with pytest.raises(SqlError, match="RESET"):
        db.execute("ALTER TABLE f DROP COLUMN time")
    with pytest.raises(SqlError, match="DATE"):
        db.execute("ALTER TABLE f ALTER COLUMN time TYPE VARCHAR")
    db.execute("BEGIN; ALTER TABLE f RESET (retain); ROLLBACK")
    assert len(rules(db)) == 1
    db.execute("CREATE OR REPLACE TABLE f (id INTEGER)")
    assert rules(db) == []
    db.execute(
        "CREATE TABLE g (ts DATE); ALTER TABLE g SET (retain = INTERVAL 3 DAY, retain_by = TS)"
    )
    assert rules(db) == [("g", "ts", "3 days")]
    db.execute("CREATE TABLE IF NOT EXISTS g (ts DATE) WITH (retain = '9 days', retain_by = 'ts')")
    assert rules(db) == [("g", "ts", "3 days")]
    db.execute("DROP TABLE g")
    assert rules(db) == []
    db.execute("CREATE TABLE h WITH (retain = '1 day', retain_by = ts) AS SELECT now() AS ts")
    assert rules(db) == [("h", "ts", "1 day")]
    db.execute("ALTER TABLE h RESET (retain)")
    assert rules(db) == []
    for columns in ("ts TIMESTAMPTZ", "other INTEGER"):
        options = "retain = '1 day', retain_by = ts"
        db.execute(f"CREATE TABLE IF NOT EXISTS h ({columns}) WITH ({options})")
        assert rules(db) == []  # else rows of a table that was there would go


@pytest.mark.full
@pytest.mark.parametrize("place", ["_read_ahead", "_expire"])
@pytest.mark.parametrize(
    "ddl",
    [
        "DROP TABLE e",
        "ALTER TABLE e RENAME TO f",
        "ALTER TABLE e RENAME ts TO told",
        "ALTER TABLE e RESET (retain)",
        "ALTER TABLE e ALTER ts TYPE TIMESTAMP",
        "CREATE OR REPLACE TABLE e (id INTEGER)",
    ],
)
def test_a_table_changes_as_its_rows_are_to_go(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, ddl: str, place: str
) -> None:
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ) {RETAINED}")
    fill(db, "e", 4000)
    original, left = getattr(expired_rows, place), [ddl]

    def altered(*args: Any) -> Any:
        while left:
            with db.connection() as other:
                other.execute(left.pop())
        return original(*args)

    monkeypatch.setattr(expired_rows, place, altered)
    db.tick()
    assert not left
    db.tick()
    kept = [(table.name, count(db, table.name)) for table in db.tables()]
    rows = {"DROP TABLE e": [], "ALTER TABLE e RENAME TO f": [("f", 3601)]}
    rows["ALTER TABLE e RENAME ts TO told"] = [("e", 3601)]
    rows["ALTER TABLE e ALTER ts TYPE TIMESTAMP"] = [("e", 3601)]
    rows["ALTER TABLE e RESET (retain)"] = [("e", 4000)]
    assert kept == rows.get(ddl, [("e", 0)])


def test_what_is_refused(db: ivm.Database) -> None:
    db.execute("CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMP, s VARCHAR)")
    for options, reason in {
        "retain = '1 day'": "retain_by",
        "retain_by = ts": "retain",
        "retain = '1 day', retain_by = nothing": "no column",
        "retain = '1 day', retain_by = s": "type VARCHAR",
        "retain = '-1 day', retain_by = ts": "more time than none",
        "retain = soon, retain_by = ts": "length of time",
        "retain = '280001 years', retain_by = ts": "280000 years",  # else no tick has a bound
        "retain = '999999999 days', retain_by = ts": "280000 years",
    }.items():
        with pytest.raises(SqlError, match=reason):
            db.execute(f"ALTER TABLE e SET ({options})")
    with pytest.raises(SqlError, match="280000 years"):
        db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '999999999 days') AS SELECT now() AS t")
    db.execute("ALTER TABLE e SET (retain = '280000 years', retain_by = ts)")
    db.execute("INSERT INTO e VALUES (1, '-infinity', '')")
    db.tick()
    assert count(db, "e") == 0
    db.execute("ALTER TABLE e SET (retain = '1 day', retain_by = ts)")
    with pytest.raises(UnsupportedError, match="may refer"):
        db.execute("CREATE TABLE child (e INTEGER REFERENCES e (id))")
    with pytest.raises(SqlError, match="no base table"):
        db.execute("ALTER TABLE nothing SET (retain = '1 day', retain_by = ts)")
    db.execute("ALTER TABLE IF EXISTS nothing SET (retain = '1 day', retain_by = ts)")
    with pytest.raises(UnsupportedError, match="temporary"):
        db.execute("CREATE TEMP TABLE t (ts TIMESTAMP) WITH (retain = '1 day', retain_by = ts)")
    assert len(rules(db)) == 1


@pytest.mark.full
def test_export_and_import(db: ivm.Database, clock: HandMoved, tmp_path: Path) -> None:
    db.execute(f"CREATE TABLE e (id INTEGER, ts TIMESTAMPTZ) {RETAINED}")
    fill(db, "e", 10)
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect(":memory:", clock=clock) as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert rules(other) == [("e", "ts", "01:00:00")]
        clock.move(other, hours=1)
        assert count(other, "e") == 1


@pytest.mark.full
def test_it_goes_on_by_itself_without_any_view(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "real.duckdb") as db:
        db.execute("CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ)")
        db.execute("INSERT INTO e VALUES (1, now() - INTERVAL 1 DAY)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM e")
        with db.subscribe("v") as feed:
            db.execute("ALTER TABLE e SET (retain = '1 hour', retain_by = ts)")
            next(feed)
        assert count(db, "e") == 0


class Retained(BesideTwin):
    """Two tables that lose their old rows, beside plain ones where DELETE removes them."""

    @initialize()
    def begin(self) -> None:
        self.begin_both(NOON)
        self.ids = 0
        self.open()
        for name, key in (("a", "PRIMARY KEY"), ("b", "")):
            columns = f"(id INTEGER {key}, ts TIMESTAMPTZ, x VARCHAR)"
            self.twin.execute(f"CREATE TABLE {name} {columns}")
            self.db.execute(
                f"CREATE TABLE {name} {columns} WITH (retain = '10 seconds', retain_by = ts)"
            )
        self.db.execute("CREATE MATERIALIZED VIEW va AS SELECT x, count(*) AS n FROM a GROUP BY x")
        self.db.execute("CREATE MATERIALIZED VIEW vb AS SELECT max(ts) AS m FROM b")

    @rule(
        offsets=st.lists(
            st.sampled_from(["infinity", None, -11, -10, -9.999999, -5, 0, 3, -60]),
            min_size=1,
            max_size=6,
        )
    )
    def insert(self, offsets: list[Any]) -> None:
        for offset in offsets:
            self.ids += 1
            at = f"'{offset}'" if isinstance(offset, str) else "NULL"
            if isinstance(offset, int | float):
                at = f"'{self.now + timedelta(seconds=offset)}'"
            for name in ("a", "b"):
                self.both(f"INSERT INTO {name} VALUES ({self.ids}, {at}, 'x{self.ids % 3}')")

    @rule(id=st.integers(1, 15), by=st.sampled_from([-30, 1, 20]), name=st.sampled_from("ab"))
    def update(self, id: int, by: int, name: str) -> None:
        self.both(f"UPDATE {name} SET ts = ts + INTERVAL '{by} seconds' WHERE id = {id}")

    @rule(id=st.integers(1, 15), name=st.sampled_from("ab"))
    def delete(self, id: int, name: str) -> None:
        self.both(f"DELETE FROM {name} WHERE id = {id}")

    @rule(name=st.sampled_from("ab"))
    def alter(self, name: str) -> None:
        """The columns that a removal needs become others."""
        self.db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT * FROM {name}")

    @rule(step=st.sampled_from([0, 1, 5, 10, 3600, 0.5, -3]))
    def move(self, step: float) -> None:
        self.now += timedelta(seconds=step)
        self.db.tick()
        second = self.now.replace(microsecond=0)
        for name in ("a", "b"):
            self.twin.execute(
                f"DELETE FROM {name} WHERE ts < TIMESTAMPTZ '{second}' - INTERVAL 10 SECOND"
            )

    @invariant()
    def equal(self) -> None:
        for name in ("a", "b") if hasattr(self, "db") else ():
            self.db.execute("SET TimeZone = 'UTC'")
            wanted = self.twin.execute(f"FROM {name}").fetchall()
            assert_same_rows(self.db.execute(f"FROM {name}").fetchall(), wanted, name)
        if hasattr(self, "db"):
            assert all(v[4] for v in self.db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


@pytest.mark.full
def test_tables_keep_what_they_are_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_rows, "BATCH", 2)
    monkeypatch.setattr(retention, "HELD", 3)
    run_state_machine_as_test(
        Retained,
        settings=settings(max_examples=examples(16), stateful_step_count=15, deadline=None),
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    ["DROP TABLE r", "ALTER TABLE r RENAME ts TO other", "ALTER TABLE r ALTER ts TYPE VARCHAR"],
)
def test_a_rule_rests_when_another_program_has_taken_its_column(
    sql: str, clock: HandMoved, tmp_path: Path
) -> None:
    """Bug: from the next tick on, no statement worked."""
    path = tmp_path / "t.duckdb"
    with ivm.connect(path, clock=clock) as db:
        db.execute(f"CREATE TABLE r (id INTEGER, ts TIMESTAMPTZ) {RETAINED}")
        db.execute(f"CREATE TABLE u (id INTEGER, ts TIMESTAMPTZ) {RETAINED}")
        db.execute(f"INSERT INTO u VALUES (1, '{NOON}')")
    with duckdb.connect(str(path)) as plain:
        plain.execute(sql)
    with ivm.connect(path, clock=clock) as db:
        if sql.startswith("DROP"):  # one of the same name has no rule
            db.execute("CREATE TABLE r (id INTEGER, ts TIMESTAMPTZ)")
        db.execute(f"INSERT INTO r VALUES (1, '{NOON}')")
        clock.move(db, seconds=2 * 3600)
        db.execute("INSERT INTO r VALUES (2, NULL)")
        assert (count(db, "r"), count(db, "u")) == (2, 0)
        db.execute("ALTER TABLE r RESET (retain)")
        assert [name for name, *_ in rules(db)] == ["u"]
