"""The benchmark of PostgreSQL sources runs, and its views are right."""

from __future__ import annotations

import pytest

from benchmarks import postgres
from tests.support.postgres import Database

pytestmark = pytest.mark.full(smoke=1)


def test_parts(
    shop: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(postgres, "SECONDS", 1)
    postgres.backlog(shop, 4000)
    shop.execute("DROP TABLE orders")
    postgres.copy(shop, 4000)
    postgres.freshness(shop)
    said = capsys.readouterr().out
    for part in ("decoded alone", "applied", "copy of 4,000 rows", "freshness"):
        assert part in said
