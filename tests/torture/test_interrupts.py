"""Signals: at random moments of a random life (see `interrupted`), and at each call of a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import ivm
from ivm.delta_ops.recursion import Recursion
from ivm.engine.transactions.transaction import COMMITTED
from ivm.storage import interrupts
from ivm.storage.interrupts import NOTHING
from ivm.storage.signal_watch import SignalWatch
from tests.support import ROOT
from tests.tiers import TIER, seeds
from tests.torture.interrupted import HANGS
from tests.torture.patient import Patient
from tests.torture.test_exceptions import CHANGES, Trap

ROUNDS = {"quick": 1, "full": 15, "fuzz": 500}[TIER]
WORDS = ("run BEGIN", "run COMMIT", "run CHECKPOINT")
CALLS = ("writev", "fdatasync", "pwrite", "fsync", "replace", "run", "append", *WORDS)
SHORT = {"commit": ("fdatasync",), "flush": ("run COMMIT",), "checkpoint": ("run CHECKPOINT",)}


@pytest.mark.full
def test_no_signal_does_harm(tmp_path: Path) -> None:
    drawn = [str(seed) for seed in seeds(ROUNDS)]
    program = [sys.executable, "-m", "tests.torture.interrupted", str(tmp_path), *drawn]
    child = subprocess.run(
        program,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=ROUNDS * HANGS,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert len(child.stdout.splitlines()) == ROUNDS


def _struck(folder: Path, change: str, function: str, at: int) -> bool:
    """Whether Ctrl-C came behind the call of this number; nobody was harmed, and its user told."""
    folder.mkdir(parents=True)
    patient = Patient(folder)
    row, work = CHANGES[change]
    trap = Trap(at, "after", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.MonkeyPatch.context() as patch:
        trap.set_at(patch, function)
        error = patient.change(row, lambda: work(patient))
        trap.armed = False
    if trap.calls >= at:
        assert isinstance(error, KeyboardInterrupt)
        assert {COMMITTED, NOTHING} & set(error.__notes__)
        assert patient.db._engine.log.fault is None
    patient.examine()
    return trap.calls >= at


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("change", SHORT if TIER == "quick" else CHANGES)
def test_a_signal_behind_a_call_waits_for_the_outcome(tmp_path: Path, change: str) -> None:
    for function in SHORT[change] if TIER == "quick" else CALLS:
        at = 1
        while _struck(tmp_path / function / str(at), change, function, at):
            at += 1 if TIER == "fuzz" else 20
        assert at > 1 or function not in SHORT.get(change, ())


def _long_query(db: ivm.Database, timer: threading.Timer) -> None:
    timer.start()
    db.execute("SELECT count(*) FROM range(10000000000) a WHERE a.range % 7 = 3").fetchall()


def test_ctrl_c_ends_a_long_query() -> None:
    with ivm.connect() as db:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt) as told:
            _long_query(db, timer)
        timer.join()
        assert told.value.__notes__ == [NOTHING]
        assert db.execute("SELECT 1").fetchall() == [(1,)]


_ENDLESS = "SELECT count(*) AS n FROM t a, t b, t c WHERE a.x + b.x + c.x = 3"
"""DuckDB asks for no signal in it, for hours."""
ENDLESS = {
    "a query": _ENDLESS,
    "a change": f"INSERT INTO counts {_ENDLESS}",
    "a change that is captured": f"UPDATE counts SET n = ({_ENDLESS})",
    "rows to return": f"INSERT INTO counts {_ENDLESS} RETURNING n",
    "DDL": f"CREATE TABLE made AS {_ENDLESS}",
    "a view": f"CREATE MATERIALIZED VIEW made AS {_ENDLESS}",
    "rows that are read": f"SELECT * FROM range(3) UNION ALL {_ENDLESS}",
    "a prepared query": f"PREPARE p AS {_ENDLESS}; EXECUTE p",
}


def _end_statements(db: ivm.Database) -> None:
    for session in db._lifetime._sessions:
        session.cursor.interrupt()


@pytest.mark.full
@pytest.mark.cases(5)
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("endless", ENDLESS)
def test_ctrl_c_ends_what_duckdb_would_not(endless: str, within: bool) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t AS SELECT range AS x FROM range(300_000)")
        db.execute("CREATE TABLE counts (n BIGINT); INSERT INTO counts VALUES (0)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT n FROM counts")
        if within:
            db.execute("BEGIN")
        late = threading.Timer(30, _end_statements, [db])
        timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
        for each in (late, timer):
            each.start()
        with pytest.raises(KeyboardInterrupt):
            db.execute(ENDLESS[endless]).fetchall()
        timer.join()
        assert not late.finished.is_set()
        late.cancel()
        if within:
            db.execute("ROLLBACK")
        assert db.execute("FROM v").fetchall() == [(0,)]
        assert db.execute("SHOW TABLES").fetchall() == [("counts",), ("t",), ("v",)]


@pytest.mark.full
def test_a_signal_ends_one_statement_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that interrupts DuckDB may come late; no later statement is meant."""
    strike = interrupts._strike

    def late(numbers: bytes) -> None:
        time.sleep(0.3)
        strike(numbers)

    monkeypatch.setattr(interrupts._watch, "_struck", late)
    with ivm.connect() as db:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt):
            _long_query(db, timer)
        timer.join()
        query = "SELECT count(*) FROM range(30_000) a, range(30_000) b WHERE a.range < b.range"
        assert db.execute(query).fetchall() == [(449_985_000,)]


