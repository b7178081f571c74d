"""The suites' views on Spark: each plan's rows against DuckDB's answer to the user's own text.

Law: "equal" is bit for bit; "rounded" differs in the last bits of DOUBLEs alone; "open" has other
rows than DuckDB gave where the text leaves an order open, but those of the plan, bit for bit.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import duckdb

from ivm.backfill.snapshot import exported
from ivm.spark_backfill.attempts import computed
from ivm.spark_backfill.frames import Frames
from ivm.spark_backfill.session import words_of
from ivm.sql.plan.nodes import Plan, numbered, types
from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duckdb.duck import run
from tests.conformance.captures import Capture, Captures, Texts
from tests.conformance.compare import difference
from tests.conformance.openness import leaves_open
from tests.support.spark import session, values

COMPUTED = ("equal", "rounded", "open", "refused", "wrong", "error")
"""The verdicts that the shares are of."""
ASIDE = ("left out", "no plan", "no answer")
_RIGHT = ("equal", "rounded", "open")
_THREADS = 3  # while one waits for Spark's planning, another's job runs
_NUMBER = re.compile(r"(-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan))", re.I)
_NAMED = re.compile(r"the view '\w+' ")


@dataclass(frozen=True)
class SparkOutcome:
    """What Spark made of a view.

    Attributes:
        suite: the part of the suites.
        case: where the view is made.
        query: the user's text.
        verdict: one of those above.
        detail: why; the name of the capture of those that were computed.
    """

    suite: str
    case: str
    query: str
    verdict: str
    detail: str


def compute(captures: Captures) -> list[SparkOutcome]:
    """Computes on Spark what was captured, each capture once."""
    notes = list(captures.notes())
    names = sorted({note["detail"] for note in notes if note["verdict"] == "taken"})
    if names:
        session()  # before there are threads
    with ThreadPoolExecutor(_THREADS) as pool:
        verdicts = pool.map(lambda name: _verdict(captures, name), names)
        found = {}
        for name, verdict in zip(names, verdicts, strict=True):
            found[name] = verdict
            _tell(len(found), len(names), name, *verdict)
    return [_outcome(note, found) for note in notes]


def _tell(number: int, count: int, name: str, verdict: str, detail: str) -> None:
    """Shows how far it is, and what is amiss, at once: a run takes long."""
    if verdict not in _RIGHT:
        print(f"{verdict} {name}: {detail[:300]}", file=sys.stderr)
    if number % 100 == 0 or number == count:
        print(f"{number} of {count} computed on Spark", file=sys.stderr)


def _outcome(note: dict[str, str], found: dict[str, tuple[str, str]]) -> SparkOutcome:
    name = note["detail"]
    verdict, detail = found.get(name, (note["verdict"], name))
    told = f"{detail} ({name})" if name in found and detail else detail
    return SparkOutcome(note["suite"], note["case"], note["query"], verdict, told)


def _verdict(captures: Captures, name: str) -> tuple[str, str]:
    asked = captures.read(name)
    try:
        found = _answer(captures, name, asked)
    except Exception as error:  # of a job, of a worker, of ours: each is a finding
        return "error", f"{type(error).__name__}: {words_of(error)}"
    return compared(asked, found)


def _answer(captures: Captures, name: str, asked: Capture) -> Texts:
    """The plan's rows as Spark computes them."""
    relations = exported(session(), [asked.plan], captures.tables(name))
    frames = Frames(session(), relations, asked.zone)
    try:
        carriers = computed(frames, lambda given: given.frame(asked.plan).toArrow())
    finally:
        frames.close()
    with duckdb.connect() as cursor:
        run(cursor, f"SET TimeZone = {literal(asked.zone)}")
        return values(cursor, carriers, numbered(types(asked.plan)), "::VARCHAR")


def compared(asked: Capture, found: Texts) -> tuple[str, str]:
    """The verdict on an answer of Spark, and what is wrong with it."""
    if Counter(found) == Counter(asked.wanted):
        return "equal", ""
    if not difference(_doubles(asked.plan, found), _doubles(asked.plan, asked.wanted)):
        return "rounded", ""
    if leaves_open(asked.query) and Counter(found) == Counter(asked.planned):
        return "open", ""
    return "wrong", f"{difference(found, asked.wanted)} IN {asked.query}"


def _doubles(plan: Plan, found: Texts) -> list[tuple[Any, ...]]:
    """The rows, with the numbers of columns that hold doubles as numbers."""
    rounded = ["DOUBLE" in t.sql or "FLOAT" in t.sql for t in types(plan)]
    return [
        tuple(_parts(v) if r and v is not None else v for r, v in zip(rounded, row, strict=True))
        for row in found
    ]


def _parts(text: str) -> tuple[str | float, ...]:
    """The text in parts, of which every second is a number."""
    parts = _NUMBER.split(text)
    return tuple(float(part) if i % 2 else part for i, part in enumerate(parts))


def right(outcomes: Sequence[SparkOutcome]) -> float:
    """The share of the computed or refused views that have DuckDB's rows on Spark."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return sum(counts[v] for v in _RIGHT) / max(sum(counts[v] for v in COMPUTED), 1)


def spark_table(outcomes: Sequence[SparkOutcome]) -> str:
    """What came of the suites on Spark, for people."""
    shown = (*COMPUTED, *ASIDE)
    lines = [f"{'on Spark':12}" + "".join(f"{v:>10}" for v in shown) + f"{'right':>10}"]
    suites = defaultdict(list)
    for outcome in outcomes:
        suites[outcome.suite].append(outcome)
    for suite, those in suites.items():
        counts = Counter(outcome.verdict for outcome in those)
        lines.append(
            f"{suite:12}" + "".join(f"{counts[v]:10}" for v in shown) + f"{right(those):10.1%}"
        )
    for verdict in ("refused", "no answer"):
        reasons = Counter(_NAMED.sub("", o.detail) for o in outcomes if o.verdict == verdict)
        lines += [f"{verdict}: {count:4} × {reason}" for reason, count in reasons.most_common()]
    lines += [
        f"{o.verdict.upper()} {o.suite} {o.case}: {o.detail[:600]}"
        for o in outcomes
        if o.verdict in ("wrong", "error")
    ]
    return "\n".join(lines)
