"""Views that read the time: ticks, moved by hand, against DuckDB's answer at that time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.engine.views.clock import DAY, SECOND
from ivm.errors import SqlError, UnavailableError, UnsupportedError
from tests.support.clocks import NOON, HandMoved


@pytest.fixture
def clock() -> HandMoved:
    return HandMoved()


@pytest.fixture
def db(clock: HandMoved) -> Iterator[ivm.Database]:
    with ivm.connect(":memory:", clock=clock) as opened:
        opened.execute("SET TimeZone = 'UTC'")
        opened.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ, kind VARCHAR)")
        yield opened


def rows(db: ivm.Database, view: str) -> list[Any]:
    return sorted(db.execute(f"FROM {view}").fetchall(), key=repr)


def demand_verified(db: ivm.Database) -> None:
    found = db.execute("VERIFY MATERIALIZED VIEWS").fetchall()
    assert found
    assert all(ok for *_, ok in found)


def ticks_of(db: ivm.Database) -> dict[int, datetime]:
    return dict(db.execute("SELECT tick, now FROM _ivm.clock").fetchall())


RECENT = "SELECT kind, count(*) AS n FROM events WHERE ts > now() - INTERVAL 1 MINUTE GROUP BY kind"


@pytest.mark.full
def test_rows_pass_the_bound_as_the_clock_ticks(db: ivm.Database, clock: HandMoved) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW recent AS {RECENT}")
    for i in range(5):
        event = {"id": [i], "ts": [NOON - timedelta(seconds=12 * i)], "kind": ["a"]}
        db.insert("events", event)
    assert rows(db, "recent") == [("a", 5)]
    clock.move(db, seconds=12)  # the last one is a minute old now, and the bound is strict
    assert rows(db, "recent") == [("a", 4)]
    clock.move(db, seconds=13)
    assert rows(db, "recent") == [("a", 3)]
    clock.move(db, days=1)
    assert rows(db, "recent") == []
    demand_verified(db)


@pytest.mark.full
def test_a_tick_is_an_epoch_in_the_changefeed(db: ivm.Database, clock: HandMoved) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW recent AS {RECENT}")
    db.execute("INSERT INTO events VALUES (1, '2024-03-30 12:00:00+00', 'a')")
    with db.subscribe("recent") as feed:
        before = db.epoch
        clock.move(db, seconds=30)
        assert db.epoch == before + 1
        clock.move(db, seconds=30)
        epoch, delta = next(feed)
        assert epoch == before + 2
        assert delta.num_rows == 1


@pytest.mark.full
def test_one_now_for_views_of_one_tick(db: ivm.Database, clock: HandMoved) -> None:
    for name in ("a", "b"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT now() AS t, current_date AS d")
        clock.move(db, milliseconds=700)
        clock.now += timedelta(milliseconds=700)
    assert rows(db, "a") == rows(db, "b")
    demand_verified(db)


@pytest.mark.full
def test_ticks_of_a_width_are_its_multiples(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '1 minute') AS SELECT now() AS t")
    clock.move(db, seconds=59.9)
    assert rows(db, "v") == [(NOON,)]
    clock.move(db, seconds=3.2)
    assert rows(db, "v") == [(NOON + timedelta(minutes=1),)]
    before = db.epoch
    clock.move(db, seconds=20)
    assert db.epoch == before  # nothing is due
    clock.move(db, hours=5)
    assert db.epoch == before + 1  # after a pause it jumps once
    demand_verified(db)


@pytest.mark.full
def test_the_clock_never_goes_back(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT now() AS t")
    clock.move(db, hours=-3)
    assert rows(db, "v") == [(NOON,)]
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT now() AS t")
    assert rows(db, "w") == [(NOON,)]
    clock.move(db, hours=3, seconds=1)
    assert rows(db, "v") == rows(db, "w") == [(NOON + timedelta(seconds=1),)]


@pytest.mark.full
def test_the_date_changes_at_midnight_of_the_views_time_zone(tmp_path: Path) -> None:
    clock, file = HandMoved(), tmp_path / "zone.duckdb"
    with ivm.connect(file, clock=clock) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
    with duckdb.connect(str(file)) as plain:  # as if it had been made in Berlin
        plain.execute("UPDATE _ivm.meta SET value = 'Europe/Berlin' WHERE key = 'time_zone'")
    with ivm.connect(file, clock=clock) as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT current_date AS d, a FROM t")
        db.execute("INSERT INTO t VALUES (1)")
        assert list(ticks_of(db)) == [DAY]
        before = db.epoch
        clock.now = datetime(2024, 3, 30, 22, 59, 59, tzinfo=UTC)
        db.tick()
        assert (rows(db, "v"), db.epoch) == ([(date(2024, 3, 30), 1)], before)
        clock.move(db, seconds=1)
        assert (rows(db, "v"), db.epoch) == ([(date(2024, 3, 31), 1)], before + 1)
        clock.now = datetime(2024, 3, 31, 21, 59, 59, tzinfo=UTC)  # a day of 23 hours
        db.tick()
        assert rows(db, "v") == [(date(2024, 3, 31), 1)]
        clock.move(db, seconds=1)
        assert rows(db, "v") == [(date(2024, 4, 1), 1)]
        demand_verified(db)


@pytest.mark.full
def test_only_while_a_view_reads_it(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT now() AS t")
    db.execute("CREATE MATERIALIZED VIEW w WITH (tick = '2 seconds') AS SELECT now() AS t")
    assert list(ticks_of(db)) == [SECOND, 2 * SECOND]
    db.execute("DROP MATERIALIZED VIEW w")
    clock.move(db, seconds=2)
    assert list(ticks_of(db)) == [SECOND]
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 AS t")
    clock.move(db, seconds=2)
    assert ticks_of(db) == {}
    before = db.epoch
    clock.move(db, seconds=2)
    assert db.epoch == before
    db.execute("CREATE MATERIALIZED VIEW again AS SELECT now() AS t")
    assert rows(db, "again") == [(clock.now,)]


@pytest.mark.full
def test_views_over_plain_views_macros_and_views(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("""
        CREATE MACRO since(t) AS now() - t;
        CREATE VIEW fresh AS SELECT * FROM events WHERE ts >= ago(INTERVAL 10 SECOND);
        CREATE MATERIALIZED VIEW below AS SELECT id, kind FROM fresh;
        CREATE MATERIALIZED VIEW above AS SELECT kind, count(*) AS n FROM below GROUP BY kind;
        CREATE MATERIALIZED VIEW ages AS SELECT id, since(ts) AS age FROM events;
        INSERT INTO events VALUES (1, '2024-03-30 11:59:55+00', 'a'), (2, NULL, 'b'),
            (3, '2024-03-30 12:00:00+00', 'a');
    """)
    assert rows(db, "above") == [("a", 2)]
    clock.move(db, seconds=6)
    assert rows(db, "above") == [("a", 1)]
    assert rows(db, "ages")[:2] == [(1, timedelta(seconds=11)), (2, None)]
    assert {view.strategy for view in db.views()} == {"indexed"}
    demand_verified(db)


def test_a_recomputed_view_is_told_the_time_of_the_tick(db: ivm.Database, clock: HandMoved) -> None:
    db.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT median(epoch(now() - ts)) AS m, min(today()) AS d,"
        " string_agg(kind, ',' ORDER BY age(ts)) AS k FROM events WHERE ts < localtimestamp"
    )
    db.execute("INSERT INTO events VALUES (1, '2024-03-30 11:00:00+00', 'a')")
    assert rows(db, "v") == [(3600.0, date(2024, 3, 30), "a")]
    clock.move(db, hours=12)
    assert rows(db, "v") == [(46800.0, date(2024, 3, 31), "a")]
    demand_verified(db)
    assert db.execute("SELECT now() > TIMESTAMPTZ '2026-01-01'").fetchall() == [(True,)]


@pytest.mark.full
def test_a_macro_of_the_users_hides_the_clock(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("CREATE MACRO today() AS DATE '2020-02-02'")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT today() AS d")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT today() AS d, now() AS t")
    clock.move(db, days=1)
    assert rows(db, "v") == [(date(2020, 2, 2),)]
    assert rows(db, "w") == [(date(2020, 2, 2), clock.now)]
    demand_verified(db)


def test_a_column_of_such_a_name_is_a_column(db: ivm.Database) -> None:
    db.execute("CREATE TABLE days (current_date DATE)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT current_date FROM days")
    db.execute("INSERT INTO days VALUES ('2020-02-02')")
    assert rows(db, "v") == [(date(2020, 2, 2),)]
    demand_verified(db)


def test_a_view_that_fails_on_a_tick_is_broken_and_the_others_go_on(
    db: ivm.Database, clock: HandMoved
) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT now() AS t")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT CASE WHEN extract(second FROM now()) = 30 "
        "THEN error('half past') ELSE 1 END AS x"
    )
    clock.move(db, seconds=30)
    assert rows(db, "v") == [(clock.now,)]
    with pytest.raises(ivm.errors.EvaluationError, match="half past"):
        rows(db, "w")
    clock.move(db, seconds=1)
    db.execute("REFRESH MATERIALIZED VIEW w")
    assert rows(db, "w") == [(1,)]
    demand_verified(db)


def test_what_is_refused(db: ivm.Database) -> None:
    with pytest.raises(UnsupportedError, match="without the schema"):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT system.main.now() AS t")
    with pytest.raises(SqlError, match="does not read the time"):
        db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '1 minute') AS SELECT 1 AS t")
    for tick in ("'1 month'", "0", "'1 microsecond'", "'soon'", "'-1 minute'"):
        with pytest.raises(SqlError, match=r"tick|time"):
            db.execute(f"CREATE MATERIALIZED VIEW v WITH (tick = {tick}) AS SELECT now() AS t")
    with pytest.raises(UnsupportedError, match="records"):
        db.execute("UPDATE _ivm.clock SET now = now()")
    db.execute("BEGIN")
    with pytest.raises(UnavailableError, match="outside of transactions"):
        db.tick()
    db.execute("ROLLBACK")
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall() == []


@pytest.mark.full
def test_a_rolled_back_view_leaves_nothing(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("BEGIN; CREATE MATERIALIZED VIEW v AS SELECT now() AS t; ROLLBACK")
    clock.move(db, seconds=1)
    assert not [t for t in db.execute("SHOW ALL TABLES").fetchall() if t[2] == "clock"]
    db.execute("BEGIN; CREATE MATERIALIZED VIEW v AS SELECT now() AS t; COMMIT")
    clock.move(db, seconds=1)
    assert rows(db, "v") == [(clock.now,)]


def test_a_transaction_sees_one_tick_and_keeps_others_waiting(
    db: ivm.Database, clock: HandMoved
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW recent AS {RECENT}")
    db.execute("BEGIN")
    db.execute("INSERT INTO events VALUES (1, '2024-03-30 12:00:00+00', 'a')")
    clock.now += timedelta(seconds=90)
    db._engine.writer_lock.wait_limit = 0.05
    failed: list[BaseException] = []

    def other() -> None:
        try:
            db.tick()
        except UnavailableError as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(failed) == 1
    assert rows(db, "recent") == [("a", 1)]
    db.execute("COMMIT")
    assert rows(db, "recent") == [("a", 1)]
    db.tick()
    assert rows(db, "recent") == []
    demand_verified(db)


@pytest.mark.full
def test_ticks_survive_reopening_and_the_clock_jumps_once(tmp_path: Path) -> None:
    clock, file = HandMoved(), tmp_path / "clock.duckdb"
    with ivm.connect(file, clock=clock) as db:
        db.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, ts TIMESTAMPTZ, kind VARCHAR)")
        db.execute(f"CREATE MATERIALIZED VIEW recent WITH (tick = '5 seconds') AS {RECENT}")
        db.execute("INSERT INTO events VALUES (1, '2024-03-30 12:00:00+00', 'a')")
        clock.move(db, seconds=7)
    clock.now += timedelta(days=1)
    with ivm.connect(file, clock=clock) as db:
        assert rows(db, "recent") == [("a", 1)]
        demand_verified(db)
        before = db.epoch
        db.tick()
        assert db.epoch == before + 1
        assert rows(db, "recent") == []
        assert list(ticks_of(db)) == [5 * SECOND]
        demand_verified(db)


@pytest.mark.full
def test_export_and_import_keep_the_tick(
    db: ivm.Database, clock: HandMoved, tmp_path: Path
) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW recent WITH (tick = '5 seconds') AS {RECENT}")
    db.execute("INSERT INTO events VALUES (1, '2024-03-30 12:00:00+00', 'a')")
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect(":memory:", clock=clock) as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert list(ticks_of(other)) == [5 * SECOND]
        assert rows(other, "recent") == [("a", 1)]
        clock.move(other, minutes=2)
        assert rows(other, "recent") == []


@pytest.mark.full
def test_the_clock_ticks_by_itself(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "real.duckdb") as db:
        db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '20 milliseconds') AS SELECT now() t")
        feed = db.subscribe("v")
        first, second = next(feed)[0], next(feed)[0]
        assert second > first
        demand_verified(db)
        db.execute("DROP MATERIALIZED VIEW v")


def test_spark_fills_no_view_of_the_time(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "x.duckdb", clock=HandMoved()) as db:
        db.execute("CREATE MATERIALIZED VIEW below AS SELECT now() AS t")
        for query in ("SELECT now() AS t", "SELECT t FROM below"):
            with pytest.raises(UnsupportedError, match="reads the time"):
                db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {query}")


def test_a_failure_of_the_ticking_thread_reaches_the_next_caller(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '20 milliseconds') AS SELECT now() t")
        clock = db._engine.clock
        real, failed = clock.due, threading.Event()

        def failing(cursor: Any) -> Any:
            failed.set()
            raise RuntimeError("the dial is stuck")

        clock.due = failing  # type: ignore[method-assign]
        assert failed.wait(10)
        job = db._engine.jobs.find("clock", "clock")
        assert job is not None
        job.stop()
        assert job.join(10)  # it has told by now
        clock.due = real  # type: ignore[method-assign]
        with pytest.raises(UnavailableError, match="the dial is stuck"):
            db.execute("FROM v")


def test_a_failing_clock_reaches_the_next_caller(db: ivm.Database, clock: HandMoved) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT now() AS t")
    clock.now = datetime(2024, 1, 1)  # without a zone
    with pytest.raises(ivm.errors.InputError, match="time zone"):
        db.tick()


def test_show_tells_the_ticks(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v WITH (tick = '90 minutes') AS SELECT now() AS t")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT today() AS t")
    shown = db.execute("SHOW MATERIALIZED VIEWS").arrow().to_pylist()
    assert [(v["reads"], v["tick"]) for v in shown] == [
        ("_ivm.clock", "90 minutes"),
        ("_ivm.clock", "1 day"),
    ]


TOLD = {  # what each function tells at the time {now}; DuckDB itself is asked whether that is so
    "now()": "{now}",
    "current_timestamp": "{now}",
    "get_current_timestamp()": "{now}",
    "transaction_timestamp()": "{now}",
    "localtimestamp": "CAST({now} AS TIMESTAMP)",
    "current_localtimestamp()": "CAST({now} AS TIMESTAMP)",
    "localtime": "CAST(CAST({now} AS TIMESTAMP) AS TIME)",
    "current_localtime()": "CAST(CAST({now} AS TIMESTAMP) AS TIME)",
    "current_time": "CAST({now} AS TIMETZ)",
    "get_current_time()": "CAST({now} AS TIMETZ)",
    "current_date": "CAST({now} AS DATE)",
    "today()": "CAST({now} AS DATE)",
    "ago(INTERVAL 5 HOUR)": "{now} - INTERVAL 5 HOUR",
    "age(TIMESTAMPTZ '2020-02-29 01:00:00+00')": "age(CAST(CAST({now} AS DATE) AS TIMESTAMPTZ), "
    "TIMESTAMPTZ '2020-02-29 01:00:00+00')",
    "age(TIMESTAMP '2020-02-29 01:00:00')": "age(CAST(CAST(timezone('UTC', {now}) AS DATE) AS "
    "TIMESTAMP), TIMESTAMP '2020-02-29 01:00:00')",
    "age(DATE '2020-02-29')": "age(CAST(CAST(timezone('UTC', {now}) AS DATE) AS TIMESTAMP), "
    "CAST(DATE '2020-02-29' AS TIMESTAMP))",
}
ZONES = ["UTC", "America/Los_Angeles", "Pacific/Kiritimati"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("call", TOLD)
def test_duckdb_tells_the_time_as_these_tests_say(call: str, zone: str) -> None:
    with duckdb.connect() as plain:
        plain.execute(f"SET TimeZone = '{zone}'")
        said = TOLD[call].replace("{now}", "now()")
        query = f"SELECT {call} AS told, {said} AS said"
        ((told, said),) = plain.execute(
            f"SELECT told::VARCHAR, said::VARCHAR FROM ({query})"
        ).fetchall()
        types = plain.execute(f"SELECT typeof(told), typeof(said) FROM ({query})").fetchall()
    assert told == said
    assert len(set(types[0])) == 1


@pytest.mark.full
@pytest.mark.cases(9)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("hour", [0, 9, 23])
def test_every_function_tells_the_time_of_the_tick(tmp_path: Path, zone: str, hour: int) -> None:
    clock, file = HandMoved(NOON.replace(hour=hour, minute=59, second=59)), tmp_path / "a.duckdb"
    ivm.connect(file).close()
    with duckdb.connect(str(file)) as plain:
        plain.execute("UPDATE _ivm.meta SET value = ? WHERE key = 'time_zone'", [zone])
    with ivm.connect(file, clock=clock) as db, duckdb.connect() as plain:
        for session in (db, plain):
            session.execute(f"SET TimeZone = '{zone}'")
        for i, call in enumerate(TOLD):
            db.execute(
                f"CREATE MATERIALIZED VIEW v{i} WITH (tick = '1 second') AS SELECT {call} AS t"
            )
        for seconds in (0, 1, 3600, 86_400):
            clock.move(db, seconds=seconds)
            for i, said in enumerate(TOLD.values()):
                text = said.replace("{now}", f"TIMESTAMPTZ '{clock.now.isoformat()}'")
                wanted = plain.execute(f"SELECT ({text})::VARCHAR").fetchall()
                assert db.execute(f"SELECT t::VARCHAR FROM v{i}").fetchall() == wanted, said
