"""Very many rows that DuckDB loads: not in the log, and every view and index has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.changes.rows import evaluation
from ivm.errors import ConstraintError
from ivm.session import bulk
from tests.cdc.sink_files import caught_up, rows_in, rows_of
from tests.support.duckdb_twin import Twin
from tests.support.view_oracle import assert_verified

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, g INTEGER, x DOUBLE, s VARCHAR DEFAULT 'd');
CREATE TABLE names (g INTEGER, name VARCHAR);
CREATE TABLE two (a INTEGER PRIMARY KEY, b INTEGER UNIQUE);
INSERT INTO t SELECT i, i % 3, i / 10, 's' FROM range(-5, 0) r(i);
INSERT INTO names SELECT i, 'n' || i FROM range(5) r(i);
"""
VIEWS = """
CREATE MATERIALIZED VIEW sums AS SELECT name, count(*) AS n, sum(x) AS x FROM t JOIN names
    USING (g) GROUP BY name;
CREATE MATERIALIZED VIEW above AS SELECT max(n) AS most FROM sums;
CREATE MATERIALIZED VIEW ranks AS SELECT id, row_number() OVER (PARTITION BY g ORDER BY x) AS r
    FROM t;
CREATE MATERIALIZED VIEW whole AS SELECT median(x) AS m, mode(s) AS s FROM t WHERE g < 2;
CREATE MATERIALIZED VIEW aside AS SELECT count(*) AS c FROM names;
CREATE MATERIALIZED VIEW pairs AS SELECT count(*) AS c, sum(b) AS b FROM two
"""
LOADS = [
    "INSERT INTO t SELECT i, i % 4, i / 7, 'x' || i % 2 FROM range(40) r(i)",
    "INSERT INTO t BY NAME SELECT i AS id, i / 7 AS x FROM range(40) r(i)",
    "INSERT INTO two SELECT i, i + 1 FROM range(40) r(i)",
    "COPY t (id, g) FROM '{folder}/t.csv' (HEADER false)",
    "COPY t (id, g) FROM '{folder}/t.parquet'",
    "INSERT INTO t SELECT id + 10, g, x, s FROM t UNION ALL SELECT i, 1, 2, 'y'"
    " FROM range(20, 60) r(i)",
]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From ten rows on they are many; collects the tables that were filled by DuckDB alone."""
    seen: list[str] = []
    whole = bulk._fill_anew

    def noted(session: Any, transaction: Any, info: Any) -> None:
        seen.append(info.name)
        whole(session, transaction, info)

    monkeypatch.setattr(bulk, "_fill_anew", noted)
    monkeypatch.setattr(bulk, "MOST_ROWS", 9)
    monkeypatch.setattr(evaluation, "MOST_ROWS", 9)
    monkeypatch.setattr("ivm.changes.rows.small_files.MOST_ROWS", 9)
    monkeypatch.setattr(evaluation, "_WAITED", 1e9)
    return seen


def twin(path: Path | None = None, views: str = VIEWS) -> Twin:
    return Twin(TABLES, views, ("t", "names", "two"), path)


def _files(folder: Path) -> None:
    with ivm.connect() as db:
        rows = "SELECT i AS id, i % 4 AS g FROM range(50) r(i)"
        db.execute(f"COPY ({rows}) TO '{folder}/t.parquet'").fetchall()
        db.execute(f"COPY ({rows}) TO '{folder}/t.csv' (HEADER false)").fetchall()


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize("sql", LOADS)
def test_views_and_later_changes(tmp_path: Path, few: list[str], sql: str) -> None:
    _files(tmp_path)
    both = twin(tmp_path / "b.duckdb")
    assert both.run("UPDATE t SET x = 1 WHERE id = -3")  # there is a key index
    assert both.run(sql.format(folder=tmp_path))
    assert len(few) == 1
    both.check()
    assert both.run("UPDATE t SET g = 2 WHERE id = 3 RETURNING *")
    assert both.run("DELETE FROM t WHERE id IN (-5, 4, 5)")
    assert not both.run("INSERT INTO t (id) VALUES (7), (-4)")
    assert both.run("INSERT INTO t (id) VALUES (-7)")
    both.run(sql.format(folder=tmp_path))  # its keys are there already
    both.check()
    both.reopen()
    assert both.run("INSERT OR REPLACE INTO t (id, x) VALUES (-8, 2), (-4, 2), (8, 1)")
    both.check()
    both.db.close()


@pytest.mark.full
def test_few_rows_beside_many_are_stepped(few: list[str]) -> None:
    """Views over a table that has more rows than are added are not filled anew."""
    both = twin()
    assert both.run(LOADS[0])
    assert few == ["main.t"] or few == ["t"]
    assert both.run("INSERT INTO t SELECT i, 1, 1, 'z' FROM range(100, 112) r(i)")
    assert len(few) == 1
    both.check()


@pytest.mark.full
def test_a_table_without_views(few: list[str]) -> None:
    both = twin(views="CREATE MATERIALIZED VIEW aside AS SELECT count(*) AS c FROM names")
    assert both.run(LOADS[0])
    assert both.run("INSERT INTO t SELECT i, 1, 1, 'z' FROM range(100, 112) r(i)")
    assert len(few) == 2
    both.check()
    both.db.execute(VIEWS.replace("CREATE MATERIALIZED VIEW aside", "CREATE VIEW a2"))
    both.check()


@pytest.mark.full
def test_a_refused_load_changes_nothing(few: list[str]) -> None:
    both = twin()
    for sql in (
        "INSERT INTO t SELECT i, 1, 1, 'z' FROM range(-1, 30) r(i)",
        "INSERT INTO t SELECT i, 1, CASE WHEN i = 29 THEN error('no') END, 'z' FROM range(30) r(i)",
        "INSERT INTO two SELECT i, i % 29 FROM range(30) r(i)",
    ):
        assert not both.run(sql)
        both.check()
    assert few == []
    assert both.run(LOADS[0])
    both.check()


def test_a_view_that_fails_on_the_rows_refuses_them() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (a INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a + 2147483640::INTEGER AS b FROM t")
    with pytest.raises(ivm.IvmError):
        db.execute("INSERT INTO t SELECT i FROM range(20) r(i)")
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    db.execute("INSERT INTO t SELECT i FROM range(5) r(i)")
    assert_verified(db)
    db.close()


@pytest.mark.full
def test_in_a_transaction_it_is_captured(few: list[str]) -> None:
    both = twin()
    for end in ("ROLLBACK", "COMMIT"):
        assert both.run("BEGIN")
        assert both.run(LOADS[0])
        assert both.run("INSERT INTO t (id) VALUES (-9)")
        assert both.run(end)
        both.check()
    assert few == []


@pytest.mark.full
def test_what_returns_rows_or_has_a_rule_is_captured(few: list[str]) -> None:
    both = twin()
    assert both.run("INSERT OR IGNORE INTO t (id) SELECT i FROM range(-9, 9) r(i)")
    assert both.run("INSERT INTO t (id) SELECT i FROM range(10, 39) r(i) RETURNING id")
    assert few == []
    both.check()


def test_changefeeds_get_the_rows(few: list[str]) -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER, g INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS c FROM t GROUP BY g")
    with db.subscribe("v") as feed:
        db.execute("INSERT INTO t SELECT i, i % 2 FROM range(20) r(i)")
        assert len(few) == 1
        (epoch, delta) = next(iter(feed))
        assert epoch == db.epoch
        assert sorted(delta.to_pydict()["c"]) == [10, 10]
    db.close()


@pytest.mark.full
def test_sinks_get_the_rows(tmp_path: Path, few: list[str]) -> None:
    out = tmp_path / "out.jsonl"
    with ivm.connect(tmp_path / "s.duckdb") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS c FROM t GROUP BY g")
        db.execute(f"CREATE SINK s FROM v INTO FILES (path '{out}')")
        db.execute("INSERT INTO t SELECT i, i % 2 FROM range(20) r(i)")
        db.execute("INSERT INTO t SELECT i, i % 2 FROM range(20, 60) r(i)")
        assert len(few) == 2
        db.execute("INSERT INTO t VALUES (100, 1)")
        caught_up(db)
        assert rows_of(out) == rows_in(db, "v")


def test_beside_a_temporary_name_of_a_view_it_is_captured(few: list[str]) -> None:
    both = twin()
    both.db.execute("CREATE TEMP TABLE names AS SELECT 1 AS g")
    both.run(LOADS[0])
    assert few == []
    both.db.execute("DROP TABLE temp.names")
    both.check()


@pytest.mark.full
def test_another_session_reads_before_and_after(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "r.duckdb") as db:
        db.execute(TABLES)
        db.execute(VIEWS)
        other = db.cursor()
        assert other.execute("SELECT sum(n) FROM sums").fetchone() == (1,)
        db.execute(LOADS[0])
        both = "SELECT sum(n), (SELECT count(*) FROM t) FROM sums"
        assert other.execute(both).fetchone() == (41, 45)
        with pytest.raises(ConstraintError):
            other.execute("INSERT INTO t (id) VALUES (3)")


_KILLED = """
import os, signal, sys
import ivm
from ivm.changes.rows import evaluation
from ivm.session import bulk
evaluation.MOST_ROWS = bulk.MOST_ROWS = 9
db = ivm.connect(sys.argv[1])
db.execute(open(sys.argv[2]).read())
db.execute("INSERT INTO t (id, g) VALUES (1000, 1)")
db.execute("INSERT INTO t SELECT i, i % 4, i / 7, 'x' FROM range(40) r(i)")
db.execute("INSERT INTO t (id, g) VALUES (1001, 1)")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
def test_nothing_is_lost_by_kill(tmp_path: Path) -> None:
    path, script = tmp_path / "k.duckdb", tmp_path / "script.sql"
    script.write_text(f"{TABLES};{VIEWS}")
    command = [sys.executable, "-c", _KILLED, str(path), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr
    with ivm.connect(path) as db:
        assert db.execute("SELECT count(*), max(id) FROM t").fetchall() == [(47, 1001)]
        assert_verified(db)
