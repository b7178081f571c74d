"""kill −9 at every point of a first fill: a later process goes on; nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ivm
from tests import support
from tests.spark.test_backfill import CREATE, TABLES, demand_right
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=9)

POINTS = [
    ("job", "export_scanned", 1),
    ("Staging", "begin", 1),
    ("job", "run_stage", 2),
    ("Staging", "finish", 2),
    ("HandOver", "load", 1),
    ("HandOver", "_load", 1),
    ("HandOver", "catch_up", 1),
    ("HandOver", "finish", 1),
    ("HandOver", "_adopt", 1),
]


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_later_process_goes_on(point: tuple[str, str, int], tmp_path: Path) -> None:
    spark = session()
    path = tmp_path / "shop.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db._engine.jobs.stop("backfill")  # only the child is to fill it
        db.execute(CREATE)
    told = killed(path, point)
    with ivm.connect(path, spark=spark) as db:
        have = {n for (n,) in db.execute("SELECT id FROM orders WHERE id >= 1000000").fetchall()}
        assert have >= set(told)
        db.backfill("v")
        demand_right(db)


def killed(path: Path, point: tuple[str, str, int]) -> list[int]:
    """Lets a process be killed there; the rows that it has told of as committed."""
    arguments = [str(path), *map(str, point)]
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.backfill_child", *arguments],
        cwd=support.ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert child.returncode == -signal.SIGKILL, child.stderr[-2000:]
    return [int(line) for line in child.stdout.splitlines() if line.isdigit()]
