"""Queries that are answered from memory give what DuckDB gives to the same text.

The oracle is DuckDB itself, on the file after a flush, with the user's own text.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.catalog.binding import BindingCatalog
from ivm.engine.engine import Engine
from ivm.engine.feeds.plain_arrow import plain
from ivm.engine.views.view_contents import WholeContent
from ivm.session.results.state_result import StateResult
from ivm.storage.values.zset import ZSet
from tests.support.readers import reading
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TYPES = {
    "b": "BOOLEAN",
    "ti": "TINYINT",
    "ub": "UBIGINT",
    "i": "INTEGER",
    "n": "BIGINT",
    "h": "HUGEINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(9,2)",
    "w": "DECIMAL(38,5)",
    "v": "VARCHAR",
    "x": "BLOB",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "tm": "TIME",
    "u": "UUID",
    "iv": "INTERVAL",
    "e": "ENUM('b', 'a', 'é')",
    "l": "INTEGER[]",
    "st": "STRUCT(x INTEGER, y VARCHAR)",
    "ls": 'STRUCT(x DOUBLE[], "ENUM" BOOLEAN)[]',
    "lo": "STRUCT(x DOUBLE[], y UTINYINT)[]",
}
LITERALS = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "0", "127"],
    "UBIGINT": ["0", "18446744073709551615"],
    "INTEGER": ["-1", "0", "1", "2", "3", "2147483647"],
    "BIGINT": ["-1", "0", "5", "9223372036854775807"],
    "HUGEINT": ["-1", "170141183460469231731687303715884105727"],
    "FLOAT": ["1.5", "'nan'", "-0.0", "0.0", "'inf'"],
    "DOUBLE": ["0.1", "'nan'", "-0.0", "0.0", "'-inf'", "1e300"],
    "DECIMAL(9,2)": ["0", "1.50", "-0.01", "9999999.99"],
    "DECIMAL(38,5)": ["0", "1.5", "-123456789012345678901234567890.12345"],
    "VARCHAR": ["''", "'a'", "'B'", "'é'", "'a b'"],
    "BLOB": ["''", "'\\xFF'"],
    "DATE": ["'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'infinity'", "'10000-01-01'"],
    "TIMESTAMP": ["'2024-02-29 01:02:03.000004'", "'1969-12-31 23:59:59.999999'", "'infinity'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'", "'24:00:00'"],
    "UUID": ["'8ceadae7-9c71-4d89-b5e1-00bd5b811dd5'", "'00000000-0000-0000-0000-000000000000'"],
    "INTERVAL": ["'1 month'", "'-3 days 5 seconds'", "'720 hours'"],
    "ENUM('b', 'a', 'é')": ["'a'", "'b'", "'é'"],
    "INTEGER[]": ["[]", "[1, NULL, 3]", "[2147483647]"],
    "STRUCT(x INTEGER, y VARCHAR)": ["{'x': 1, 'y': 'é'}", "{'x': NULL, 'y': ''}"],
    'STRUCT(x DOUBLE[], "ENUM" BOOLEAN)[]': ["[]", "[{'x': [0.5], 'ENUM': true}]"],
    "STRUCT(x DOUBLE[], y UTINYINT)[]": [
        "[]",
        "[NULL, {'x': [-0.0::DOUBLE, 'nan'::DOUBLE], 'y': 255}]",
        "[{'x': NULL, 'y': NULL}, {'x': [], 'y': 0}]",
    ],
}
QUERIES = [
    "SELECT * FROM {v}",
    "FROM {v} ORDER BY ALL",
    "SELECT k, count(*) AS c FROM {v} GROUP BY k ORDER BY k NULLS FIRST",
    "SELECT {c} FROM {v} WHERE {c} IS NOT NULL ORDER BY {c} DESC",
    "SELECT k, {c} AS c FROM {v} WHERE k > 1 OR {c} IS NULL",
    "SELECT DISTINCT k FROM {v} ORDER BY 1 DESC LIMIT 2 OFFSET 1",
    "SELECT min({c}), max({c}), count({c}), count(DISTINCT k) FROM {v}",
    "SELECT a.k, b.{c} FROM {v} a JOIN {v} b ON a.k = b.k WHERE a.k < 3",
    "SELECT a.k, b.k FROM {v} a LEFT JOIN {v} b ON a.k = b.k + 1 ORDER BY 1, 2",
    "SELECT k + 1 AS one, -k AS minus FROM {v} ORDER BY one, minus",
    "SELECT k FROM {v} WHERE k IN (SELECT k + 1 FROM {v})",
    "SELECT k FROM {v} UNION SELECT k + 2 FROM {v} ORDER BY k",
    "WITH t AS (SELECT * FROM {v} WHERE k > 0) SELECT count(*) AS rows FROM t",
    "SELECT CASE WHEN k > 1 THEN 'big' ELSE 'small' END AS size, sum(k) AS s FROM {v} GROUP BY 1",
    "SELECT k, count(*) AS n FROM {v} WHERE k > 50 GROUP BY GROUPING SETS ((k), ())",
    "SELECT count(*) AS n FROM (SELECT count(*) AS m FROM {v} WHERE k > 50) WHERE m = 0",
    "SELECT upper('x') AS u, k % 2 AS odd FROM {v} WHERE k BETWEEN 1 AND 3",
]


def oracle(db: ivm.Database, text: str, params: Any = None) -> Any:
    """A cursor that has run the text in DuckDB, on the tables after a flush."""
    db.flush()
    return db._engine.warehouse.cursor().execute(text, params)


def arrow_oracle(db: ivm.Database, text: str) -> pa.Table:
    db.flush()
    return plain(db._engine.warehouse.cursor().sql(text).to_arrow_table())


def from_state(db: ivm.Database, text: str) -> ivm.Result:
    """The result of the text's third execution."""
    for _ in range(2):
        db.execute(text).fetchall()
    return db.execute(text)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, NaN being itself."""
    return repr(left) == repr(right)


def check(db: ivm.Database, text: str) -> bool:
    """Compares a query's answer with DuckDB's; returns whether it came from memory."""
    result = from_state(db, text)
    expected = oracle(db, text)
    assert result.columns == [c[0] for c in expected.description]
    assert result.types == [str(c[1]) for c in expected.description]
    rows, wanted = result.fetchall(), expected.fetchall()
    if "ORDER BY" in text and "{" not in text and len(set(map(repr, wanted))) == len(wanted):
        assert same(rows, wanted), text
    assert Counter(map(repr, rows)) == Counter(map(repr, wanted)), text
    table, wanted = db.execute(text).arrow(), arrow_oracle(db, text)
    assert [f.name for f in table.schema] == [f.name for f in wanted.schema]
    assert table.schema.types == wanted.schema.types
    found, wanted = (duckdb.from_arrow(each).fetchall() for each in (table, wanted))
    assert Counter(map(repr, found)) == Counter(map(repr, wanted)), text
    return isinstance(result, StateResult)


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("name", TYPES)
def test_every_type(name: str) -> None:
    """Rows of one column of each type beside an integer, changed between the reads."""
    sql = TYPES[name]
    rows = s.lists(s.tuples(s.sampled_from("0123N"), s.sampled_from([*LITERALS[sql], "NULL"])))
    queries = s.lists(s.sampled_from(QUERIES), min_size=3, max_size=3, unique=True)
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (k INTEGER, c {sql})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, c FROM t WHERE k IS NULL OR k < 100")

        @settings(max_examples=examples(12), deadline=None)
        @given(rows=rows, gone=s.integers(0, 3), chosen=queries)
        def changed(rows: list[tuple[str, str]], gone: int, chosen: list[str]) -> None:
            db.execute(f"DELETE FROM t WHERE k = {gone}")
            texts = [f"({key.replace('N', 'NULL')}, CAST({value} AS {sql}))" for key, value in rows]
            if texts:
                db.execute(f"INSERT INTO t VALUES {', '.join(texts)}")
            for query in chosen:
                check(db, query.format(v="v", c="c"))

        changed()


@pytest.mark.full
@pytest.mark.parametrize("query", QUERIES)
def test_these_queries_come_from_memory(query: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, c DECIMAL(9,2))")
        db.execute("INSERT INTO t SELECT i % 5, i FROM range(40) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, c FROM t WHERE c < 30")
        assert check(db, query.format(v="v", c="c"))
        db.execute("DELETE FROM t WHERE c BETWEEN 3 AND 12")
        db.execute("INSERT INTO t VALUES (7, 1.25), (7, 1.25), (NULL, NULL)")
        assert check(db, query.format(v="v", c="c"))


@pytest.mark.full
@pytest.mark.parametrize("name", ["e", "l", "st", "lo"])
def test_enums_and_nested_values_come_from_memory(name: str) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (k INTEGER, c {TYPES[name]})")
        for k, value in enumerate([*LITERALS[TYPES[name]], "NULL"]):
            db.execute(f"INSERT INTO t VALUES ({k}, {value})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, c FROM t WHERE k < 30")
        assert check(db, "SELECT * FROM v ORDER BY k")
        db.execute("UPDATE t SET k = k + 10 WHERE k = 1")
        assert check(db, "SELECT c, k FROM v ORDER BY k DESC LIMIT 2")
        if name == "e":
            assert check(db, "SELECT c, count(*) AS n FROM v GROUP BY c ORDER BY c DESC")


LEFT_TO_DUCKDB = [
    "SELECT random() FROM v",
    "SELECT now() FROM v",
    "SELECT * FROM t",
    "SELECT * FROM v, t",
    "SELECT list(k) FROM v",
    "SELECT k, row_number() OVER (ORDER BY k) FROM v",
    "SELECT sum(d) FROM v",
    "SELECT * FROM recomputed",
    "SELECT k FROM (SELECT k FROM v ORDER BY k DESC)",
    "SELECT rowid FROM v",
    "SELECT k FROM v WHERE (TIMESTAMP '2024-01-01' + to_days(k))::TIMESTAMPTZ > '2024-01-01'",
    "SELECT k::TIMESTAMPTZ FROM (SELECT TIMESTAMP '2024-01-01' AS k FROM v)",
]


@pytest.mark.full
@pytest.mark.parametrize("query", LEFT_TO_DUCKDB)
def test_these_queries_are_left_to_duckdb(query: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, d DOUBLE)")
        db.execute("INSERT INTO t VALUES (1, 0.1), (2, 0.2)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        db.execute("CREATE MATERIALIZED VIEW recomputed AS SELECT k, mad(d) OVER () AS m FROM t")
        assert not isinstance(from_state(db, query), StateResult)


@pytest.mark.full
def test_a_view_is_read_as_it_is_after_ddl(tmp_path: Path) -> None:
    """A view of the same name with other columns; a dropped one; a temporary one in its place."""
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, d INTEGER)")
        db.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        text = "SELECT * FROM v ORDER BY 1"
        assert from_state(db, text).fetchall() == [(1,), (2,)]
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT d, k FROM t")
        assert db.execute(text).fetchall() == [(10, 1), (20, 2)]
        assert from_state(db, text).fetchall() == [(10, 1), (20, 2)]
        db.execute("BEGIN")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 7 AS seven FROM t")
        assert db.execute(text).fetchall() == [(7,), (7,)]
        db.execute("ROLLBACK")
        assert from_state(db, text).fetchall() == [(10, 1), (20, 2)]
        db.execute("CREATE TEMP TABLE v AS SELECT 'mine' AS own")
        assert db.execute(text).fetchall() == [("mine",)]
        db.execute("DROP TABLE temp.v")
        assert from_state(db, text).fetchall() == [(10, 1), (20, 2)]
        db.execute("DROP MATERIALIZED VIEW v")
        with pytest.raises(ivm.errors.SqlError):
            db.execute(text)
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(d) AS s FROM t")
        assert from_state(db, "SELECT s FROM v").fetchall() == [(30,)]


@pytest.mark.full
def test_a_broken_view_is_refused_at_once() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, d VARCHAR)")
        db.execute("INSERT INTO t VALUES (1, '1')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, d::INTEGER AS n FROM t")
        assert isinstance(from_state(db, "SELECT * FROM v"), StateResult)
        with db._engine.alone():
            db._engine.broken.mark(["v"], "it does not like the letter x")
        with pytest.raises(ivm.errors.EvaluationError, match="the letter x"):
            db.execute("SELECT * FROM v")
        db.execute("REFRESH MATERIALIZED VIEW v")
        assert from_state(db, "SELECT * FROM v").fetchall() == [(1, 1)]


@pytest.mark.full
def test_an_expression_fails_in_duckdbs_words() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER)")
        db.execute("INSERT INTO t VALUES (2147483647)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        for _ in range(4):
            with pytest.raises(ivm.errors.EvaluationError, match="Overflow in addition"):
                db.execute("SELECT k + 1 FROM v").fetchall()


@pytest.mark.full
@pytest.mark.parametrize("sign", ["//", "%"])
def test_the_greatest_unsigned_integers_are_divided(sign: str) -> None:
    """They were taken for negative ones."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, c UHUGEINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, c FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW divided AS SELECT c {sign} 3 AS c FROM t")
        db.execute(f"INSERT INTO t VALUES (1, {2**128 - 1}), (2, {2**127}), (3, 5)")
        for source in ("v", "t WHERE id = 1"):
            check(db, f"SELECT c {sign} 3 AS c FROM {source}")
        assert_verified(db)


