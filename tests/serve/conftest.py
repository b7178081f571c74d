"""One server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.serving import Served, make_shop, served


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = Path(tmp_path_factory.mktemp("served")) / "shop.duckdb"
    make_shop(path)
    with served(path) as server:
        yield server
