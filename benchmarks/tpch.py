"""TPC-H for the demo: real generated data in a DuckDB file, its keys, and eight views.

The queries are TPC-H's own with its validation parameters; an ORDER BY without LIMIT says nothing
about a view's rows and is left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb

KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}

VIEWS = {
    "q1_pricing_summary": """
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
               sum(l_extendedprice) AS sum_base_price,
               sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
               avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price,
               avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY
        GROUP BY l_returnflag, l_linestatus""",
    "q3_shipping_priority": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue,
               o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate LIMIT 10""",
    "q5_local_supplier_volume": """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'ASIA'
          AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name""",
    "q6_forecast_revenue": """
        SELECT sum(l_extendedprice * l_discount) AS revenue
        FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "q9_product_profit": """
        SELECT nation, o_year, sum(amount) AS sum_profit
        FROM (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
                     l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
              FROM part, supplier, lineitem, partsupp, orders, nation
              WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
                AND p_partkey = l_partkey AND o_orderkey = l_orderkey
                AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year""",
    "q10_returned_items": """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue,
               c_acctbal, n_name, c_address, c_phone, c_comment
        FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'
          AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        ORDER BY revenue DESC LIMIT 20""",
    "q12_shipping_modes": """
        SELECT l_shipmode,
               sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END)
                   AS high_line_count,
               sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END)
                   AS low_line_count
        FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
          AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
          AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
        GROUP BY l_shipmode""",
    # A view over a view: it steps by q9's delta.
    "profit_by_nation": """
        SELECT nation, sum(sum_profit) AS profit, max(sum_profit) AS best_year
        FROM q9_product_profit GROUP BY nation""",
}


def standalone(name: str) -> str:
    """A view's query over the base tables alone: the view it reads stands in it as a CTE."""
    below = [other for other in VIEWS if other in VIEWS[name]]
    if not below:
        return VIEWS[name]
    parts = ", ".join(f"{other} AS ({VIEWS[other]})" for other in below)
    return f"WITH {parts} {VIEWS[name]}"


def generate(folder: Path, scale: float) -> None:
    """Write the eight tables as Parquet files with tpchgen-cli.

    Args:
        folder: where `<table>.parquet` go.
        scale: TPC-H scale factor; 1 has six million lineitems.
    """
    beside = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if program is None:
        raise SystemExit("tpchgen-cli is not installed: pip install tpchgen-cli")
    command = [program, "parquet", "--scale-factor", str(scale), "--output-dir", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def load(parquet: Path, file: Path) -> None:
    """Make a DuckDB file of the Parquet files with plain DuckDB, primary keys included."""
    with duckdb.connect(str(file)) as con:
        for table, key in KEYS.items():
            source = str(parquet / f"{table}.parquet").replace("'", "''")
            con.execute(f"CREATE TABLE {table} AS FROM read_parquet('{source}')").fetchall()
            con.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({key})").fetchall()
