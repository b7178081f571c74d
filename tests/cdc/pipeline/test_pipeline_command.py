"""`ivm pipeline`: catches up and leaves, is stopped by Ctrl-C, and loses nothing by kill −9."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ivm
from tests.cdc.pipeline.test_pipeline_files import write
from tests.support.spark import session
from tests.tiers import TIER

pytestmark = pytest.mark.full(smoke=2)

EVENTS = 2_000  # of a file
KILLS = 1 if TIER == "quick" else 3


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a database and a source of files."""
    session()  # or the test is not run
    (tmp_path / "in").mkdir()
    (tmp_path / "ivm.toml").write_text('[spark]\nmaster = "local[2]"\n')
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(f"""
            CREATE TABLE orders (id INTEGER, n INTEGER);
            CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS c, sum(n) AS n FROM orders;
            CREATE SOURCE orders INTO orders
                FROM FILES (path '{tmp_path}/in/*.json', format 'debezium')
        """)
    return tmp_path


def fill(shop: Path, number: int) -> None:
    """A file of inserts with numbers of its own."""
    rows = range(number * EVENTS, (number + 1) * EVENTS)
    lines = [json.dumps({"op": "c", "after": {"id": i, "n": i % 7}}) for i in rows]
    write(shop / "in" / f"{number:04}.json", lines)


def started(shop: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ivm", "pipeline", "shop.duckdb", *arguments],
        cwd=shop, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.full
def test_it_catches_up_and_leaves(shop: Path) -> None:
    fill(shop, 0)
    write(shop / "in" / "dirt.json", ["{"])
    output, errors = started(shop, "--once").communicate(timeout=120)
    assert f"orders: running · {EVENTS:,} events" in output
    assert "1 event of orders could not be applied" in errors
    assert f"Caught up: {EVENTS:,} events applied" in errors
    assert "leaked" not in errors
    assert "Traceback" not in errors
    with ivm.connect(shop / "shop.duckdb") as db:
        assert db.execute("SELECT c FROM counted").fetchall() == [(EVENTS,)]
    output, errors = started(shop, "other").communicate(timeout=120)
    assert "there is no source 'other'; there are: orders" in errors


@pytest.mark.full
def test_ctrl_c_stops_after_the_micro_batch_under_way(shop: Path) -> None:
    fill(shop, 0)
    first = started(shop)
    assert first.stdout is not None
    for line in first.stdout:
        if "running" in line:
            first.send_signal(signal.SIGINT)
            break
    _, errors = first.communicate(timeout=120)
    assert first.returncode == 130, errors
    assert errors.splitlines()[-1].startswith("Stopped")


@pytest.mark.full
def test_kill_9_loses_and_doubles_nothing(shop: Path) -> None:
    number, chosen = 0, random.Random(7)
    for _ in range(KILLS):
        child = started(shop, "--json")
        assert child.stdout is not None
        while "running" not in child.stdout.readline():
            pass
        until = time.monotonic() + 2 + chosen.random() * 4
        while time.monotonic() < until:
            fill(shop, number)
            number += 1
            time.sleep(0.2)
        child.kill()
        child.wait()
        for pipe in (child.stdout, child.stderr):  # Spark may hold them open for a while
            assert pipe is not None
            pipe.close()
    output, errors = started(shop, "--once", "--json").communicate(timeout=240)
    assert "caught up" in output.splitlines()[-1], (output, errors)
    with ivm.connect(shop / "shop.duckdb") as db:
        counts = db.execute("SELECT count(*), count(DISTINCT id) FROM orders").fetchall()
        assert counts == [(number * EVENTS, number * EVENTS)]
        assert db.execute("VERIFY MATERIALIZED VIEW counted").fetchall()[0][4]
