"""Rows that final views wait for, against the same views over all rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.compile import rules
from ivm.sql.plan.nodes import Emit, Plan
from tests.support.clocks import HandMoved
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows, verdicts
from tests.tiers import TIER, seeds

BEGIN = datetime(2001, 1, 1)
MINUTE = timedelta(minutes=1)
HOURS = "(SELECT window_end AS w, count(*) AS n FROM tumble(e, ts, '1 hour') GROUP BY ALL)"
FINAL = {
    "people": "SELECT window_end, count(DISTINCT p) FROM tumble(e, ts, '1 hour') GROUP BY ALL",
    "hops": "SELECT window_end, max(id), median(p) FROM hop(e, ts, '20 minutes', '1 hour')"
    " GROUP BY ALL",
    "so_far": "SELECT window_end, p, min(id) FROM cumulate(e, ts, '20 minutes', '1 hour')"
    " GROUP BY ALL",
    "once": "SELECT DISTINCT date_trunc('hour', ts) AS h, p FROM e",
    "best": "SELECT window_end, id FROM tumble(e, ts, '1 hour')"
    " QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY p, id DESC) <= 2",
    "ranks": "SELECT window_end, id, rank() OVER (PARTITION BY window_end ORDER BY p) AS r"
    " FROM tumble(e, ts, '1 hour')",
    "pairs": "SELECT a.ts, a.id, b.id AS other FROM e a JOIN e b ON b.p = a.p"
    " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30 minutes'",
    "answers": "SELECT e.id, f.id AS answer, e.ts + INTERVAL '15 minutes' AS due FROM e LEFT JOIN f"
    " ON f.p = e.p AND f.ts BETWEEN e.ts - INTERVAL '5 minutes' AND e.ts + INTERVAL '15 minutes'",
    "later": "SELECT f.ts AS t, e.id, f.id AS other FROM e JOIN f ON f.p = e.p"
    " AND f.ts - e.ts <= INTERVAL '30 minutes' AND e.ts < f.ts",
    "silence": "SELECT ts, id FROM e WHERE NOT EXISTS (FROM f WHERE f.p = e.p"
    " AND f.ts > e.ts AND f.ts <= e.ts + INTERVAL '20 minutes')",
    "counts": "SELECT ts, id, (SELECT count(*) FROM f WHERE f.p = e.p AND f.ts >= e.ts"
    " AND f.ts < e.ts + INTERVAL '10 minutes') AS n FROM e",
    "growth": f"SELECT x.w, x.n, y.n AS before FROM {HOURS} AS x LEFT JOIN {HOURS} AS y"
    " ON y.w = x.w - INTERVAL '1 hour'",
    "same": "SELECT window_end, p FROM tumble(e, ts, '1 hour') EXCEPT"
    " SELECT window_end, p FROM tumble(f, ts, '1 hour')",
    "united": "SELECT t, count(*) AS n, count(DISTINCT p) FROM (SELECT date_trunc('hour', ts) AS t,"
    " p FROM e UNION ALL SELECT date_trunc('hour', ts), p FROM f) GROUP BY t",
    "known": "SELECT e.ts, e.id, n.name FROM e JOIN n ON n.p = e.p",
    "prices": "SELECT e.ts, e.id, f.id AS price FROM e ASOF JOIN f ON f.p = e.p AND e.ts >= f.ts",
    "visits": "SELECT p, window_end, count(*) FROM session(e, ts, '10 minutes',"
    " partition_by := [p]) GROUP BY ALL",
    "above": "SELECT window_end, p, count(DISTINCT id) FROM tumble(small, ts, '1 hour')"
    " GROUP BY ALL",
    "of_final": "SELECT w.window_end, w.n, f.id FROM windows AS w JOIN f"
    " ON f.ts >= w.window_end AND f.ts < w.window_end + INTERVAL '10 minutes'",
}


def created(db: ivm.Database, names: list[str], policy: str, type: str = "TIMESTAMP") -> None:
    for table, lag in (("e", 5), ("f", 9)):
        mark = f"ts {type}, p INTEGER, WATERMARK FOR ts AS ts - INTERVAL '{lag} minutes'"
        db.execute(
            f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {mark}) WITH (late = '{policy}')"
        )
    db.execute("CREATE TABLE n (p INTEGER, name VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW small AS FROM e WHERE id % 3 > 0")
    db.execute(
        "CREATE MATERIALIZED VIEW windows AS SELECT window_end, count(*) AS n"
        " FROM tumble(e, ts, '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE"
    )
    for name in names:
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {FINAL[name]} EMIT ON WINDOW CLOSE")


def changes(random: Random, number: int, now: datetime) -> Iterator[tuple[str, list[Any]]]:
    """Statements of one transaction: rows that come, late ones too, change and go."""
    for table in random.sample(["e", "f"], random.choice([1, 1, 2])):
        for i in range(random.choice([1, 1, 4])):
            ts = now - random.choice([0, 1, 2, 4, 4, 30, 100]) * MINUTE
            row = [number * 10 + i, random.choice([ts, ts, ts, ts, ts, None]), random.randrange(4)]
            yield f"INSERT INTO {table} VALUES (?, ?, ?)", row
        any = random.randrange(number * 10 + 1)
        match random.randrange(12):
            case 0:
                yield f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", [any, any + 15]
            case 1:
                yield f"UPDATE {table} SET p = (p + 1) % 4 WHERE id >= ?", [any]
            case 2:
                moved = f"UPDATE {table} SET ts = ts + INTERVAL '7 minutes' WHERE id >= ?"
                yield moved, [number * 10 - 30]
            case 3:
                yield "INSERT INTO n VALUES (?, ?)", [random.randrange(4), str(number)]


def followed(db: ivm.Database, work: list[tuple[str, list[Any]]]) -> bool:
    """Whether a database takes a transaction; it takes it whole or not at all."""
    db.execute("BEGIN")
    try:
        for sql, values in work:
            db.execute(sql, values)
        db.execute("COMMIT")
    except IvmError:
        db.execute("ROLLBACK")
        return False
    return True


class OverAllRows:
    """A database whose views are compiled over all rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.db = ivm.connect(":memory:", clock=HandMoved())

    @contextmanager
    def compiling(self) -> Iterator[ivm.Database]:
        """The database, while what it compiles is over all rows."""

        def whole(plan: Emit) -> Plan:
            return plan.input

        with self._monkeypatch.context() as patched:
            patched.setattr(rules, "over_awaited_rows", whole)
            yield self.db


