"""All suites, in two processes, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from tests.conformance import duckdb_tests, openivm, pg_ivm, risingwave, turso
from tests.conformance.captures import Captures
from tests.conformance.known import entries, settled
from tests.conformance.outcome import Outcome

CHUNK = 100
SUITES = ("openivm", "risingwave", "pg_ivm", "turso", "duckdb")
SHARES = {"openivm": 0.97, "duckdb": 0.95}
"""Of the views, how many must have no whole recompute."""
_RUNNERS = {"risingwave": risingwave.run, "pg_ivm": pg_ivm.run, "turso": turso.run}

Task = tuple[str, int]


def tasks(suites: Path, wanted: Sequence[str]) -> list[Task]:
    """The suites as parts that can run beside each other, the longest first."""
    found = [(name, 0) for name in _RUNNERS if name in wanted]
    if "openivm" in wanted:
        count = len(openivm.cases(suites / "openivm"))
        found += [("openivm", start) for start in range(0, count, CHUNK)]
    return found


def run(
    suites: Path,
    wanted: Sequence[str] = SUITES,
    processes: int = 2,
    captures: Captures | None = None,
) -> list[Outcome]:
    """Every outcome, those known not to pass with the reason why; captures keep the views."""
    parts = tasks(suites, wanted)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(_one, repeat(suites), parts, repeat(captures)))
    if "duckdb" in wanted:  # which has its own processes
        found.append(list(duckdb_tests.run(suites / "duckdb", captures)))
    return settled([outcome for part in found for outcome in part], entries())


def _one(suites: Path, task: Task, captures: Captures | None) -> list[Outcome]:
    name, start = task
    if name == "openivm":
        return list(openivm.run(suites / name, slice(start, start + CHUNK), captures=captures))
    return list(_RUNNERS[name](suites / name, captures))


def without_recompute(outcomes: Sequence[Outcome], suite: str = "openivm") -> float:
    """The share of a suite's views that are maintained with no whole recompute."""
    cases = [o for o in outcomes if o.suite == suite and (o.strategy or suite == "openivm")]
    recomputed = sum(o.strategy in ("whole recompute", "") for o in cases)
    return 1 - recomputed / max(len(cases), 1)


def table(outcomes: Sequence[Outcome]) -> str:
    """What came of the suites, for people."""
    verdicts = ("pass", "as DuckDB", "open", "known", "fail")
    lines = [f"{'suite':12}" + "".join(f"{v:>11}" for v in verdicts)]
    for suite in SUITES:
        counts = Counter(o.verdict for o in outcomes if o.suite == suite)
        lines.append(f"{suite:12}" + "".join(f"{counts[v]:11}" for v in verdicts))
    for suite in ("openivm", "duckdb"):
        strategies = Counter(o.strategy or "none" for o in outcomes if o.suite == suite)
        lines.append(f"{suite} by strategy: {dict(strategies.most_common())}")
    reasons = Counter(o.detail.split(" [")[0] for o in outcomes if o.verdict == "known")
    lines += [f"known: {count:4} × {reason}" for reason, count in reasons.most_common()]
    lines += [f"FAIL {o.suite} {o.case}: {o.detail[:400]}" for o in outcomes if o.verdict == "fail"]
    return "\n".join(lines)
