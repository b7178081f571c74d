"""Signals: at random moments of a random life (see `interrupted`), and at each call of a change."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ivm
from ivm.delta_ops.recursion import Recursion
from ivm.engine.transaction import COMMITTED
from ivm.storage.interrupts import NOTHING
from tests.support import ROOT
from tests.tiers import TIER, seeds
from tests.torture.interrupted import HANGS
from tests.torture.patient import Patient
from tests.torture.test_exceptions import CHANGES, Trap

ROUNDS = {"quick": 1, "full": 15, "fuzz": 500}[TIER]
WORDS = ("run BEGIN", "run COMMIT", "run CHECKPOINT")
CALLS = ("writev", "fdatasync", "pwrite", "fsync", "replace", "run", "append", *WORDS)
SHORT = {"commit": ("fdatasync",), "flush": ("run COMMIT",), "checkpoint": ("run CHECKPOINT",)}


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


@pytest.mark.parametrize("change", SHORT if TIER == "quick" else CHANGES)
def test_a_signal_behind_a_call_waits_for_the_outcome(tmp_path: Path, change: str) -> None:
    for function in SHORT[change] if TIER == "quick" else CALLS:
        at = 1
        while _struck(tmp_path / function / str(at), change, function, at):
            at += 1 if TIER == "fuzz" else 20
        assert at > 1 or function not in SHORT.get(change, ())


def _long_query(db: ivm.Database, timer: threading.Timer) -> None:
    timer.start()
    db.execute("SELECT count(*) FROM range(10000000000) a WHERE a.range % 7 = 8").fetchall()


def test_ctrl_c_ends_a_long_query() -> None:
    with ivm.connect() as db:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt) as told:
            _long_query(db, timer)
        timer.join()
        assert told.value.__notes__ == [NOTHING]
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
