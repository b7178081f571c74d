"""INSERT … SELECT and COPY by the fast path do what DuckDB does, and leave the rest to it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.changes.rows import evaluation, few_rows
from ivm.errors import ConstraintError, EvaluationError, SqlError
from tests.support.change_ways import (
    WAYS,
    demand_fast,
    demand_native,
    demand_refused,
    run_history,
    sources_in_memory,
)
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT DEFAULT 7, s VARCHAR DEFAULT 'd',
                x DOUBLE CHECK (x < 1000), m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE plain (k INTEGER, v VARCHAR);
CREATE TABLE u (a INTEGER, b VARCHAR, c DOUBLE);
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE odd (k VARCHAR PRIMARY KEY, e mood, j JSON, l INTEGER[], d DATE, h HUGEINT,
                  z TIMESTAMPTZ, w STRUCT(p INTEGER, q VARCHAR));
CREATE SEQUENCE numbers START 1000;
CREATE MACRO plus(a, b) AS a + b;
CREATE VIEW late AS SELECT * FROM u WHERE a > 3;
INSERT INTO t SELECT i, i, 's' || i, i / 2, i FROM range(6) r(i);
INSERT INTO plain VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
INSERT INTO u SELECT i, chr(97 + i::INTEGER), i / 4 FROM range(9) r(i);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1;
CREATE MATERIALIZED VIEW w AS SELECT t.s, k FROM t JOIN plain ON n = k
"""
NAMES = ("t", "plain", "u", "odd")
FAST: list[tuple[str, Any]] = [
    ("INSERT INTO t SELECT i, i, 's', i, 1 FROM range(10, 14) r(i)", None),
    ("INSERT INTO t (m, id) FROM (SELECT a + 0.555, a + 20 FROM u)", None),
    ("INSERT INTO t (id, x) SELECT a + ?, ? FROM u WHERE b > ? RETURNING id + 1, s", [20, 2, "c"]),
    ("INSERT INTO t (id, x) SELECT a + $p, $q FROM u WHERE a > $q", {"p": 20, "q": 2}),
    ("INSERT INTO t BY NAME SELECT 'q' AS S, a + 20 AS Id FROM u RETURNING *", None),
    ("INSERT INTO t BY POSITION (SELECT 60, 1, NULL, NULL, '3.14159')", None),
    ("WITH c AS (SELECT 50 AS y) INSERT INTO t (id) SELECT y FROM c RETURNING t.id", None),
    ("INSERT INTO t (id) WITH c AS (SELECT 50 AS y) SELECT y FROM c", None),
    ("INSERT INTO t AS k (id) SELECT 51 RETURNING id", None),
    ("INSERT INTO t (id, n) VALUES (40 + 1, ?)", ["12"]),
    ("INSERT INTO t (id, s) VALUES (42, upper('x')) RETURNING s", None),
    ("INSERT INTO t (id) SELECT max(id) + 1 FROM t", None),
    ("INSERT INTO t (id) SELECT id + 100 FROM t WHERE false", None),
    ("INSERT INTO t (id) SELECT id + plus(50, 50) FROM t RETURNING id", None),
    ("INSERT INTO t (id) SELECT c + 500 FROM v WHERE c > 0 AND odd = 1", None),
    ("INSERT INTO t (id) SELECT a + 500 FROM late", None),
    ("INSERT INTO plain TABLE plain", None),
    ("INSERT INTO plain (v) SELECT b FROM u RETURNING k, v || '!'", None),
    ("INSERT INTO plain SELECT a, c FROM u", None),
    ("INSERT OR IGNORE INTO t (id, s) SELECT a, b FROM u RETURNING *", None),
    ("INSERT OR IGNORE INTO t (id, s) SELECT 77, b FROM u", None),
    ("INSERT OR REPLACE INTO t (id, s) SELECT a, b FROM u RETURNING *", None),
    ("INSERT INTO t (id, n) SELECT a, a FROM u ON CONFLICT DO NOTHING", None),
    (
        "INSERT INTO t AS g (id, n) SELECT a, a FROM u WHERE a < ? ON CONFLICT (id) DO UPDATE"
        " SET n = g.n + excluded.n, s = ? WHERE g.n <> ? RETURNING id, n, s",
        [8, "z", 3],
    ),
    (
        "INSERT INTO odd SELECT b, 'good', '{\"a\": 1}', [a, NULL], DATE '2024-02-29' + a,"
        " 170141183460469231731687303715884105727, TIMESTAMPTZ '2024-01-01 00:00:00+02',"
        " {'p': a, 'q': b} FROM u",
        None,
    ),
    ("INSERT INTO odd (k, z) SELECT b, make_timestamp(2024, 1, 1, a, 0, 0) FROM u", None),
]
NATIVE: list[tuple[str, Any]] = [
    ("INSERT INTO t (id) SELECT nextval('numbers')", None),
    ("INSERT INTO t (id) VALUES (1 + 80), (82)", None),
    ("INSERT INTO t (id) SELECT 83 RETURNING [id]", None),
    ("INSERT OR REPLACE INTO t (id, n) SELECT a // 9, a FROM u WHERE a IN (1, 2)", None),
]
WRONG: list[tuple[str, Any]] = [
    ("INSERT INTO t (id) SELECT a FROM u", None),
    ("INSERT INTO t (id) SELECT 70 FROM u", None),
    ("INSERT INTO t (id, m) SELECT 70, NULL", None),
    ("INSERT INTO t (id, x) SELECT 70, 5000", None),
    ("INSERT INTO t (id, n) SELECT 70, 300", None),
    ("INSERT INTO t (id, n) SELECT a + 70, b FROM u", None),
    ("INSERT INTO t (id) SELECT NULL", None),
    ("INSERT INTO t (id) SELECT 1, 2", None),
    ("INSERT INTO t (id, n) SELECT 1", None),
    ("INSERT INTO t SELECT 70", None),
    ("INSERT INTO t (id, id) SELECT 70, 71", None),
    ("INSERT INTO t (id) SELECT nope FROM u", None),
    ("INSERT INTO t (id) SELECT a + 70 FROM nope", None),
    ("INSERT INTO t (id) SELECT t.id + 70", None),
    ("INSERT INTO t BY NAME SELECT 70 AS nope", None),
    ("INSERT INTO t (id) SELECT ?", []),
    ("INSERT INTO t (id) SELECT 70", [1]),
    ("INSERT INTO t (id) SELECT 70 RETURNING nope", None),
    ("INSERT INTO t AS k (id) SELECT 70 RETURNING k.id", None),
    ("INSERT INTO odd (k, e) SELECT 'a', 'ugly'", None),
    ("INSERT INTO t (id) SELECT a FROM u ON CONFLICT DO UPDATE SET n = t.n + 127", None),
    ("INSERT INTO t (id, s) SELECT a, b FROM u ON CONFLICT (n) DO NOTHING", None),
]


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEWS, NAMES, path) if path else Twin(TABLES, VIEWS, NAMES)


