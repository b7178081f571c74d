"""The example scripts run as a user runs them, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ivm

EXAMPLES = Path(__file__).parent.parent / "examples"

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


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTS.keys()


@pytest.mark.parametrize("name", PRINTS)
def test_example(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(ivm.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.endswith("rows/s")]
    assert lines == PRINTS[name]
    assert list(tmp_path.iterdir()) == []
