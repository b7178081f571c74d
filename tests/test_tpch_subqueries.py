"""The queries of TPC-H with subqueries, over a small random database, under changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from ivm.storage.duck import Cursor, rows
from tests.test_compile import World, change, rounded

TABLES = """
CREATE TABLE region (r_regionkey INTEGER, r_name VARCHAR);
CREATE TABLE nation (n_nationkey INTEGER, n_name VARCHAR, n_regionkey INTEGER);
CREATE TABLE supplier (s_suppkey INTEGER, s_name VARCHAR, s_address VARCHAR, s_nationkey INTEGER,
    s_phone VARCHAR, s_acctbal DECIMAL(15,2), s_comment VARCHAR);
CREATE TABLE part (p_partkey INTEGER, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR,
    p_type VARCHAR, p_size INTEGER, p_container VARCHAR);
CREATE TABLE partsupp (ps_partkey INTEGER, ps_suppkey INTEGER, ps_availqty INTEGER,
    ps_supplycost DECIMAL(15,2));
CREATE TABLE customer (c_custkey INTEGER, c_name VARCHAR, c_phone VARCHAR,
    c_acctbal DECIMAL(15,2));
CREATE TABLE orders (o_orderkey BIGINT, o_custkey INTEGER, o_orderstatus VARCHAR,
    o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority VARCHAR, o_comment VARCHAR);
CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey INTEGER, l_suppkey INTEGER,
    l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2),
    l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE);
"""

QUERIES = {
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15
            AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
            AND r_name = 'EUROPE' AND ps_supplycost = (SELECT min(ps_supplycost)
                FROM partsupp, supplier, nation, region
                WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
                    AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
                    AND r_name = 'EUROPE')
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    4: """SELECT o_orderpriority, count(*) AS order_count FROM orders
        WHERE o_orderdate >= DATE '1993-07-01'
            AND o_orderdate < DATE '1993-07-01' + INTERVAL 3 MONTH
            AND EXISTS (SELECT * FROM lineitem
                WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    11: """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
        FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (
            SELECT sum(ps_supplycost * ps_availqty) * 0.1 FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')
        ORDER BY value DESC""",
    13: """SELECT c_count, count(*) AS custdist FROM (
            SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders
                ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
    15: """WITH revenue AS (
            SELECT l_suppkey AS supplier_no,
                sum(l_extendedprice * (1 - l_discount)) AS total_revenue
            FROM lineitem WHERE l_shipdate >= DATE '1996-01-01'
                AND l_shipdate < DATE '1996-01-01' + INTERVAL 3 MONTH GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no
            AND total_revenue = (SELECT max(total_revenue) FROM revenue)
        ORDER BY s_suppkey""",
    16: """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
        FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45'
            AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 15)
            AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier
                WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size
        ORDER BY supplier_cnt DESC, p_brand, p_type, p_size""",
    17: """SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
            AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem
                WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey
                HAVING sum(l_quantity) > 60)
            AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey, c_custkey LIMIT 100""",
    20: """SELECT s_name, s_address FROM supplier, nation
        WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
                WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
                    AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                        WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                            AND l_shipdate >= DATE '1996-01-01'
                            AND l_shipdate < DATE '1996-01-01' + INTERVAL 1 YEAR))
            AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        ORDER BY s_name""",
    21: """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
            AND l1.l_receiptdate > l1.l_commitdate
            AND EXISTS (SELECT * FROM lineitem l2
                WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
            AND NOT EXISTS (SELECT * FROM lineitem l3
                WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
                    AND l3.l_receiptdate > l3.l_commitdate)
            AND s_nationkey = n_nationkey AND n_name = 'GERMANY'
        GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100""",
    22: """SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal FROM (
            SELECT substring(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
            WHERE substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23')
                AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
                    AND substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23'))
                AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode ORDER BY cntrycode""",
}


def build(cursor: Cursor, seed: int) -> None:
    """The tables with rows that the queries' conditions let through now and then."""
    cursor.execute("SET arrow_lossless_conversion = true")
    cursor.execute("SET threads = 1")
    cursor.execute(TABLES)
    pick = Random(seed).choice
    keys, dates = [1, 2, 3, 4, 5, 6], ["1993-07-05", "1993-08-01", "1996-01-09", "1996-02-01"]

    def insert(table: str, count: int, *choices: list[object]) -> None:
        for _ in range(count):
            values = [pick(options) for options in choices]
            marks = ", ".join("?" * len(values))
            cursor.execute(f"INSERT INTO {table} VALUES ({marks})", values)

    some: list[object] = list(keys)
    text: list[object] = ["a", "b"]
    money: list[object] = ["-1.50", "10.00", "77.25", "300"]
    day: list[object] = list(dates)
    insert("region", 3, some[:2], ["EUROPE", "ASIA"])
    insert("nation", 4, some[:3], ["GERMANY", "GERMANY", "PERU"], some[:2])
    comments: list[object] = ["fine", "Customer bad Complaints", None]
    insert("supplier", 10, [*some, None], text, text, some[:3], text, money, comments)
    brands: list[object] = ["Brand#23", "Brand#45", "Brand#11"]
    kinds: list[object] = ["SMALL BRASS", "MEDIUM POLISHED TIN", "LARGE BRASS"]
    names: list[object] = ["forest green", "red"]
    insert("part", 10, some, names, text, brands, kinds, [15, 15, 49], ["MED BOX", "JUMBO"])
    insert("partsupp", 25, some, [*some, None], [1, 5, 40], money)
    insert("customer", 12, [*some, 7, 8, 9], text, ["13-1", "31-2", "99-3"], money)
    status: list[object] = ["F", "O"]
    notes: list[object] = ["special blue requests", "x"]
    insert("orders", 15, some, some[:4], status, money, day, text, notes)
    amounts: list[object] = [1, 5, 20, 50]
    insert("lineitem", 60, some, some, some, amounts, money, ["0.1", "0"], day, day, day)


@pytest.fixture(scope="module")
def records() -> Iterator[dict[int, list[tuple[object, object]]]]:
    """Per query and epoch: its rows by deltas, and DuckDB's answer."""
    random = Random(4)
    with duckdb.connect() as cursor, duckdb.connect() as spare:
        build(cursor, 1)
        build(spare, 2)
        world = World(cursor, list(QUERIES.values()))
        tables = [name for (name,) in rows(cursor, "SELECT table_name FROM duckdb_tables()")]
        found: dict[int, list[tuple[object, object]]] = {number: [] for number in QUERIES}
        for _ in range(8):
            for number, query in QUERIES.items():
                wanted = Counter(repr(rounded(row)) for row in rows(cursor, query))
                found[number].append((world.rows[query].copy(), wanted))
            names = [f'"main"."{name}"' for name in tables if random.random() < 0.4]
            world.step({name: change(cursor, random, name, spare) for name in names})
        yield found


@pytest.mark.parametrize("number", QUERIES)
def test_query_follows_its_tables(
    records: dict[int, list[tuple[object, object]]], number: int
) -> None:
    assert any(wanted for _, wanted in records[number])
    for maintained, wanted in records[number]:
        assert maintained == wanted