def _plain_views(sql: str) -> str:
    """For the plain DuckDB, the queries in the place of the views."""
    return sql.replace("FROM v ", "FROM (SELECT n % 2 AS odd, count(*) AS c FROM t GROUP BY 1) v ")


def run(both: Twin, sql: str, params: Any) -> bool:
    if "FROM v " not in sql:
        return both.run(sql, params)
    return both.compare(lambda db: db.execute(_plain_views(sql) if db is both.duck else sql))


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize(("sql", "params"), FAST)
def test_the_rows_alone_are_computed_by_duckdb(sql: str, params: Any) -> None:
    demand_fast(twin(), sql, params, run)


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), FAST)
def test_the_rows_may_be_in_memory(sql: str, params: Any) -> None:
    with sources_in_memory():
        demand_fast(twin(), sql, params, run)


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(sql: str, params: Any) -> None:
    both = twin()
    demand_native(both, sql, params)
    assert both.run("SELECT nextval('numbers')")


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(sql: str, params: Any) -> None:
    demand_refused(twin(), sql, params, "INSERT INTO t (id) SELECT 90")


@pytest.mark.full
def test_errors_are_worded_by_duckdb() -> None:
    both = twin()
    for sql in ("INSERT INTO t (id) SELECT 3", "INSERT INTO t (id, n) SELECT a + 70, b FROM u"):
        with pytest.raises(duckdb.Error) as theirs:
            both.duck.execute(sql)
        with pytest.raises((ConstraintError, EvaluationError)) as ours:
            both.db.execute(sql)
        assert str(ours.value).startswith(str(theirs.value).split("\n")[0])


