"""kill −9 at each numbered point of a change's way: what was committed is there, nothing else.

A process is killed before and after the step in question; the database is opened again, and the
transactions acknowledged before the kill (and at most the one in flight) must be in it, whole, with
every view equal to its query.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ivm
from tests.support import ROOT
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=5)

POINTS = [
    # 1, 2: the fast path looks up stored rows
    ("ivm.ingest.fast_path", "FastPath", "upsert", "fast"),
    # 3: the circuits step
    ("ivm.delta_ops.circuit", "Circuit", "step", "fast"),
    # 4: the log record is written and synced
    ("ivm.storage.log.change_log", "ChangeLog", "append", "fast"),
    ("ivm.storage.log.change_log", "ChangeLog", "sync", "fast"),
    ("ivm.storage.log.change_log", "ChangeLog", "append", "native"),
    # 5: the new state is adopted
    ("ivm.engine.engine", "Engine", "_adopt", "fast"),
    ("ivm.engine.engine", "Engine", "_adopt", "native"),
    # 6: flushes
    ("ivm.storage.warehouse.flusher", "Flusher", "_write", "fast"),
    ("ivm.storage.warehouse.duckdb.appender", "Appenders", "write", "fast"),
    ("ivm.storage.warehouse.warehouse", "Warehouse", "recorded", "fast"),
    ("ivm.storage.warehouse.warehouse", "Warehouse", "record", "native"),
    ("ivm.storage.log.change_log", "ChangeLog", "truncate", "fast"),
    ("ivm.storage.warehouse.warehouse", "Warehouse", "close", "fast"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("module", "owner", "method", "mode"), POINTS)
def test_what_was_committed_survives(
    tmp_path: Path, module: str, owner: str, method: str, mode: str, when: str
) -> None:
    file = tmp_path / "crash.duckdb"
    nth = "1" if method == "close" else "4"
    child = [sys.executable, "-m", "tests.support.crash_child", str(file)]
    command = [*child, module, owner, method, when]
    ended = subprocess.run(
        [*command, nth, mode],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    acknowledged = len(ended.stdout.split())
    with ivm.connect(file) as db:
        committed = _committed(db)
        assert committed in (acknowledged, acknowledged + 1)
        assert_verified(db)
        db.insert("t", [{"id": 9999, "g": 1, "x": 1.0}])
        assert_verified(db)
    with ivm.connect(file) as db:
        assert _committed(db) == committed + 1
        assert_verified(db)


def _committed(db: ivm.Database) -> int:
    """Transactions in the table; each put in three rows or (the last of the test) one."""
    rows = db.execute(
        "SELECT id // 10, count(*) FROM t WHERE id < 9990 AND id % 10 < 3 GROUP BY 1"
    ).fetchall()
    whole = {number for number, count in rows if count == 3}
    # number // 2 upserts row 10 * (number // 2), which for number 1 is row 0: a partial group
    assert {number for number, count in rows if count != 3} <= {0}
    extra = db.execute("SELECT count(*) FROM t WHERE id = 9999").fetchall()[0][0]
    assert whole == set(range(1, len(whole) + 1))
    return len(whole) + int(extra)
