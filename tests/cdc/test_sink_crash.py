"""kill −9 at each point between a commit and a sink's acknowledgement: each epoch is there once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ivm
from tests.cdc.sink_files import caught_up, rows_in, rows_of
from tests.support import ROOT
from tests.support.sink_crash_child import VIEWS, change
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=9)

POINTS = [
    # the epoch with its rows of the outbox
    ("ivm.engine.feeds.outbox", "Outbox", "derive", 9),
    ("ivm.storage.log.change_log", "ChangeLog", "append", 20),
    ("ivm.storage.log.change_log", "ChangeLog", "sync", 20),
    ("ivm.engine.feeds.outbox", "Outbox", "follow", 30),
    # what no record of the log holds: recomputed views, views filled anew
    ("ivm.engine.views.recomputed_views", "RecomputedViews", "recompute", 4),
    ("ivm.engine.engine", "Engine", "_finish", 6),
    ("ivm.engine.base.log_writer", "LogWriter", "start_segment", 8),
    ("ivm.engine.feeds.outbox", "Outbox", "owe", 3),
    ("ivm.engine.views.views", "Views", "rebuild", 2),
    ("ivm.engine.engine", "Engine", "settle", 2),
    # the target
    ("ivm.cdc.sinks.files", "FilesTarget", "open", 3),
    ("ivm.cdc.sinks.files", "FilesTarget", "write", 12),
    ("ivm.cdc.sinks.files", "FilesTarget", "flush", 9),
    # the acknowledgement, and what comes after it
    (
        "ivm.engine.feeds.outbox",
        "Outbox",
        "acknowledgement",
        3,
    ),  # how many come is a matter of speed
    ("ivm.engine.engine", "Engine", "aside", 9),
    ("ivm.storage.warehouse.flusher", "Flusher", "_write", 5),
    ("ivm.storage.warehouse.warehouse", "Warehouse", "close", 1),
]


def crashed(folder: Path, *point: str) -> None:
    child = [sys.executable, "-m", "tests.support.sink_crash_child", str(folder), *point]
    ended = subprocess.run(child, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def everything_is_there_once(folder: Path) -> None:
    with ivm.connect(folder / "a.duckdb") as db:
        for number in (70, 75):  # 75 fills views anew
            change(db, number)
        db.execute("RESUME SINK late")
        db.execute("FROM over, whole").fetchall()
        caught_up(db)
        for view in VIEWS:
            assert rows_of(folder / view) == rows_in(db, view), view
        assert rows_of(folder / "late") == rows_in(db, "sums")
        assert_verified(db)


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("module", "owner", "method", "nth"), POINTS)
def test_each_epoch_is_there_once(
    tmp_path: Path, module: str, owner: str, method: str, nth: int, when: str
) -> None:
    crashed(tmp_path, module, owner, method, when, str(nth))
    everything_is_there_once(tmp_path)


@pytest.mark.parametrize("nth", [1, 2, 5, 11])
def test_a_torn_line_is_written_again(tmp_path: Path, nth: int) -> None:
    crashed(tmp_path, "", "", "", "half", str(nth))
    everything_is_there_once(tmp_path)
