"""The list of what is known not to pass, by construct, with the reason of each: known.toml.

An entry matches the detail of an outcome (an error, with the statement it is about), never the name
of a test, a table or a view.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.conformance.outcome import Outcome

_FILE = Path(__file__).with_name("known.toml")


@dataclass(frozen=True)
class Known:
    """An entry of the list.

    Attributes:
        pattern: is found in the detail.
        reason: why it does not pass.
    """

    pattern: str
    reason: str


def entries() -> list[Known]:
    """The list."""
    found = tomllib.loads(_FILE.read_text())["known"]
    return [Known(entry["pattern"], entry["reason"]) for entry in found]


def settled(outcomes: Iterable[Outcome], known: list[Known]) -> list[Outcome]:
    """The outcomes, those that the list explains as "known" with its reason."""
    return [_settled(outcome, known) for outcome in outcomes]


def stale(outcomes: Iterable[Outcome], known: list[Known]) -> list[Known]:
    """The entries that explain none of the outcomes that `settled` gave."""
    details = [outcome.detail for outcome in outcomes if outcome.verdict == "known"]
    return [e for e in known if not any(d.startswith(f"{e.reason} [") for d in details)]


def _settled(outcome: Outcome, known: list[Known]) -> Outcome:
    if outcome.verdict not in ("fail", "foreign"):
        return outcome
    for entry in known:
        if re.search(entry.pattern, outcome.detail, re.S):
            detail = f"{entry.reason} [{outcome.detail}]"
            return replace(outcome, verdict="known", detail=detail)
    return replace(outcome, verdict="fail")
