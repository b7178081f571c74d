"""TPC-H: all 22 queries are maintained by deltas, and right under refresh streams."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import ivm
from benchmarks.harness import maintain
from benchmarks.tpch import tpch
from benchmarks.tpch.tpch_queries import QUERIES
from benchmarks.tpch_refresh import apply_plainly, refreshes
from tests.support.golden_explain import check
from tests.support.view_oracle import assert_same_rows, assert_verified

pytestmark = pytest.mark.full(smoke=4)

SCHEMA = """
CREATE TABLE region (r_regionkey INTEGER PRIMARY KEY, r_name VARCHAR, r_comment VARCHAR);
CREATE TABLE nation (n_nationkey INTEGER PRIMARY KEY, n_name VARCHAR, n_regionkey INTEGER,
    n_comment VARCHAR);
CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name VARCHAR, s_address VARCHAR,
    s_nationkey INTEGER, s_phone VARCHAR, s_acctbal DECIMAL(15,2), s_comment VARCHAR);
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name VARCHAR, c_address VARCHAR,
    c_nationkey INTEGER, c_phone VARCHAR, c_acctbal DECIMAL(15,2), c_mktsegment VARCHAR,
    c_comment VARCHAR);
CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR,
    p_type VARCHAR, p_size INTEGER, p_container VARCHAR, p_retailprice DECIMAL(15,2),
    p_comment VARCHAR);
CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INTEGER,
    ps_supplycost DECIMAL(15,2), ps_comment VARCHAR, PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_orderstatus VARCHAR,
    o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR,
    o_shippriority INTEGER, o_comment VARCHAR);
CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER,
    l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2),
    l_tax DECIMAL(15,2), l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE,
    l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR, l_shipmode VARCHAR,
    l_comment VARCHAR, PRIMARY KEY (l_orderkey, l_linenumber));
"""


@pytest.fixture(scope="module")
def empty() -> Iterator[ivm.Database]:
    """The eight tables without rows."""
    with ivm.connect() as db:
        db.execute(SCHEMA)
        yield db


@pytest.mark.parametrize("name", QUERIES)
def test_no_query_is_recomputed(empty: ivm.Database, name: str) -> None:
    check(empty, f"tpch_{name}", QUERIES[name])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables at scale 0.05 in a DuckDB file."""
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder, 0.05)
    tpch.load(folder, folder / "tpch.duckdb")
    return folder / "tpch.duckdb"


@pytest.mark.timeout(600)
def test_all_views_are_right_under_refresh_streams(file: Path) -> None:
    twin = shutil.copy(file, file.with_name("twin.duckdb"))
    with ivm.connect(str(file)) as db, duckdb.connect(str(twin)) as plain:
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for rows in (1000, 20):
            for transaction in refreshes(plain, 1, rows):
                maintain.commit(db, transaction)
                apply_plainly(plain, transaction)
                for name, query in QUERIES.items():
                    answer = plain.execute(query).fetchall()
                    assert_same_rows(db.execute(f"SELECT * FROM {name}"), answer, name)
        assert_verified(db)