statements = st.lists(st.sampled_from([*FAST, *FAST, *NATIVE, *WRONG]), max_size=8)


@pytest.mark.full
@settings(max_examples=examples(20), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), statements), max_size=4),
    way=st.sampled_from(list(WAYS)),
)
def test_any_history_leaves_what_duckdb_has(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bool, Any]], way: str
) -> None:
    with WAYS[way]():
        run_history(twin(tmp_path_factory.mktemp("twin") / "t.duckdb"), history, run)


# --- transactions ---


@pytest.mark.full
def test_a_transaction_stays_fast_while_its_own_changes_are_not_read() -> None:
    both = twin()
    with watched() as seen:
        assert both.run("BEGIN")
        assert both.run("INSERT INTO t (id) VALUES (30)")
        assert both.run("INSERT INTO t (id) SELECT a + 40 FROM u")
        assert both.run("INSERT INTO t (id) SELECT 60 ON CONFLICT DO NOTHING")
        assert seen == []
        assert both.run("INSERT INTO u SELECT id, s, 0 FROM t")
        assert both.run("INSERT INTO t (id) SELECT max(a) + 1 FROM u")
        assert len(seen) == 2
        assert both.run("COMMIT")
    both.check()


@pytest.mark.full
def test_views_show_the_transactions_own_changes() -> None:
    both = twin()
    for sql in ("BEGIN", "INSERT INTO t (id, n) SELECT 30, 1"):
        assert both.run(sql)
    assert run(both, "INSERT INTO t (id) SELECT 700 + c FROM v WHERE odd = 1", None)
    assert both.run("COMMIT")
    both.check()


@pytest.mark.full
def test_rows_of_a_view_are_read_another_way_when_they_are_many_or_have_times() -> None:
    """What was begun for few rows is given up, and the view is asked again."""
    both = twin()
    for number in range(3):
        moment = "TIMESTAMPTZ '2024-01-01 00:00:00Z'"
        assert run(both, f"INSERT INTO odd (k, z) SELECT {number} || b, {moment} FROM late", None)
        assert run(both, "INSERT INTO plain SELECT a, b FROM late", None)
    assert both.run("INSERT INTO u SELECT i + 10, 'many', i FROM range(400) r(i)")
    for _ in range(2):
        assert run(both, "INSERT INTO plain SELECT a, b FROM late", None)
    both.check()


@pytest.mark.full
def test_the_time_stands_still_in_a_transaction() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (a TIMESTAMPTZ); CREATE MACRO moment() AS now()")
    db.execute("CREATE VIEW told AS SELECT now() AS n")
    with db.transaction():
        for query in ("now()", "current_timestamp", "moment()", "n FROM told", "now() FROM t"):
            db.execute(f"INSERT INTO t SELECT {query}")
    assert len(db.execute("SELECT DISTINCT a FROM t").fetchall()) == 1
    db.close()


@pytest.mark.full
def test_a_failure_rolls_back_what_came_before() -> None:
    both = twin()
    assert both.run("BEGIN")
    assert both.run("INSERT INTO t (id) SELECT 31")
    assert not both.run("INSERT INTO t (id) SELECT 3")
    both.run("ROLLBACK")
    both.check()


def test_a_read_only_transaction_changes_nothing() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER)")
    db.execute("BEGIN TRANSACTION READ ONLY")
    with pytest.raises(ivm.IvmError):
        db.execute("INSERT INTO t SELECT 1")
    db.execute("ROLLBACK")
    assert db.execute("FROM t").fetchall() == []
    db.close()


# --- what is read ---


