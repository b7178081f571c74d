"""Watermarks where DDL, names, other clients and other programs meet them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import ConstraintError, IvmError, SqlError, UnsupportedError
from ivm.shell.created import statements
from tests.support.view_oracle import verdicts

CLICKS = """
CREATE TABLE clicks (expires TIMESTAMP, id INTEGER, ts TIMESTAMP, page VARCHAR,
    WATERMARK FOR ts AS ts - INTERVAL '5 minutes')
"""
REFUSING = CLICKS + " WITH (late = 'refuse')"
FINAL = (
    "CREATE MATERIALIZED VIEW hours AS SELECT window_end, count(*) AS n"
    " FROM tumble(clicks, ts, '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE"
)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        yield database


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01 {clock}")


def row(clock: str) -> str:
    return f"INSERT INTO clicks VALUES ('2027-01-01', 1, '2026-03-01 {clock}', 'p')"


def marks(db: ivm.Database) -> dict[str, tuple[Any, int]]:
    found = db.execute('SELECT "table", watermark, late_rows FROM _ivm.watermarks').fetchall()
    return {name: (at, late) for name, at, late in found}


def run(db: ivm.Database, *script: str) -> None:
    for statement in script:
        db.execute(statement)


ALTERED: list[tuple[list[str], dict[str, Any]]] = [
    ([row("10:30"), "ALTER TABLE clicks DROP expires"], {"clicks": (at("10:25"), 0)}),
    ([row("10:30"), "ALTER TABLE clicks RENAME ts TO t2"], {"clicks": (at("10:25"), 0)}),
    ([row("10:30"), "ALTER TABLE clicks RENAME TO hits"], {"hits": (at("10:25"), 0)}),
    ([row("10:30"), "DROP TABLE clicks"], {}),
    ([row("10:30"), "DROP TABLE clicks", CLICKS], {"clicks": (None, 0)}),
    (["DROP TABLE clicks", CLICKS, row("05:00")], {"clicks": (at("04:55"), 0)}),
    ([row("10:30"), "ALTER TABLE clicks DROP WATERMARK"], {}),
    (["ALTER TABLE clicks DROP WATERMARK", row("01:00")], {}),
    (["ALTER TABLE clicks RENAME TO hits", row("03:00").replace("clicks", "hits")],
     {"hits": (at("09:55"), 1)}),
    (["ALTER TABLE clicks RENAME ts TO t2", row("03:00")], {"clicks": (at("09:55"), 1)}),
    ([row("23:00"), "ALTER TABLE clicks SET WATERMARK FOR ts AS ts - INTERVAL '1 minute'",
      "DELETE FROM clicks WHERE ts > '2026-03-01 22:00'"], {"clicks": (at("09:59"), 0)}),
]  # fmt: skip
CREATED: list[tuple[list[str], dict[str, Any]]] = [
    ([CLICKS, row("10:30"), "DELETE FROM clicks", row("09:30")], {"clicks": (at("09:25"), 0)}),
    ([CLICKS, row("10:30"), "ALTER TABLE clicks RENAME TO hits"], {"hits": (at("10:25"), 0)}),
    ([CLICKS, row("10:30"), "DROP TABLE clicks"], {}),
]


@pytest.mark.parametrize(("script", "wanted"), ALTERED)
def test_ddl_and_rows_of_one_transaction(
    db: ivm.Database, script: list[str], wanted: dict[str, Any]
) -> None:
    run(db, CLICKS, row("10:00"), "BEGIN", *script, "COMMIT")
    assert marks(db) == wanted
    run(db, "CREATE TABLE other (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    run(db, "INSERT INTO other VALUES ('2026-03-01')")
    assert marks(db) == {**wanted, "other": (at("00:00"), 0)}


@pytest.mark.parametrize(("script", "wanted"), CREATED)
def test_a_table_and_its_rows_of_one_transaction(
    db: ivm.Database, script: list[str], wanted: dict[str, Any]
) -> None:
    run(db, "BEGIN", *script, "COMMIT")
    assert marks(db) == wanted


@pytest.mark.parametrize("script", [script for script, _ in ALTERED])
def test_a_rollback_of_them(db: ivm.Database, script: list[str]) -> None:
    run(db, CLICKS, row("10:00"), "BEGIN", *script, "ROLLBACK", row("10:20"))
    assert marks(db) == {"clicks": (at("10:15"), 0)}
    assert db.execute("SELECT watermark('clicks')").fetchall() == [(at("10:15"),)]


@pytest.mark.parametrize(
    "script",
    [
        ["ALTER TABLE clicks DROP WATERMARK", row("03:00")],
        ["ALTER TABLE clicks SET WATERMARK FOR ts AS ts WITH (late = 'apply')", row("03:00")],
        ["DROP TABLE clicks", REFUSING, row("03:00")],
        [f"CREATE OR REPLACE {REFUSING.strip()[7:]}", row("03:00")],
        ["DROP TABLE clicks", "CREATE TABLE clicks (v VARCHAR)", "INSERT INTO clicks VALUES ('z')"],
        ["ALTER TABLE clicks DROP WATERMARK", "ALTER TABLE clicks ALTER ts TYPE VARCHAR",
         "INSERT INTO clicks VALUES (NULL, 1, 'z', 'p')"],
    ],
)  # fmt: skip
def test_a_policy_is_that_of_the_moment(db: ivm.Database, script: list[str]) -> None:
    run(db, REFUSING, row("10:00"), "BEGIN", *script, "COMMIT")
    assert db.execute("SELECT count(*) > 0 FROM clicks").fetchall() == [(True,)]
    run(db, "DROP TABLE clicks", REFUSING, row("10:00"), "BEGIN")
    run(db, "ALTER TABLE clicks RENAME TO hits")
    with pytest.raises(ConstraintError, match="watermark of table 'hits'"):
        db.execute(row("03:00").replace("clicks", "hits"))
    run(db, "ROLLBACK")


def test_what_has_come_so_far_is_not_forgotten(db: ivm.Database) -> None:
    run(db, CLICKS, row("10:00"), "DELETE FROM clicks")
    run(db, "ALTER TABLE clicks SET WATERMARK FOR ts AS ts")
    assert marks(db) == {"clicks": (at("10:00"), 0)}


def test_the_times_keep_their_type(db: ivm.Database) -> None:
    run(db, CLICKS, "CREATE MATERIALIZED VIEW w AS SELECT watermark('clicks') AS w")
    for alter in ("TYPE TIMESTAMPTZ", "SET DATA TYPE TIMESTAMP USING ts - INTERVAL 1 DAY"):
        with pytest.raises(UnsupportedError, match="'ts', which would have other values: ALTER"):
            db.execute(f'ALTER TABLE clicks ALTER COLUMN "TS" {alter}')
    run(db, "ALTER TABLE clicks ALTER page TYPE DOUBLE USING epoch(ts)")


@pytest.mark.parametrize("policy", ["apply", "refuse"])
def test_minus_infinity_is_late(db: ivm.Database, policy: str) -> None:
    run(db, CLICKS + f" WITH (late = '{policy}')", FINAL, row("10:00"))
    infinite = row("10:00").replace("2026-03-01 10:00", "-infinity")
    if policy == "refuse":
        with pytest.raises(ConstraintError, match="its ts -infinity is before"):
            db.execute(infinite)
    else:
        db.execute(infinite)
    assert marks(db) == {"clicks": (at("09:55"), int(policy == "apply"))}
    assert [each["ok"] for each in verdicts(db)] == [True]


def test_a_merge_counts_each_late_event(db: ivm.Database) -> None:
    run(
        db,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts)",
        "INSERT INTO t VALUES (1, '2026-03-01 08:00'), (2, '2026-03-01 08:00')",
        "INSERT INTO t VALUES (9, '2026-03-01 10:00')",
        "MERGE INTO t USING (VALUES (1, '2026-03-01'), (2, '2026-03-01'), (3, '2026-03-01'))"
        " s(id, ts) USING (id) WHEN MATCHED AND id = 1 THEN DELETE WHEN MATCHED THEN UPDATE"
        " SET ts = s.ts::TIMESTAMP WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.ts::TIMESTAMP)",
    )
    assert marks(db) == {"t": (at("10:00"), 3)}


def test_dates_beyond_timestamps_are_at_their_end(db: ivm.Database) -> None:
    run(db, "CREATE TABLE t (d DATE, WATERMARK FOR d AS d) WITH (late = 'refuse')")
    run(db, "INSERT INTO t VALUES ('2026-01-01')", "INSERT INTO t VALUES ('300000-01-01')")
    with pytest.raises(ConstraintError, match="late row"):
        db.execute("INSERT INTO t VALUES ('2026-02-01')")
    db.execute("INSERT INTO t VALUES ('5881580-07-10')")


def test_names_with_dots_and_quotes_have_watermarks_of_their_own(db: ivm.Database) -> None:
    run(db, "CREATE SCHEMA a", "CREATE TABLE a.b (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    run(db, 'CREATE TABLE "a.b" (ts TIMESTAMP, WATERMARK FOR ts AS ts)')
    run(db, "INSERT INTO a.b VALUES ('2026-03-01 10:00')")
    run(db, """INSERT INTO "a.b" VALUES ('2026-03-01 11:00')""")
    found = db.execute("""SELECT watermark('a.b'), watermark /* "x" */ ('"a.b"')""").fetchall()
    assert found == [(at("10:00"), at("11:00"))]


COLUMNS = [
    ("SELECT Watermark( 'clicks' ), 1", ["Watermark( 'clicks' )", "1"]),
    ("SELECT id, watermark('clicks') FROM clicks", ["id", "watermark('clicks')"]),
    ("SELECT DISTINCT watermark('clicks') FROM clicks", ["watermark('clicks')"]),
    ("SELECT watermark('clicks') AS w, watermark('clicks') AS x", ["w", "x"]),
    ("FROM clicks SELECT watermark('clicks') WHERE id > 1", ["watermark('clicks')"]),
    ("SELECT 1 AS a, watermark('clicks') UNION ALL SELECT 2, watermark('clicks') LIMIT 1",
     ["a", "watermark('clicks')"]),
    ("SELECT y FROM (SELECT watermark('clicks')) AS q(y)", ["y"]),
    ("SELECT coalesce(NULL, watermark('clicks')) AS w ORDER BY 1, watermark('clicks')", ["w"]),
    ("SELECT count(DISTINCT watermark('clicks')) AS n FROM clicks", ["n"]),
    ("SELECT id FROM clicks GROUP BY id, watermark('clicks')", ["id"]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "names"), COLUMNS)
def test_a_column_of_it_has_the_name_that_was_written(
    db: ivm.Database, query: str, names: list[str]
) -> None:
    run(db, CLICKS, row("10:00"))
    assert db.execute(query).fetch_arrow_table().column_names == names


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT 1, watermark('nope') FROM clicks", "watermark"),
        ("SELECT watermark('clicks'), nope FROM clicks", "nope"),
        ("SELECT nope, watermark('clicks') FROM clicks", "nope"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1, watermark('nope') AS w", "watermark"),
    ],
)
def test_an_error_beside_a_call_is_told_where_it_is(
    db: ivm.Database, query: str, place: str
) -> None:
    db.execute(CLICKS)
    with pytest.raises(SqlError) as caught:
        db.execute(query)
    assert caught.value.position == query.index(place)


def test_only_views_that_read_it_keep_a_table(db: ivm.Database) -> None:
    for name in ("t", "tt", "u"):
        run(db, f"CREATE TABLE {name} (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    run(db, "CREATE MACRO late() AS watermark('u')")
    run(db, "CREATE MATERIALIZED VIEW v AS SELECT watermark('tt') AS w, 't' AS x")
    run(db, "CREATE MATERIALIZED VIEW m AS SELECT late() AS w", "DROP TABLE t")
    for name in ("tt", "u"):
        with pytest.raises(UnsupportedError, match="reads its watermark"):
            db.execute(f"DROP TABLE {name}")


def test_a_column_may_be_called_watermark(db: ivm.Database) -> None:
    run(db, "CREATE TABLE t (ts TIMESTAMP, watermark INTEGER, WATERMARK FOR ts AS ts)")
    with pytest.raises(SqlError, match="DROP COLUMN watermark drops that, and DROP WATERMARK FOR"):
        db.execute("ALTER TABLE t DROP watermark")
    with pytest.raises(SqlError, match="follows 'ts'"):
        db.execute("ALTER TABLE t DROP WATERMARK FOR watermark")
    run(db, "ALTER TABLE t DROP WATERMARK FOR TS", "ALTER TABLE t DROP COLUMN watermark")
    run(db, "ALTER TABLE IF EXISTS nope DROP WATERMARK")
    run(db, "ALTER TABLE IF EXISTS nope ADVANCE WATERMARK TO now()")
    assert marks(db) == {}


@pytest.mark.parametrize("call", ["watermark(?)", "watermark(ts)", "Watermark($$clicks$$)"])
def test_another_argument_than_a_name_is_explained(db: ivm.Database, call: str) -> None:
    db.execute(CLICKS)
    given = ["clicks"] if "?" in call else None
    with pytest.raises(IvmError, match="takes the name of a table as a text"):
        db.execute(f"SELECT {call} FROM clicks", given)


def test_an_export_with_a_macro_over_it_is_imported(tmp_path: Path) -> None:
    with ivm.connect() as db:
        run(db, CLICKS, "CREATE MACRO mark() AS watermark('clicks')", "CREATE MACRO one() AS 1")
        run(db, "CREATE VIEW told AS SELECT mark() AS w", row("10:00"))
        run(db, "ALTER TABLE clicks SET WATERMARK FOR ts AS ts")
        run(db, "CREATE MATERIALIZED VIEW m AS SELECT w, one() AS o FROM told")
        run(db, f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect() as db:
        run(db, f"IMPORT DATABASE '{tmp_path / 'out'}'", row("11:00"))
        assert db.execute("FROM m").fetchall() == [(at("11:00"), 1)]


def test_its_statement_can_be_shown_and_run_again(db: ivm.Database) -> None:
    run(
        db,
        'CREATE TABLE "T s" (ts TIMESTAMPTZ, k VARCHAR, WATERMARK FOR ts AS ts - INTERVAL 1 DAY)'
        " WITH (late = 'refuse', idle_after = '1 minute', watermark_by = k, retain = '9 days',"
        " retain_by = ts)",
    )
    found = db.execute("FROM _ivm.watermarks").fetchall()
    script = list(statements(db))
    with ivm.connect() as other:
        run(other, *script)
        assert other.execute("FROM _ivm.watermarks").fetchall() == found


def test_another_program_that_alters_the_column_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "o.duckdb"
    with ivm.connect(path) as db:
        run(db, CLICKS, row("10:00"))
    with duckdb.connect(path) as plain:
        plain.execute("ALTER TABLE clicks ALTER ts TYPE VARCHAR")
    with ivm.connect(path) as db:
        run(db, "INSERT INTO clicks VALUES (NULL, 2, 'z', 'p')", "ALTER TABLE clicks ADD z INTEGER")
        assert marks(db) == {"clicks": (at("09:55"), 0)}
        run(db, "ALTER TABLE clicks DROP WATERMARK")
        assert marks(db) == {}


@pytest.mark.parametrize("policy", ["apply", "refuse"])
def test_a_bulk_load_is_met_by_the_watermark(db: ivm.Database, policy: str) -> None:
    db.execute(f"{CLICKS} WITH (late = '{policy}', watermark_by = id)")
    load = "INSERT INTO clicks SELECT NULL, 1, '2026-03-01 {}'::TIMESTAMP, '' FROM range(270_000)"
    db.execute(load.format("10:00"))
    assert marks(db) == {"clicks": (at("09:55"), 0)}
    if policy == "refuse":
        with pytest.raises(ConstraintError, match="late row"):
            db.execute(load.format("08:00"))
    else:
        db.execute(load.format("08:00"))
        assert marks(db) == {"clicks": (at("09:55"), 270_000)}


def test_the_end_of_time_is_no_trap() -> None:
    now = [datetime(2026, 3, 5, tzinfo=UTC)]
    with ivm.connect(clock=lambda: now[0]) as db:
        run(db, "CREATE TABLE c (d DATE, WATERMARK FOR d AS d) WITH (idle_after = '1 second')")
        run(
            db, "CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (idle_after='1 second')"
        )
        run(db, "INSERT INTO c VALUES ('999999-12-31')")
        run(db, "INSERT INTO t VALUES ('294247-01-10 04:00:54.775806')")
        for _ in range(3):
            now[0] += timedelta(days=1)
            db.tick()
        run(db, "CREATE TABLE old (d DATE)", "INSERT INTO old VALUES ('300000-01-01')")
        run(db, "ALTER TABLE old SET WATERMARK FOR d AS d", "DROP TABLE c")


PARTS = """
CREATE TABLE c (id INTEGER, ts TIMESTAMP, dev {}, WATERMARK FOR ts AS ts)
    WITH (watermark_by = dev, late = '{}'{})
