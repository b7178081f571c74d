"""Averages of integers whose last bit depends on how DuckDB's optimizer has them divided.

It divides long doubles where it computes avg() as such, and rounds twice; where it makes it a sum
over a count, these are doubles. A view holds the bits of its own circuit, and a query that is
answered from memory has those of DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ivm
from tests.api.reads.test_reads_from_state import check

ROWS = [
    "VALUES (1, 9007199254740993), (1, 9007199254740993), (1, 1), (2, 5)",
    "SELECT 1 + i // 2051, 11914381455 + (i < 912)::INTEGER FROM range(2060) r(i)",
]
QUERIES = [
    "SELECT g, avg(n) AS a FROM {} GROUP BY g",
    "SELECT avg(n) AS a FROM {} GROUP BY g",
    "SELECT avg(n) AS a, count(*) AS c FROM {} GROUP BY g",
    "SELECT avg(n) AS a FROM {}",
    "SELECT a, count(*) AS c FROM (SELECT avg(n) AS a FROM {} GROUP BY g) GROUP BY a",
]


@pytest.fixture(params=ROWS)
def db(request: pytest.FixtureRequest) -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("CREATE TABLE t (g INTEGER, n BIGINT)")
        opened.execute(f"INSERT INTO t {request.param}")
        yield opened


@pytest.mark.full
def test_a_view_takes_back_the_very_averages_that_it_has(db: ivm.Database) -> None:
    views = []
    for i, query in enumerate(QUERIES):
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query.format('t')}")
        db.execute(f"CREATE MATERIALIZED VIEW above{i} AS SELECT a, count(*) FROM v{i} GROUP BY a")
        views += [f"v{i}", f"above{i}"]
    for change in ("INSERT INTO t VALUES (1, 7), (3, 1)", "DELETE FROM t WHERE g = 1"):
        db.execute(change)
        for name in views:
            ((*_, same),) = db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()
            assert same, name


def test_a_query_has_the_bits_that_duckdb_gives(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, n FROM t")
    for query in QUERIES:
        check(db, query.format("v"))
    db.execute("DELETE FROM t WHERE g = 1")
    for query in QUERIES:
        assert check(db, query.format("v")) == (query in QUERIES[:4])
