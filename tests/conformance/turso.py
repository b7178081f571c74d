"""Turso's tests of materialized views, in SQLite's dialect: each in a fresh database.

The rows of all SELECTs of a test stand together; values are parted by bars, NULL is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.captures import Captures, Keep, kept_at
from tests.conformance.dialect import split
from tests.conformance.judge import Step, judge
from tests.conformance.outcome import Outcome
from tests.conformance.pair import Pair, Rows
from tests.conformance.text_form import cell, number

_TEST = re.compile(r"^test ([\w-]+) \{\n(.*?)^\}\nexpect( error)? \{\n(.*?)^\}", re.M | re.S)
_KEYED = re.compile(r"CREATE TABLE (\w+)\s*\(\s*(\w+) INTEGER PRIMARY KEY", re.I)


@dataclass
class _Run:
    """One test under way: the expected lines that are left."""

    left: list[str]

    def takes(self, rows: Rows) -> bool:
        """Whether the next lines are these rows, in any order; they are taken."""
        wanted, self.left = self.left[: len(rows)], self.left[len(rows) :]
        return sorted(map(_written, rows)) == sorted(map(_words, wanted))


def run(folder: Path, captures: Captures | None = None) -> Iterator[Outcome]:
    """Every test; the worst that happens to a statement happens to its test.

    Args:
        folder: `turso` of the suites.
        captures: keep the views.
    """
    for path in sorted(folder.glob("*.sqltest")):
        for name, body, error, expected in _TEST.findall(path.read_text()):
            place = f"{path.stem}: {name}"
            keep = kept_at(captures, "turso", place)
            yield _test(place, body, bool(error), expected, keep)


def _test(place: str, body: str, error: bool, expected: str, keep: Keep | None) -> Outcome:
    under_way = _Run([line[4:] for line in expected.splitlines()])
    statements = [s for text in split(body, "sqlite") for s in _numbered(text, body)]
    outcomes = []
    with Pair(keep) as pair:
        for text in statements:
            query = text.lower().startswith(("select", "pragma"))
            takes = under_way.takes if query and not error else None
            found = judge(pair, "turso", Step(place, text, "sqlite", error, takes))
            outcomes.append(found or Outcome("turso", place, "pass"))
        strategies = " ".join(sorted({view.strategy for view in pair.db.views()}))
    if under_way.left and not error:
        outcomes.append(Outcome("turso", place, "as DuckDB", detail=f"no row {under_way.left[0]}"))
    order = ("pass", "as DuckDB", "foreign", "fail")
    worst = max(outcomes, key=lambda outcome: order.index(outcome.verdict))
    return Outcome("turso", place, worst.verdict, strategies, worst.detail)


def _numbered(statement: str, body: str) -> list[str]:
    """SQLite numbers an INTEGER PRIMARY KEY that an INSERT leaves out."""
    made = _KEYED.match(statement)
    if made is None or not re.search(rf"INTO {made[1]}\s*\((?!\s*{made[2]}\b)", body, re.I):
        return [statement]
    default = f"INTEGER DEFAULT nextval('{made[1]}_number') PRIMARY KEY"
    numbered = re.sub("INTEGER PRIMARY KEY", default, statement, count=1, flags=re.I)
    return [f"CREATE SEQUENCE {made[1]}_number", numbered]


def _written(row: tuple[Any, ...]) -> list[str]:
    return ["" if v is None else number(cell(int(v) if isinstance(v, bool) else v)) for v in row]


def _words(line: str) -> list[str]:
    return [number(word) for word in line.split("|")]
