"""Ctrl-C while the state of new views is built: they stand, and the next change builds it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

import ivm
from ivm.storage.interrupts import check
from ivm.storage.warehouse.duckdb import duck
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

VIEWS = {
    "plain": "SELECT a, b FROM t WHERE a > 1",
    "sums": "SELECT b, count(*) AS n, sum(a) AS s, max(a) AS high FROM t GROUP BY b",
    "joined": "SELECT t.a, u.c, x.s FROM t LEFT JOIN u ON t.b = u.b JOIN sums x ON x.b = t.b",
    "above": "SELECT t.a, u.c FROM t JOIN u ON t.a > u.b",
    "top": "SELECT a, b FROM t ORDER BY a DESC LIMIT 3",
    "ranked": "SELECT a, sum(a) OVER (PARTITION BY b ORDER BY a) AS s FROM t",
    "listed": "SELECT b, list(a ORDER BY a) AS l FROM t GROUP BY b",
    "common": "SELECT a FROM t INTERSECT SELECT b FROM u",
    "alone": "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
    "pairs": "SELECT count(DISTINCT a) AS n FROM t",
    "reached": "WITH RECURSIVE r(k) AS (SELECT b FROM u UNION SELECT t.a FROM t JOIN r ON b = k) "
    "FROM r",
}
CHANGES = (
    "INSERT INTO t VALUES (7, 1), (2, 2), (2, 2)",
    "DELETE FROM t WHERE a = 2; INSERT INTO u VALUES (2, 'v'), (1, 'w')",
    "UPDATE t SET b = b + 1; DELETE FROM u WHERE b = 1",
)


def _database() -> ivm.Database:
    db = ivm.connect()
    db.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE u (b INTEGER, c VARCHAR)")
    db.execute("INSERT INTO t SELECT i, i % 3 FROM range(9) r(i)")
    db.execute("INSERT INTO u VALUES (0, 'x'), (1, 'y'), (NULL, 'z')")
    return db


def _struck(db: ivm.Database, at: int, work: Callable[[], object]) -> BaseException | None:
    """What was raised, with Ctrl-C behind a chunk of this number, if there were so many."""
    calls = 0

    def checked() -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            signal.raise_signal(signal.SIGINT)
        check()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duck, "check", checked)
        try:
            work()
        except KeyboardInterrupt as raised:
            assert calls >= at
            return raised
    assert calls < at
    return None


def _follows(db: ivm.Database) -> None:
    assert_verified(db)
    for change in CHANGES:
        db.execute(change)
        assert_verified(db)


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_stands_and_follows(name: str) -> None:
    at = 0
    struck: BaseException | None = KeyboardInterrupt()
    while struck is not None:
        at += 1
        with _database() as db:
            if name == "joined":
                db.execute(f"CREATE MATERIALIZED VIEW sums AS {VIEWS['sums']}")
            create = f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}"
            struck = _struck(db, at, lambda: db.execute(create))  # noqa: B023
            if struck is not None:
                assert any("committed" in note for note in struck.__notes__)
                assert any("not built yet" in note for note in struck.__notes__)
            _follows(db)
    assert at > 1 or name == "plain"


@pytest.mark.full
def test_what_follows_in_the_script_is_not_run() -> None:
    with _database() as db:
        script = f"CREATE MATERIALIZED VIEW v AS {VIEWS['sums']}; INSERT INTO t VALUES (7, 7)"
        struck = _struck(db, 1, lambda: db.execute(script))
        assert struck is not None
        assert any("not built yet" in note for note in struck.__notes__)
        assert db.execute("SELECT count(*) FROM t").fetchone() == (9,)
        _follows(db)


def test_a_view_whose_rows_are_written_by_its_state_is_brought_to_its_end() -> None:
    with _database() as db:
        create = "CREATE MATERIALIZED VIEW v AS SELECT b, avg(a / 3) AS m FROM t GROUP BY b"
        struck = _struck(db, 1, lambda: db.execute(create))
        assert struck is not None
        assert struck.__notes__ == ["The transaction is committed."]
        assert db._engine.catalog.views["v"].rounds
        _follows(db)


@pytest.mark.full
@pytest.mark.parametrize("at", range(1, examples(24), 4))
def test_altered_tables(at: int) -> None:
    with _database() as db:
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        alter = "ALTER TABLE t ALTER b TYPE INTEGER USING b + 1"
        assert _struck(db, at, lambda: db.execute(alter)) is not None or at > 1
        db.execute("ALTER TABLE t ADD COLUMN d INTEGER DEFAULT 1; ALTER TABLE t DROP COLUMN d")
        _follows(db)


@pytest.mark.full
def test_a_change_that_builds_the_state_is_cut_and_changes_nothing() -> None:
    with _database() as db:
        create = f"CREATE MATERIALIZED VIEW v AS {VIEWS['sums']}"
        assert _struck(db, 1, lambda: db.execute(create)) is not None
        raised = _struck(db, 1, lambda: db.execute(CHANGES[0]))
        assert raised is not None
        assert raised.__notes__ == ["The statement has changed nothing."]
        assert db.execute("SELECT count(*) FROM t").fetchone() == (9,)
        _follows(db)
