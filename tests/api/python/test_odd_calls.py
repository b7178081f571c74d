"""Calls from Python that make no sense: each is refused with what, why and the way out."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, UserList, deque, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import ivm
from ivm.errors import ConstraintError, InputError, SqlError, UnsupportedError
from tests.support.view_oracle import assert_verified


@pytest.fixture(name="db", scope="module")
def _db() -> Iterator[ivm.Database]:
    """One for all calls that are refused."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        db.execute("CREATE TABLE k (x INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM k")
        yield db


@pytest.mark.cases(2)
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


_PAIR = namedtuple("_PAIR", "a b")


@pytest.mark.full
@pytest.mark.parametrize(
    "params",
    [
        {"a": 7, "b": 8}.values(),
        {7: 0, 8: 0}.keys(),
        {7, 8},
        range(7, 9),
        deque((7, 8)),
        UserList((7, 8)),
        pd.Series([7, 8]),
        np.array(["7", "8"]),
        bytearray(b"78"),
        _PAIR(7, 8),
        OrderedDict({"1": 7, "2": 8}),
        {1: 7, 2: 8},
    ],
    ids=lambda params: type(params).__name__,
)
def test_parameters_are_whatever_duckdb_takes(params: Any) -> None:
    with ivm.connect() as ours, duckdb.connect() as theirs:
        rows = []
        for db in (ours, theirs):
            db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)")
            db.execute("INSERT INTO t VALUES (?, ?)", params)
            rows.append(db.execute("FROM t").fetchall())
            rows.append(db.execute("SELECT b FROM t WHERE a IN (?, ?)", params).fetchall())
        assert rows[:2] == rows[2:]
        if not isinstance(params, dict):
            ours.execute("DELETE FROM t")
            ours.executemany("INSERT INTO t VALUES (?, ?)", [params])
            assert ours.execute("FROM t").fetchall() == rows[0]


@pytest.mark.parametrize(
    "params", ["23", b"23", 5, 0, "", iter([2, 3]), MappingProxyType({"1": 2, "2": 3})]
)
def test_what_are_no_parameters_is_refused(db: ivm.Database, params: Any) -> None:
    """In a text each letter was a value, also in an UPDATE."""
    with db.cursor() as cursor, duckdb.connect() as theirs:
        with pytest.raises((duckdb.Error, TypeError, RuntimeError)):
            theirs.execute("SELECT ?, ?", params)
        for call in (db.execute, db.sql, cursor.execute, cursor.connection.execute):
            for sql in ("INSERT INTO t VALUES (?, ?)", "SELECT ?, ?", "SELECT 1"):
                with pytest.raises(InputError, match="given as a list, tuple or dict"):
                    call(sql, params)
    assert db.execute("FROM t").fetchall() == []


def test_parameters_that_are_none_leave_the_transaction_open(db: ivm.Database) -> None:
    params: Any = "1"
    db.begin()
    with pytest.raises(InputError):
        db.execute("SELECT ?", params)
    assert db.aborted is None
    db.rollback()


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
    db.apply("k", [{"x": 1}], [-2])


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


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM _ivm.epochs",
        "INSERT INTO memory._ivm.epochs VALUES ('x', 1)",
        "WITH x AS (SELECT 1) UPDATE _IVM.epochs SET epoch = 5",
        "CREATE TABLE _ivm.x (a INTEGER)",
        "DROP TABLE _ivm.epochs",
        "DROP SCHEMA _ivm CASCADE",
        "TRUNCATE _ivm.epochs",
        "ALTER TABLE _ivm.epochs ADD COLUMN q INTEGER",
    ],
)
def test_records_of_the_database_itself(db: ivm.Database, statement: str) -> None:
    with pytest.raises(UnsupportedError, match="can be read, not changed"):
        db.execute(statement)
    assert db.execute("SELECT count(*) > 0 FROM _ivm.epochs").fetchall() == [(True,)]


def test_an_error_in_a_views_query_shows_what_was_written(db: ivm.Database) -> None:
    query = "SELECT 1, nix FROM k"
    with pytest.raises(SqlError) as caught:
        db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
    _, _, line, caret = str(caught.value).rsplit("\n", 3)
    assert (line, caret) == (f"LINE 1: {query}", f"{' ' * (8 + query.index('nix'))}^^^")
    assert caught.value.position == len("CREATE MATERIALIZED VIEW w AS ") + query.index("nix")


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("stored", "taken", "left"),
    [
        ([1, 1, 1], [1], [1, 1]),
        ([1, 1, None, 2], [None, 1, 1], [2]),
        ([1, 2], [1, 1], None),
        ([1, 2], [2, 3], None),
    ],
)
def test_each_given_row_takes_out_one(
    native: bool, stored: list[int | None], taken: list[int | None], left: list[int] | None
) -> None:
    """Also of a table that DuckDB must change; if one is not stored, nothing is changed."""
    references = "REFERENCES p (id)" if native else ""
    with ivm.connect() as db:
        db.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3)")
        db.execute(f"CREATE TABLE c (x INTEGER {references})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM c GROUP BY x")
        calls: list[Callable[[], int]] = [
            lambda: db.delete("c", {"x": taken}),
            lambda: db.apply("c", {"x": taken}, [-1] * len(taken)),
        ]
        for call in calls:
            db.execute("TRUNCATE c")
            db.insert("c", {"x": stored})
            if left is None:
                with pytest.raises(ConstraintError, match=r"stored \(as often\)"):
                    call()
            else:
                call()
            rows = db.execute("SELECT x FROM c ORDER BY x").fetchall()
            assert rows == [(x,) for x in (stored if left is None else left)]
            assert_verified(db, "v")


