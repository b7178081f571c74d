"""A process that follows pgbench's tables is killed again and again: nothing is lost or doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ivm
from tests.support import ROOT
from tests.support.postgres import Database
from tests.tiers import SEED, TIER

pytestmark = pytest.mark.full(smoke=1)

SECONDS, KILLS = (6, 3) if TIER == "quick" else (60, 10)
TABLES = ("pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history")
VIEWS = {
    "branches": "SELECT a.bid, count(*) AS n, sum(abalance) AS accounts, max(bbalance) AS branch"
    " FROM pgbench_accounts a JOIN pgbench_branches b ON a.bid = b.bid GROUP BY a.bid",
    "tellers": "SELECT t.tid, tbalance, sum(delta) AS delta, count(h.tid) AS n"
    " FROM pgbench_tellers t LEFT JOIN pgbench_history h ON h.tid = t.tid GROUP BY t.tid, tbalance",
    "active": "SELECT a.aid, abalance, sum(delta) AS delta FROM pgbench_accounts a"
    " JOIN pgbench_history h ON h.aid = a.aid GROUP BY a.aid, abalance",
    "moved": "SELECT b.bid, t.tid, count(*) AS n, sum(delta) AS delta FROM pgbench_history h"
    " JOIN pgbench_tellers t ON t.tid = h.tid JOIN pgbench_branches b ON b.bid = t.bid"
    " GROUP BY b.bid, t.tid",
}
# Views can be made before their tables are copied, if the tables are there.
OURS = """
    CREATE TABLE pgbench_branches (bid INTEGER PRIMARY KEY, bbalance INTEGER, filler VARCHAR);
    CREATE TABLE pgbench_tellers
        (tid INTEGER PRIMARY KEY, bid INTEGER, tbalance INTEGER, filler VARCHAR);
    CREATE TABLE pgbench_accounts
        (aid INTEGER PRIMARY KEY, bid INTEGER, abalance INTEGER, filler VARCHAR);
    CREATE TABLE pgbench_history (tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER,
        mtime TIMESTAMP, filler VARCHAR);
"""


def child(file: Path) -> subprocess.Popen[str]:
    """A process that runs the sources."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.source_child", str(file)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(1200)  # on a busy machine, ten processes take long to start
def test_a_killed_process_loses_and_doubles_nothing(shop: Database, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    shop.pgbench("-i", "-q", "-s", "1").communicate()
    shop.execute("ALTER TABLE pgbench_history REPLICA IDENTITY FULL")
    file = tmp_path / "bank.duckdb"
    dsn = shop.dsn.replace("'", "''")
    with ivm.connect(file) as db:
        db.execute(OURS)
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        tables = ", ".join(TABLES)
        db.execute(f"CREATE SOURCE bank FROM POSTGRES (dsn '{dsn}', tables '{tables}')")
    writer = shop.pgbench("-n", "-c", "2", "-T", str(SECONDS), "-R", "300")
    end = time.monotonic() + SECONDS
    for kill in range(KILLS):
        follower = child(file)
        assert follower.stdout is not None
        assert follower.stdout.readline() == "started\n"
        left = (end - time.monotonic()) / (KILLS - kill)
        time.sleep(max(left, 1.0) * chance.uniform(0.6, 1.4))
        follower.kill()
        follower.communicate()
        assert follower.returncode == -signal.SIGKILL
    assert "tps" in writer.communicate()[0]
    assert writer.returncode == 0
    with ivm.connect(file) as db:
        db.start_sources()
        wait_for_all(db, shop)
        for table in TABLES:
            assert differences(db, shop, table) == []
        for name, query in VIEWS.items():
            assert differences(db, shop, name, f"({query}) v") == []
        assert db.execute("FROM _ivm.dead_letters").fetchall() == []


def wait_for_all(db: ivm.Database, shop: Database) -> None:
    """Waits until the source follows, and has the last transaction."""
    wait(db, "FROM _ivm.positions WHERE stream = 'stream' AND position > 0")
    shop.execute("INSERT INTO pgbench_branches VALUES (-1, 0, NULL)")
    wait(db, "FROM pgbench_branches WHERE bid = -1")


def wait(db: ivm.Database, query: str) -> None:
    """Waits until a query has rows."""
    end = time.monotonic() + 600
    while not db.execute(query).fetchall():
        ((state, reason),) = db.execute("SELECT state, reason FROM _ivm.sources").fetchall()
        assert state == "running", reason
        assert time.monotonic() < end, db.execute("FROM _ivm.positions").fetchall()
        time.sleep(0.1)


def differences(db: ivm.Database, shop: Database, ours: str, theirs: str = "") -> list[object]:
    """Some of the rows that one of both has, and not the other."""
    mine = sorted(map(repr, db.execute(f"FROM {ours}").fetchall()))
    other = sorted(map(repr, shop.execute(f"SELECT * FROM {theirs or ours}")))
    return [pair for pair in zip(mine, other, strict=False) if pair[0] != pair[1]][:3] + (
        [] if len(mine) == len(other) else [(len(mine), len(other))]
    )
