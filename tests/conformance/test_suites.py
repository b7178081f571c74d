"""Peers' suites, where IVM_SUITES says where they are (`make conformance SUITES=/path`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.known import entries, stale
from tests.conformance.run import run, table, without_recompute

# The share of OpenIVM's views that must have no whole recompute.
SHARE = 0.97


@pytest.mark.timeout(3600)
def test_the_suites_pass(record_property: Callable[[str, object], None]) -> None:
    if "IVM_SUITES" not in os.environ:
        pytest.skip("IVM_SUITES is not set")
    outcomes = run(Path(os.environ["IVM_SUITES"]))
    record_property("conformance", table(outcomes))
    assert [o for o in outcomes if o.verdict == "fail"] == []
    assert stale(outcomes, entries()) == []
    assert without_recompute(outcomes) >= SHARE
