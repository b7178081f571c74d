"""A view that fails on a change of a stream is broken, and everything else goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm import errors
from ivm.engine.views import view_reads
from ivm.sql.resolve.bound_relations import bound_relations
from tests.cdc.broken_tables import BAD, MENDED, TABLES, WHOLE, broken, event, right
from tests.support.crash_image import image

pytestmark = pytest.mark.full(smoke=5)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(TABLES)
        yield opened


def test_the_stream_goes_on_beside_a_broken_view(db: ivm.Database) -> None:
    db.ingest("t", BAD[:1], position=1)
    before = db.epoch
    assert db.ingest("t", BAD[1:], position=2).applied == 2
    assert (broken(db), db.epoch) == ({"v", "w"}, before + 1)
    right(db)
    db.ingest("t", [event(4, "y")], position=3)
    assert db.execute("FROM n").fetchall() == [(4,)]
    assert db.ingest("t", BAD, position=2).skipped


def test_the_reason_names_the_row(db: ivm.Database) -> None:
    db.ingest("t", [*[event(i, str(i)) for i in range(100)], event(200, "x"), event(201, "y")])
    reasons = {view.name: view.broken for view in db.views()}
    why = "Could not convert string 'x' to INT32 (the row of 't' with id = 200, s = x)"
    assert reasons["v"] == f"Conversion Error: {why}"
    assert reasons["w"] == f"it reads 'v', which is broken: {reasons['v']}"


READS = [
    "FROM v",
    "SELECT count(*) FROM main.w",
    "FROM plain",
    "FROM called()",
    "SELECT * FROM t WHERE id IN (SELECT i FROM w)",
    "WITH v2 AS (FROM v) FROM v2",
    "PIVOT v ON i USING count(*)",
    "SUMMARIZE v",
    "SELECT * FROM query('FROM w')",
    "INSERT INTO u SELECT id FROM v",
    "UPDATE u SET id = (SELECT max(i) FROM plain)",
    "CREATE TABLE made AS FROM called()",
    "CREATE MATERIALIZED VIEW above AS FROM v",
    "CREATE MATERIALIZED VIEW above AS FROM plain",
    "SET VARIABLE x = (SELECT max(i) FROM w)",
    "CREATE TABLE made AS PIVOT v ON i USING count(*)",
    "CALL called()",
    "COPY (FROM plain) TO '/dev/null'",
    "COPY v TO '/dev/null'",
    "VERIFY MATERIALIZED VIEW v",
    "VERIFY MATERIALIZED VIEW w",
    "REFRESH MATERIALIZED VIEW w",
    "EXECUTE asked(1)",
]


@pytest.mark.parametrize("within", [False, True])
def test_reading_a_broken_view(db: ivm.Database, within: bool) -> None:
    db.execute("PREPARE asked AS SELECT * FROM plain WHERE i > $1")
    db.ingest("t", BAD)
    for sql in READS:
        if within:
            db.execute("BEGIN")
        with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
            db.execute(sql).fetchall()
        if within:
            db.execute("ROLLBACK")
    with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
        db.execute("SELECT * FROM plain WHERE i > ?", [0])
    with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
        db.subscribe("w")


def test_a_view_is_mended_while_a_read_of_it_is_refused(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is that of the first look: there is none in a second one."""
    db.ingest("t", BAD)
    db.ingest("t", MENDED)

    def mend(*args: Any) -> Any:
        with db.connection() as other:
            other.execute("REFRESH MATERIALIZED VIEW v")
        return bound_relations(*args)

    with monkeypatch.context() as patch:
        patch.setattr(view_reads, "bound_relations", mend)
        with pytest.raises(errors.EvaluationError, match="Could not convert string 'x' to INT32"):
            db.execute("FROM w")
    assert db.execute("FROM w").fetchall() == [(6,)]


