"""TPC-H's 22 views alive at once under refresh transactions: `python -m benchmarks.tpch_refresh`.

A round is one transaction of each refresh function, 1000 changed rows each: new orders come with
their lineitems (RF1), old orders go with theirs (RF2), and prices are corrected. The peer is DuckDB
on the same machine, which applies the same transaction and recomputes the tables of all 22 queries.

Three moments are timed, from the beginning of the transaction: when it is committed, durable and
its changefeeds told (the peer has no such moment before its last one); when the tables of all views
in DuckDB hold the new rows, as the peer's do when it has recomputed them; and when the rows of all
22 have also been read out, one query each, on both sides.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

import ivm
from benchmarks.harness import maintain
from benchmarks.harness.page import Page, with_keep
from benchmarks.harness.stream import Change, Transaction, changes_in
from benchmarks.tpch import tpch
from benchmarks.tpch.tpch_queries import QUERIES

ROWS = 1000
Clock = Callable[[], float]
Times = list[float]
HEAD = """| 22 views, until | kept | recomputed by DuckDB | ratio |
| --- | --- | --- | --- |"""
MOMENTS = ("committed", "in DuckDB's tables", "read out")
_LINES = 4  # of an order, on average
_REFRESH = {
    # New orders are copies of old ones, under the keys that TPC-H leaves free.
    "RF1": (
        ("insert", "orders", "SELECT * REPLACE (o_orderkey + 8 AS o_orderkey) FROM chosen"),
        ("insert", "lineitem", "SELECT lineitem.* REPLACE (l_orderkey + 8 AS l_orderkey) "
         "FROM lineitem JOIN chosen ON l_orderkey = o_orderkey"),
    ),
    "RF2": (
        ("delete", "lineitem", "SELECT l_orderkey, l_linenumber "
         "FROM lineitem JOIN chosen ON l_orderkey = o_orderkey"),
        ("delete", "orders", "SELECT o_orderkey FROM chosen"),
    ),
    "corrections": (
        ("upsert", "lineitem", "SELECT lineitem.* REPLACE (l_extendedprice + 1 AS l_extendedprice,"
         " l_quantity % 50 + 1 AS l_quantity) FROM lineitem JOIN chosen ON l_orderkey = o_orderkey"
         " ORDER BY l_orderkey LIMIT {third}"),
        ("upsert", "partsupp", "SELECT * REPLACE (ps_supplycost + 1 AS ps_supplycost) "
         "FROM partsupp ORDER BY hash(ps_partkey, ps_suppkey, {round}) LIMIT {third}"),
        ("upsert", "customer", "SELECT * REPLACE (c_acctbal - 10 AS c_acctbal) FROM customer "
         "ORDER BY hash(c_custkey, {round}) LIMIT {third}"),
    ),
}  # fmt: skip
# Order keys are 1 to 7, 32 to 39 and so on of each 32: the first eight, so 8 to 15 more are free.
_CHOSEN = {
    "RF1": "o_orderkey % 32 < 8 AND o_orderkey > 0 "
    "AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.o_orderkey = orders.o_orderkey + 8)",
    "RF2": "o_orderkey % 32 < 8",
    "corrections": "true",
}


def refreshes(
    con: duckdb.DuckDBPyConnection, rounds: int, rows: int = ROWS
) -> Iterator[Transaction]:
    """Transactions in turn; each is made from the tables as they are when it is asked for.

    Args:
        con: a database to which the transactions before were applied.
        rounds: of one transaction of each function.
        rows: changed by one transaction, about.
    """
    orders, third = rows // (_LINES + 1), rows // 3
    for number in range(rounds):
        for function, changes in _REFRESH.items():
            con.execute(
                f"CREATE OR REPLACE TEMP TABLE chosen AS FROM orders WHERE {_CHOSEN[function]} "
                f"ORDER BY hash(o_orderkey, {number}) LIMIT {orders}"
            ).fetchall()
            yield tuple(
                Change(kind, table, con.sql(sql.format(third=third, round=number)).to_arrow_table())
                for kind, table, sql in changes
            )


def apply_plainly(con: duckdb.DuckDBPyConnection, transaction: Transaction) -> None:
    """The transaction as a DuckDB user would write it."""
    con.execute("BEGIN").fetchall()
    for change in transaction:
        keys = tpch.KEYS[change.table].split(", ")
        table = change.table
        same = " AND ".join(f"{table}.{key} = change.{key}" for key in keys)
        con.register("change", change.rows)
        if change.kind == "insert":
            con.execute(f"INSERT INTO {table} FROM change").fetchall()
        elif change.kind == "delete":
            con.execute(f"DELETE FROM {table} USING change WHERE {same}").fetchall()
        else:
            others = [name for name in change.rows.column_names if name not in keys]
            sets = ", ".join(f"{name} = change.{name}" for name in others)
            con.execute(f"UPDATE {table} SET {sets} FROM change WHERE {same}").fetchall()
        con.unregister("change")
    con.execute("COMMIT").fetchall()


def recompute_all(con: duckdb.DuckDBPyConnection) -> None:
    """Every view's table anew."""
    con.execute("BEGIN").fetchall()
    for name, query in QUERIES.items():
        con.execute(f"CREATE OR REPLACE TABLE {name} AS {query}").fetchall()
    con.execute("COMMIT").fetchall()