@pytest.mark.full
def test_random_values_are_drawn_once() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, r DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(r) AS r FROM t")
    with watched() as seen:
        db.execute("INSERT INTO t SELECT i, random() FROM range(1000) r(i)")
        assert seen == []
    assert db.execute("SELECT count(DISTINCT r) > 900 FROM t").fetchone() == (True,)
    (check,) = db.execute("VERIFY MATERIALIZED VIEW v").fetchall()
    assert check[-1]
    db.close()


@pytest.mark.full
def test_temporary_tables_variables_and_other_databases(tmp_path: Path) -> None:
    both = twin()
    for sql in (
        "CREATE TEMP TABLE mine AS SELECT 30 AS a UNION ALL SELECT 31",
        "SET VARIABLE more = 100",
        f"ATTACH '{tmp_path / 'o.duckdb'}' AS o",
    ):
        both.db.execute(sql)
        both.duck.execute(sql.replace("o.duckdb", "p.duckdb"))
    both.run("CREATE TABLE o.far AS SELECT 55 AS a")
    with watched() as seen:
        assert both.run("INSERT INTO t (id) SELECT a FROM mine")
        assert both.run("INSERT INTO t (id) SELECT a + getvariable('more') FROM mine")
        assert both.run("INSERT INTO t (id) SELECT a FROM o.far")
        assert seen == []
        assert both.run("INSERT INTO mine SELECT id FROM t WHERE id < 4")
        assert both.run("INSERT INTO o.far SELECT id FROM t WHERE id < 4")
        assert len(seen) == 2
    both.check()
    assert both.run("SELECT a FROM mine")


@pytest.mark.full
@pytest.mark.parametrize("given", [pd.DataFrame({"a": [61, 62]}), pa.table({"a": [61, 62]})])
def test_python_objects(given: Any) -> None:
    both, sql = twin(), "INSERT INTO t (id) SELECT a FROM given RETURNING id"
    with watched() as seen:
        rows = both.db.execute(sql).fetchall()
        assert seen == []
    assert rows == both.duck.execute(sql).fetchall() == [(61,), (62,)]
    with pytest.raises(ConstraintError):
        both.db.execute(sql)
    both.check()


