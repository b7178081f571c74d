"""How much a test run does: `quick` some in minutes, `full` all, `fuzz` far more, with new seeds.

`IVM_TESTS` names the tier (`make test`, `make test-all`, `make fuzz` and `make torture`); plain
pytest is `full`. `IVM_SEED` is the first seed of all that the torture tests draw. A quick run
leaves out the modules in `WHOLE`, which drive whole databases for long, draws fewer examples
everywhere else, and takes a third of the corpora of queries; nothing is in quick that is not in
full.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TIERS = ("quick", "full", "fuzz")
TIER = os.environ.get("IVM_TESTS", "full")
if TIER not in TIERS:
    raise ValueError(f"IVM_TESTS is {TIER!r}: use one of {', '.join(TIERS)}")
SEED = int(os.environ.get("IVM_SEED", "0"))

WHOLE = frozenset(
    {
        "test_attached",
        "test_benchmarks",
        "test_concurrency",
        "test_crash",
        "test_ddl_sessions",
        "test_every_aggregate",
        "test_examples",
        "test_exceptions",
        "test_names_in_ddl",
        "test_nexmark",
        "test_random_queries",
        "test_random_streams",
        "test_spelling",
        "test_suites",
        "test_tpch",
        "test_tpch_subqueries",
    }
)
"""Modules of the full tier alone."""


def some(cases: Sequence[T]) -> Sequence[T]:
    """The cases of a corpus that a run takes: a third of them in a quick one."""
    return cases[::3] if TIER == "quick" else cases


def examples(few: int) -> int:
    """How many examples a property test draws that draws `few` in a full run."""
    return {"quick": max(2, few // 4), "full": few, "fuzz": 10 * few}[TIER]


def seeds(count: int) -> range:
    """So many seeds, the same in every process of a run."""
    return range(SEED, SEED + count)