def altered(random: Random, names: list[str], number: int) -> str:
    """A statement after which views are compiled or filled anew, or another one begins."""
    name = random.choice(names)
    choices = [
        f"REFRESH MATERIALIZED VIEW {name}",
        f"CREATE OR REPLACE MATERIALIZED VIEW {name}_2 AS {FINAL[name]} EMIT ON WINDOW CLOSE",
        f"ALTER TABLE {random.choice('ef')} ADD COLUMN more_{number} INTEGER DEFAULT 3",
        f"ALTER TABLE {random.choice('ef')} ALTER p TYPE {random.choice(['BIGINT', 'INTEGER'])}",
        "DELETE FROM f",
        "ALTER TABLE e ADVANCE WATERMARK TO (SELECT max(ts) FROM e)",
    ]
    return random.choice(choices)


@pytest.mark.cases(12)
@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("policy", ["apply", "refuse", "dead letters"])
def test_views_are_those_over_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, policy: str
) -> None:
    random, now = Random(f"{seed} {policy}"), BEGIN
    names, path = random.sample(list(FINAL), 3 if TIER == "quick" else 5), tmp_path / "begin.duckdb"
    type = random.choice(["TIMESTAMP", "TIMESTAMP", "TIMESTAMPTZ"])
    if type == "TIMESTAMPTZ":  # whose hours, by date_trunc and with sessions' ends, do not rise
        names = [name for name in names if name not in ("once", "united")]
    whole = OverAllRows(monkeypatch)
    with whole.compiling() as twin:
        created(twin, names, policy, type)
    db = ivm.connect(path, clock=HandMoved())
    created(db, names, policy, type)
    for number in range(1, 30 if TIER == "quick" else 70):
        now += random.choice([0, 1, 3, 10, 25, 70]) * MINUTE
        work = list(changes(random, number, now))
        if random.random() < 0.1:
            work = [(altered(random, names, number), [])]
        with whole.compiling() as twin:
            assert followed(db, work) == followed(twin, work)
        if random.random() < 0.08:
            before, path = db, image(path, tmp_path / f"{number}.duckdb")
            db = ivm.connect(path, clock=HandMoved())
            before.close()
        elif random.random() < 0.05:
            db.close()
            db = ivm.connect(path, clock=HandMoved())
        for view in db.views():
            found, wanted = [d.execute(f"FROM {view.name}").fetchall() for d in (db, twin)]
            assert_same_rows(found, wanted, view.name)
    assert all(row["ok"] for row in verdicts(db))
    db.close()
    twin.close()