@pytest.mark.full
def test_a_transaction_reads_its_own_writes() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        text = "SELECT n FROM v"
        assert from_state(db, text).fetchall() == [(0,)]
        with db.transaction():
            db.execute("INSERT INTO t VALUES (1)")
            assert db.execute(text).fetchall() == [(1,)]
            db.execute("INSERT INTO t VALUES (2)")
            assert db.execute(text).fetchall() == [(2,)]
        assert db.execute(text).fetchall() == [(2,)]


@pytest.mark.full
def test_a_result_is_read_piece_by_piece() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t SELECT * FROM range(10)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        text = "SELECT k FROM v ORDER BY k"
        result = from_state(db, text)
        assert isinstance(result, StateResult)
        assert result.fetchone() == (0,)
        db.execute("DELETE FROM t")
        assert result.fetchmany(2) == [(1,), (2,)]
        assert result.arrow().column("k").to_pylist() == [3, 4, 5, 6, 7, 8, 9]
        assert result.fetchone() is None
        db.execute("INSERT INTO t SELECT * FROM range(3)")
        assert list(db.execute(text)) == [(0,), (1,), (2,)]
        assert db.execute(text).df()["k"].tolist() == [0, 1, 2]
        assert db.execute(text).pl()["k"].to_list() == [0, 1, 2]


