"""Recomputed views that are stale: no valid change is refused because of them, no read is old."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm import errors
from ivm.engine.engine import Engine
from tests.support.view_oracle import assert_verified

LAST = "SELECT y FROM (SELECT list(x ORDER BY id)[-1] AS y FROM {})"
"""The x of the highest id; recomputed whole."""


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        _create(opened)
        yield opened


def _create(db: ivm.Database) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)")
    db.execute("INSERT INTO t VALUES (1, 0)")
    db.execute(f"CREATE MATERIALIZED VIEW last AS {LAST.format('t')}")
    db.execute("CREATE MATERIALIZED VIEW d AS SELECT id, (x - y)::SMALLINT AS d FROM t, last")
    strategies = {view.name: view.strategy for view in db.views()}
    assert strategies == {"last": "whole recompute", "d": "indexed"}


def _sql(db: ivm.Database, x: int) -> None:
    db.execute(f"UPDATE t SET x = {x}")


def _python(db: ivm.Database, x: int) -> None:
    db.upsert("t", {"id": [1], "x": [x]})


def _transaction(db: ivm.Database, x: int) -> None:
    db.execute("BEGIN")
    db.execute(f"UPDATE t SET x = {x}")
    db.execute("COMMIT")


def _many(db: ivm.Database, x: int) -> None:
    with db.transaction():
        db.upsert("t", {"id": [1], "x": [-x]})
        db.upsert("t", {"id": [1], "x": [x]})


@pytest.mark.full
@pytest.mark.parametrize("change", [_sql, _python, _transaction, _many])
def test_a_change_is_not_refused_beside_a_stale_view(db: ivm.Database, change) -> None:  # type: ignore[no-untyped-def]
    """New x less old y overflows; new x less new y does not, whoever has read what before."""
    for x in (30_000, 60_000, -60_000, 0):
        change(db, x)
        assert db.execute("FROM d").fetchall() == [(1, 0)]
        change(db, -x)
    assert_verified(db)


@pytest.mark.full
def test_a_change_that_fails_in_truth_is_refused(db: ivm.Database) -> None:
    db.insert("t", {"id": [2], "x": [5]})
    with pytest.raises(errors.EvaluationError, match="out of range"):
        db.insert("t", {"id": [3], "x": [60_000]})
    assert db.execute("FROM d ORDER BY id").fetchall() == [(1, -5), (2, 0)]
    db.insert("t", {"id": [3], "x": [6]})
    assert db.execute("FROM d ORDER BY id").fetchall() == [(1, -6), (2, -1), (3, 0)]
    assert_verified(db)


@pytest.mark.full
def test_two_stale_views_below_one_are_stepped_together(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW same AS {LAST.format('t')}")
    db.execute(
        "CREATE MATERIALIZED VIEW none AS SELECT (last.y - same.y)::SMALLINT AS d FROM last, same"
    )
    db.execute("DROP MATERIALIZED VIEW d")
    for x in (60_000, -60_000):
        db.execute(f"UPDATE t SET x = {x}")
        assert db.execute("FROM none").fetchall() == [(0,)]
    assert_verified(db)


@pytest.mark.full
def test_a_tower_is_read_fresh_inside_a_transaction(db: ivm.Database) -> None:
    """A recomputed view over one that follows a recomputed view by deltas."""
    db.execute("CREATE MATERIALIZED VIEW more AS SELECT 1 AS id, y + 1 AS x FROM last")
    db.execute(f"CREATE MATERIALIZED VIEW top AS {LAST.format('more')}")
    db.execute("BEGIN")
    for x in (10, 20):
        db.execute(f"UPDATE t SET x = {x}")
        assert db.execute("FROM top").fetchall() == [(x + 1,)]
        assert db.execute("FROM more").fetchall() == [(1, x + 1)]
    db.execute("COMMIT")
    assert db.execute("FROM top").fetchall() == [(21,)]
    assert_verified(db)


def test_such_a_commit_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the record, a crash comes before DuckDB has it."""
    path, image = tmp_path / "x.duckdb", tmp_path / "image.duckdb"
    finish = Engine._finish

    def copied(engine: Engine, *arguments: object) -> None:
        if engine.epoch == 5:
            for suffix in ("", ".wal"):
                if (file := Path(f"{path}{suffix}")).exists():
                    shutil.copy(file, f"{image}{suffix}")
            shutil.copytree(f"{path}.ivm", f"{image}.ivm", dirs_exist_ok=True)
        finish(engine, *arguments)  # type: ignore[arg-type]

    with ivm.connect(path) as db:
        _create(db)
        monkeypatch.setattr(Engine, "_finish", copied)
        db.upsert("t", {"id": [1], "x": [60_000]})
        db.upsert("t", {"id": [1], "x": [-60_000]})
        assert db.execute("FROM d").fetchall() == [(1, 0)]
    assert image.exists(), "the epoch of the image has moved"
    with ivm.connect(image) as db:
        assert db.execute("FROM t").fetchall() in ([(1, 60_000)], [(1, -60_000)])
        assert db.execute("FROM d").fetchall() == [(1, 0)]
        assert_verified(db)