@pytest.mark.full
def test_state_does_not_grow_with_the_table(tmp_path: Path) -> None:
    """Groups are as many as windows are open; what a join keeps is as much as it may look at."""
    names = ["people", "hops", "once", "best", "ranks", "pairs", "answers", "silence", "counts"]
    names += ["growth", "same", "later", "of_final"]
    db = ivm.connect(tmp_path / "db.duckdb", clock=HandMoved())
    created(db, names, "refuse")
    held = list[dict[str, int]]()
    for number in range(2100):
        for table in ("e", "f"):
            row = [number, BEGIN + 3 * number * MINUTE, number % 4]
            db.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)
        if number % 700 == 699:
            held.append({name: state_rows(db, name) for name in names})
        if number == 1000:
            db.close()
            db = ivm.connect(tmp_path / "db.duckdb", clock=HandMoved())
    assert all(row["ok"] for row in verdicts(db))
    db.close()
    for name in names:
        assert held[-1][name] < 1.5 * held[0][name] + 100, (name, [each[name] for each in held])


def state_rows(db: ivm.Database, view: str, of: str = "") -> int:
    """The rows that the operators of a view hold, or those of one kind."""

    def total(tree: dict[str, Any]) -> int:
        counts = "repeated" not in tree and tree["operator"].startswith(of)
        own = tree.get("state_rows", 0) if counts else 0
        return own + sum(map(total, tree["inputs"]))

    sql = f"EXPLAIN (FORMAT json) MATERIALIZED VIEW {view}"
    return total(json.loads(db.execute(sql).fetchall()[0][1]))


def test_the_end_of_a_large_window_holds_up_no_commit() -> None:
    """What is of no use any more goes little by little."""
    with ivm.connect(":memory:", clock=HandMoved()) as db:
        created(db, ["people", "best"], "refuse")
        db.execute(
            "INSERT INTO e SELECT i, TIMESTAMP '2001-01-01 00:00' + to_microseconds(i * 10000),"
            " i % 4 FROM range(300000) t(i)"
        )
        assert state_rows(db, "best", "Awaited") == 300_000
        db.execute("INSERT INTO e VALUES (-1, '2001-01-01 01:30', 0)")
        assert state_rows(db, "best", "Awaited") > 299_000
        for i in range(1, 21):
            late = f"SELECT -300 * {i} - i, TIMESTAMP '2001-01-01 01:31', 0 FROM range(300) t(i)"
            db.execute(f"INSERT INTO e {late}")
            assert state_rows(db, "best", "Awaited") >= 299_000 - 600 * i
        assert state_rows(db, "best", "Awaited") < 295_000
        assert db.execute("SELECT count(*) FROM best").fetchall() == [(2,)]
        assert all(row["ok"] for row in verdicts(db))