def bring_up(db: ivm.Database) -> None:
    """Have the tables of all views in DuckDB hold their rows, as any query that names them does."""
    db.execute(" UNION ALL ".join(f"(SELECT 1 FROM {name} LIMIT 0)" for name in QUERIES)).fetchall()


def measure(
    folder: Path, scale: float, rounds: int, rows: int, clock: Clock
) -> tuple[Times, Times]:
    """Seconds for all transactions: (with the views kept, with them recomputed)."""
    tpch.generate(folder, scale)
    for file in ("kept.duckdb", "peer.duckdb"):
        tpch.load(folder, folder / file)
    ours, theirs = [0.0] * len(MOMENTS), [0.0] * len(MOMENTS)
    with (
        ivm.connect(str(folder / "kept.duckdb")) as db,
        duckdb.connect(str(folder / "peer.duckdb")) as peer,
    ):
        started = time.perf_counter()
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        print(f"22 views created in {time.perf_counter() - started:.1f} s")
        recompute_all(peer)
        print(f"milliseconds until {', '.join(MOMENTS)}; kept against recomputed:")
        for number, transaction in enumerate(refreshes(peer, rounds + 2, rows)):
            mine, plain = _kept(db, transaction, clock), _recomputed(peer, transaction, clock)
            # What is built at first use is built in the first round, or behind it in a thread.
            warm = number >= 2 * len(_REFRESH)
            if warm:
                ours = [a + b for a, b in zip(ours, mine, strict=True)]
                theirs = [a + b for a, b in zip(theirs, plain, strict=True)]
            print(_line(transaction, mine, plain) + ("" if warm else "  (not counted)"), flush=True)
        for name in QUERIES:
            maintain.verify(db, name)
    return ours, theirs


def _kept(db: ivm.Database, transaction: Transaction, clock: Clock) -> Times:
    started = clock()
    maintain.commit(db, transaction)
    committed = clock()
    bring_up(db)
    tables = clock()
    for name in QUERIES:
        db.execute(f"SELECT * FROM {name}").arrow()
    return [committed - started, tables - started, clock() - started]


def _recomputed(peer: duckdb.DuckDBPyConnection, transaction: Transaction, clock: Clock) -> Times:
    started = clock()
    apply_plainly(peer, transaction)
    recompute_all(peer)
    tables = clock()
    for name in QUERIES:
        peer.sql(f"SELECT * FROM {name}").to_arrow_table()
    return [tables - started, tables - started, clock() - started]


def _line(transaction: Transaction, ours: Times, theirs: Times) -> str:
    tables = ", ".join(f"{change.kind} {change.table}" for change in transaction)
    pairs = ", ".join(
        f"{a * 1e3:.0f} / {b * 1e3:.0f} ({b / a:.1f} ×)" for a, b in zip(ours, theirs, strict=True)
    )
    return f"{changes_in(transaction):6,} rows ({tables}): {pairs}"


def main() -> None:
    """Run in a temporary folder and print the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch_refresh", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--rounds", type=int, default=4, help="of three transactions (default 4)")
    parser.add_argument("--rows", type=int, default=ROWS, help="changed by one transaction")
    parser.add_argument(
        "--cpu", action="store_true", help="processor time instead of time, on a busy machine"
    )
    options = with_keep(parser)
    clock = time.process_time if options.cpu else time.perf_counter
    with tempfile.TemporaryDirectory(prefix="ivm-tpch-") as folder:
        ours, theirs = measure(Path(folder), options.scale, options.rounds, options.rows, clock)
    page = Page("tpch.md")
    page.add(f"scale {options.scale:g}, {3 * options.rounds} transactions", "", HEAD)
    for moment, a, b in zip(MOMENTS, ours, theirs, strict=True):
        page.add(f"| {moment} | {a:.2f} s | {b:.2f} s | {b / a:.1f} × |")
    if options.keep:
        page.keep()


if __name__ == "__main__":
    main()