@pytest.mark.full
@pytest.mark.parametrize("native", [False, True])
def test_a_key_that_is_not_stored_cannot_be_deleted(native: bool) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE p (id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1)")
        db.execute("CREATE TABLE c (x INTEGER REFERENCES p (id))" if native else "SELECT 1")
        for keys in ([1, 7], [1, 1]):
            with pytest.raises(ConstraintError, match=r"stored \(as often\)"):
                db.delete("p", {"id": keys})
        assert db.execute("FROM p").fetchall() == [(1,)]
        assert db.delete("p", {"id": [1]}) == 1


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


@pytest.mark.full
def test_a_forked_child_leaves_the_database_to_its_parent(tmp_path: Path) -> None:
    """Two processes that append to one log would ruin it."""
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "shop.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "4 [(1,)]\n", done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX i ON v (b)",
        "CREATE UNIQUE INDEX IF NOT EXISTS i ON main.v USING ART (b)",
        "CREATE TRIGGER x AFTER INSERT ON v FOR EACH STATEMENT INSERT INTO other VALUES (1)",
    ],
)
def test_nothing_stands_on_a_view_that_could_refuse_its_rows(statement: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER); CREATE TABLE other (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT b FROM t")
        with pytest.raises(UnsupportedError, match="on its tables"):
            db.execute(statement)
        db.execute("INSERT INTO t VALUES (1, 1), (2, 1)")
        assert db.execute("FROM v").fetchall() == [(1,), (1,)]


_TUPLE = "ROW(ARRAY_VALUE(1, 2), 'a')"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE MATERIALIZED VIEW w AS SELECT [{_TUPLE}] AS r, a FROM t",
        f"CREATE TABLE u AS SELECT {{'x': {_TUPLE}}} AS r",
        f"CREATE OR REPLACE TABLE k AS SELECT {_TUPLE} AS x",
    ],
)
def test_types_that_end_duckdbs_process_are_refused(db: ivm.Database, statement: str) -> None:
    with pytest.raises(UnsupportedError, match="ARRAYs inside of a ROW"):
        db.execute(statement)
    db.execute("CREATE TABLE named AS SELECT {'x': ARRAY_VALUE(1, 2)} AS r")
    db.execute("CREATE MATERIALIZED VIEW w AS FROM named; DELETE FROM named")
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == [("w", 0, 0, 0, True)]
    db.execute("DROP MATERIALIZED VIEW w; DROP TABLE named")


@pytest.mark.parametrize("kind", ["TABLE", "MATERIALIZED VIEW"])
def test_types_that_duckdb_does_not_read_are_refused(db: ivm.Database, kind: str) -> None:
    with pytest.raises(UnsupportedError, match="the type AGGREGATE_STATE cannot be kept"):
        db.execute(f"CREATE {kind} w AS SELECT avg(a) EXPORT_STATE AS s FROM t")
    db.execute(f"CREATE {kind} w AS SELECT finalize(avg(a) EXPORT_STATE) AS s FROM t")
    db.execute(f"DROP {kind} w")


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("UPDATE k SET n = $N WHERE id = $n", {"N": 1}),
        ("UPDATE k SET n = $Value WHERE id = 1", {"VALUE": 7}),
        ("DELETE FROM k WHERE id = $Id", {"id": 2}),
        ("INSERT INTO k SELECT $A, $a", {"a": 3}),
        ("INSERT INTO k VALUES ($A, $a)", {"A": 3}),
        ("MERGE INTO k USING (SELECT $B AS id) s USING (id) WHEN MATCHED THEN DELETE", {"b": 1}),
        ("UPDATE k SET n = length($t$ $N $t$ || $n)", {"N": "x"}),
    ],
)
def test_names_of_parameters_are_the_same_in_capital_letters(
    sql: str, params: dict[str, object]
) -> None:
    found = []
    for database in (ivm.connect(), duckdb.connect()):
        with database:
            database.execute("CREATE TABLE k (id INTEGER PRIMARY KEY, n INTEGER)")
            database.execute("INSERT INTO k VALUES (1, 1), (2, 2)")
            database.execute(sql, params)
            found.append(database.execute("FROM k ORDER BY id").fetchall())
    assert found[0] == found[1]


def test_a_name_of_a_parameter_that_is_no_text_is_refused(db: ivm.Database) -> None:
    params: Any = {1: 2}
    with pytest.raises(InputError, match="no parameters for the values 1"):
        db.execute("UPDATE k SET x = $n", params)