@pytest.mark.full
def test_what_was_read_in_duckdb_is_in_memory_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader comes between the commit of a transaction in DuckDB and its adoption in memory."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        memory, plain = "SELECT n FROM v", "SELECT n, random() * 0 AS r FROM v"
        assert isinstance(from_state(db, memory), StateResult)
        found: list[Any] = []

        def read() -> None:
            found.append(db.execute(plain).fetchall()[0][0])
            found.append(db.execute(memory).fetchall()[0][0])

        reader = threading.Thread(target=read)
        finish = Engine._finish

        def slowly(engine: Engine, cursor: Any) -> None:
            finish(engine, cursor)
            reader.start()
            reader.join(0.3)

        monkeypatch.setattr(Engine, "_finish", slowly)
        db.execute("BEGIN")
        db.execute("CREATE TEMP TABLE mine (k INTEGER)")
        db.execute("INSERT INTO t SELECT i FROM range(10) r(i)")
        db.execute("UPDATE t SET k = r.i FROM range(5) r(i) WHERE k = r.i")
        db.execute("COMMIT")
        reader.join()
        assert found == [10, 10]


@pytest.mark.full
def test_readers_see_whole_epochs_that_never_go_back() -> None:
    """Two views of one table agree in every read, whichever way it goes."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT max(k) AS m FROM t")
        db.execute("INSERT INTO t VALUES (0)")
        both = "SELECT n.n, m.m FROM n, m WHERE n.n > 0"
        plain = "SELECT n.n, m.m, random() * 0 FROM n, m"
        with reading(db, [both, plain, both, both]):
            for k in range(1, 150):
                db.execute("INSERT INTO t VALUES (?)", [k])
                assert db.execute(both).fetchall()[0][0] == k + 1


@pytest.mark.full
def test_contents_that_nobody_reads_are_dropped() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        from_state(db, "SELECT k FROM v")
        assert db._engine.held.sizes().keys() == {"v"}
        db.execute("INSERT INTO t SELECT * FROM range(5000)")
        assert db._engine.held.sizes() == {}
        assert isinstance(from_state(db, "SELECT k FROM v"), StateResult)
        assert db._engine.held.sizes()["v"][0] == 5000
        db.execute("INSERT INTO t SELECT * FROM range(50000)")
        result = from_state(db, "SELECT count(*) FROM v")
        assert not isinstance(result, StateResult)
        assert result.fetchall() == [(55000,)]


@pytest.mark.full
def test_explain_tells_the_way() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, d DOUBLE)")
        db.execute("CREATE TABLE keyed (k INTEGER PRIMARY KEY, d DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        (plan, *_), way = db.execute("EXPLAIN SELECT k FROM v WHERE k = ?", [1]).fetchall()
        assert (plan, *way) == ("physical_plan", "read_from", "memory")
        for query, why in (
            ("SELECT k FROM t", "'t' has no key, and is no materialized view"),
            ("SELECT v.k FROM v JOIN t USING (k)", "'t' has no key, and is no materialized view"),
            ("SELECT d FROM keyed WHERE d = 1", "does not ask for a key of the table 'keyed'"),
            ("SELECT random() FROM v", "depends on more than the rows"),
            ("SELECT sum(d) FROM v", "DuckDB rounds otherwise"),
            ("SELECT k FROM v WHERE k::VARCHAR::BLOB = ?", "parameters"),
        ):
            params = [b"x"] if "?" in query else None
            *_, (key, way) = db.execute(f"EXPLAIN {query}", params).fetchall()
            assert key == "read_from"
            assert way.startswith("DuckDB, after a flush: ")
            assert why in way
        with db.transaction():
            db.execute("INSERT INTO t VALUES (1, 2)")
            *_, (key, way) = db.execute("EXPLAIN SELECT k FROM v").fetchall()
            assert "changes of its own" in way
        analyzed = db.execute("EXPLAIN ANALYZE SELECT k FROM v").fetchall()
        assert "read_from" not in [key for key, _ in analyzed]


@pytest.mark.parametrize("text", ["SELECT d FROM t WHERE k = 1", "EXPLAIN FROM t WHERE k = 1"])
def test_a_table_is_dropped_while_a_read_of_it_is_planned(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, d DOUBLE)")
        planned = BindingCatalog.canonical

        def dropped(self: BindingCatalog, spelling: str) -> str:
            with db.connection() as other:
                other.execute("DROP TABLE IF EXISTS t")
            return planned(self, spelling)

        def repeat() -> None:
            for _ in range(5):
                db.execute(text).fetchall()

        monkeypatch.setattr(BindingCatalog, "canonical", dropped)
        with pytest.raises(ivm.errors.SqlError, match="Table with name t does not exist"):
            repeat()


@pytest.mark.full
def test_readers_beside_ddl_get_the_rows_of_one_definition() -> None:
    """Every value says how many columns the view has; a missing view is the one error there is."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a FROM t")
        failures: list[object] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                try:
                    result = db.execute("SELECT * FROM v")
                    rows = result.fetchall()
                except ivm.errors.SqlError:
                    continue
                except BaseException as error:
                    failures.append(error)
                    continue
                if rows != [(len(result.columns),) * len(result.columns)]:
                    failures.append((result.columns, rows))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for turn in range(8):
            items = ", ".join(f"{turn % 3 + 1} AS c{i}" for i in range(turn % 3 + 1))
            if turn % 4 == 3:
                db.execute("DROP MATERIALIZED VIEW v")
                db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {items} FROM t")
            else:
                db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT {items} FROM t")
            for _ in range(5):
                db.execute("SELECT * FROM v").fetchall()
        done.set()
        for reader in readers:
            reader.join()
        assert failures == []


