"""First fills of several databases of one process, which share Spark's session."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.backfill import job
from ivm.spark_backfill.stages import run_stage
from tests.support.spark import session

QUERY = "SELECT g, count(*) AS n FROM t GROUP BY g"


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def begin_stages_after(file: Path, patch: pytest.MonkeyPatch) -> None:
    """Begins each stage with a job of Spark's that waits for a file."""
    place = str(file)

    def wait(_: int) -> None:
        import os
        import time

        while not os.path.exists(place):
            time.sleep(0.05)

    def waiting(spark: Any, *rest: Any) -> None:
        spark.sparkContext.parallelize([0], 1).foreach(wait)
        run_stage(spark, *rest)

    patch.setattr(job, "run_stage", waiting)


def test_a_fill_that_is_ended_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = session()
    begin_stages_after(tmp_path / "go", monkeypatch)
    ended, other = (ivm.connect(tmp_path / f"{n}.duckdb", spark=spark) for n in "ab")
    for db in (ended, other):
        db.execute("CREATE TABLE t AS SELECT range % 3 AS g FROM range(10)")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {QUERY}")
    wait_until(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 2)
    ended.close()
    (tmp_path / "go").touch()
    fill = other._engine.jobs.find(job.KIND, "v")
    assert isinstance(fill, job.BackfillJob)
    assert fill.join(60)
    assert fill.progress.phase == "done"
    assert other.execute("VERIFY MATERIALIZED VIEW v").fetchall()[0][4]
    other.close()
