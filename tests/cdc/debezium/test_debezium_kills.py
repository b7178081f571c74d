"""A process that runs Debezium's engine is killed again and again: nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import ivm
from tests.cdc.debezium.following import copied, follows, texts
from tests.cdc.debezium.upstreams import Upstream, source
from tests.support import ROOT
from tests.tiers import SEED, TIER

pytestmark = pytest.mark.full(smoke=2)

KILLS = 3 if TIER == "quick" else 8
ROWS = 20_000
BALANCED = "SELECT coalesce((SELECT sum(delta) FROM log), 0) = (SELECT sum(balance) FROM accounts)"


class Writer(threading.Thread):
    """Moves amounts until it is told to stop: each transaction changes both tables."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__()
        self._upstream = upstream
        self._chance = random.Random(SEED)
        self._stopping = threading.Event()
        self.moves = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            self._upstream.execute("BEGIN", *self._moves(), "COMMIT")

    def end(self) -> None:
        self._stopping.set()
        self.join()

    def _moves(self) -> list[str]:
        moves = []
        for _ in range(self._chance.choice((1, 1, 2, 30))):
            self.moves += 1
            id, delta = self._chance.randrange(1, ROWS + 1), self._chance.randrange(-9, 10)
            moves.append(f"UPDATE accounts SET balance = balance + {delta} WHERE id = {id}")
            moves.append(f"INSERT INTO log VALUES ({self.moves}, {delta})")
        return moves


@pytest.mark.full
@pytest.mark.timeout(900)  # on a busy machine, so many processes take long to start
def test_a_killed_process_loses_and_doubles_nothing(
    db: ivm.Database, upstream: Upstream, tmp_path: Path
) -> None:
    values = ", ".join(f"({i}, 0, 'account {i}')" for i in range(1, ROWS + 1))
    upstream.execute(
        "CREATE TABLE accounts (id integer PRIMARY KEY, balance integer, t varchar(40))",
        "CREATE TABLE log (n integer, delta integer)",
        f"INSERT INTO accounts VALUES {values}",
    )
    db.execute(source(upstream, max_batch_size="100"))  # many places to stop at
    db.close()
    file, chance, kills = tmp_path / "a.duckdb", random.Random(SEED), 0
    writer = Writer(upstream)
    writer.start()
    try:
        while kills < KILLS:
            kill_within(file, chance.uniform(2.0, 7.0))
            kills += 1
            with ivm.connect(file) as opened:
                told = opened.execute("FROM _ivm.positions").fetchall()
                if copied(opened):
                    assert opened.execute(BALANCED).fetchall() == [(True,)], told
    finally:
        writer.end()
    with ivm.connect(file) as opened:
        opened.start_sources()
        follows(opened, upstream, "SELECT * FROM accounts")
        follows(opened, upstream, "SELECT * FROM log")
        assert opened.execute("FROM _ivm.dead_letters").fetchall() == []
        assert texts(opened.execute("SELECT count(*) FROM log").fetchall()[0]) == (
            str(writer.moves),
        )
        opened.execute("DROP SOURCE shop")


def kill_within(file: Path, seconds: float) -> None:
    """Lets a process run the sources, and kills it so long after it has begun."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.support.source_child", str(file)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    time.sleep(seconds)
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL
