"""Tables that keep their rows for some time behind their watermark, against a DELETE in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import SqlError, UnsupportedError
from ivm.shell.created import statements
from tests.support.clocks import HandMoved
from tests.support.crash_image import image
from tests.support.view_oracle import assert_same_rows, verdicts
from tests.tiers import seeds

BEGIN = datetime(2001, 1, 1)
MINUTE = timedelta(minutes=1)
MARKED = "WATERMARK FOR ts AS ts - INTERVAL '5 minutes'"
BEHIND = "retain = INTERVAL '1 hour' BEHIND WATERMARK"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect(":memory:", clock=HandMoved()) as opened:
        yield opened


@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
@pytest.mark.parametrize("length", ["1 hour", "1 month", "2 days"])
def test_each_type_of_time(db: ivm.Database, type: str, length: str) -> None:
    db.execute(
        f"CREATE TABLE e (id INTEGER, ts {type}, {MARKED})"
        f" WITH (retain = '{length}' BEHIND WATERMARK)"
    )
    db.tick()  # there is no watermark yet
    values = ["2024-03-30 12:00", "2024-03-30 10:55", "2024-03-30 10:54:59", "2024-02-29 11:55"]
    values += ["2024-02-29 11:54:59", "2024-03-28", "2024-02-29", "2024-02-28", "-infinity"]
    for i, value in enumerate(values):
        db.execute("INSERT INTO e VALUES (?, ?)", [i, value])
    db.execute("INSERT INTO e VALUES (99, NULL)")
    kept = db.execute(
        f"SELECT id FROM e WHERE ts >= watermark('e') - INTERVAL '{length}' OR ts IS NULL"
    ).fetchall()
    db.tick()
    assert_same_rows(db.execute("SELECT id FROM e").fetchall(), kept, type)
    assert 1 < len(kept) < 9


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("policy", ["apply", "refuse"])
def test_only_the_rows_of_the_last_hour_stay_and_what_is_final(
    tmp_path: Path, seed: int, policy: str
) -> None:
    random, clock, now = Random(f"{seed} {policy}"), HandMoved(), BEGIN
    path, twin, kept = tmp_path / "begin.duckdb", duckdb.connect(), dict[int, datetime]()
    hours = "SELECT window_end, count(*) FROM tumble(e, ts, '1 hour') GROUP BY ALL"
    db = ivm.connect(path, clock=clock)
    db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMP, {MARKED})")
    db.execute(f"ALTER TABLE e SET WATERMARK FOR ts AS ts - INTERVAL '5 minutes'"
        f" WITH (late = '{policy}')")  # fmt: skip
    db.execute(f"ALTER TABLE e SET ({BEHIND})")
    db.execute(f"CREATE MATERIALIZED VIEW hours AS {hours}")
    db.execute(f"CREATE MATERIALIZED VIEW final AS {hours} EMIT ON WINDOW CLOSE")
    sent = list[tuple[int, datetime]]()
    for number in range(80):
        now += random.randrange(0, 40) * MINUTE
        rows = [(number * 10 + i, now - random.randrange(0, 5) * MINUTE) for i in range(3)]
        db.insert("e", {"id": [id for id, _ in rows], "ts": [ts for _, ts in rows]})
        sent += rows
        kept |= dict(rows)
        if random.random() < 0.3:
            clock.move(db, seconds=1)
            bound = max(ts for _, ts in sent) - 65 * MINUTE
            kept = {id: ts for id, ts in kept.items() if ts >= bound}
        if random.random() < 0.1:
            before, path = db, image(path, tmp_path / f"{number}.duckdb")
            db = ivm.connect(path, clock=clock)
            before.close()
        assert_same_rows(db.execute("FROM e").fetchall(), [*kept.items()], "e")
    twin.execute("CREATE TABLE e (id INTEGER, ts TIMESTAMP)")
    twin.executemany("INSERT INTO e VALUES (?, ?)", sent)
    oracle = "SELECT time_bucket(INTERVAL '1 hour', ts) + INTERVAL '1 hour' AS w, count(*) FROM e"
    bound = max(ts for _, ts in sent) - 5 * MINUTE
    wanted = twin.execute(f"FROM ({oracle} GROUP BY w) WHERE w <= ?", [bound]).fetchall()
    assert_same_rows(db.execute("FROM final").fetchall(), wanted, "final")
    assert len(wanted) > 10
    assert all(row["ok"] for row in verdicts(db))
    db.close()


WAITING = {
    "hours": "SELECT window_end, count(*), sum(id) FROM tumble(e, ts, '1 hour') GROUP BY ALL",
    "days": "SELECT DISTINCT date_trunc('hour', ts) AS h, id % 3 FROM e",
    "many": "SELECT window_end, count(*) AS n FROM tumble(e, ts, '1 hour') GROUP BY ALL"
    " HAVING count(*) >= 7",
    "middle": "SELECT window_end, median(id // 20) FROM tumble(e, ts, '1 hour') GROUP BY ALL",
    "often": "SELECT id, window_end FROM tumble(e, ts, '1 hour')"
    " QUALIFY count(*) OVER (PARTITION BY id % 2, window_end) > 4",
    "known": "SELECT window_end, name, count(*) FROM tumble(joined, ts, '1 hour') GROUP BY ALL",
    "grows": "SELECT window_end, max(id) FROM cumulate(e, ts, '10 minutes', '1 hour') GROUP BY ALL",
    "ranks": "SELECT window_end, id, rank() OVER (PARTITION BY window_end ORDER BY id % 7)"
    " FROM hop(e, ts, '30 minutes', '1 hour')",
    "pairs": "SELECT a.ts, a.id, b.id AS other FROM e a JOIN e b ON b.id % 5 = a.id % 5"
    " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30 minutes'",
    "later": "SELECT b.ts + INTERVAL '5 minutes' AS t, a.id, b.id AS other FROM e a JOIN e b"
    " ON b.id % 5 = a.id % 5 AND b.ts - a.ts <= INTERVAL '30 minutes' AND a.ts < b.ts",
    "silence": "SELECT ts, id FROM e a WHERE NOT EXISTS (FROM e b WHERE b.id % 4 = a.id % 4"
    " AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL '20 minutes')",
    "growth": "WITH h AS (SELECT window_end AS w, count(*) AS n FROM tumble(e, ts, '1 hour')"
    " GROUP BY ALL) SELECT x.w, x.n, y.n AS before FROM h AS x LEFT JOIN h AS y"
    " ON y.w = x.w - INTERVAL '1 hour'",
    "shares": "SELECT t.window_end, id, n FROM tumble(e, ts, '1 hour') t JOIN (SELECT window_end,"
    " count(*) AS n FROM tumble(e, ts, '1 hour') GROUP BY ALL) h ON h.window_end = t.window_end",
}


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("length", ["2 minutes BEHIND WATERMARK", "2 minutes"])
def test_rows_stay_as_long_as_final_views_wait_for_them(
    tmp_path: Path, seed: int, length: str
) -> None:
    random, clock, now = Random(f"{seed} {length}"), HandMoved(), BEGIN
    names = random.sample(list(WAITING), 3)
    path = tmp_path / "begin.duckdb"
    dbs = [ivm.connect(path, clock=clock), ivm.connect(":memory:", clock=clock)]
    for db in dbs:
        db.execute(f"CREATE TABLE e (id INTEGER PRIMARY KEY, ts TIMESTAMP, {MARKED})")
        db.execute("CREATE TABLE n (id INTEGER PRIMARY KEY, name VARCHAR)")
        db.execute("INSERT INTO n VALUES (0, 'a'), (1, 'b')")
        db.execute(
            "CREATE MATERIALIZED VIEW joined AS SELECT e.*, n.name FROM e JOIN n AS OF ARRIVAL"
            " ON n.id = e.id % 3"
        )
        for name in names:
            query = f"{WAITING[name]} EMIT ON WINDOW CLOSE"
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    by = "" if length.endswith("K") else ", retain_by = ts"
    length = length.replace("2 minutes", "INTERVAL '2 minutes'")
    dbs[0].execute(f"ALTER TABLE e SET (retain = {length}{by})")
    for number in range(60):
        now += random.randrange(0, 20) * MINUTE
        rows = [(number * 3 + i, now - random.randrange(0, 5) * MINUTE) for i in range(3)]
        for db in dbs:
            db.insert("e", {"id": [id for id, _ in rows], "ts": [ts for _, ts in rows]})
        clock.move(dbs[0], seconds=1)
        if random.random() < 0.1:
            before, path = dbs[0], image(path, tmp_path / f"{number}.duckdb")
            dbs[0] = ivm.connect(path, clock=clock)
            before.close()
        for name in names:
            found, wanted = [db.execute(f"FROM {name}").fetchall() for db in dbs]
            assert_same_rows(found, wanted, name)
    kept, all = [db.execute("SELECT count(*) FROM e").fetchall()[0][0] for db in dbs]
    assert kept < all / 2
    assert len(dbs[1].execute(f"FROM {names[0]}").fetchall()) > 5
    for db in dbs:
        db.close()


def test_a_row_whose_time_cannot_be_told_holds_back_no_other(db: ivm.Database) -> None:
    """Nothing may be added to a time at the end of all, and the view does not."""
    db.execute(
        f"CREATE TABLE e (id INTEGER, ts TIMESTAMP, made TIMESTAMPTZ, {MARKED})"
        " WITH (retain = INTERVAL '1 minute', retain_by = made)"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT b.ts, a.id, b.id AS other FROM e a JOIN e b"
        " ON b.ts - a.ts <= INTERVAL '30 minutes' AND a.ts < b.ts"
        " WHERE a.ts < '2100-01-01' AND b.ts < '2100-01-01' EMIT ON WINDOW CLOSE"
    )
    made = "TIMESTAMPTZ '2001-01-01 00:00:00+00'"
    rows = [f"({i}, '2001-01-01 0{i}:00', {made})" for i in range(4)]
    db.execute(f"INSERT INTO e VALUES {', '.join(rows)}")
    db.execute(f"INSERT INTO e VALUES (9, '294247-01-10 04:00:54', {made})")
    db.tick()
    assert db.execute("SELECT count(*) FROM e").fetchall()[0][0] < 3


def test_one_row_that_is_waited_for_holds_back_no_other(db: ivm.Database) -> None:
    db.execute(
        "CREATE TABLE e (id INTEGER, ts TIMESTAMP, made TIMESTAMP, WATERMARK FOR ts AS ts)"
        " WITH (retain = INTERVAL '1 minute', retain_by = made)"
    )
    db.execute("CREATE MATERIALIZED VIEW f AS SELECT ts, id FROM e EMIT ON WINDOW CLOSE")
    old = "TIMESTAMP '2000-01-01'"
    db.execute(f"INSERT INTO e VALUES (0, 'infinity', {old}), (1, NULL, {old})")
    for id in range(2, 30):
        time = BEGIN + id * MINUTE
        db.execute(f"INSERT INTO e VALUES (?, ?, {old})", [id, time])
    db.tick()
    assert db.execute("SELECT id FROM e ORDER BY id").fetchall() == [(0,), (29,)]


def test_the_end_of_a_stream_takes_no_rows_along(db: ivm.Database) -> None:
    db.execute(f"CREATE TABLE e (ts TIMESTAMP, {MARKED}) WITH ({BEHIND}, retain_by = TS)")
    db.execute("INSERT INTO e VALUES ('2001-01-01 10:00'), ('2001-01-01 12:00')")
    db.advance("e", "2001-01-01 12:10")
    db.tick()
    assert db.execute("FROM e").fetchall() == [(datetime(2001, 1, 1, 12),)]
    db.advance("e", "infinity")
    db.tick()
    assert db.execute("FROM e").fetchall() == [(datetime(2001, 1, 1, 12),)]


def test_the_rule_follows_the_watermark(db: ivm.Database, tmp_path: Path) -> None:
    db.execute(f"CREATE TABLE e (ts TIMESTAMP, b TIMESTAMP, {MARKED}) WITH ({BEHIND})")
    db.execute("INSERT INTO e (ts) VALUES ('2001-01-01 10:00'), ('2001-01-01 12:00')")
    db.execute("ALTER TABLE e RENAME ts TO told")
    db.execute("ALTER TABLE e RENAME TO f")
    rule = [("f", "told", "01:00:00 behind watermark")]
    assert db.execute("FROM _ivm.retention").fetchall() == rule
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    script = ";\n".join(statements(db))
    for make in (f"IMPORT DATABASE '{tmp_path / 'out'}'", script):
        with ivm.connect(":memory:", clock=HandMoved()) as other:
            other.execute(make)
            other.execute("INSERT INTO f (told) VALUES ('2001-01-01 12:30')")
            assert other.execute("FROM _ivm.retention").fetchall() == rule
            other.tick()
            late = "SELECT count(*) FROM f WHERE told < '2001-01-01 11:25'"
            assert other.execute(late).fetchall() == [(0,)]
    with pytest.raises(UnsupportedError, match="behind its watermark"):
        db.execute("ALTER TABLE f DROP WATERMARK")
    db.tick()
    assert db.execute("SELECT count(*) FROM f").fetchall() == [(1,)]
    db.execute("ALTER TABLE f SET (retain = INTERVAL '100 years')")  # from now on, by the same
    assert db.execute("FROM _ivm.retention").fetchall() == [("f", "told", "100 years")]
    db.execute("ALTER TABLE f DROP WATERMARK")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("retain = '1 hour' BEHIND WATERMARK", "no watermark"),
        ("retain = '1 hour' BEHIND WATERMARK, retain_by = ts", "no watermark"),
        ("retain = '1 hour' BEHIND", "BEHIND"),
        ("retain = 1 BEHIND WATERMARK", "length of time"),
        ("retain = '1 hour'", "retain_by"),
    ],
)
def test_what_is_refused(db: ivm.Database, options: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE TABLE e (ts TIMESTAMP) WITH ({options})")
    assert not db.tables()
    db.execute("CREATE TABLE e (ts TIMESTAMP)")
    with pytest.raises(SqlError, match=reason):
        db.execute(f"ALTER TABLE e SET ({options})")


def test_rows_are_behind_the_watermark_by_its_own_column(db: ivm.Database) -> None:
    created: Any = f"CREATE TABLE e (ts TIMESTAMP, b TIMESTAMP, {MARKED}) WITH ({BEHIND}, "
    with pytest.raises(SqlError, match="follows 'ts'"):
        db.execute(created + "retain_by = b)")