@pytest.mark.full
def test_a_stream_is_read_once_beside_quotes_in_strings() -> None:
    """DuckDB updates by one of two rows, so it runs the statement, which has to read the stream."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR)")
        db.register("stream", pa.table({"a": [1, 1]}).to_reader())
        db.execute("""INSERT OR REPLACE INTO t SELECT a, '"' FROM stream WHERE '"' <> 'a'""")
        assert db.execute("FROM t").fetchall() == [(1, '"')]


@pytest.mark.parametrize("registered", [True, False])
def test_a_stream_is_read_once(registered: bool) -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stream = pa.table({"a": [1, 2, 2]}).to_reader()
    if registered:
        db.register("stream", stream)
    with pytest.raises(ConstraintError):
        db.execute("INSERT INTO t SELECT a FROM stream")
    assert db.execute("FROM t").fetchall() == []
    db.close()


def test_a_broken_source_says_so() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    for sql in ("INSERT INTO t SELECT * FROM 'none.csv'", "INSERT INTO t SELECT error('no')"):
        with pytest.raises(ivm.IvmError):
            db.execute(sql)
    late = "CASE WHEN i = 150000 THEN 'x' ELSE i::VARCHAR END::INTEGER FROM range(200000) r(i)"
    with pytest.raises(EvaluationError, match="Could not convert"):
        db.execute(f"INSERT INTO t SELECT {late}")
    streamed = db.execute(f"SELECT {late}")
    with pytest.raises(EvaluationError, match="Could not convert"):
        list(iter(lambda: streamed.batch(), None))
    with pytest.raises(SqlError):
        db.execute("INSERT INTO t SELECT a FROM nowhere")
    db.execute("INSERT INTO t SELECT 1")
    assert db.execute("FROM t").fetchall() == [(1,)]
    db.close()


@pytest.mark.full
def test_more_rows_than_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MOST_ROWS", 5)
    monkeypatch.setattr(few_rows, "MOST", 6)
    monkeypatch.setattr(evaluation, "_WAITED", 1e9)
    both = twin()
    with watched() as seen:
        assert both.run("INSERT INTO t (id) SELECT i FROM range(10, 15) r(i)")
        assert seen == []
        assert both.run("INSERT INTO t (id) SELECT i FROM range(20, 26) r(i) RETURNING id")
        assert len(seen) == 1
    both.check()


@pytest.mark.full
def test_rows_that_were_waited_for_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MOST_ROWS", 5)
    monkeypatch.setattr(evaluation, "_WAITED", -1.0)
    both = twin()
    with watched() as seen:
        assert both.run("INSERT INTO t (id) SELECT i FROM range(20, 46) r(i) RETURNING id")
        assert seen == []
    both.check()


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("name", ["u", '"my u"', '"U""v"', '"!?"', "ü", "🦆"])
def test_relations_are_found_beside_quotes_in_strings(name: str) -> None:
    both = Twin(f"CREATE TABLE t (id INTEGER, s VARCHAR); CREATE TABLE {name} (id INTEGER)",
                "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM t")  # fmt: skip
    for i, more in enumerate(("", " AND id < ?")):
        assert both.run(f"INSERT INTO {name} VALUES ({i})")
        sql = f"""INSERT INTO t SELECT id, '"' FROM {name} WHERE '"' <> 'a"'{more}"""
        assert both.run(sql, [9] if more else None)
        both.check()


# --- Python functions ---


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("INSERT INTO t SELECT f(a) + 10, b FROM u", [0, 1, 2]),
        ("INSERT INTO t SELECT f(a) + 1, b FROM u", [0, 1, 2]),
        ("INSERT INTO t SELECT a + 10, b FROM called", [0, 1, 2]),
        ("INSERT INTO t SELECT by_macro(a), 5000 FROM u", [0, 1, 2]),
        ("INSERT INTO t VALUES (f(1), f(2))", [1, 2]),
        ("INSERT INTO t (id) SELECT f(a + 1) FROM u", [1, 2, -1]),
        ("UPDATE t SET n = q.x FROM (SELECT a, f(a) AS x FROM u) q WHERE id = a + 1", [0, 1, 2]),
        ("MERGE INTO t USING (SELECT f(a) AS k FROM u) q ON id = k"
         " WHEN MATCHED THEN UPDATE SET n = 5000", [0, 1, 2]),
    ],
)  # fmt: skip
def test_a_python_function_is_called_once_for_a_row(sql: str, wanted: list[int]) -> None:
    """Also where a constraint or the function itself refuses the rows."""
    called: list[int] = []

    def f(x: int) -> int:
        called.append(x if x < 3 else -1)
        if x == 3:
            raise ValueError(x)
        return x

    with ivm.connect() as db:
        db.create_function(ivm.Function("f", f, ["BIGINT"], "BIGINT", side_effects=True))
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER CHECK (n < 1000))")
        db.execute("CREATE TABLE u (a BIGINT, b INTEGER); INSERT INTO u VALUES (0,0), (1,1), (2,2)")
        db.execute("INSERT INTO t FROM u; CREATE MACRO by_macro(x) AS f(x) + 10")
        db.execute("CREATE VIEW called AS SELECT f(a) AS a, b FROM u")
        with contextlib.suppress(ivm.IvmError):
            db.execute(sql)
        assert called == wanted
        told = db.execute(f"EXPLAIN {sql}").fetchall()[-1][1]
        assert "may call a Python function" in told


# --- COPY ---


FILES = {
    "rows.parquet": ["", "(FORMAT parquet)", "WITH (FORMAT 'PARQUET')"],
    "rows.csv": ["", "(HEADER)", "(FORMAT csv, HEADER, NULLSTR 'one')"],
    "rows.json": ["", "(FORMAT json)"],
}


def _files(folder: Path) -> None:
    rows = "SELECT i AS second, i % 3 AS n, CASE WHEN i > 41 THEN 'one' END AS v"
    with duckdb.connect() as db:
        for name in FILES:
            db.execute(f"COPY ({rows} FROM range(40, 44) r(i)) TO '{folder / name}'").fetchall()


@pytest.mark.cases(4)
@pytest.mark.parametrize(("name", "options"), [(n, o) for n, all in FILES.items() for o in all])
def test_copy(tmp_path: Path, name: str, options: str) -> None:
    _files(tmp_path)
    both = Twin(
        "CREATE TABLE t (second BIGINT PRIMARY KEY, n TINYINT, v VARCHAR DEFAULT 'x', w DATE)",
        "CREATE MATERIALIZED VIEW a AS SELECT n, count(*) AS c FROM t GROUP BY n",
    )
    copy = f"FROM '{tmp_path / name}' {options}"
    with watched() as seen:
        assert both.run(f"COPY t (second, n, v) {copy}")
        assert seen == []
        assert not both.run(f"COPY t (second, n, v) {copy}")
    both.check()
    both.run(f"COPY t {copy}")
    both.check()


@pytest.mark.full
def test_copy_of_several_files_and_of_rejects(tmp_path: Path) -> None:
    _files(tmp_path)
    (tmp_path / "bad.csv").write_text("1\nx\n3\n")
    both = Twin(
        "CREATE TABLE t (a INTEGER, b INTEGER, c VARCHAR); CREATE TABLE one (a INTEGER)",
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c, sum(one.a) AS s FROM t, one",
        ("t", "one"),
    )
    with watched() as seen:
        assert both.run(f"COPY t FROM '{tmp_path}/*.parquet'")
        assert both.run(f"COPY one FROM '{tmp_path}/bad.csv' (HEADER false, store_rejects true)")
        assert len(seen) == 2
        assert both.run("SELECT line, column_name FROM reject_errors")
    both.check()


# --- interrupts ---

_INTERRUPTED = """
import os, signal, sys, threading, time
import ivm
db = ivm.connect(sys.argv[1])
db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM t")
queries = (
    "SELECT count(*) FROM range({}) a(i) WHERE i % 7 = 3",
    "SELECT i FROM range({}) a(i) WHERE i < 40000 OR i % 7 = 8",
    "SELECT i FROM range({}) a(i) WHERE i < 0 OR i % 7 = 8",
)
for text in (*queries, *queries):
    query = text.format(10000000000)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        db.execute(f"INSERT INTO t {query}")
    except KeyboardInterrupt as error:
        print(error.__notes__)
    db.execute("BEGIN")
    db.execute(f"INSERT INTO t {text.format(10)}")  # the next time it is expected to give few rows
    db.execute("ROLLBACK")
