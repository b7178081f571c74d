"""Peers' suites, where IVM_SUITES says where they are (`make conformance SUITES=/path`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.known import entries, stale
from tests.conformance.run import SHARES, run, table, without_recompute

pytestmark = pytest.mark.full(smoke=1)


@pytest.mark.timeout(3600)
def test_the_suites_pass(record_property: Callable[[str, object], None]) -> None:
    if "IVM_SUITES" not in os.environ:
        pytest.skip("IVM_SUITES is not set")
    outcomes = run(Path(os.environ["IVM_SUITES"]))
    record_property("conformance", table(outcomes))
    assert [o for o in outcomes if o.verdict == "fail"] == []
    assert stale(outcomes, entries()) == []
    for suite, share in SHARES.items():
        assert without_recompute(outcomes, suite) >= share, suite
