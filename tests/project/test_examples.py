"""The example scripts run as a user runs them, and print what they promise."""

from __future__ import annotations

import itertools
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

import ivm
from tests.support import ROOT
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=1)

EXAMPLES = ROOT / "examples"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(ivm.__file__).parent.parent)}

PRINTS = {
    "quickstart": [
        "one order: north 1 / 9.50",
        "a new price and two more: north 2 / 10.00, south 1 / 20.00",
        "all moved north: north 2 / 28.00",
        "verified: [('revenue', 1, 0, 0, True)]",
    ],
    "changefeed": [
        "commit 1: +1 nut 5",
        "commit 2: -1 nut 5, +1 nut 8",
        "commit 3: +1 bolt 1",
        "commit 4: -1 nut 8",
    ],
    "views_over_views": [
        "podium: [('red', 12), ('blue', 9)]",
        "podium: [('green', 23), ('red', 12)]",
        "players: indexed",
        "teams: indexed",
        "podium: indexed",
        "verified: [('players', 4, 0, 0, True), ('teams', 3, 0, 0, True), "
        "('podium', 2, 0, 0, True)]",
    ],
    "bulk_ingest": [
        "(200000,) rows in the view after 20 commits",
        "verified: [('sensors', 100, 0, 0, True)]",
    ],
}


TIMELINE = [
    "ann posts: 1 timelines changed",
    "  ann reads ['hello'], bob reads ['lunch', 'breakfast', 'hello']",
    "the celebrity posts: 50 timelines changed",
    "  ann reads ['on tour', 'hello'], bob reads ['on tour', 'lunch', 'breakfast', 'hello']",
    "ann deletes a post: 1 timelines changed",
    "  ann reads ['on tour', 'hello'], bob reads ['on tour', 'lunch', 'hello']",
    "ann unfollows the celebrity: 1 timelines changed",
    "  ann reads [], bob reads ['on tour', 'lunch', 'hello']",
    "ann follows bob and the celebrity: 1 timelines changed",
    "  ann reads ['on tour', 'hello'], bob reads ['on tour', 'lunch', 'hello']",
    "ann deletes the account: 2 timelines changed",
    "  ann reads [], bob reads ['on tour', 'hello']",
    "the celebrity deletes a post: 49 timelines changed",
    "  ann reads [], bob reads ['hello']",
    "verified: [('home_timeline', 49, 0, 0, True, 'the order within timeline')]",
]


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


@pytest.mark.full
@pytest.mark.parametrize("name", PRINTS)
def test_example(name: str, tmp_path: Path) -> None:
    lines = [line for line in lines_of(tmp_path, f"{name}.py") if not line.endswith("rows/s")]
    assert lines == PRINTS[name]


@pytest.mark.full
def test_home_timeline(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "home_timeline/home_timeline.py", "50")
    assert [line for line in lines if not line.endswith("µs each")] == TIMELINE


@pytest.mark.full
def test_postgres_cdc(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "postgres_cdc/postgres_cdc.py", "1")
    said = lines.index("the view has PostgreSQL's own answer:")
    assert [line.split()[0] for line in lines[said + 1 :]] == ["east", "north", "south", "west"]


@pytest.mark.full
def test_lake_backfill(tmp_path: Path) -> None:
    session()  # or the test is not run
    lines = lines_of(tmp_path, "lake_backfill/lake_backfill.py", "--lines", "40000")
    assert lines[0].startswith("the lake: 40,000 lines")
    assert lines[2].split()[:2] == ["east", "10,000"]
    assert lines[6] == "50,000 changes applied by the pipeline:"
    assert lines[-1] == "verified: [('revenue', 4, 0, 0, True)]"


@pytest.mark.full
def test_dashboard(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "dashboard/dashboard.py", "--orders", "5")
    assert lines[0].startswith("open http://127.0.0.1:")
    assert lines[1:] == ["5 orders in the view"]


@pytest.mark.full
def test_clickstream(tmp_path: Path) -> None:
    """What is half an hour old when it comes was late, and all else is there once."""
    taken, refused = {}, Counter[str]()
    for part in runpy.run_path(str(EXAMPLES / "clickstream" / "clicks.py"))["morning"](0):
        for click in map(json.loads, part.lines.splitlines()):
            if datetime.fromisoformat(click["ts"]) < part.end - timedelta(minutes=30):
                refused[click["device"]] += 1
            else:
                taken[click["id"]] = click
    hours = Counter(int(click["ts"][11:13]) + 1 for click in taken.values())
    assert set(refused) == {"laptop", "watch"}

    told = tables(lines_of(tmp_path, "clickstream/clickstream.py"))
    final = told["The hours that are final, as the sink has them"]
    assert [row[:2] for row in final] == [[f"{h:02}:00:00", str(hours[h])] for h in range(9, 15)]
    assert {row[0]: int(row[1]) for row in told["What was refused"]} == refused
    assert told["How far the table has come"][0][:2] == ["clicks", "14:00:00"]
    assert told["What people did"][0][0] == str(len(taken))
    assert [row[2:5] for row in told["Each view is what its query gives"]] == [
        ["0", "0", "True"]
    ] * 5


@pytest.mark.full
def test_clickstream_goes_on(tmp_path: Path) -> None:
    asked = [sys.executable, str(EXAMPLES / "clickstream" / "clickstream.py"), "--live"]
    with subprocess.Popen(asked, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        url = run.stdout.readline().decode().split()[1].removesuffix("/console/,")
        try:
            for _ in range(300):
                if httpx.get(f"{url}/views/per_hour", timeout=60).json()["rows"]:
                    break
                time.sleep(0.1)
            else:
                pytest.fail("no hour is final")
        finally:
            run.send_signal(signal.SIGINT)
    assert run.returncode == 0


def tables(lines: list[str]) -> dict[str, list[list[str]]]:
    """The rows of each table that was printed, by its title."""
    found: dict[str, list[list[str]]] = {}
    for title in [i for i, line in enumerate(lines) if line.endswith(":")]:
        rows = itertools.takewhile(bool, lines[title + 2 :])
        found[lines[title].removesuffix(":")] = [row.split() for row in rows]
    return found


def lines_of(folder: Path, script: str, *arguments: str) -> list[str]:
    """What a script prints, run in the folder; it leaves nothing behind."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / script), *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout.splitlines()
