"""`run_duckdb` that keeps each view it makes for Spark: FOLDER EVERY, then its own arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from run_duckdb import duckdb_suite  # type: ignore[import-not-found]  # beside the suites

from tests.conformance.captures import Captures


def main() -> None:
    """Keep what the runner makes, and let it run."""
    captures = Captures(Path(sys.argv[1]), int(sys.argv[2]))
    sys.argv[1:3] = []
    make = duckdb_suite.Run.view

    def made_and_kept(run: Any, index: int, sql: str, *wanted: Any) -> None:
        before = set(run.live)
        make(run, index, sql, *wanted)
        for name in run.live.keys() - before:
            place = f"{run.name}:{run.records[index].line}"
            captures.at("duckdb", place)(run.tested.db, name)

    duckdb_suite.Run.view = made_and_kept
    duckdb_suite.main()


if __name__ == "__main__":
    main()