def test_lists_of_views_say_what_is_broken(db: ivm.Database) -> None:
    assert db.execute("SHOW MATERIALIZED VIEWS").columns == ["name", "strategy", "reads", "query"]
    db.ingest("t", BAD)
    shown = db.execute("SHOW MATERIALIZED VIEWS").arrow().to_pylist()
    assert [(row["name"], row["broken"]) for row in shown] == [
        (view.name, view.broken) for view in db.views()
    ]
    found = db.execute("VERIFY MATERIALIZED VIEWS").arrow().to_pylist()
    assert [(row["view"], row["rows"], row["ok"]) for row in found] == [
        ("n", 1, True),
        ("v", None, False),
        ("w", None, False),
    ]
    assert found[1]["broken"] == shown[1]["broken"]


@pytest.mark.full
def test_refresh_mends_a_view_and_those_above(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    with pytest.raises(errors.EvaluationError, match="'v' cannot be filled: Conversion Error"):
        db.execute("REFRESH MATERIALIZED VIEW v")
    assert broken(db) == {"v", "w"}
    db.ingest("t", MENDED)
    assert broken(db) == {"v", "w"}
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert db.execute("FROM plain").fetchall() == [(7,)]
    db.ingest("t", [event(9, "9")])
    right(db)
    assert not broken(db)


def test_refresh_wants_the_name_of_a_view(db: ivm.Database) -> None:
    with pytest.raises(errors.SqlError, match="there is no materialized view 't'"):
        db.execute("REFRESH MATERIALIZED VIEW t")
    with pytest.raises(errors.SqlError):
        db.execute("REFRESH MATERIALIZED VIEW")
    with pytest.raises(errors.SqlError):
        db.execute("REFRESH MATERIALIZED VIEW v WITH NO DATA")


@pytest.mark.full
def test_a_view_above_that_fails_by_itself_stays_broken(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW small AS SELECT i::TINYINT AS i FROM v")
    db.ingest("t", BAD)
    db.ingest("t", [*MENDED, event(4, "1000")])
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert broken(db) == {"small"}
    right(db)
    db.ingest("t", [event(4, "100", "u")])
    db.execute("REFRESH MATERIALIZED VIEW small")
    assert not broken(db)
    right(db)


def test_user_writes_are_refused_as_before_and_go_on_beside(db: ivm.Database) -> None:
    for write in (
        lambda: db.execute("INSERT INTO t VALUES (1, 'x')"),
        lambda: db.insert("t", {"id": [1], "s": ["x"]}),
        lambda: db.execute("INSERT INTO t SELECT 1, 'x'"),
    ):
        with pytest.raises(errors.EvaluationError, match="Nothing was applied"):
            write()
    assert not broken(db)
    db.ingest("t", BAD)
    db.execute("INSERT INTO t VALUES (5, 'y')")
    db.execute("INSERT INTO t SELECT 6, 'z'")
    db.execute("BEGIN; DELETE FROM t WHERE id = 1; FROM n; COMMIT")
    assert db.execute("FROM n").fetchall() == [(4,)]
    right(db)


def test_a_stream_within_a_transaction_of_the_user_is_refused(db: ivm.Database) -> None:
    db.ingest("t", [])
    with pytest.raises(errors.EvaluationError, match="Nothing was applied"), db.transaction():
        db.ingest("t", BAD)
    assert not broken(db)
    assert db.execute("FROM t").fetchall() == []


@pytest.mark.full
def test_refresh_within_a_transaction(db: ivm.Database) -> None:
    db.ingest("t", BAD)
    found: list[Any] = []

    def ask() -> None:
        with pytest.raises(errors.EvaluationError, match="is broken"):
            db.execute("FROM w")
        found.append(db.execute("FROM n").fetchall())

    db.execute("BEGIN")
    db.execute("UPDATE t SET s = '2' WHERE id = 2")
    db.execute("REFRESH MATERIALIZED VIEW v")
    assert db.execute("FROM w").fetchall() == [(6,)]
    db.execute("INSERT INTO t VALUES (4, '4')")
    assert db.execute("FROM w").fetchall() == [(10,)]
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    assert found == [[(3,)]]
    db.execute("ROLLBACK")
    assert broken(db) == {"v", "w"}
    right(db)
    db.execute("BEGIN")
    with pytest.raises(errors.EvaluationError, match="cannot be filled"):
        db.execute("REFRESH MATERIALIZED VIEW v")
    db.execute("ROLLBACK")
    db.execute("BEGIN; UPDATE t SET s = '2' WHERE id = 2; REFRESH MATERIALIZED VIEW v; COMMIT")
    assert not broken(db)
    right(db)


def test_changefeeds_end_with_the_reason(db: ivm.Database) -> None:
    with db.subscribe("w") as feed, db.subscribe("n") as other:
        db.ingest("t", BAD[:1])
        db.ingest("t", BAD[1:])
        assert feed.poll(0) is not None
        with pytest.raises(errors.EvaluationError, match="REFRESH MATERIALIZED VIEW v fills"):
            feed.poll(0)
        assert feed.ended
        assert [other.poll(0) is not None for _ in range(3)] == [True, True, False]


@pytest.mark.full
def test_a_view_above_a_recomputed_one(db: ivm.Database) -> None:
    """The change marks the lower view as stale; the upper one breaks once that is recomputed."""
    db.execute(f"CREATE MATERIALIZED VIEW whole AS {WHOLE}")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT s::INTEGER AS i FROM whole")
    assert [v.strategy for v in db.views() if v.name == "whole"] == ["whole recompute"]
    db.ingest("t", [event(1, "1"), event(2, "x")])
    assert db.execute("FROM whole").fetchall() == [("x",)]
    assert broken(db) == {"v", "w", "above"}
    db.ingest("t", [event(3, "3")])
    right(db)
    db.execute("REFRESH MATERIALIZED VIEW above")
    db.ingest("t", [event(4, "4")])
    right(db)


def test_a_recomputed_view_that_fails_is_refused_when_read(db: ivm.Database) -> None:
    db.execute(f"CREATE MATERIALIZED VIEW whole AS SELECT s::INTEGER AS i FROM ({WHOLE})")
    db.execute("CREATE MATERIALIZED VIEW above AS SELECT i + 1 AS i FROM whole")
    db.execute("DROP MATERIALIZED VIEW v CASCADE")
    db.ingest("t", [event(1, "1"), event(2, "x")])
    for sql in ("FROM whole", "FROM above", "REFRESH MATERIALIZED VIEW whole"):
        with pytest.raises(errors.EvaluationError, match="Could not convert string 'x'"):
            db.execute(sql)
    db.ingest("t", [event(3, "3")])
    assert db.execute("FROM above").fetchall() == [(4,)]
    assert not broken(db)


@pytest.mark.full
def test_export_and_import_keep_the_mark(db: ivm.Database, tmp_path: Path) -> None:
    db.ingest("t", BAD)
    db.execute("DROP MACRO TABLE called")  # DuckDB imports it before the view that it names
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert broken(other) == {"v", "w"}
        assert other.views()[1].broken == db.views()[1].broken
        right(other)
        other.execute("DELETE FROM t WHERE id = 2")
        other.execute("REFRESH MATERIALIZED VIEW v")
        right(other)
        other.execute("INSERT INTO t VALUES (7, '7')")
        assert other.execute("FROM plain").fetchall() == [(12,)]


@pytest.mark.full
@pytest.mark.parametrize("closed", [True, False])
def test_the_mark_survives(tmp_path: Path, closed: bool) -> None:
    path, copy = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db.ingest("t", BAD, position=1)
        db.ingest("t", [event(4, "y")], position=2)
        reason = db.views()[1].broken
        if not closed:
            image(path, copy)
    with ivm.connect(path if closed else copy) as db:
        assert (broken(db), db.views()[1].broken) == ({"v", "w"}, reason)
        right(db)
        assert db.ingest("t", BAD, position=2).skipped
        db.ingest("t", [*MENDED, event(4, "4", "u")], position=3)
        db.execute("REFRESH MATERIALIZED VIEW v")
    with ivm.connect(path if closed else copy) as db:
        assert not broken(db)
        assert db.execute("FROM plain").fetchall() == [(11,)]
