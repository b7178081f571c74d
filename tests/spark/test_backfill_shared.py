"""Spark within a process that has more than one view to fill: other fills, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm import errors
from ivm.backfill import job, verify
from ivm.spark_backfill.stages import run_stage
from tests.support.spark import OPTIONS, session

pytestmark = pytest.mark.full(smoke=1)

QUERY = "SELECT g, count(*) AS n FROM t GROUP BY g"


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def active(spark: Any) -> int:
    """How many jobs Spark works on."""
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


def begin_stages_after(file: Path, owner: Any, patch: pytest.MonkeyPatch) -> None:
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

    patch.setattr(owner, "run_stage", waiting)


@pytest.mark.full
def test_a_fill_that_is_ended_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = session()
    begin_stages_after(tmp_path / "go", job, monkeypatch)
    ended, other = (ivm.connect(tmp_path / f"{n}.duckdb", spark=spark) for n in "ab")
    for db in (ended, other):
        db.execute("CREATE TABLE t AS SELECT range % 3 AS g FROM range(10)")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {QUERY}")
    wait_until(lambda: active(spark) == 2)
    ended.close()
    (tmp_path / "go").touch()
    fill = other._engine.jobs.find(job.KIND, "v")
    assert isinstance(fill, job.BackfillJob)
    assert fill.join(60)
    assert fill.progress.phase == "done"
    assert other.execute("VERIFY MATERIALIZED VIEW v").fetchall()[0][4]
    other.close()


def test_the_way_to_put_a_table_in_the_place_of_another_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_stages_after(tmp_path / "go", job, monkeypatch)
    with ivm.connect(tmp_path / "a.duckdb", spark=session()) as db:
        db.execute("CREATE TABLE t AS SELECT range % 3 AS g FROM range(10)")
        db.execute(f"CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS {QUERY}")
        swap = "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE t AS SELECT 1::BIGINT AS g; COMMIT"
        with pytest.raises(errors.UnsupportedError, match="or fill it"):
            db.execute(swap)
        db.execute("ROLLBACK; REFRESH MATERIALIZED VIEW v")
        db.execute(swap)
        assert db.execute("FROM v").fetchall() == [(1, 1)]
        (tmp_path / "go").touch()


@pytest.fixture
def python_handler() -> Iterator[None]:
    """Python's own handler of Ctrl-C, where Spark has set one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.full
@pytest.mark.usefixtures("python_handler")
def test_ctrl_c_ends_a_verification_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = session()
    begin_stages_after(tmp_path / "go", verify, monkeypatch)
    with ivm.connect(tmp_path / "a.duckdb", spark=spark) as db:
        db.execute("CREATE TABLE t AS SELECT range % 3 AS g FROM range(10)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")

        def strike() -> None:
            wait_until(lambda: active(spark) == 1)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
            (tmp_path / "go").touch()  # or the test would not end

        threading.Thread(target=strike, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            db.execute("VERIFY MATERIALIZED VIEW v USING SPARK")
        assert not (tmp_path / "go").exists()
        wait_until(lambda: active(spark) == 0)
        (tmp_path / "go").touch()
        assert db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall()[0][4]


HANDLER = """
import signal, sys, ivm
def own(*_): raise KeyboardInterrupt
signal.signal(signal.SIGINT, own)
with ivm.connect(sys.argv[1], spark=eval(sys.argv[2])) as db:
    db.execute("CREATE TABLE t (g INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
    print(db.execute("VERIFY MATERIALIZED VIEW v USING SPARK").fetchall())
print(signal.getsignal(signal.SIGINT) is own)
"""


@pytest.mark.full
def test_a_programs_handler_of_signals_stays(tmp_path: Path) -> None:
    session()  # or the test is not run
    command = [sys.executable, "-c", HANDLER, str(tmp_path / "a.duckdb"), repr(OPTIONS)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert said.split("\n")[:2] == ["[('v', 0, 0, 0, True)]", "True"]