print(db.execute("SELECT * FROM v").fetchall())
db.execute("INSERT INTO t SELECT 1")
print(db.execute("SELECT * FROM v").fetchall())
db.close()
"""


@pytest.mark.full
def test_ctrl_c_ends_the_query_and_changes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, str(tmp_path / "t.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    ended = "['The statement has changed nothing.']"
    assert lines == [*[ended] * 6, "[(0,)]", "[(1,)]"], done.stderr


@pytest.mark.full
def test_nothing_is_lost_by_kill(tmp_path: Path) -> None:
    """What an INSERT … SELECT has answered for is there after kill -9."""
    path = tmp_path / "t.duckdb"
    program = """
import os, signal, sys
import ivm
db = ivm.connect(sys.argv[1])
db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR)")
db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS c FROM t GROUP BY s")
for n in range(5):
    db.execute("INSERT INTO t SELECT i, i % 2 FROM range(?, ?) r(i)", [n * 10, n * 10 + 10])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=60)
    with ivm.connect(path) as db:
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(50,)]
        assert db.execute("FROM v ORDER BY s").fetchall() == [("0", 25), ("1", 25)]


@pytest.mark.full
def test_prepared_and_numpy() -> None:
    both = twin()
    numbers = np.array([71, 72])
    assert numbers.sum()
    for db in (both.db, both.duck):
        db.execute("PREPARE p AS INSERT INTO t (id, n) SELECT a + $1, $2 FROM u")
    with watched() as seen:
        assert both.run("EXECUTE p(100, 3)")
        assert not both.run("EXECUTE p(100, 3)")
    assert len(seen) <= 1
    both.check()
