"""Spark's own process dies, by kill −9: what runs on it goes on with another, in one process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ivm
from tests import support
from tests.cdc.pipeline.test_pipeline_files import numbers, write
from tests.spark.test_backfill import CREATE, TABLES, demand_right
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=2)

KILL = """
import os, signal, sys, time, ivm
from pyspark import SparkContext
from tests.support.spark import OPTIONS

def kill():
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

"""
FILL = (
    KILL
    + """
def look(progress):
    if progress.phase == "stage" and progress.fraction > 0:
        kill()

with ivm.connect(sys.argv[1], spark=OPTIONS) as db:
    try:
        db.backfill("v", on_progress=look)
    except ivm.errors.UnavailableError as error:
        print(error)
    db.backfill("v")
"""
)
PIPE = (
    KILL
    + """
def wait(count):
    while db.execute("SELECT count(*) FROM t").fetchall() != [(count,)]:
        time.sleep(0.1)

with ivm.connect(sys.argv[1], spark=OPTIONS) as db:
    db.start_pipeline()
    wait(10)
    kill()
    os.rename(sys.argv[2], sys.argv[2].replace(".later", ".json"))
    while db.sources()[0].state == "running":
        time.sleep(0.1)
    print(db.sources()[0].reason)
    wait(20)
"""
)
# PySpark's server of accumulators prints its own fault where Java leaves as it reads.
WORDS = r"(?:(?!-{40}).)*"
FAULT = rf"-{{40}}\nException occurred {WORDS}pyspark/accumulators\.py{WORDS}-{{40}}\n"


def told(script: str, *arguments: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=support.ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not re.sub(FAULT, "", done.stderr, flags=re.DOTALL)
    return done.stdout


@pytest.mark.full
def test_a_fill_goes_on(tmp_path: Path) -> None:
    spark = session()  # or the test is not run
    path = tmp_path / "shop.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db._engine.jobs.stop("backfill")  # only the child is to fill it
        db.execute(CREATE)
    assert "the first fill of 'v' has failed: Spark: the Java process has ended" in told(FILL, path)
    with ivm.connect(path, spark=spark) as db:
        demand_right(db)


@pytest.mark.full
def test_a_pipeline_goes_on(tmp_path: Path) -> None:
    session()  # or the test is not run
    path = tmp_path / "a.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (id INTEGER)")
        files = f"path '{tmp_path}/*.json', format 'json appends'"
        db.execute(f"CREATE SOURCE s INTO t FROM FILES ({files})")
    write(tmp_path / "1.json", numbers(0, 10))
    write(tmp_path / "2.later", numbers(10, 20))
    assert "Spark: the Java process has ended" in told(PIPE, path, tmp_path / "2.later")
    with ivm.connect(path) as db:
        assert db.execute("FROM t ORDER BY id").fetchall() == [(i,) for i in range(20)]
