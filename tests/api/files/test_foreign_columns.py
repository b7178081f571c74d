"""Another program changes columns that views read, or their own: they say so."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import CorruptionError, EvaluationError, UnavailableError
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=3)

SETUP = """
CREATE TABLE t (id INTEGER PRIMARY KEY, m INTEGER, x INTEGER);
CREATE TABLE u (id INTEGER PRIMARY KEY, m INTEGER);
CREATE MACRO half(a) AS a // 2;
INSERT INTO t VALUES (1, 10, 7), (2, 20, 7); INSERT INTO u VALUES (1, 1);
CREATE MATERIALIZED VIEW v AS SELECT *, half(m) AS h FROM t;
CREATE MATERIALIZED VIEW above AS SELECT id, m FROM v;
CREATE MATERIALIZED VIEW other AS SELECT m, count(*) AS n FROM u GROUP BY m
"""
CHANGES = {
    "ALTER TABLE t ALTER m TYPE BIGINT": "'m' as BIGINT",
    "ALTER TABLE t ALTER m TYPE FLOAT": "'m' as FLOAT",
    "ALTER TABLE t ALTER m TYPE VARCHAR; CREATE OR REPLACE MACRO half(a) AS 1": "'m' as VARCHAR",
    "ALTER TABLE t ADD COLUMN z INTEGER": "a new column 'z'",
    "ALTER TABLE t DROP COLUMN x": "no column 'x'",
    "ALTER TABLE t DROP COLUMN m; ALTER TABLE t ADD COLUMN m INTEGER": "in another order",
    "ALTER TABLE t RENAME COLUMN x TO y": "a new column 'y'",
    "CREATE OR REPLACE MACRO half(a) AS a / 2": "'h' as DOUBLE",
    "ALTER TABLE v ADD COLUMN z INTEGER": "no column 'z'",
    "ALTER TABLE v ALTER m TYPE BIGINT": "'m' as INTEGER",
}


def changed(path: Path, sql: str) -> None:
    with ivm.connect(path) as db:
        db.execute(SETUP)
    with duckdb.connect(str(path)) as plain:
        plain.execute(sql)


@pytest.mark.full
@pytest.mark.parametrize("sql", CHANGES)
def test_a_view_that_no_longer_fits_its_table_is_broken(sql: str, tmp_path: Path) -> None:
    """Bug: its rows were those of other types, or in other columns, and VERIFY said they fit."""
    path = tmp_path / "t.duckdb"
    changed(path, sql)
    for number in (2, 3):
        with ivm.connect(path) as db:
            for name in ("v", "above"):
                with pytest.raises(EvaluationError, match=CHANGES[sql]):
                    db.execute(f"FROM {name}")
            with pytest.raises(EvaluationError, match="CREATE OR REPLACE"):
                db.execute("REFRESH MATERIALIZED VIEW v")
            db.execute("INSERT INTO u VALUES (?, 5)", [number])
            db.execute("INSERT INTO t BY NAME SELECT ? AS id, 30 AS m", [number + 10])
            assert_verified(db, "other")
            assert not any(row[-2] for row in verdicts(db) if row[0] != "other")
    with ivm.connect(path) as db:
        db.execute("DROP MATERIALIZED VIEW v CASCADE")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT *, half(m) AS h FROM t")
        db.execute("DELETE FROM t WHERE id = 2")
        assert_verified(db)
        query = "SELECT *, half(m) AS h FROM t"
        assert Counter(db.execute("FROM v").fetchall()) == Counter(db.execute(query).fetchall())


def verdicts(db: ivm.Database) -> list[Any]:
    return db.execute("VERIFY MATERIALIZED VIEWS").fetchall()


def test_it_is_filled_anew_when_the_columns_are_back(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    changed(path, "ALTER TABLE t ALTER m TYPE BIGINT")
    with ivm.connect(path) as db, pytest.raises(EvaluationError, match="another program"):
        db.execute("FROM v")
    with duckdb.connect(str(path)) as plain:
        plain.execute("ALTER TABLE t ALTER m TYPE INTEGER; UPDATE t SET m = 5")
    for number in (8, 9):
        with ivm.connect(path) as db:
            db.execute("INSERT INTO t VALUES (?, 9, 9)", [number])
            assert db.execute("SELECT m FROM above WHERE id < 3").fetchall() == [(5,), (5,)]
            assert_verified(db)


HERE = {
    "ALTER TABLE t ADD COLUMN z INTEGER": "ALTER TABLE t DROP COLUMN z",
    "ALTER TABLE t RENAME COLUMN x TO y": "ALTER TABLE t RENAME COLUMN y TO x",
    "ALTER TABLE t ALTER m TYPE BIGINT": "ALTER TABLE t ALTER m TYPE INTEGER",
    "CREATE OR REPLACE MACRO half(a) AS a / 2": "CREATE OR REPLACE MACRO half(a) AS a // 2",
    "DROP TABLE t": "CREATE TABLE t AS SELECT 1 AS id, 10 AS m, 7 AS x",
    "DROP TABLE t; DROP TABLE v": "CREATE VIEW t AS SELECT id, id AS m, 7 AS x FROM u",
}


@pytest.mark.parametrize("sql", HERE)
def test_it_is_filled_anew_when_that_is_altered_back_here(sql: str, tmp_path: Path) -> None:
    """Bug: it was refused, as it would break the view, or REFRESH went on to say that it is."""
    path, back = tmp_path / "t.duckdb", f"{HERE[sql]}; REFRESH MATERIALIZED VIEW v"
    changed(path, sql)
    if "DROP TABLE v" in sql:
        back += "; REFRESH MATERIALIZED VIEW above"
    with ivm.connect(path) as db:
        db.execute(f"BEGIN; {back}")
        assert (1,) in db.execute("SELECT id FROM above").fetchall()
        db.execute("ROLLBACK")
        with pytest.raises(EvaluationError, match="another program"):
            db.execute("FROM above")
        db.execute(back)
        db.execute("INSERT INTO u VALUES (4, 4)")
        if "VIEW t" not in back:
            db.execute("INSERT INTO t VALUES (4, 40, 7)")
        assert (4,) in db.execute("SELECT id FROM above").fetchall()
        assert_verified(db)
    with ivm.connect(path) as db:
        assert_verified(db)


def test_a_sink_gets_what_comes_when_that_is_altered_back_here(tmp_path: Path) -> None:
    path, target = tmp_path / "t.duckdb", tmp_path / "lines.jsonl"
    with ivm.connect(path) as db:
        db.execute(SETUP)
        db.execute(f"CREATE SINK s FROM v INTO FILES (path '{target}', format 'jsonl')")
    with duckdb.connect(str(path)) as plain:
        plain.execute("ALTER TABLE t ADD COLUMN z INTEGER; INSERT INTO t VALUES (5, 50, 7, 9)")
    with ivm.connect(path) as db:
        db.execute("ALTER TABLE t DROP COLUMN z; REFRESH MATERIALIZED VIEW v")
        db.execute("INSERT INTO t VALUES (6, 60, 7)")
    assert drained(path, target) == [(1, 10, 7), (2, 20, 7), (5, 50, 7), (6, 60, 7)]


@pytest.mark.parametrize(
    ("sql", "here"),
    [
        ("DROP TABLE t", "CREATE MATERIALIZED VIEW t AS SELECT id, m, 7 AS x FROM u"),
        ("CREATE OR REPLACE VIEW p AS FROM other", "SELECT 1"),
    ],
)
def test_a_view_that_would_read_a_later_one_is_broken(sql: str, here: str, tmp_path: Path) -> None:
    """Bug: the file could not be opened."""
    path = tmp_path / "t.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (id INT, m INT, x INT); CREATE TABLE u (id INT, m INT)")
        db.execute("CREATE VIEW p AS SELECT m, count(*) AS n FROM t GROUP BY m")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT m FROM p")
        db.execute("CREATE MATERIALIZED VIEW other AS SELECT m, count(*) AS n FROM u GROUP BY m")
    with duckdb.connect(str(path)) as plain:
        plain.execute(sql)
    with ivm.connect(path) as db:
        db.execute(here)
    with ivm.connect(path) as db:
        with pytest.raises(EvaluationError, match="which was created after it"):
            db.execute("FROM v")
        db.execute("INSERT INTO u VALUES (1, 2)")
        assert_verified(db, "other")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT m FROM p")
        assert db.execute("FROM v").fetchall() == [(2,)]
        assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "back"),
    [
        ("DROP TABLE t", "CREATE TABLE t AS SELECT 1 AS id, 10 AS m, 7 AS x"),
        ("ALTER TABLE t RENAME TO old", "ALTER TABLE old RENAME TO t"),
    ],
)
def test_a_view_that_no_longer_binds_is_broken(sql: str, back: str, tmp_path: Path) -> None:
    """Bug: the file could not be opened, and the only way out was to edit our records."""
    path = tmp_path / "t.duckdb"
    changed(path, sql)
    for number in (2, 3):
        with ivm.connect(path) as db:
            for statement in ("FROM v", "FROM above", "REFRESH MATERIALIZED VIEW v"):
                with pytest.raises(EvaluationError, match="its query fails"):
                    db.execute(statement)
            db.execute("INSERT INTO u VALUES (?, 5)", [number])
            assert_verified(db, "other")
    with duckdb.connect(str(path)) as plain:
        plain.execute(back)
    for _ in range(2):
        with ivm.connect(path) as db:
            db.execute("UPDATE t SET m = m + 1 WHERE id = 1")
            assert_verified(db)
    with ivm.connect(path) as db:
        db.execute("DROP TABLE t CASCADE")
        assert [row[0] for row in db.execute("SHOW MATERIALIZED VIEWS").fetchall()] == ["other"]


def test_a_macro_that_is_gone_may_be_a_function_that_was_not_given(tmp_path: Path) -> None:
    changed(tmp_path / "t.duckdb", "DROP MACRO half")
    with pytest.raises(UnavailableError, match=r"half\(\).*functions=.*or, if it was a macro"):
        ivm.connect(tmp_path / "t.duckdb")


def test_a_view_that_no_longer_binds_can_be_dropped(tmp_path: Path) -> None:
    changed(tmp_path / "t.duckdb", "DROP TABLE t")
    with ivm.connect(tmp_path / "t.duckdb") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, m INTEGER, x INTEGER)")
        db.execute("DROP MATERIALIZED VIEW above")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id, m AS n FROM t")
        db.execute("INSERT INTO t VALUES (5, 6, 7)")
        assert db.execute("FROM v").fetchall() == [(5, 6)]
        assert_verified(db)
    with ivm.connect(tmp_path / "t.duckdb") as db:
        assert_verified(db)


@pytest.mark.parametrize(
    ("sql", "back", "waits"),
    [
        ("ALTER TABLE t ALTER m TYPE BIGINT", "ALTER TABLE t ALTER m TYPE INTEGER", True),
        ("ALTER TABLE t DROP COLUMN x", "ALTER TABLE t ADD COLUMN x INTEGER", True),
        ("ALTER TABLE v ALTER m TYPE FLOAT", "ALTER TABLE v ALTER m TYPE INTEGER", False),
        ("ALTER TABLE v ADD COLUMN z INTEGER", "ALTER TABLE v DROP COLUMN z", False),
    ],
)
def test_a_sink_gets_what_the_view_had(sql: str, back: str, waits: bool, tmp_path: Path) -> None:
    """Bug: the file could not be opened, or the sink got the bits of other types."""
    path, target = tmp_path / "t.duckdb", tmp_path / "lines.jsonl"
    with ivm.connect(path) as db:
        db.execute(SETUP)
        db.execute("CREATE INDEX by_x ON v (x)")
        db.execute(f"CREATE SINK s FROM v INTO FILES (path '{target}', format 'jsonl')")
        db.execute("INSERT INTO t VALUES (3, 30, 7)")
    with duckdb.connect(str(path)) as plain:
        plain.execute(sql)
    rows = [(1, 10, 7), (2, 20, 7), (3, 30, 7)]
    assert drained(path, target, reads=waits) == (rows if waits else [])
    with duckdb.connect(str(path)) as plain:
        plain.execute(back)
    found = drained(path, target)
    if sql == "ALTER TABLE t DROP COLUMN x":  # other values than before
        assert found[:3] == rows
        assert sorted(found[3:], key=repr) == sorted([*rows, *NULLED], key=repr)
    else:
        assert found == rows


NULLED = [(1, 10, None), (2, 20, None), (3, 30, None)]


def drained(path: Path, target: Path, *, reads: bool = True) -> list[Any]:
    """The columns of the lines that a sink has written when nothing waits for it any more, or, if
    it cannot read what waits, when it says so."""
    with ivm.connect(path) as db:
        db.start_sinks()
        while True:
            (sink,) = db.sinks()
            if reads and not sink.lag_epochs:
                break
            if not reads and "another program" in (sink.reason or ""):
                break
            time.sleep(0.01)
    lines = target.read_text().splitlines() if target.exists() else []
    return [(row["id"], row["m"], row["x"]) for row in map(json.loads, lines)]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE v",
        "ALTER TABLE v RENAME TO w",
        "DROP TABLE v; DROP TABLE above; ALTER TABLE t ALTER m TYPE BIGINT",
    ],
)
def test_a_table_of_a_view_that_is_gone_is_made_anew(sql: str, tmp_path: Path) -> None:
    """Bug: the file could not be opened."""
    path = tmp_path / "t.duckdb"
    changed(path, sql)
    for number in (2, 3):
        with ivm.connect(path) as db:
            assert db.execute("SELECT m FROM above WHERE id < 3").fetchall() == [(10,), (20,)]
            db.execute("INSERT INTO t VALUES (?, 9, 9)", [number + 10])
            assert_verified(db)


def test_a_schema_of_a_view_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    changed(path, "SELECT 1")
    with ivm.connect(path) as db:
        db.execute("CREATE SCHEMA s; CREATE MATERIALIZED VIEW s.v AS SELECT count(*) AS n FROM t")
    with duckdb.connect(str(path)) as plain:
        plain.execute("DROP SCHEMA s CASCADE")
    with ivm.connect(path) as db:
        assert db.execute("FROM s.v").fetchall() == [(2,)]
        assert_verified(db)


def test_the_name_of_a_view_is_not_taken_from_something_else(tmp_path: Path) -> None:
    changed(tmp_path / "t.duckdb", "DROP TABLE v; CREATE VIEW v AS SELECT 1 AS id")
    with pytest.raises(CorruptionError, match="holds materialized view 'v' is gone, and something"):
        ivm.connect(tmp_path / "t.duckdb")


@pytest.mark.full
def test_a_view_without_table_and_tables_to_read_can_be_dropped_or_comes_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.duckdb"
    changed(path, "DROP TABLE v; DROP TABLE t")
    for number in (2, 3):
        with ivm.connect(path) as db:
            with pytest.raises(EvaluationError, match=r"held it is gone, and its query fails"):
                db.execute("FROM v")
            with pytest.raises(EvaluationError, match="its query fails"):
                db.execute("FROM above")
            db.execute("INSERT INTO u VALUES (?, 5)", [number])
            assert_verified(db, "other")
    with duckdb.connect(str(path)) as plain:
        plain.execute("CREATE TABLE t AS SELECT 1 AS id, 10 AS m, 7 AS x")
    for _ in range(2):
        with ivm.connect(path) as db:
            db.execute("UPDATE t SET m = m + 1")
            assert_verified(db)
            assert db.execute("SELECT id, x FROM v").fetchall() == [(1, 7)]
    with ivm.connect(path) as db:
        db.execute("DROP MATERIALIZED VIEW v CASCADE")
        assert [row[0] for row in db.execute("SHOW MATERIALIZED VIEWS").fetchall()] == ["other"]


@pytest.mark.full
def test_what_sinks_have_got_is_gone_with_the_table(tmp_path: Path) -> None:
    """They are not fed before the user agrees that they get all rows again."""
    path, target = tmp_path / "t.duckdb", tmp_path / "lines.jsonl"
    with ivm.connect(path) as db:
        db.execute(SETUP)
        db.execute(f"CREATE SINK s FROM v INTO FILES (path '{target}', format 'jsonl')")
        db.execute("INSERT INTO t VALUES (3, 30, 7)")
    rows = [(1, 10, 7), (2, 20, 7), (3, 30, 7)]
    assert drained(path, target) == rows
    with duckdb.connect(str(path)) as plain:
        plain.execute("DROP TABLE v")
    for _ in range(2):
        with ivm.connect(path) as db, pytest.raises(EvaluationError, match="get all its rows"):
            db.execute("FROM v")
    assert len(target.read_text().splitlines()) == 3
    with ivm.connect(path) as db:
        db.execute("REFRESH MATERIALIZED VIEW v")
        assert_verified(db)
    assert drained(path, target) == rows * 2
    with ivm.connect(path) as db:
        db.execute("INSERT INTO t VALUES (4, 40, 7)")
    assert drained(path, target) == [*rows, *rows, (4, 40, 7)]


def test_columns_of_every_type_are_known_again(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TYPE pair AS STRUCT(a INT, b mood)")
        db.execute(
            "CREATE TABLE t (id INTEGER, e mood, p pair, l pair[], m MAP(VARCHAR, mood[]), u UUID, "
            "j JSON, d DECIMAL(30,3), b BIT, n TIMESTAMP_NS, z TIMESTAMPTZ, i INTERVAL, "
            "w UNION(a INTEGER, b VARCHAR), a INTEGER[3], h HUGEINT, x BLOB, "
            "s VARCHAR COLLATE NOCASE, o TIME, q TIMETZ, v VARIANT)"
        )
        db.execute("INSERT INTO t (id, e) VALUES (1, 'a')")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        db.execute(
            "CREATE MATERIALIZED VIEW w AS SELECT NULL AS nothing, [] AS empty, {'k': NULL} AS s, "
            'id + 1, id AS "Id", e::VARCHAR AS "a ""b", 1.5 AS c, \'x\' AS t, '
            "INTERVAL 1 DAY AS i, MAP {} AS m, sum(id) AS total, avg(d) AS mean, "
            "list(e) AS es, row(1, 'a') AS r FROM t GROUP BY id, e"
        )
        assert_verified(db)
    with duckdb.connect(str(path)) as plain:
        plain.execute("INSERT INTO t (id, e) VALUES (2, 'b')")
    with ivm.connect(path) as db:
        db.execute("INSERT INTO t (id, e) VALUES (3, NULL)")
        assert_verified(db)
        assert len(db.execute("SELECT id FROM v").fetchall()) == 3


def test_a_clock_without_a_time_is_named(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "t.duckdb") as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT current_date AS today")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as plain:
        plain.execute("DELETE FROM _ivm.clock")
    with pytest.raises(CorruptionError, match=r"_ivm\.clock has no time for 'v'"):
        ivm.connect(tmp_path / "t.duckdb")
