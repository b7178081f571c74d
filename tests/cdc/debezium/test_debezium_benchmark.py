"""The benchmark of a Debezium source runs, and its view is right."""

from __future__ import annotations

import pytest

from benchmarks import debezium
from tests.support.postgres import Database

pytestmark = pytest.mark.full(smoke=1)


def test_parts(shop: Database, capsys: pytest.CaptureFixture[str]) -> None:
    debezium.measure(shop, 1000)
    said = capsys.readouterr().out
    for part in ("copy", "backlog"):
        assert part in said
