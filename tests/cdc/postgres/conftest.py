"""One PostgreSQL server for the tests of a process, and a database of it for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from tests.support.postgres import Database, Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def shop(server: Server) -> Iterator[Database]:
    with server.fresh() as database:
        yield database


@pytest.fixture
def db(tmp_path: Path, shop: Database) -> Iterator[ivm.Database]:  # closed before that is dropped
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        yield opened
