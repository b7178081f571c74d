"""How much a test run does: `quick` some in minutes, `full` all, `fuzz` far more, with new seeds.

`IVM_TESTS` names the tier (`make test`, `make test-all`, `make fuzz` and `make torture`); plain
pytest is `full`. `IVM_SEED` is the first seed of all that the torture tests draw. `smoke` is quick
and some of what that leaves out, for the installed package. Marks of a test, or of its whole
module, tell what a run takes:

- `@pytest.mark.full`: a quick run leaves it out, as it drives whole databases, processes or Spark
  for long, or takes long for the little code that it reaches alone. `full(smoke=n)`: a smoke run
  takes the first of so many cases.
- `@pytest.mark.cases(n)`: it has many cases alike, of which quick and smoke runs take the first of
  so many. Of the cases of other tests they take the first two, and then one in a dozen.

Property tests draw fewer examples in quick and smoke runs. Nothing is in these that is not in full.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

TIERS = ("smoke", "quick", "full", "fuzz")
RUN = os.environ.get("IVM_TESTS", "full")
if RUN not in TIERS:
    raise ValueError(f"IVM_TESTS is {RUN!r}: use one of {', '.join(TIERS)}")
TIER = "quick" if RUN == "smoke" else RUN
"""The tier by which tests choose their sizes."""
SEED = int(os.environ.get("IVM_SEED", "0"))

_ALIKE = 12


def taken(item: pytest.Item, turn: int) -> bool:
    """Whether this run takes the case of a test that stands at this place among its cases."""
    if TIER != "quick":
        return True
    cases, full = item.get_closest_marker("cases"), item.get_closest_marker("full")
    every = cases.args[0] if cases else _ALIKE if turn > 1 else 1
    if full is not None:
        of = full.kwargs.get("smoke", 0) if RUN == "smoke" else 0
        return turn % every == 0 and of > 0 and turn % of == 0
    return turn % every == 0


def some(cases: Sequence[T], of: int = 4) -> Sequence[T]:
    """The cases that a run takes: the first of so many in a quick one."""
    return cases[::of] if TIER == "quick" else cases


def examples(few: int) -> int:
    """How many examples a property test draws that draws `few` in a full run."""
    return {"quick": max(2, few // 10), "full": few, "fuzz": 10 * few}[TIER]


def seeds(count: int) -> range:
    """So many seeds, the same in every process of a run."""
    return range(SEED, SEED + count)
