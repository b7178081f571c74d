"""Watermarks of tables: how they are declared, moved, kept and read, and late rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import ConstraintError, IvmError, SqlError, UnsupportedError
from tests.support.view_oracle import assert_verified

CLICKS = """
CREATE TABLE clicks (id INTEGER PRIMARY KEY, ts TIMESTAMP, page VARCHAR,
    WATERMARK FOR ts AS ts - INTERVAL '5 minutes')
"""


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute(CLICKS)
        yield database


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01 {clock}")


def insert(db: ivm.Database, id: int, clock: str) -> None:
    db.execute("INSERT INTO clicks VALUES (?, ?, 'p')", [id, at(clock)])


def watermark(db: ivm.Database, table: str = "clicks") -> Any:
    return db.execute(f"SELECT watermark('{table}')").fetchall()[0][0]


def late_rows(db: ivm.Database) -> int:
    return int(db.execute("SELECT late_rows FROM _ivm.watermarks").fetchall()[0][0])


DECLARED = [
    ("ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 minutes'", "", 300),
    ("WATERMARK FOR ts AS ts - INTERVAL 5 MINUTE, ts TIMESTAMP", "WITH (late = 'refuse')", 300),
    ('"t s" TIMESTAMPTZ, watermark for "T S" as "t s" - interval \'1 day\'', "", 86400),
    ("ts DATE, WATERMARK FOR ts AS ts", "WITH (late = apply)", 0),
    ("ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' HOUR, k INT, PRIMARY KEY (ts)",
     "WITH (retain = '1 day', late = 'refuse', retain_by = ts)", 3600),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "options", "delay"), DECLARED)
def test_a_table_is_made_with_a_watermark(columns: str, options: str, delay: int) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t ({columns}) {options}")
        found = db.execute('SELECT "table", delay, late, watermark FROM _ivm.watermarks').fetchall()
        late = "refuse" if "refuse" in options else "apply"
        assert found == [("t", delay * 1_000_000, late, None)]
        assert "WATERMARK" not in str(db.execute("SELECT sql FROM duckdb_tables()").fetchall())


WRONG = [
    ("CREATE TABLE t (a INT, WATERMARK FOR a AS a)", "'a' is of type INTEGER"),
    ("CREATE TABLE t (a DATE, WATERMARK FOR b AS b)", "has no column 'b'"),
    ("CREATE TABLE t (a DATE, WATERMARK FOR a AS a - INTERVAL 1 MONTH)", "without months"),
    ("CREATE TABLE t (a DATE, b DATE, WATERMARK FOR a AS b)", "a - INTERVAL"),
    ("CREATE TABLE t (a DATE, WATERMARK FOR a AS a + INTERVAL 1 DAY)", "the end of the watermark"),
    ("CREATE TABLE t (a DATE, WATERMARK FOR a AS a) WITH (late = 'x')", "'apply', 'refuse'"),
    ("CREATE TABLE t (a DATE) WITH (late = 'apply')", "needs a watermark"),
    ("CREATE TEMP TABLE t (a DATE, WATERMARK FOR a AS a)", "not temporary"),
    ("ALTER TABLE nope SET WATERMARK FOR a AS a", "no base table"),
    ("ALTER TABLE clicks SET WATERMARK FOR ts AS ts WITH (x = 1)", "one of late, idle_after"),
    ("ALTER TABLE clicks SET WATERMARK FOR id AS id", "'id' is of type INTEGER"),
    ("ALTER TABLE clicks ADVANCE WATERMARK TO", "expected a time"),
    ("ALTER TABLE clicks ADVANCE WATERMARK TO 'x'", "expected a time"),
    ("ALTER TABLE clicks ADVANCE WATERMARK TO NULL", "not NULL"),
    ("ALTER TABLE other ADVANCE WATERMARK TO now()", "'other' has no watermark"),
    ("ALTER TABLE other DROP WATERMARK", "'other' has no watermark"),
    ("SELECT watermark('other')", "'other' has no watermark"),
    ("CREATE MATERIALIZED VIEW v AS SELECT watermark('nope')", "'nope' has no watermark"),
]


@pytest.mark.parametrize(("sql", "says"), WRONG)
def test_errors_say_what_and_why(db: ivm.Database, sql: str, says: str) -> None:
    db.execute("CREATE TABLE other (a DATE)")
    with pytest.raises(IvmError) as caught:
        db.execute(sql)
    assert says in str(caught.value)
    assert "_ivm" not in str(caught.value)


def test_it_follows_the_greatest_time_and_never_falls(db: ivm.Database) -> None:
    assert watermark(db) is None
    insert(db, 1, "10:00")
    assert watermark(db) == at("09:55")
    insert(db, 2, "09:58")
    db.execute("DELETE FROM clicks")
    assert watermark(db) == at("09:55")
    db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts - INTERVAL '1 hour'")
    assert watermark(db) == at("09:55")
    insert(db, 3, "11:00")
    assert watermark(db) == at("10:00")
    db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts")
    assert watermark(db) == at("11:00")


def test_infinite_and_missing_times_do_not_move_it(db: ivm.Database) -> None:
    insert(db, 1, "10:00")
    db.execute("INSERT INTO clicks VALUES (2, 'infinity', ''), (3, '-infinity', ''), (4, NULL, '')")
    assert watermark(db) == at("09:55")
    assert late_rows(db) == 1  # -infinity is before all


def test_rows_of_one_transaction_are_not_late_to_each_other(db: ivm.Database) -> None:
    db.execute("INSERT INTO clicks VALUES (1, '2026-03-01 10:00', ''), (2, '2026-03-01 08:00', '')")
    with db.transaction():
        insert(db, 3, "12:00")
        insert(db, 4, "10:00")
        assert watermark(db) == at("09:55")
    assert (watermark(db), late_rows(db)) == (at("11:55"), 0)


def test_a_time_that_a_transaction_takes_back_does_not_move_it(db: ivm.Database) -> None:
    insert(db, 1, "10:00")
    with db.transaction():
        insert(db, 2, "23:00")
        db.execute("UPDATE clicks SET ts = ? WHERE id = 2", [at("10:01")])
        insert(db, 3, "22:00")
        db.execute("DELETE FROM clicks WHERE id = 3")
    assert watermark(db) == at("09:56")
    db.execute("BEGIN")
    insert(db, 4, "23:00")
    db.execute("ROLLBACK")
    assert watermark(db) == at("09:56")


EARLY = "2026-03-01 08:30"
LATE = [
    ("INSERT INTO clicks VALUES (9, ?, 'x')", [EARLY], 1),
    ("INSERT INTO clicks SELECT 9 + i, ?::TIMESTAMP, 'x' FROM range(4) r(i)", [EARLY], 4),
    ("UPDATE clicks SET page = 'x' WHERE id = 1", None, 1),
    ("UPDATE clicks SET page = page || 'x'", None, 1),
    ("UPDATE clicks SET ts = ? WHERE id = 1", [EARLY], 1),
    ("UPDATE clicks SET ts = ? WHERE id = 2", [EARLY], 1),
    ("DELETE FROM clicks WHERE ts < '2026-03-01 09:30'", None, 1),
    ("DELETE FROM clicks", None, 1),
    ("TRUNCATE clicks", None, 1),
    ("INSERT OR REPLACE INTO clicks VALUES (1, '2026-03-01 10:00', 'x')", None, 1),
    ("MERGE INTO clicks USING (SELECT 1 AS id) s USING (id) WHEN MATCHED THEN DELETE", None, 1),
    ("INSERT INTO clicks VALUES (9, '2026-03-01 09:55', 'x')", None, 0),
    ("UPDATE clicks SET page = 'x' WHERE id = 2", None, 0),
    ("DELETE FROM clicks WHERE id = 2", None, 0),
]


POLICY = "ALTER TABLE clicks SET WATERMARK FOR ts AS ts - INTERVAL '5 minutes' WITH (late = '{}')"


@pytest.mark.parametrize(("sql", "given", "late"), LATE)
@pytest.mark.parametrize("begun", [False, True])
def test_late_rows_are_counted_or_refused(
    db: ivm.Database, sql: str, given: list[str] | None, late: int, *, begun: bool
) -> None:
    db.execute("INSERT INTO clicks VALUES (1, '2026-03-01 09:00', ''), (2, '2026-03-01 10:00', '')")
    before = db.execute("FROM clicks ORDER BY ALL").fetchall()
    db.execute("CREATE TABLE other (a INTEGER)")
    if late:
        db.execute(POLICY.format("refuse"))
        with pytest.raises(ConstraintError, match=r"late row: its ts 2026-03-01 0[89]:"):
            db.execute(sql, given)
        assert db.execute("FROM clicks ORDER BY ALL").fetchall() == before
        db.execute(POLICY.format("apply"))
    if begun:
        db.execute("BEGIN")
        db.execute("INSERT INTO other SELECT 1")  # so that it is in DuckDB
    db.execute(sql, given)
    if begun:
        db.execute("COMMIT")
    assert late_rows(db) == late
    assert db.execute("FROM clicks ORDER BY ALL").fetchall() != before


def test_a_refused_statement_undoes_its_transaction(db: ivm.Database) -> None:
    db.execute(POLICY.format("refuse"))
    insert(db, 1, "10:00")
    db.execute("BEGIN")
    insert(db, 2, "10:01")
    with pytest.raises(ConstraintError, match="late row"):
        insert(db, 3, "08:00")
    db.execute("ROLLBACK")
    assert db.execute("SELECT id FROM clicks").fetchall() == [(1,)]
    assert watermark(db) == at("09:55")


def test_python_calls_meet_the_same_policy(db: ivm.Database) -> None:
    insert(db, 1, "10:00")
    db.execute(POLICY.format("refuse"))
    for change in (
        lambda: db.insert("clicks", {"id": [7], "ts": [at("09:00")], "page": ["x"]}),
        lambda: db.upsert("clicks", {"id": [1], "ts": [at("09:00")], "page": ["x"]}),
        lambda: db.executemany("INSERT INTO clicks VALUES (?, ?, '')", [[7, at("09:00")]]),
    ):
        with pytest.raises(ConstraintError, match="late row"):
            change()
    db.delete("clicks", {"id": [1]})  # 10:00 is not late
    assert db.execute("FROM clicks").fetchall() == []


def test_late_events_of_a_source_become_dead_letters(db: ivm.Database) -> None:
    db.execute(POLICY.format("refuse"))
    insert(db, 1, "10:00")

    def event(op: str, id: int, clock: str) -> str:
        row = {"id": id, "ts": f"2026-03-01 {clock}:00", "page": op}
        return json.dumps({"op": op, "after": row, "before": None})

    events = [event("c", 2, "10:30"), event("c", 3, "09:00"), event("c", 4, "09:56")]
    db.ingest("clicks", events, format="debezium", source="s")
    assert db.execute("SELECT id FROM clicks ORDER BY id").fetchall() == [(1,), (2,), (4,)]
    ((reason,),) = db.execute("SELECT reason FROM _ivm.dead_letters").fetchall()
    told = "its ts 2026-03-01 {}:00 is before the watermark of table 'clicks', 2026-03-01 {}:00"
    assert reason == "late row: " + told.format("09:00", "09:55")
    clocks = ("08:00", "09:00", "11:00", "08:00")
    events = [event("c", id, clock) for id, clock in enumerate(clocks, 5)]
    db.ingest("clicks", events, format="debezium", source="t")
    found = db.execute("SELECT reason FROM _ivm.dead_letters WHERE source = 't' ORDER BY event")
    wanted = [told.format(clock, "10:25") for clock in ("08:00", "09:00", "08:00")]
    assert [reason for (reason,) in found.fetchall()] == [f"late row: {each}" for each in wanted]
    assert (watermark(db), late_rows(db)) == (at("10:55"), 0)


def test_views_read_it_and_are_verified(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW open AS FROM clicks WHERE ts >= watermark('clicks')")
    db.execute("CREATE MATERIALIZED VIEW mark AS SELECT watermark('Clicks') AS w")
    for number, clock in enumerate(["10:00", "09:58", "10:30", "10:27", "10:01"]):
        insert(db, number, clock)
        assert_verified(db)
    assert db.execute("SELECT id FROM open ORDER BY id").fetchall() == [(2,), (3,)]
    assert db.execute("FROM mark").fetchall() == [(at("10:25"),)]
    assert "recompute" not in str(db.execute("SHOW MATERIALIZED VIEWS").fetchall())


def test_it_has_the_type_of_the_times() -> None:
    with ivm.connect() as db:
        db.execute("SET TimeZone = 'Europe/Berlin'")
        for name, type in (("a", "TIMESTAMP"), ("b", "TIMESTAMPTZ"), ("c", "DATE")):
            db.execute(f"CREATE TABLE {name} (ts {type}, WATERMARK FOR ts AS ts - INTERVAL 1 HOUR)")
            db.execute(f"INSERT INTO {name} VALUES ('2026-03-02')")
            db.execute(f"CREATE MATERIALIZED VIEW v{name} AS SELECT watermark('{name}') AS w")
        assert watermark(db, "a") == datetime(2026, 3, 1, 23)
        assert watermark(db, "b") == datetime(2026, 3, 1, 22, tzinfo=UTC)
        assert watermark(db, "c") == datetime(2026, 3, 1, 23)
        types = db.execute("SELECT typeof(w) FROM va UNION ALL SELECT typeof(w) FROM vb").fetchall()
        assert sorted(types) == [("TIMESTAMP",), ("TIMESTAMP WITH TIME ZONE",)]
        db.execute("INSERT INTO c VALUES ('2026-03-03'), ('1969-12-31')")
        assert watermark(db, "c") == datetime(2026, 3, 2, 23)
        assert_verified(db)


def test_it_goes_with_its_table_and_follows_renames(db: ivm.Database) -> None:
    insert(db, 1, "10:00")
    db.execute("ALTER TABLE clicks RENAME TO hits")
    db.execute("ALTER TABLE hits RENAME ts TO moment")
    db.execute("INSERT INTO hits VALUES (2, '2026-03-01 11:00', '')")
    assert watermark(db, "hits") == at("10:55")
    with pytest.raises(SqlError, match="'clicks' has no watermark"):
        watermark(db)
    with pytest.raises(SqlError, match="no column 'moment' for its watermark"):
        db.execute("ALTER TABLE hits DROP moment")
    db.execute("DROP TABLE hits")
    assert db.execute("FROM _ivm.watermarks").fetchall() == []
    db.execute(CLICKS)
    assert watermark(db) is None


def test_a_table_that_is_replaced_begins_anew(db: ivm.Database) -> None:
    insert(db, 1, "10:00")
    db.execute(CLICKS.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"))
    assert watermark(db) is None
    db.execute(CLICKS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    insert(db, 1, "09:00")
    assert watermark(db) == at("08:55")


def test_what_a_view_reads_cannot_be_dropped(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW mark AS SELECT watermark('clicks') AS w")
    for sql in (
        *("ALTER TABLE clicks DROP WATERMARK", "ALTER TABLE clicks RENAME TO hits"),
        "DROP TABLE clicks",
    ):
        with pytest.raises(UnsupportedError, match="mark reads its watermark; drop it first"):
            db.execute(sql)
    insert(db, 1, "10:00")
    assert db.execute("FROM mark").fetchall() == [(at("09:55"),)]
    db.execute("DROP MATERIALIZED VIEW mark")
    db.execute("ALTER TABLE clicks DROP WATERMARK")
    insert(db, 2, "08:00")
    db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts")
    assert watermark(db) == at("10:00")


def test_one_follows_another_column_only_anew(db: ivm.Database) -> None:
    db.execute("ALTER TABLE clicks ADD sent TIMESTAMP")
    with pytest.raises(UnsupportedError, match="DROP WATERMARK first"):
        db.execute("ALTER TABLE clicks SET WATERMARK FOR sent AS sent")


@pytest.mark.parametrize("to", [at("12:00"), "2026-03-01 12:00:00", "infinity"])
def test_it_is_moved_by_hand(db: ivm.Database, to: Any) -> None:
    insert(db, 1, "10:00")
    db.advance("clicks", to)
    db.advance("clicks", at("11:00"))
    stored = db.execute("SELECT watermark::VARCHAR FROM _ivm.watermarks").fetchall()
    assert stored == [(str(to),)]
    insert(db, 2, "11:59")
    assert late_rows(db) == 1
    db.execute("CREATE TABLE days (d DATE, WATERMARK FOR d AS d)")
    db.advance("days", date(2026, 3, 1))
    db.execute("ALTER TABLE days ADVANCE WATERMARK TO DATE '2026-03-01' + 1")
    assert watermark(db, "days") == datetime(2026, 3, 2)


def test_it_is_moved_to_what_a_query_finds(db: ivm.Database) -> None:
    """Bug: rows and views that were not in DuckDB yet were not seen, and nothing was moved."""
    db.execute("CREATE MATERIALIZED VIEW latest AS SELECT max(ts) AS ts FROM clicks")
    for id, clock, source in ((1, "10:00", "clicks"), (2, "11:00", "latest")):
        insert(db, id, clock)
        db.execute(f"ALTER TABLE clicks ADVANCE WATERMARK TO (SELECT max(ts) FROM {source})")
        assert watermark(db) == at(clock)
    with db.transaction():
        insert(db, 3, "12:00")
        db.execute("ALTER TABLE clicks ADVANCE WATERMARK TO (SELECT max(ts) FROM clicks)")
    assert watermark(db) == at("12:00")


def test_it_survives_closing_exporting_and_copying(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    with ivm.connect(path) as db:
        db.execute(CLICKS)
        insert(db, 1, "10:00")
        db.execute("DELETE FROM clicks")
        insert(db, 2, "08:00")
    with ivm.connect(path) as db:
        assert (watermark(db), late_rows(db)) == (at("09:55"), 1)
        db.execute("CREATE MATERIALIZED VIEW mark AS SELECT watermark('clicks') AS w")
        db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
        db.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copy")
        db.execute("COPY FROM DATABASE w TO copy")
        db.execute("DETACH copy")
    with ivm.connect(tmp_path / "new.duckdb") as db:
        db.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert (watermark(db), late_rows(db)) == (at("09:55"), 1)
    for name in ("new", "copy"):
        with ivm.connect(tmp_path / f"{name}.duckdb") as db:
            insert(db, 3, "08:00")
            assert (watermark(db), late_rows(db)) == (at("09:55"), 2)
            insert(db, 4, "11:00")
            assert db.execute("FROM mark").fetchall() == [(at("10:55"),)]


def test_rows_removed_by_their_age_are_not_late() -> None:
    now = [datetime(2026, 3, 1, 12, tzinfo=UTC)]
    with ivm.connect(clock=lambda: now[0]) as db:
        db.execute(CLICKS + "WITH (retain = '1 hour', retain_by = ts, late = 'refuse')")
        for number in range(12):
            insert(db, number, f"{number + 1:02}:00") if number == 0 else db.execute(
                "INSERT INTO clicks VALUES (?, ?, '')", [number, at("12:00") + number * MINUTE]
            )
        now[0] += timedelta(hours=1, minutes=6)
        db.tick()
        assert db.execute("SELECT count(*) FROM clicks").fetchall() == [(6,)]
        assert (watermark(db), late_rows(db)) == (at("12:06"), 0)


MINUTE = timedelta(minutes=1)


def test_while_nothing_comes_it_goes_on_with_the_clock(tmp_path: Path) -> None:
    now = [datetime(2026, 3, 5, 12, tzinfo=UTC)]  # the rows are of another day
    path = tmp_path / "i.duckdb"

    def tick(minutes: float) -> None:
        now[0] += minutes * MINUTE
        opened[-1].tick()

    opened = list[ivm.Database]()

    with ivm.connect(path, clock=lambda: now[0]) as db:
        opened.append(db)
        db.execute(CLICKS + "WITH (idle_after = INTERVAL '2 minutes')")
        tick(60)
        assert watermark(db) is None
        insert(db, 1, "10:00")
        tick(2)
        assert watermark(db) == at("09:55")
        tick(1.5)
        assert watermark(db) == at("09:56") + MINUTE / 2
        insert(db, 2, "10:01")
        tick(2)
        assert watermark(db) == at("09:56") + MINUTE / 2
        insert(db, 3, "08:00")  # late, and nobody is idle
        tick(2)
        assert (watermark(db), late_rows(db)) == (at("09:56") + MINUTE / 2, 1)
        tick(5)
        assert watermark(db) == at("10:01")
    now[0] += 600 * MINUTE
    with ivm.connect(path, clock=lambda: now[0]) as db:
        opened.append(db)
        tick(0)
        assert watermark(db) == at("10:01")  # what was sent meanwhile is still to come
        tick(2)
        assert watermark(db) == at("10:01")
        tick(6)
        assert watermark(db) == at("10:02")


def test_an_idle_table_is_looked_at_by_itself() -> None:
    with ivm.connect() as db:
        db.execute(CLICKS + "WITH (idle_after = '200 milliseconds', late = 'refuse')")
        db.execute(
            "CREATE MATERIALIZED VIEW final AS SELECT id, ts FROM clicks EMIT ON WINDOW CLOSE"
        )
        db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts")
        with db.subscribe("final") as feed:
            insert(db, 1, "10:00")
            assert feed.poll(20) is not None


DEVICES = """
CREATE TABLE beats (id INTEGER PRIMARY KEY, ts TIMESTAMP, device {}, sent TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '1 minute') WITH (watermark_by = device{})
"""


def beat(db: ivm.Database, id: int, device: Any, clock: str) -> None:
    db.execute("INSERT INTO beats VALUES (?, ?, ?, NULL)", [id, at(clock), device])


@pytest.mark.parametrize(("type", "one", "two"), [("BIGINT", 1, 2), ("VARCHAR", "a'", "NULL")])
def test_it_follows_the_slowest_part(tmp_path: Path, type: str, one: Any, two: Any) -> None:
    path = tmp_path / "p.duckdb"
    with ivm.connect(path) as db:
        db.execute(DEVICES.format(type, ""))
        beat(db, 1, one, "10:00")
        assert watermark(db, "beats") == at("09:59")
        beat(db, 2, two, "09:00")
        beat(db, 3, one, "11:00")
        assert (watermark(db, "beats"), late_rows(db)) == (at("09:59"), 1)
        beat(db, 4, two, "10:30")
        beat(db, 5, None, "23:00")
        assert watermark(db, "beats") == at("10:29")
    with ivm.connect(path) as db:
        beat(db, 6, two, "12:00")
        assert watermark(db, "beats") == at("10:59")
        db.execute("ALTER TABLE beats RENAME device TO thing")
        db.execute("ALTER TABLE beats RENAME TO pulses")
        db.execute(
            "INSERT INTO pulses VALUES (7, '2026-03-01 11:30', ?, NULL), (8, '2026-03-01 13:00', ?,"
            " NULL), (9, NULL, ?, NULL), (10, 'infinity', ?, NULL)", [one, two, one, one],
        )  # fmt: skip
        assert watermark(db, "pulses") == at("11:29")
        with pytest.raises(SqlError, match="no column 'thing' to tell parts apart"):
            db.execute("ALTER TABLE pulses DROP thing")
        db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
        rows = db.execute("FROM _ivm.watermark_parts ORDER BY part").fetchall()
    with ivm.connect() as db:
        db.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert db.execute("FROM _ivm.watermark_parts ORDER BY part").fetchall() == rows
        db.execute("INSERT INTO pulses VALUES (11, '2026-03-01 12:30', ?, NULL)", [one])
        assert watermark(db, "pulses") == at("12:29")
        db.execute("DROP TABLE pulses")
        assert db.execute("FROM _ivm.watermark_parts").fetchall() == []


def test_an_idle_part_holds_up_no_other() -> None:
    now = [datetime(2026, 3, 5, 12, tzinfo=UTC)]
    with ivm.connect(clock=lambda: now[0]) as db:
        db.tick()
        db.execute(DEVICES.format("INTEGER", ", idle_after = '1 minute'"))
        beat(db, 1, 1, "10:00")
        beat(db, 2, 2, "09:00")
        for minute in range(3):
            now[0] += MINUTE / 2
            beat(db, 3 + minute, 1, f"10:0{1 + minute}")
            assert watermark(db, "beats") == (at("09:59") if minute < 2 else at("10:02"))
        beat(db, 9, 2, "09:30")  # late, but alive again: it holds the watermark where it is
        beat(db, 10, 1, "11:00")
        db.tick()
        assert (watermark(db, "beats"), late_rows(db)) == (at("10:02"), 2)
        beat(db, 11, 2, "10:30")
        assert watermark(db, "beats") == at("10:29")
        now[0] += 3 * MINUTE
        db.tick()
        assert watermark(db, "beats") == at("11:01")  # the clock, since all are idle


def test_parts_of_a_transaction_count_as_they_are_at_its_end(db: ivm.Database) -> None:
    db.execute(DEVICES.format("INTEGER", ""))
    beat(db, 1, 1, "10:00")
    with db.transaction():
        beat(db, 2, 2, "08:00")
        db.execute("UPDATE beats SET device = 1 WHERE id = 2")
        beat(db, 3, 1, "11:00")
        beat(db, 4, 1, "12:00")
        db.execute("DELETE FROM beats WHERE id = 4")
    assert db.execute("SELECT part, greatest FROM _ivm.watermark_parts").fetchall() == [
        ("1", at("11:00"))
    ]
    assert watermark(db, "beats") == at("10:59")
    db.execute("ALTER TABLE beats SET WATERMARK FOR ts AS ts - INTERVAL '2 minutes'")
    db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts WITH (watermark_by = id)")
    insert(db, 1, "10:00")
    insert(db, 2, "11:00")
    assert (watermark(db), watermark(db, "beats")) == (at("10:00"), at("10:59"))
    for sql, says in (
        (
            "ALTER TABLE beats SET WATERMARK FOR ts AS ts WITH (watermark_by = sent)",
            "integers or te",
        ),
        ("ALTER TABLE beats SET WATERMARK FOR ts AS ts WITH (watermark_by = x)", "no column 'x'"),
    ):
        with pytest.raises(SqlError, match=says):
            db.execute(sql)
