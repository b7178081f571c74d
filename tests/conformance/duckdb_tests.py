"""DuckDB's own SQL tests: each statement on both sides, each SELECT as a view under random changes.

They are run by `run_duckdb`, which stands beside them, in two processes of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ivm
from tests.conformance.captures import Captures
from tests.conformance.outcome import Outcome

_VERDICTS = {"correct": "pass", "ambiguous": "open"}
_SECONDS = 120


def run(folder: Path, captures: Captures | None = None) -> Iterator[Outcome]:
    """A case for each view, each statement that is no view and went otherwise, and each halt.

    Args:
        folder: `duckdb` of the suites.
        captures: keep the views as they are made.
    """
    ours = [Path(ivm.__file__).parents[1], Path(__file__).parents[2]]
    places = [str(folder.parent), *map(str, ours), os.environ.get("PYTHONPATH")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, places)),
        "DDB_KEEP": "1",  # views stay where their table is replaced
    }
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.jsonl"
        command = [sys.executable, "-m", *_runner(captures), "--root", str(folder)]
        command += ["--out", str(out), "--timeout", str(_SECONDS)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        for line in out.read_text().splitlines():
            yield from _outcomes(json.loads(line))


def _runner(captures: Captures | None) -> list[str]:
    if captures is None:
        return ["run_duckdb.duckdb_suite"]
    return ["tests.conformance.capture_duckdb", str(captures.folder), str(captures.every)]


def _outcomes(found: dict[str, Any]) -> Iterator[Outcome]:
    """What came of one file."""
    file = found["file"]
    if found["state"] != "done":
        yield Outcome("duckdb", file, "fail", "", f"{found['state']} at {found.get('at', '')}")
    for view in found["views"].values():
        status = view["status"]
        if status != "unbound":  # plain DuckDB does not take it as a view either
            verdict, detail = _VERDICTS.get(status, "fail"), view.get("detail", "")
            told = "" if verdict == "pass" else f"view {status}: {detail} [{view['sql']}]"
            strategy = view.get("strategy", "")
            yield Outcome("duckdb", f"{file}:{view['line']}", verdict, strategy, told)
    for issue in found["issues"].values():
        told = f"{issue['kind']}: {issue['detail']} [{issue['sql']}]"
        yield Outcome("duckdb", f"{file}:{issue['line']}", "fail", "", told)
    for note in found["notes"]:
        if note != "end":  # why the rest of the file was not run
            yield Outcome("duckdb", file, "fail", "", f"note: {note}")
