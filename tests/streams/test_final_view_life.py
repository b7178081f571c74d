"""Final views from their CREATE on: what is refused, what is kept, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import ivm
from ivm.errors import EvaluationError, IvmError, UnsupportedError
from tests.support.crash_image import image
from tests.support.view_oracle import verdicts
from tests.tiers import some

HOURS = "SELECT window_end, count(*) AS n FROM tumble(clicks, ts, '1 hour') GROUP BY ALL"
FINAL = f"CREATE MATERIALIZED VIEW hours AS {HOURS} EMIT ON WINDOW CLOSE"


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        make(database)
        yield database


def make(db: ivm.Database, options: str = "") -> None:
    db.execute(
        "CREATE TABLE clicks (id INTEGER PRIMARY KEY, ts TIMESTAMP, k INTEGER,"
        f" WATERMARK FOR ts AS ts - INTERVAL '5 minutes') {options}"
    )
    db.execute("CREATE TABLE zoned (ts TIMESTAMPTZ, k INTEGER, WATERMARK FOR ts AS ts)")
    db.execute("CREATE TABLE plain (ts TIMESTAMP, k INTEGER)")


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01 {clock}")


def insert(db: ivm.Database, id: int, clock: str) -> None:
    db.execute("INSERT INTO clicks VALUES (?, ?, 1)", [id, at(clock)])


def hours(db: ivm.Database, view: str = "hours") -> list[tuple[str, int]]:
    return [(f"{end:%H}", n) for end, n in db.execute(f"FROM {view} ORDER BY ALL").fetchall()]


FROM_HERE = "OVER (ORDER BY ts RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
HAND_MADE = f"first_value(e IGNORE NULLS) {FROM_HERE}"
ENDS = (
    "(SELECT *, CASE WHEN ts + INTERVAL '15' MINUTES >= next THEN NULL"
    " ELSE ts + INTERVAL '15' MINUTES END AS e"
    " FROM (SELECT *, lead(ts) OVER (ORDER BY ts) AS next FROM clicks))"
)
PAIRS = "FROM clicks a JOIN clicks b ON a.k = b.k AND b.ts"
LEFT = "FROM clicks a LEFT JOIN clicks b ON a.k = b.k AND b.ts"
NEXT = (
    "FROM clicks a JOIN (SELECT k, ts, lead(ts) OVER (PARTITION BY k ORDER BY ts) AS n FROM clicks)"
    " b ON a.k = b.k AND a.ts >= b.ts AND (b.n IS NULL OR a.ts < b.n)"
)
BOUNDED = [
    ("SELECT * FROM clicks", "ts <"),
    ("SELECT * FROM clicks WHERE k > 1", "ts <"),
    ("SELECT ts - INTERVAL 1 DAY AS x, k FROM clicks", "x <"),
    ("SELECT DISTINCT ts::DATE AS d FROM clicks", "d <"),
    ("SELECT time_bucket(INTERVAL 5 MINUTE, ts) AS b, max(k) FROM clicks GROUP BY ALL", "b <"),
    ("SELECT date_trunc('week', ts) AS w, max(k) FROM clicks GROUP BY ALL", "w <"),
    ("SELECT window_start, window_end, k FROM tumble(clicks, ts, '1 hour')", "window_end <="),
    ("SELECT window_start, k FROM tumble(clicks, ts, '1 hour')", "window_start <"),
    ("SELECT window_end, k FROM tumble(clicks, ts, '1 month')", "window_end <="),
    ("SELECT window_end, k FROM hop(clicks, ts, '1 minute', '1 hour')", "window_end <="),
    ("SELECT window_end, k FROM hop(clicks, ts, '1 month', '1 year')", None),
    ("SELECT ts + INTERVAL 1 MONTH AS x, k FROM clicks", None),
    ("SELECT date_trunc('day', ts) + INTERVAL 1 MONTH AS x, k FROM clicks", "x <"),
    ("SELECT time_bucket(INTERVAL 1 HOUR, ts, INTERVAL 1 MONTH) AS b, k FROM clicks", None),
    ("SELECT time_bucket(INTERVAL 1 HOUR, ts, INTERVAL 5 MINUTE) AS b, k FROM clicks", None),
    ("SELECT unnest(range(TIMESTAMP '2026-03-01', ts, -INTERVAL '-1' HOUR)) FROM clicks", None),
    ("SELECT ts, id FROM finals", None),
    ("SELECT window_end, id FROM finals", "window_end <="),
    (f"SELECT {HAND_MADE} AS window_end FROM {ENDS}", "window_end <"),
    (f"SELECT {HAND_MADE} AS window_end, count(*) {FROM_HERE} FROM {ENDS}", None),
    (f"SELECT {HAND_MADE} AS window_end, next FROM {ENDS}", None),
    ("SELECT window_end, k FROM cumulate(clicks, ts, '1 minute', '1 hour')", "window_end <="),
    ("FROM session(clicks, ts, '1 hour')", "window_end <"),
    ("SELECT k, window_end FROM session(clicks, ts, '1 hour', partition_by := [k]) GROUP BY ALL",
     "window_end <"),
    ("SELECT window_end, k FROM tumble(clicks, ts, '1 day', TIMESTAMP '2026-01-01 06:00')",
     "window_end <"),
    ("SELECT window_end, k FROM tumble(zoned, ts, '1 day', 'Europe/Berlin')", "window_end <="),
    ("SELECT window_end, k FROM hop(zoned, ts, '1 hour', '1 day')", "window_end <="),
    ("SELECT a.window_end, b.k FROM tumble(clicks, ts, '1 hour') a JOIN tumble(zoned, ts,"
     " '1 hour') b ON b.window_end = a.window_end::TIMESTAMPTZ", None),
    ("SELECT a.ts, b.k FROM clicks a JOIN plain b USING (k)", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a LEFT JOIN plain b USING (k)", "ts <"),
    ("SELECT a.ts, b.k FROM plain a LEFT JOIN clicks b USING (k)", None),
    ("SELECT a.ts, b.ts FROM clicks a JOIN clicks b USING (k)", None),
    ("SELECT a.ts, b.k FROM clicks a JOIN clicks b USING (ts)", "ts <"),
    ("SELECT ts, k FROM clicks a WHERE k IN (SELECT k FROM zoned)", None),
    ("SELECT ts, k FROM clicks a WHERE k IN (SELECT k FROM plain)", "ts <"),
    ("SELECT ts FROM clicks INTERSECT SELECT ts FROM clicks WHERE k > 1", "ts <"),
    ("SELECT ts FROM clicks UNION ALL SELECT ts FROM plain", "ts <"),
    ("SELECT ts, k FROM clicks QUALIFY row_number() OVER (PARTITION BY ts ORDER BY k) = 1", "ts <"),
    ("SELECT ts, sum(k) OVER (ORDER BY ts) FROM clicks", None),
    ("SELECT ts, lag(k) OVER (PARTITION BY k ORDER BY ts) FROM clicks", None),
    ("SELECT ts, k FROM clicks ORDER BY ts LIMIT 3", None),
    ("SELECT k, max(ts) AS ts FROM clicks GROUP BY ALL", None),
    ("SELECT k, min(ts) AS t FROM clicks GROUP BY ALL", "t <"),
    ("SELECT k, min(ts) AS t, count(*) FROM clicks GROUP BY ALL", None),
    ("SELECT k, min(ts, 2) AS t FROM clicks GROUP BY ALL", None),
    (f"SELECT a.ts, b.k {PAIRS} BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR", "ts <"),
    (f"SELECT a.ts + INTERVAL 1 HOUR AS due, b.k {LEFT} BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR",
     "due <"),
    (f"SELECT a.ts, b.k {LEFT} - a.ts <= INTERVAL 1 HOUR", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} - INTERVAL 1 HOUR < a.ts + INTERVAL 5 MINUTE", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} <= a.ts", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} = a.ts - INTERVAL 5 MINUTE", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} + INTERVAL 5 MINUTE = a.ts", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} - a.ts = INTERVAL 5 MINUTE", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} = a.ts - INTERVAL 1 MONTH", None),
    (f"SELECT a.ts, b.k {LEFT} <= INTERVAL 5 MINUTE + a.ts", "ts <"),
    (f"SELECT a.ts, b.k {LEFT} <= a.ts IS NOT FALSE", None),
    (f"SELECT a.ts, b.k {LEFT} <> a.ts", None),
    ("SELECT a.ts, b.k FROM clicks a LEFT JOIN clicks b ON NOT b.ts > a.ts", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a LEFT JOIN clicks b ON NOT b.ts = a.ts", None),
    ("SELECT a.ts, b.k FROM clicks a LEFT JOIN clicks b ON b.ts <= date_trunc('hour', a.ts)",
     "ts <"),
    ("SELECT a.window_end, b.k FROM tumble(clicks, ts, '1 hour') a LEFT JOIN"
     " tumble(clicks, ts, '1 hour') b ON b.window_start = a.window_end", "window_end <"),
    (f"SELECT a.ts, b.k {LEFT} >= a.ts", None),
    (f"SELECT a.ts, b.k {LEFT} - a.ts <= INTERVAL 1 MONTH", None),
    (f"SELECT a.ts, b.k {LEFT} BETWEEN a.ts AND a.ts + INTERVAL 1 MONTH", None),
    (f"SELECT a.ts, b.k {LEFT} BETWEEN a.ts AND a.ts + b.k * INTERVAL 1 HOUR", None),
    (f"SELECT a.ts, b.k {LEFT} <= a.ts OR b.k = 1", None),
    (f"SELECT a.ts, b.k {LEFT} <= a.ts AND b.k = 1", "ts <"),
    (f"SELECT a.ts, b.k {LEFT.replace('LEFT', 'FULL')} <= a.ts", None),
    (f"SELECT a.ts, b.k {LEFT.replace('clicks', 'zoned')} <= a.ts + INTERVAL 1 HOUR", "ts <"),
    (f"SELECT a.ts, b.k {LEFT.replace('clicks', 'zoned')} <= a.ts + INTERVAL 1 DAY", None),
    (f"SELECT a.ts, b.k {LEFT.replace('clicks b', 'zoned b')} <= a.ts", None),
    (f"SELECT a.ts::DATE AS d, b.k {LEFT} <= a.ts", "d <"),
    (f"SELECT c.ts, a.k {PAIRS} <= a.ts JOIN clicks c ON c.k = b.k AND a.ts <= c.ts", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a ASOF JOIN clicks b ON a.k = b.k AND a.ts >= b.ts", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a ASOF LEFT JOIN clicks b ON a.ts > b.ts", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a ASOF JOIN clicks b ON a.k >= b.k WHERE a.ts >= b.ts", None),
    ("SELECT a.t, b.k FROM (SELECT a.*, c.ts AS t FROM clicks a JOIN clicks c ON c.ts = a.ts -"
     " INTERVAL 5 MINUTE) a ASOF JOIN clicks b ON a.k = b.k AND a.ts >= b.ts WHERE a.t >= b.ts",
     None),
    ("SELECT a.ts, b.k, c.k AS j FROM clicks a ASOF JOIN clicks b ON a.k = b.k AND a.ts >= b.ts"
     " ASOF JOIN clicks c ON a.k = c.k AND a.ts >= c.ts", "ts <"),
    ("SELECT a.ts, b.k FROM clicks a ASOF JOIN clicks b ON a.k = b.k AND a.ts >= b.ts"
     " WHERE NOT EXISTS (FROM clicks c WHERE c.ts = a.ts - INTERVAL 5 MINUTE)", "ts <"),
    ("SELECT a.ts, b.ts AS t FROM clicks a ASOF JOIN clicks b ON a.ts <= b.ts", None),
    ("SELECT a.ts, b.k FROM clicks a ASOF JOIN clicks b ON a.k = b.k AND a.ts <= b.ts", None),
    ("SELECT a.ts, b.k FROM clicks a ASOF FULL JOIN clicks b ON a.ts >= b.ts", None),
    ("SELECT b.ts, b.k FROM clicks a ASOF JOIN clicks b ON a.ts >= b.ts", None),
    (f"SELECT a.ts, b.k {NEXT}", "ts <"),
    (f"SELECT a.ts, b.n {NEXT}", None),
    (f"SELECT a.ts, b.n - a.ts AS rest {NEXT}", None),
    (f"SELECT a.ts, b.k {NEXT} AND b.n - a.ts < INTERVAL 1 HOUR", None),
    (f"SELECT a.ts, b.k {NEXT} JOIN clicks c ON c.ts = b.n", None),
    (f"SELECT a.ts, b.k {LEFT.replace('b.ts', 'date_trunc(')}'day', b.ts) - a.ts <="
     " INTERVAL 1 MONTH", None),
    (f"SELECT a.ts, b.k {LEFT.replace('clicks', 'zoned')} - a.ts <= INTERVAL 1 HOUR", None),
    ("SELECT a.ts, b.k FROM clicks a, (SELECT *, lead(ts) OVER (ORDER BY k, ts) AS n FROM clicks) b"
     " WHERE a.ts >= b.ts AND (b.n IS NULL OR a.ts < b.n)", None),
    ("SELECT count(*) FROM clicks", None),
    ("SELECT ts, k FROM plain", None),
    ("SELECT year(ts) AS y, k FROM clicks", None),
    ("SELECT -epoch_us(ts) AS y, k FROM clicks", None),
    ("SELECT ts::DATE AS d FROM zoned", None),
    ("SELECT ts + INTERVAL 1 DAY AS d FROM zoned", None),
    ("SELECT ts AT TIME ZONE 'Europe/Berlin' AS d FROM zoned", None),
    ("SELECT ts::VARCHAR AS d FROM clicks", None),
    ("SELECT d, k, count(*) FROM (SELECT ts::DATE AS d, k FROM clicks) GROUP BY ROLLUP (d, k)",
     None),
    ("SELECT greatest(ts, TIMESTAMP '2026-01-01') AS t FROM clicks", None),
    ("SELECT ts, current_user AS who FROM clicks", None),
]  # fmt: skip


@pytest.mark.parametrize(("query", "by"), some(BOUNDED, of=2))
def test_a_query_is_taken_where_a_column_tells_when_its_rows_are_final(
    db: ivm.Database, query: str, by: str | None
) -> None:
    finals = "SELECT window_end, ts, id FROM tumble(clicks, ts, '1 hour')"
    db.execute(f"CREATE MATERIALIZED VIEW finals AS {finals} EMIT ON WINDOW CLOSE")
    create = f"CREATE MATERIALIZED VIEW v AS {query} EMIT ON WINDOW CLOSE"
    if by is None:
        with pytest.raises(UnsupportedError, match="EMIT ON WINDOW CLOSE"):
            db.execute(create)
        return
    db.execute(create)
    column, sign = by.split()
    names = [name for name, *_ in db.execute("DESCRIBE v").fetchall()]
    shown = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1]
    assert shown.startswith(f"Emit c{names.index(column)} {sign} watermark of ")


def test_of_streams_the_error_says_what_the_condition_lacks(db: ivm.Database) -> None:
    query = "SELECT a.ts, b.k FROM clicks a LEFT JOIN clicks b ON a.k = b.k EMIT ON WINDOW CLOSE"
    with pytest.raises(UnsupportedError, match="how far apart their times may be"):
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_without_a_watermark_the_error_says_how_to_make_one(db: ivm.Database) -> None:
    with pytest.raises(UnsupportedError, match="ALTER TABLE plain SET WATERMARK FOR column AS"):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT ts FROM plain EMIT ON WINDOW CLOSE")


def test_only_a_materialized_view_emits(db: ivm.Database) -> None:
    for sql in (
        "SELECT ts FROM clicks EMIT ON WINDOW CLOSE",
        "CREATE VIEW v AS SELECT ts FROM clicks EMIT ON WINDOW CLOSE",
    ):
        with pytest.raises(IvmError, match=r"syntax error.* CREATE MATERIALIZED VIEW alone"):
            db.execute(sql)
    with pytest.raises(IvmError, match="syntax error"):
        db.execute("CREATE MATERIALIZED VIEW v AS EMIT ON WINDOW CLOSE")


def test_a_view_over_old_rows_has_what_is_final_by_then(db: ivm.Database) -> None:
    for number, clock in enumerate(["10:10", "11:20", "12:30", "12:40"]):
        insert(db, number, clock)
    db.execute(FINAL)
    assert hours(db) == [("11", 1), ("12", 1)]
    insert(db, 9, "13:05")
    assert hours(db) == [("11", 1), ("12", 1), ("13", 2)]


def test_views_above_and_the_session_see_what_is_final(db: ivm.Database) -> None:
    db.execute(FINAL)
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(n)::BIGINT AS n FROM hours")
    db.execute("CREATE MATERIALIZED VIEW pairs AS FROM hours JOIN plain ON k = n")
    db.execute("INSERT INTO plain VALUES (NULL, 1), (NULL, 2)")
    insert(db, 1, "10:10")
    with db.transaction():
        insert(db, 2, "10:20")
        insert(db, 3, "13:10")
        assert hours(db) == []
    assert hours(db) == [("11", 2)]
    assert db.execute("FROM total").fetchall() == [(2,)]
    assert len(db.execute("FROM pairs").fetchall()) == 1
    insert(db, 4, "10:30")
    db.execute("DELETE FROM clicks WHERE id = 1")
    db.execute("INSERT INTO plain VALUES (NULL, 2)")
    assert db.execute("FROM total").fetchall() == [(2,)]
    assert len(db.execute("FROM pairs").fetchall()) == 2
    assert all(row["ok"] for row in verdicts(db))


def test_a_crash_after_it_was_read_counts_no_row_twice_above(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "s.duckdb") as db:
        db.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute(
            "CREATE MATERIALIZED VIEW f AS SELECT window_end, count(*) AS n"
            " FROM tumble(c, ts, INTERVAL '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE"
        )
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT count(*), sum(n) FROM f")
        for id in range(50):
            time = datetime(2026, 3, 1) + id * timedelta(minutes=20)
            db.execute("INSERT INTO c VALUES (?, ?)", [id, time])
            if id == 20:
                db.execute("CHECKPOINT")
            if id in (20, 40):
                db.execute("SELECT median(n) FROM f").fetchall()  # DuckDB reads it
        copy = image(tmp_path / "s.duckdb", tmp_path / "copy.duckdb")
    with ivm.connect(copy) as db:
        assert db.execute("FROM above").fetchall() == [(16, 48)]
        assert all(row["ok"] for row in verdicts(db))


def test_a_key_whose_row_is_final_may_come_again(db: ivm.Database) -> None:
    db.execute("CREATE TABLE c (ts TIMESTAMP, k INTEGER, WATERMARK FOR ts AS ts)")
    db.execute(
        "CREATE MATERIALIZED VIEW f AS SELECT k, min(ts) AS t FROM c GROUP BY k"
        " EMIT ON WINDOW CLOSE"
    )
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT k, count(*) FROM f GROUP BY k")
    db.execute(
        "CREATE MATERIALIZED VIEW single AS SELECT k, (SELECT t FROM f WHERE f.k = u.k)"
        " FROM (SELECT DISTINCT k FROM f) u"
    )
    db.execute("INSERT INTO c VALUES ('2026-03-01 10:00', 1), ('2026-03-01 10:10', 2)")
    db.execute("DELETE FROM c WHERE k = 1")
    db.execute("INSERT INTO c VALUES ('2026-03-01 10:20', 1)")
    assert sorted(db.execute("FROM above").fetchall()) == [(1, 1), (2, 1)]
    with pytest.raises(EvaluationError, match=r"(?i)more than one row"):
        db.execute("INSERT INTO c VALUES ('2026-03-01 10:30', 3)")
    db.execute("DROP MATERIALIZED VIEW single")
    db.execute("INSERT INTO c VALUES ('2026-03-01 10:30', 3)")
    assert sorted(db.execute("FROM above").fetchall()) == [(1, 2), (2, 1)]


def test_rows_outlive_those_they_were_made_of() -> None:
    now = [datetime(2026, 3, 1, 13, 30, tzinfo=UTC)]
    with ivm.connect(clock=lambda: now[0]) as db:
        make(db, "WITH (retain = '1 hour', retain_by = ts)")
        db.execute(FINAL)
        db.execute(f"CREATE MATERIALIZED VIEW now AS {HOURS}")
        for number, clock in enumerate(["10:10", "11:20", "12:30", "12:40", "13:20"]):
            insert(db, number, clock)
        assert hours(db) == [("11", 1), ("12", 1), ("13", 2)]
        db.tick()
        assert hours(db, "now") == [("13", 2), ("14", 1)]
        assert hours(db) == [("11", 1), ("12", 1), ("13", 2)]
        (hours_told,) = [row for row in verdicts(db) if row["view"] == "hours"]
        assert hours_told["ok"]
        assert "2 rows" in str(hours_told["left_open"])
        db.execute("REFRESH MATERIALIZED VIEW hours")
        db.execute("ALTER TABLE clicks ADD x INTEGER")
        db.execute("ALTER TABLE clicks ALTER k TYPE BIGINT")
        assert hours(db) == [("11", 1), ("12", 1), ("13", 2)]
        db.execute("INSERT INTO clicks VALUES (9, '2026-03-01 14:30', 1, 1)")
        assert hours(db) == [("11", 1), ("12", 1), ("13", 2), ("14", 1)]


def test_a_transaction_that_alters_the_table_too_loses_nothing(db: ivm.Database) -> None:
    db.execute(FINAL)
    insert(db, 1, "10:10")
    with db.transaction():
        db.execute("ALTER TABLE clicks ALTER k TYPE BIGINT")
        insert(db, 2, "10:20")
        insert(db, 3, "11:10")
        insert(db, 4, "12:30")
    assert hours(db) == [("11", 2), ("12", 1)]
    insert(db, 5, "13:10")
    assert hours(db) == [("11", 2), ("12", 1), ("13", 1)]


def test_a_table_its_watermark_and_its_views_are_made_in_one_transaction(
    db: ivm.Database,
) -> None:
    with db.transaction():
        db.execute("CREATE TABLE c (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
        db.execute("INSERT INTO c VALUES ('2026-03-01 10:30'), ('2026-03-01 11:30')")
        db.execute(FINAL.replace("clicks", "c"))
        db.execute("INSERT INTO c VALUES ('2026-03-01 10:40'), ('2026-03-01 12:30')")
    assert hours(db) == [("11", 2), ("12", 1)]


def test_it_is_shown_exported_and_made_again(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "a.duckdb") as db:
        make(db)
        db.execute(FINAL)
        for number, clock in enumerate(["10:10", "11:20", "12:30"]):
            insert(db, number, clock)
        (shown,) = db.execute("SHOW MATERIALIZED VIEWS").fetchall()
        assert shown[3].endswith("GROUP BY ALL EMIT ON WINDOW CLOSE")
        assert db.views()[0].sql == shown[3]
        db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect(tmp_path / "b.duckdb") as db:
        db.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert hours(db) == [("11", 1), ("12", 1)]
        insert(db, 9, "10:50")
        insert(db, 10, "13:30")
        assert hours(db) == [("11", 1), ("12", 1), ("13", 1)]
        db.execute(FINAL.replace("CREATE", "CREATE OR REPLACE"))
        assert hours(db) == [("11", 2), ("12", 1), ("13", 1)]


def test_a_final_view_is_not_left_without_its_watermark(db: ivm.Database) -> None:
    db.execute(FINAL)
    with pytest.raises(UnsupportedError, match="hours"):
        db.execute("ALTER TABLE clicks DROP WATERMARK")
    db.execute("ALTER TABLE clicks SET WATERMARK FOR ts AS ts - INTERVAL '1 minute'")
    insert(db, 1, "10:30")
    insert(db, 2, "11:02")
    assert hours(db) == [("11", 1)]


def test_rows_never_wait_for_another_watermark_than_at_first(db: ivm.Database) -> None:
    db.execute("CREATE VIEW behind AS FROM plain")
    db.execute(
        "CREATE MATERIALIZED VIEW pairs AS SELECT clicks.ts, behind.k FROM clicks LEFT JOIN behind"
        " ON behind.ts = clicks.ts EMIT ON WINDOW CLOSE"
    )
    with pytest.raises(UnsupportedError, match="'plain' is read by the final view pairs"):
        db.execute("ALTER TABLE plain SET WATERMARK FOR ts AS ts")
    db.execute("CREATE TABLE other (ts TIMESTAMP, k INTEGER, WATERMARK FOR ts AS ts)")
    with pytest.raises(UnsupportedError, match="pairs' would wait for another watermark"):
        db.execute("CREATE OR REPLACE VIEW behind AS FROM other")
    db.execute("CREATE OR REPLACE VIEW behind AS SELECT * FROM plain WHERE k > 0")


def test_a_comment_ends_with_its_line(tmp_path: Path) -> None:
    with ivm.connect() as db:
        make(db)
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM clicks -- all\nEMIT ON WINDOW CLOSE"
        )
        insert(db, 1, "10:00")
        assert [row["ok"] for row in verdicts(db)] == [True]
        db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect() as db:
        db.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert db.execute("FROM v").fetchall() == []


def test_what_is_looked_up_is_as_it_was_at_the_close(db: ivm.Database) -> None:
    query = "SELECT ts, clicks.id, v FROM clicks JOIN names USING (k)"
    db.execute("CREATE TABLE names (k INTEGER PRIMARY KEY, v VARCHAR)")
    db.execute("INSERT INTO names VALUES (1, 'old')")
    db.execute(f"CREATE MATERIALIZED VIEW named AS {query} EMIT ON WINDOW CLOSE")
    insert(db, 1, "10:00")
    insert(db, 2, "11:00")
    db.execute("UPDATE names SET v = 'new'")
    insert(db, 3, "12:00")
    assert [v for *_, v in db.execute("FROM named ORDER BY ts").fetchall()] == ["old", "new"]
    (told,) = verdicts(db)
    assert (told["ok"], told["left_open"].split(",")[0]) == (True, "final as they were: 1 rows")


def test_its_state_ends_with_what_is_final(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT ts, k FROM clicks EMIT ON WINDOW CLOSE")
    for hour in range(20):
        rows = "SELECT ? + i, ?::TIMESTAMP + i * INTERVAL 2 SECOND, 1 FROM range(1000) r(i)"
        db.execute(f"INSERT INTO clicks {rows}", [hour * 1000, at("00:00") + hour * HOUR])
    shown = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1]
    assert int(shown.splitlines()[0].split("passed it]")[1].split()[0]) < 200
    assert db.execute("SELECT count(*) FROM v").fetchall()[0][0] > 19_800


HOUR = timedelta(hours=1)


@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMPTZ", "DATE"])
@pytest.mark.parametrize("end", ["infinity", "-infinity"])
def test_an_infinite_watermark_is_that_of_each_type(type: str, end: str) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (ts {type}, WATERMARK FOR ts AS ts)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT ts FROM t EMIT ON WINDOW CLOSE")
        db.advance("t", end)
        told = db.execute("SELECT CAST(watermark('t') AS VARCHAR) AS w").fetchall()
        assert told == [(end,)]
        db.advance("t", "infinity")
        db.execute("INSERT INTO t VALUES ('2026-03-01'), ('infinity')")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT ts FROM t EMIT ON WINDOW CLOSE")
        assert db.execute("SELECT CAST(ts AS DATE) FROM w").fetchall() == [(date(2026, 3, 1),)]
