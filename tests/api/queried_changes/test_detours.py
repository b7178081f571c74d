"""What a statement reads is fresh, whatever way its words take to a table or view.

A grid: ways of reading x kinds of views, each outside of a transaction and inside of one that has
changed the table, beside a DuckDB whose views are plain ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.session.names.statement_kinds import Reads, read_by_kind
from ivm.sql.statements import parse as st
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER

VIEWS = {
    "linear": "SELECT a AS k, 1 AS n FROM t WHERE a > 1",
    "grouped": "SELECT a % 3 AS k, count(*) AS n FROM t GROUP BY ALL",
    "recomputed": (
        "WITH RECURSIVE r(k, n) USING KEY (k) AS"
        " (SELECT a, 1 FROM t UNION SELECT k, n + 1 FROM r WHERE n < 3) SELECT k, n FROM r"
    ),
    "above": "SELECT k % 2 AS k, sum(n)::BIGINT AS n FROM recomputed GROUP BY ALL",
}
PLAIN = "CREATE VIEW plain AS SELECT k, n FROM above UNION ALL SELECT k, n FROM linear"
NAMES = (*VIEWS, "plain", "t_as_view")

WAYS = {
    "query": "SELECT k, n FROM {v}",
    "temporary view": "CREATE OR REPLACE TEMP VIEW x AS FROM {v}; SELECT k, n FROM x",
    "temporary view that hides a table": (
        "CREATE OR REPLACE TEMP VIEW hidden AS FROM {v}; SELECT k, n FROM hidden"
    ),
    "temporary table macro": "CREATE OR REPLACE TEMP MACRO x() AS TABLE FROM {v}; FROM x()",
    "temporary macro": (
        "CREATE OR REPLACE TEMP MACRO y() AS (SELECT list({{'k': k, 'n': n}}) FROM {v});"
        " SELECT unnest(y(), recursive := true)"
    ),
    "temporary view in an UPDATE": (
        "CREATE OR REPLACE TEMP VIEW x AS FROM {v}; CREATE OR REPLACE TABLE d AS SELECT 0 AS k,"
        " 0::BIGINT AS n, k AS i, n AS j FROM x; UPDATE d SET k = s.k, n = s.n FROM x s"
        " WHERE s.k = i AND s.n = j; SELECT k, n FROM d"
    ),
    "query()": "SELECT k, n FROM query('FROM {v}')",
    "query_table()": "SELECT k, n FROM query_table('{v}')",
    "CREATE TABLE AS": "CREATE OR REPLACE TABLE c AS FROM {v}; SELECT k, n FROM c",
    "CREATE TEMP TABLE AS": "CREATE OR REPLACE TEMP TABLE x2 AS FROM {v}; SELECT k, n FROM x2",
    "SET VARIABLE": (
        "SET VARIABLE x = (SELECT list({{'k': k, 'n': n}}) FROM {v});"
        " SELECT unnest(getvariable('x'), recursive := true)"
    ),
    "CALL": "CALL query('SELECT k, n FROM {v}')",
    "COPY": "COPY {v} TO '{f}' (HEADER); SELECT k, n FROM '{f}'",
    "COPY of a query": "COPY (SELECT k, n FROM {v}) TO '{f}' (HEADER); SELECT k, n FROM '{f}'",
    "INSERT": (
        "CREATE OR REPLACE TABLE c(k INT, n BIGINT); CREATE OR REPLACE TEMP VIEW x AS FROM {v};"
        " INSERT INTO c SELECT k, n FROM x; SELECT k, n FROM c"
    ),
    "INSERT of subqueries": (
        "CREATE OR REPLACE TABLE c(k INT, n BIGINT[]);"
        " INSERT INTO c VALUES (1, (SELECT list(n) FROM {v})); SELECT 0 AS k, unnest(n) AS n FROM c"
    ),
    "MERGE": (
        "CREATE OR REPLACE TABLE c(k INT, n BIGINT); CREATE OR REPLACE TEMP VIEW x AS FROM {v};"
        " MERGE INTO c USING x ON false WHEN NOT MATCHED THEN INSERT VALUES (x.k, x.n);"
        " SELECT k, n FROM c"
    ),
    "DELETE": (
        "CREATE OR REPLACE TABLE c AS SELECT i::INT AS k, 0 AS n FROM range(99) r(i);"
        " DELETE FROM c WHERE k NOT IN (SELECT k FROM {v}); SELECT k, n FROM c"
    ),
    "trigger": (
        "CREATE OR REPLACE TABLE c(k INT, n BIGINT); CREATE OR REPLACE TABLE d(i INT);"
        " CREATE TRIGGER tr AFTER INSERT ON d FOR EACH STATEMENT INSERT INTO c"
        " SELECT k, n FROM {v}; INSERT INTO d SELECT 1; DROP TRIGGER tr ON d; SELECT k, n FROM c"
    ),
    "PIVOT": "PIVOT (FROM {v}) ON k USING count(*) GROUP BY n",
    "SUMMARIZE": "SELECT column_name, count, max FROM (SUMMARIZE {v})",
    "PREPARE": (
        "PREPARE p AS SELECT k, n FROM {v} WHERE k >= $1; EXECUTE p(0)"
    ),
    "VALUES": "VALUES ((SELECT sum(n) FROM {v}), (SELECT count(*) FROM {v}))",
    "SET of a temporary view": (
        "CREATE OR REPLACE TEMP VIEW x AS FROM {v};"
        " SET VARIABLE x = (SELECT list({{'k': k, 'n': n}}) FROM x);"
        " SELECT unnest(getvariable('x'), recursive := true)"
    ),
}  # fmt: skip
OUTSIDE = {
    "EXPORT": "EXPORT DATABASE '{f}.{v}'; SELECT a FROM '{f}.{v}/t.csv'",
    "view": "CREATE OR REPLACE VIEW z AS FROM {v}; SELECT k, n FROM z",
    # DuckDB lets a transaction write to one database
    "COPY FROM DATABASE": (
        "ATTACH ':memory:' AS o; COPY FROM DATABASE memory TO o;"
        " CREATE OR REPLACE TEMP TABLE x2 AS SELECT k, n FROM o.{v}; DETACH o; FROM x2"
    ),
    "INSERT into an attached database": (
        "ATTACH ':memory:' AS o; CREATE TABLE o.c(k INT, n BIGINT);"
        " INSERT INTO o.c SELECT k, n FROM {v}; CREATE OR REPLACE TEMP TABLE x2 AS FROM o.c;"
        " DETACH o; FROM x2"
    ),
}


class Both:
    """A database with its oracle, and the rows inserted into both."""

    def __init__(self, folder: Path) -> None:
        self.db, self.duck, self.folder = ivm.connect(), duckdb.connect(), folder
        self.a = 0
        for run in (self.db.execute, self.duck.execute):
            run("CREATE TABLE t (a INT)")
            run("CREATE TABLE hidden (k INT, n INT)")
            for name, query in VIEWS.items():
                kind = "MATERIALIZED VIEW" if run == self.db.execute else "VIEW"
                run(f"CREATE {kind} {name} AS {query}")
            run(PLAIN)
            run("CREATE VIEW t_as_view AS SELECT a AS k, 1 AS n FROM t")

    def insert(self) -> None:
        self.a += 1
        for run in (self.db.execute, self.duck.execute):
            run(f"INSERT INTO t VALUES ({self.a})")

    def demand_equal(self, way: str, view: str) -> None:
        texts = way.format(v=view, f=self.folder / f"{self.a}.csv").split("; ")
        found = []
        for run in (self.db.execute, self.duck.execute):
            for text in texts:
                result = run(text)
            found.append(sorted(map(repr, result.fetchall())))
        assert found[0] == found[1], (view, self.a)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    both = Both(tmp_path_factory.mktemp("detours"))
    strategies = {view.name: view.strategy for view in both.db.views()}
    assert strategies["recomputed"] == "whole recompute"
    assert strategies["above"] != "whole recompute"
    yield both
    both.db.close()


@pytest.fixture
def both(made: Both) -> Iterator[Both]:
    yield made
    for run in (made.db.execute, made.duck.execute):
        with contextlib.suppress(errors.InputError, duckdb.TransactionException):
            run("ROLLBACK")


def _names(way: str) -> Sequence[str]:
    """Every kind of view; in a quick run one, another for each way."""
    return NAMES[len(way) % 6 :: 6] if TIER == "quick" else NAMES


@pytest.mark.cases(5)
@pytest.mark.parametrize("way", [*WAYS, *OUTSIDE])
def test_a_way_of_reading_outside_of_a_transaction(both: Both, way: str) -> None:
    for view in _names(way):
        both.insert()
        both.demand_equal({**WAYS, **OUTSIDE}[way], view)


@pytest.mark.full
@pytest.mark.cases(5)
@pytest.mark.parametrize("way", WAYS)
def test_a_way_of_reading_a_transaction_s_own_writes(both: Both, way: str) -> None:
    for run in (both.db.execute, both.duck.execute):
        run("BEGIN")
    for view in _names(way):
        both.insert()
        both.demand_equal(WAYS[way], view)
    for run in (both.db.execute, both.duck.execute):
        run("COMMIT" if len(way) % 2 else "ROLLBACK")
    both.demand_equal("SELECT k, n FROM {v}", "plain")
    assert_verified(both.db)


@pytest.mark.full
def test_a_view_made_in_the_transaction_that_reads_it(both: Both) -> None:
    for run in (both.db.execute, both.duck.execute):
        run("BEGIN")
        run("CREATE VIEW fresh AS FROM plain")
    for _ in range(2):
        both.insert()
        both.demand_equal("SELECT k, n FROM fresh", "")
        both.demand_equal("CREATE OR REPLACE TABLE c AS SELECT k, n FROM fresh; FROM c", "")
    for run in (both.db.execute, both.duck.execute):
        run("ROLLBACK")


STATEMENTS = {
    "ALTER": "ALTER TABLE t ADD COLUMN b INT DEFAULT 1",
    "ANALYZE": "ANALYZE",
    "ATTACH": "ATTACH 'x' AS o",
    "CALL": "CALL query('FROM t')",
    "COPY": "COPY t TO 'x'",
    "COPY_DATABASE": "COPY FROM DATABASE memory TO o",
    "CREATE": "CREATE TABLE c AS FROM t",
    "DELETE": "DELETE FROM t",
    "DETACH": "DETACH o",
    "DROP": "DROP TABLE t",
    "EXPLAIN": "EXPLAIN ANALYZE FROM t",
    "EXPORT": "EXPORT DATABASE 'x'",
    "INSERT": "INSERT INTO t FROM t",
    "LOAD": "LOAD json",
    "MERGE_INTO": "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
    "MULTI": "PIVOT t ON a USING count(*)",
    "PRAGMA": "PRAGMA storage_info('t')",
    "SELECT": "FROM t",
    "SET": "SET threads = 2",
    "UPDATE": "UPDATE t SET a = 1",
    "VACUUM": "VACUUM",
    "VARIABLE_SET": "SET VARIABLE x = (FROM t)",
}
NOT_RUN = {  # ours, within another one, or never made of a text
    *("CREATE_FUNC", "EXECUTE", "EXTENSION", "INVALID", "LOGICAL_PLAN", "PREPARE", "RELATION"),
    "TRANSACTION",
}
NOTHING = {"ATTACH", "DETACH", "DROP", "LOAD", "SET", "VACUUM", "ANALYZE"}
EVERYTHING = {"CALL", "COPY_DATABASE", "EXPORT", "PRAGMA"}


def test_every_kind_of_statement_is_specified() -> None:
    known = {name for name in dir(duckdb.StatementType) if name.isupper()}
    assert known == STATEMENTS.keys() | NOT_RUN
    for kind, text in STATEMENTS.items():
        (statement,) = st.parse(text)
        nothing, everything = kind in NOTHING, kind in EVERYTHING
        wanted = Reads.NOTHING if nothing else Reads.EVERYTHING if everything else Reads.NAMED
        assert read_by_kind(statement) is wanted, text
    unheard = st.Other("FROBNICATE t", 0, "frobnicate")
    assert read_by_kind(unheard) is Reads.EVERYTHING


def test_a_read_of_a_sequence_beside_two_relations(both: Both) -> None:
    for _ in range(2):
        both.insert()
    both.db.execute("CREATE SEQUENCE s; CREATE MACRO following() AS nextval('s')")
    assert len(both.db.execute("SELECT nextval('s') FROM t, linear LIMIT 2").fetchall()) == 2
    assert len(both.db.execute("SELECT following() FROM t, linear LIMIT 2").fetchall()) == 2
    with pytest.raises(errors.SqlError):
        both.db.execute("SELECT nextval('nothing') FROM t, linear")
    both.insert()
    both.demand_equal("SELECT k, n FROM {v}", "plain")
