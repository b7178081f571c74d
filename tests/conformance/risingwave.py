"""RisingWave's end-to-end tests: each file from top to bottom in a fresh database.

A query passes if it gives the expected rows; where plain DuckDB gives others, DuckDB is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.conformance.captures import Captures, kept_at
from tests.conformance.judge import Step, judge
from tests.conformance.outcome import Outcome
from tests.conformance.pair import Pair
from tests.conformance.slt import Record, records
from tests.conformance.text_form import same_rows, words, written


def run(folder: Path, captures: Captures | None = None) -> Iterator[Outcome]:
    """Every entry file.

    Args:
        folder: `risingwave` of the suites.
        captures: keep the views.
    """
    root = folder / "e2e_test"
    for path in sorted(root.rglob("*.slt")):
        with Pair(kept_at(captures, "risingwave", str(path.relative_to(root)))) as pair:
            for record in records(path, root):
                outcome = judge(pair, "risingwave", _step(record, str(path.relative_to(root))))
                if outcome is not None:
                    yield outcome


def _step(record: Record, file: str) -> Step:
    place = record.place if record.place.startswith(file) else f"{file} > {record.place}"
    rows = record.rows
    if rows is None:
        return Step(place, record.sql, "risingwave", record.fails)
    wanted = [words(line) for line in rows]
    return Step(
        place, record.sql, "risingwave", False, lambda found: same_rows(map(written, found), wanted)
    )