@pytest.mark.full
@pytest.mark.parametrize(
    "call", ["now()", "current_date", "today()", "age(TIMESTAMP '2020-01-01')"]
)
def test_a_query_that_asks_for_the_time_goes_to_duckdb(call: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER); INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        told = db.execute(f"EXPLAIN SELECT {call} AS t FROM v").fetchall()
        assert any("asks for the time" in text for _, text in told)
        assert not any("asks for the time" in t for _, t in db.execute("EXPLAIN FROM v").fetchall())


@pytest.mark.full
def test_ctrl_c_in_the_middle_of_a_read_loses_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal waits until the read has taken the deltas and added them."""
    add = WholeContent.add

    def interrupted(self: WholeContent, deltas: Sequence[ZSet]) -> None:
        signal.raise_signal(signal.SIGINT)
        add(self, deltas)

    assert isinstance(_read_after(KeyboardInterrupt, interrupted, monkeypatch), StateResult)


def _read_after(
    error: type[BaseException], adding: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> ivm.Result:
    """The result of a read after another one in which the deltas are added so, and which fails."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        assert isinstance(from_state(db, "SELECT n FROM v"), StateResult)
        db.execute("INSERT INTO t VALUES (1)")
        with monkeypatch.context() as patch:
            patch.setattr(WholeContent, "add", adding)
            with pytest.raises(error):
                db.execute("SELECT n FROM v")
        db.execute("INSERT INTO t VALUES (2)")
        result = db.execute("SELECT n FROM v")
        assert result.fetchall() == [(2,)]
        return result


