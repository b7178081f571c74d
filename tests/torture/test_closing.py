"""Closing beside statements that run: it ends, loses nothing, and lets the file go."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import ivm
from ivm import errors, open_databases
from tests.support import ROOT
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER, seeds

ROUNDS = {"quick": 1, "full": 30, "fuzz": 300}[TIER]
WAIT = 60.0


class Crowd:
    """Threads that use a database until it is closed.

    Args:
        db: theirs.
    """

    def __init__(self, db: ivm.Database) -> None:
        self.db = db
        self.acknowledged: list[int] = []
        self.odd: list[BaseException] = []
        self.begun = threading.Event()
        jobs = (self.insert, self.copy, self.transact, self.read, self.read_long, self.recompute)
        self.threads = [
            threading.Thread(target=self._work, args=(1000 * i, job), daemon=True)
            for i, job in enumerate(jobs)
        ]

    def _work(self, first: int, job: Callable[[int], bool]) -> None:
        number = first
        try:
            while True:
                number += 1
                if job(number):
                    self.acknowledged.append(number)
                self.begun.set()
        except errors.UnavailableError:
            pass  # closed, or interrupted by the closing
        except BaseException as error:
            self.odd.append(error)

    def insert(self, number: int) -> bool:
        return self.db.insert("t", {"a": [number]}) == 1

    def copy(self, number: int) -> bool:
        self.db.execute(f"INSERT INTO t SELECT {number} FROM u LIMIT 1")
        return True

    def transact(self, number: int) -> bool:
        with self.db.transaction():
            self.db.execute("FROM sums").fetchall()
            self.db.execute(f"INSERT INTO t VALUES ({number})")
        return True

    def read(self, number: int) -> bool:
        for _ in self.db.execute("SELECT * FROM t, sums"):
            pass
        return False

    def read_long(self, number: int) -> bool:
        self.db.execute("SELECT count(*) FROM u a, u b, u c, u d").fetchall()
        return False

    def recompute(self, number: int) -> bool:
        self.db.execute("FROM whole").fetchall()
        return False


@pytest.mark.full
@pytest.mark.parametrize("seed", seeds(ROUNDS))
def test_closing_beside_statements_loses_nothing(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "x.duckdb"
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER)")
    db.execute("CREATE TABLE u AS SELECT range AS a FROM range(200)")
    db.execute("CREATE MATERIALIZED VIEW sums AS SELECT count(*) AS n, sum(a) AS s FROM t")
    db.execute("CREATE MATERIALIZED VIEW whole AS SELECT current_user AS u, a FROM t")
    crowd = Crowd(db)
    for thread in crowd.threads:
        thread.start()
    assert crowd.begun.wait(WAIT)
    crowd.threads[0].join(random.Random(seed).uniform(0, 0.3))
    db.close()
    for thread in crowd.threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert not crowd.odd, repr(crowd.odd)
    db.close()
    with ivm.connect(path) as again:
        rows = [a for (a,) in again.execute("FROM t").fetchall()]
        assert len(rows) == len(set(rows))
        assert set(crowd.acknowledged) <= set(rows)
        # At most one statement of each thread stands without its caller having been told.
        assert len(rows) <= len(crowd.acknowledged) + len(crowd.threads)
        assert_verified(again)


def test_a_statement_that_does_not_end_lets_the_file_go_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, may_end = threading.Event(), threading.Event()

    def waits(a: int) -> int:
        running.set()
        may_end.wait(WAIT)
        return a

    path, told = tmp_path / "x.duckdb", []
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER)")
    db.insert("t", {"a": [1]})
    db.create_function(ivm.Function("waits", waits, ["INTEGER"], "INTEGER"))

    def use() -> None:
        try:
            db.execute("INSERT INTO t SELECT waits(a) FROM t")
        except errors.IvmError as error:
            told.append(error)

    user = threading.Thread(target=use, daemon=True)
    user.start()
    assert running.wait(WAIT)
    monkeypatch.setattr(open_databases, "PATIENCE", 0.1)
    with pytest.raises(errors.UnavailableError, match="not ended"):
        db.close()
    with pytest.raises(errors.UnavailableError, match="closed"):
        db.execute("SELECT 1")
    with pytest.raises(errors.UnavailableError, match="already open"):
        ivm.connect(path)
    ivm.connect().close()  # another one is not concerned
    may_end.set()
    user.join(WAIT)
    assert [type(error) for error in told] == [errors.UnavailableError]
    with ivm.connect(path) as again:
        assert again.execute("FROM t").fetchall() == [(1,)]


def test_closing_ends_who_waits_for_the_turn() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (a INTEGER)")
    db.execute("BEGIN")
    waiting, told = threading.Event(), []
    wait = db._engine.writer_lock._wait

    def waits() -> None:
        waiting.set()
        wait()

    db._engine.writer_lock._wait = waits  # type: ignore[method-assign]

    def use() -> None:
        try:
            db.insert("t", {"a": [1]})
        except errors.UnavailableError as error:
            told.append(str(error))

    user = threading.Thread(target=use, daemon=True)
    user.start()
    assert waiting.wait(WAIT)
    db.close()
    user.join(WAIT)
    assert told
    assert "closed" in told[0]


@pytest.mark.full
def test_two_threads_may_close(tmp_path: Path) -> None:
    db = ivm.connect(tmp_path / "x.duckdb")
    db.execute("CREATE TABLE t (a INTEGER)")
    closers = [threading.Thread(target=db.close, daemon=True) for _ in range(3)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(WAIT)
        assert not closer.is_alive()
    ivm.connect(tmp_path / "x.duckdb").close()


@pytest.mark.full
def test_what_fails_at_closing_keeps_the_file_from_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(*_: object) -> None:
        raise ValueError("nobody has foreseen this")

    path = tmp_path / "x.duckdb"
    for owner, name in (
        ("_engine.recomputed", "refresh_all"),
        ("_engine.warehouse", "_close_in_good_order"),
    ):
        db = ivm.connect(path)
        db.execute("CREATE TABLE IF NOT EXISTS t (a INTEGER)")
        db.insert("t", {"a": [1]})
        place: object = db
        for part in owner.split("."):
            place = getattr(place, part)
        with monkeypatch.context() as patch:
            patch.setattr(place, name, odd)
            with pytest.raises(errors.InternalError, match="foreseen"):
                db.close()
        db.close()
    with ivm.connect(path) as again:
        assert again.execute("FROM t").fetchall() == [(1,), (1,)]


@pytest.mark.full
def test_a_forgotten_database_that_cannot_be_closed_disturbs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def odd(*_: object) -> None:
        raise ValueError("nobody has foreseen this")

    forgotten = [ivm.connect(tmp_path / f"{i}.duckdb") for i in range(2)]
    monkeypatch.setattr(forgotten[0]._engine.recomputed, "refresh_all", odd)
    del forgotten
    with ivm.connect() as other:
        assert other.execute("SELECT 1").fetchall() == [(1,)]
    assert "0.duckdb could not be closed in good order" in caplog.text
    for i in range(2):
        ivm.connect(tmp_path / f"{i}.duckdb").close()


@pytest.mark.full
def test_a_forgotten_database_whose_result_is_read_is_left_alone(tmp_path: Path) -> None:
    result = ivm.connect(tmp_path / "x.duckdb").execute("FROM range(3)")
    with result._lock:  # as who reads it, in another thread
        other = threading.Thread(target=lambda: ivm.connect().close(), daemon=True)
        other.start()
        other.join(WAIT)
        assert not other.is_alive()
    assert result.fetchall() == [(0,), (1,), (2,)]
    ivm.connect(tmp_path / "x.duckdb").close()


@pytest.mark.full
def test_a_folder_that_is_gone_at_the_end_of_the_program_is_named(tmp_path: Path) -> None:
    program = """
        import ivm, shutil, sys
        db = ivm.connect(sys.argv[1] + "/x.duckdb")
        db.execute("CREATE TABLE t (a INTEGER)")
        db.insert("t", {"a": [1]})
        shutil.rmtree(sys.argv[1])
    """
    folder = tmp_path / "gone"
    folder.mkdir()
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=WAIT,
        check=False,
    )
    assert child.returncode == 0
    assert "could not be closed in good order" in child.stderr
    assert "Traceback" not in child.stderr
