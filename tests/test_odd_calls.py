"""Calls from Python that make no sense: each is refused with what, why and the way out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import InputError


@pytest.fixture(name="db")
def _db() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        db.execute("CREATE TABLE k (x INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM k")
        yield db


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{}], "no columns"),
        ([{}, {}], "no columns"),
        ([{1: 2}], "the name of a column is text, not 1"),
        ([{"a": 1}, None], "must hold dicts, not NoneType"),
        ([{"a": 1}, "a"], "must hold dicts, not str"),
        ([{1: 2}, {1: 2, 3: 4}], "other columns than the first one"),
        (5, "cannot take rows of type int"),
        ({"a": 1}, "must be a sequence"),
    ],
)
@pytest.mark.parametrize("call", ["insert", "upsert", "delete"])
def test_rows(db: ivm.Database, call: str, rows: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        getattr(db, call)("t", rows)
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


@pytest.mark.parametrize("name", [None, 5, ["t"], b"t"])
def test_names(db: ivm.Database, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: db.insert(name, [{"a": 1}]),
        lambda: db.apply(name, [{"a": 1}], [1]),
        lambda: db.subscribe(name),
    ]
    for call in calls:
        with pytest.raises(InputError, match="is named by text"):
            call()


@pytest.mark.parametrize(
    "weights", [None, 1, ["a"], [1.5], [float("nan")], [1 << 70], [None], [[1]]]
)
def test_weights(db: ivm.Database, weights: Any) -> None:
    with pytest.raises(InputError, match="weights are integers"):
        db.apply("k", [{"x": 1}], weights)


def test_weights_of_any_kind_that_are_whole(db: ivm.Database) -> None:
    db.apply("k", [{"x": 1}], [2.0])
    db.apply("k", [], [])
    assert db.execute("SELECT n FROM v").fetchall() == [(2,)]


@pytest.mark.parametrize("limit", ["1 GB", 0, -1, 1.5])
def test_memory_limit(limit: Any) -> None:
    with pytest.raises(InputError, match="number of bytes"):
        ivm.connect(memory_limit=limit)


def test_functions(db: ivm.Database) -> None:
    given: Any = len
    with pytest.raises(InputError, match=r"give ivm\.Function"):
        db.create_function(given)
    with pytest.raises(InputError, match=r"give ivm\.Function"):
        ivm.connect(functions=[given])


FORKING = """
import os, sys, ivm
db = ivm.connect(sys.argv[1])
db.execute("CREATE TABLE t (a INTEGER)")
calls = [lambda: db.insert("t", [{"a": 2}]), lambda: db.execute("FROM t"), db.flush,
         lambda: ivm.connect(sys.argv[1])]
child = os.fork()
if not child:
    refused = 0
    for call in calls:
        try:
            call()
        except ivm.errors.UnavailableError as error:
            refused += "belongs to its parent" in str(error)
    db.close()  # of the parent's database nothing
    with ivm.connect() as own:
        own.execute("CREATE TABLE t (a INTEGER)")
    os._exit(refused)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
db.insert("t", [{"a": 1}])
db.close()
with ivm.connect(sys.argv[1]) as db:
    print(status, db.execute("FROM t").fetchall())
"""


def test_a_forked_child_leaves_the_database_to_its_parent(tmp_path: Path) -> None:
    """Two processes that append to one log would ruin it."""
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "shop.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "4 [(1,)]\n", done.stderr