@pytest.mark.full
def test_a_view_that_reads_no_table_is_made_once() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE MACRO top() AS 5")
        db.execute(
            "CREATE MATERIALIZED VIEW c AS SELECT list(a + top()) AS l FROM range(3) AS r(a)"
        )
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT list_sum(l) AS s FROM c, t")
        assert [(v.strategy, v.reason) for v in db.views()] == [("linear", None), ("indexed", None)]
        (plan,) = db.execute("EXPLAIN MATERIALIZED VIEW c").fetchall()
        assert "reads no table" in str(plan)
        db.execute("INSERT INTO t VALUES (1)")
        assert db.execute("FROM above").fetchall() == [(18,)]
        db.execute("CREATE OR REPLACE MACRO top() AS 6")
        assert db.execute("FROM above").fetchall() == [(21,)]
        assert_verified(db)


KEYED = (
    "WITH RECURSIVE r(id, x) USING KEY (id) AS (SELECT id, x FROM {} UNION "
    "SELECT id, x + 1 FROM r WHERE x < 3) SELECT id, x FROM r"
)


@pytest.mark.full
@pytest.mark.parametrize("source", ["t", "t AS s", "p", "main.t", "m(0)"])
def test_a_column_with_the_name_of_a_relation_is_not_read(db: ivm.Database, source: str) -> None:
    """Of USING KEY DuckDB serializes no plan: what such a view reads is told by names."""
    db.execute("CREATE TABLE x (a INTEGER)")
    db.execute("CREATE VIEW p AS FROM t AS s")
    db.execute("CREATE MACRO m(least) AS TABLE SELECT * FROM t AS s WHERE id > least")
    db.execute(f"CREATE MATERIALIZED VIEW keyed AS {KEYED.format(source)}")
    db.execute("CREATE MATERIALIZED VIEW id AS SELECT count(*) AS n FROM keyed")
    assert {view.name: view.reads for view in db.views()}["keyed"] == ("t",)
    db.execute("DROP TABLE x CASCADE")
    db.execute("DROP MATERIALIZED VIEW d")
    db.execute("ALTER TABLE t ADD COLUMN more INTEGER")
    db.execute("INSERT INTO t VALUES (2, 5, 6)")
    assert db.execute("FROM keyed ORDER BY id").fetchall() == [(1, 3), (2, 5)]
    assert db.execute("FROM id").fetchall() == [(2,)]
    assert_verified(db)


@pytest.mark.full
def test_a_view_for_which_memory_does_not_suffice_is_no_fault_of_its_rows() -> None:
    with ivm.connect(memory_limit=60 << 20) as db:
        db.execute("SET temp_directory = ''; CREATE TABLE t (a INTEGER)")
        texts = "string_agg(repeat(chr(65 + a % 20), 1000), '')"
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT current_user AS u, {texts} AS s FROM t")
        db.execute("INSERT INTO t FROM range(100_000)")
        for statement in ("FROM v", "VERIFY MATERIALIZED VIEW v"):
            with pytest.raises(errors.UnavailableError, match="cannot be computed: Out of Memory"):
                db.execute(statement)
        db.execute("CREATE TABLE beside (a INTEGER)")  # other statements go on
        db.execute("DELETE FROM t WHERE a > 10")
        assert db.execute("SELECT length(s) FROM v").fetchall() == [(11_000,)]