def test_a_failure_in_the_middle_of_a_read_loses_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are loaded anew, since some of the deltas may be added and others not."""

    def failing(self: WholeContent, deltas: Sequence[ZSet]) -> None:
        raise MemoryError

    _read_after(MemoryError, failing, monkeypatch)


@pytest.mark.full
def test_a_view_over_a_recomputed_one_is_read_after_recomputing_it() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER); INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW whole AS SELECT mad(k) OVER () AS m FROM t")
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM whole")
        db.execute("CREATE MATERIALIZED VIEW top AS SELECT n + 1 AS n FROM above")
        for n in range(2, 8):
            db.execute("INSERT INTO t VALUES (?)", [n])
            assert db.execute("FROM above").fetchall() == [(n,)]
            assert db.execute("FROM top").fetchall() == [(n + 1,)]
        told = db.execute("EXPLAIN FROM top").fetchall()
        assert any("reads one that is recomputed" in text for _, text in told)


PLAIN_VIEWS = [
    ("CREATE VIEW p AS SELECT k, c AS amount FROM v WHERE k > 1", True),
    ("CREATE VIEW p AS SELECT q.k, count(*) AS amount FROM q GROUP BY q.k", True),
    ("CREATE VIEW p(k, amount) AS SELECT a.k, b.c FROM v a JOIN v b USING (k)", True),
    ("CREATE VIEW p AS SELECT k, c AS amount FROM v ORDER BY c DESC", False),
    ("CREATE VIEW p AS SELECT k, c AS amount FROM ordered", False),
    ("CREATE VIEW p AS SELECT k, random() AS amount FROM v", False),
    ("CREATE VIEW p AS SELECT k, c AS amount FROM t", False),
    ("CREATE VIEW p AS SELECT v.k, t.c AS amount FROM v, t", False),
]


@pytest.mark.full
@pytest.mark.parametrize(("definition", "from_memory"), PLAIN_VIEWS)
def test_plain_views_over_views(definition: str, from_memory: bool) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, c DECIMAL(9,2))")
        db.execute("INSERT INTO t SELECT i % 5, i FROM range(40) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, c FROM t WHERE c < 30")
        db.execute("CREATE VIEW q AS SELECT * FROM v WHERE c > 2")
        db.execute("CREATE VIEW ordered AS SELECT * FROM v ORDER BY k")
        db.execute(definition)
        for text in ("SELECT * FROM p", "SELECT k FROM p WHERE amount > 1 ORDER BY ALL LIMIT 3"):
            if "random" in definition:
                assert not isinstance(from_state(db, text), StateResult)
                continue
            assert check(db, text) == from_memory
            db.execute("DELETE FROM t WHERE c = 12")
            db.execute("INSERT INTO t VALUES (3, 2.5), (NULL, 3)")
            assert check(db, text) == from_memory


@pytest.mark.full
def test_a_plain_view_that_is_replaced_is_read_anew() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS k")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        for added in (1, 2):
            db.execute(f"CREATE OR REPLACE VIEW p AS SELECT k + {added} AS more FROM v")
            assert check(db, "SELECT * FROM p")
            assert db.execute("SELECT * FROM p").fetchall() == [(1 + added,)]
        db.execute("CREATE TEMP VIEW p AS SELECT 7 AS seven")
        assert db.execute("SELECT * FROM p").fetchall() == [(7,)]