@pytest.mark.full
def test_a_handler_that_raises_nothing_ends_no_statement() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with ivm.connect() as db:
            db.execute("CREATE TABLE t AS SELECT range AS x FROM range(3000)")
            timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
            timer.start()
            query = "SELECT count(*) FROM t a, t b, range(20) WHERE a.x + b.x + range = 3"
            assert db.execute(query).fetchall() == [(10,)]
            timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_others_may_watch_signals() -> None:
    seen, (reader, writer) = list[int](), os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    try:
        with ivm.connect() as db:
            assert db.execute("SELECT 1").fetchall() == [(1,)]
        assert signal.set_wakeup_fd(before) == writer
        with ivm.connect() as db:
            assert db.execute("SELECT 1").fetchall() == [(1,)]
        assert signal.set_wakeup_fd(before) == before
        watch = SignalWatch(seen.extend)
        assert watch.turn_on()
        signal.set_wakeup_fd(writer)
        watch.turn_off(has_struck=False)
        assert signal.set_wakeup_fd(before) == writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


@pytest.mark.full
def test_a_forked_child_watches_for_itself() -> None:
    """A signal that it gets is none of its parent's."""
    with ivm.connect() as db:
        db.execute("SELECT 1").fetchall()
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            status = 1
            try:
                with ivm.connect() as own:
                    own.execute("CREATE TABLE t AS SELECT range AS x FROM range(300_000)")
                    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
                    own.execute(_ENDLESS).fetchall()
            except KeyboardInterrupt:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_ctrl_c_ends_a_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE e (a INTEGER, b INTEGER)")
        db.execute(
            "CREATE MATERIALIZED VIEW v AS WITH RECURSIVE r(x) AS (SELECT 0 UNION "
            "SELECT b FROM r JOIN e ON a = x) SELECT x FROM r"
        )
        db.execute("INSERT INTO e SELECT range, range + 1 FROM range(1, 50)")
        iterations: list[int] = []

        def strike(_: object, left: int) -> None:
            iterations.append(left)
            signal.raise_signal(signal.SIGINT)

        with monkeypatch.context() as patch:
            patch.setattr(Recursion, "_demand_end", strike)
            with pytest.raises(KeyboardInterrupt) as told:
                db.insert("e", {"a": [0], "b": [1]})
        assert told.value.__notes__ == [NOTHING]
        assert len(iterations) == 1
        db.insert("e", {"a": [0], "b": [1]})
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(51,)]


def test_ctrl_c_ends_a_wait_for_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        begun, waits, may_end = (threading.Event() for _ in range(3))
        wait = db._engine.writer_lock._wait

        def noticed() -> None:
            waits.set()
            wait()

        def hold() -> None:
            with db.transaction():
                begun.set()
                if waits.wait(60):
                    signal.raise_signal(signal.SIGINT)
                may_end.wait(60)

        monkeypatch.setattr(db._engine.writer_lock, "_wait", noticed)
        holder = threading.Thread(target=hold)
        holder.start()
        assert begun.wait(60)
        with pytest.raises(KeyboardInterrupt):
            db.execute("INSERT INTO t VALUES (1)")
        may_end.set()
        holder.join()
        assert db.execute("FROM t").fetchall() == []


def _cut_within_a_transaction(db: ivm.Database) -> None:
    with db.transaction(), pytest.MonkeyPatch.context() as patch:
        db.insert("t", {"a": [1]})
        Trap(1, "after", lambda: signal.raise_signal(signal.SIGINT)).set_at(patch, "run")
        db.execute("UPDATE t SET a = a + 1")


def test_a_statement_in_a_transaction_that_is_interrupted_ends_it() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        with pytest.raises(KeyboardInterrupt):
            _cut_within_a_transaction(db)
        assert not db.in_transaction
        assert db.execute("FROM t").fetchall() == []


def test_handlers_are_the_users_again_and_run_at_once() -> None:
    seen: list[str] = []

    def handler(number: int, frame: object) -> None:
        seen.append("handled")

    before = signal.signal(signal.SIGHUP, handler)
    try:
        with ivm.connect() as db:
            db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
            with pytest.MonkeyPatch.context() as patch:
                Trap(1, "after", lambda: signal.raise_signal(signal.SIGHUP)).set_at(patch, "run")
                db.execute("UPDATE t SET a = a + 1")
            assert seen == ["handled"]
            assert db.execute("FROM t").fetchall() == [(2,)]
        assert signal.getsignal(signal.SIGHUP) is handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)