"""


def part(id: int, clock: str, dev: Any) -> str:
    return f"INSERT INTO c VALUES ({id}, '2026-03-01 {clock}', {dev})"


def test_parts_and_their_columns(db: ivm.Database) -> None:
    with pytest.raises(SqlError, match="watermark_by names integers or texts"):
        db.execute(PARTS.format("HUGEINT", "apply", ""))
    run(db, PARTS.format("INTEGER", "refuse", ""), part(1, "09:00", 2), part(2, "11:00", 1))
    run(db, "UPDATE c SET dev = 2 WHERE id = 2")
    assert marks(db) == {"c": (at("11:00"), 0)}
    with pytest.raises(UnsupportedError, match="'dev', which would have other values"):
        db.execute("ALTER TABLE c ALTER dev TYPE VARCHAR")
    other = "ALTER TABLE c SET WATERMARK FOR ts AS ts WITH (watermark_by = id)"
    run(db, "BEGIN", other)
    with pytest.raises(ConstraintError, match="late row"):
        db.execute(part(3, "01:00", 1))
    run(db, "ROLLBACK", "ALTER TABLE c SET WATERMARK FOR ts AS ts WITH (late = 'apply')")
    run(db, "BEGIN", part(3, "01:00", 1), other, "COMMIT", "ALTER TABLE c ADD x INTEGER")
    assert marks(db) == {"c": (at("11:00"), 1)}
    found = db.execute("SELECT part FROM _ivm.watermark_parts ORDER BY ALL").fetchall()
    assert found == [("1",), ("2",), ("3",)]


def test_rows_without_a_part_move_nothing(tmp_path: Path) -> None:
    now = [datetime(2026, 3, 5, 12, tzinfo=UTC)]
    path = tmp_path / "p.duckdb"
    with ivm.connect(path, clock=lambda: now[0]) as db:
        db.tick()
        run(db, PARTS.format("INTEGER", "apply", ", idle_after = '1 minute'"))
        run(db, part(1, "23:00", "NULL"))
        assert marks(db) == {"c": (None, 0)}
        run(db, part(1, "10:00", 1), part(2, "23:00", "NULL"))
        now[0] += timedelta(seconds=100)
        db.tick()
        assert marks(db) == {"c": (at("10:00") + timedelta(seconds=40), 0)}
        run(db, part(3, "09:00", 2))
    now[0] += timedelta(hours=5)
    with ivm.connect(path, clock=lambda: now[0]) as db:
        run(db, part(4, "12:00", 1))  # nobody was idle meanwhile
        assert marks(db) == {"c": (at("10:00") + timedelta(seconds=40), 1)}
