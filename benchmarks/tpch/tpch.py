"""TPC-H for the demo: real generated data in a DuckDB file, its keys, and eight views."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb

from benchmarks.tpch.tpch_queries import QUERIES

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
    "q1_pricing_summary": QUERIES["q1"],
    "q3_shipping_priority": QUERIES["q3"],
    "q5_local_supplier_volume": QUERIES["q5"],
    "q6_forecast_revenue": QUERIES["q6"],
    "q9_product_profit": QUERIES["q9"],
    "q10_returned_items": QUERIES["q10"],
    "q12_shipping_modes": QUERIES["q12"],
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
