"""TPC-H's 22 views alive at once under refresh transactions: `python -m benchmarks.tpch_refresh`.

A round is one transaction of each refresh function, 1000 changed rows each: new orders come with
their lineitems (RF1), old orders go with theirs (RF2), and prices are corrected. The peer is DuckDB
on the same machine, which applies the same transaction and recomputes all 22 queries.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

import ivm
from benchmarks import maintain, tpch
from benchmarks.stream import Change, Transaction, changes_in
from benchmarks.tpch_queries import QUERIES

ROWS = 1000
Clock = Callable[[], float]
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


def read_all(db: ivm.Database) -> None:
    """Every view, to its rows."""
    for name in QUERIES:
        db.execute(f"SELECT * FROM {name}").arrow()


def measure(
    folder: Path, scale: float, rounds: int, rows: int, clock: Clock
) -> tuple[float, float]:
    """Seconds for all transactions and reads: (with the views kept, with them recomputed)."""
    tpch.generate(folder, scale)
    for file in ("kept.duckdb", "peer.duckdb"):
        tpch.load(folder, folder / file)
    ours = theirs = 0.0
    with (
        ivm.connect(str(folder / "kept.duckdb")) as db,
        duckdb.connect(str(folder / "peer.duckdb")) as peer,
    ):
        started = time.perf_counter()
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        print(f"22 views created in {time.perf_counter() - started:.1f} s")
        recompute_all(peer)
        for number, transaction in enumerate(refreshes(peer, rounds + 1, rows)):
            mine = _timed(lambda t=transaction: _kept(db, t), clock)  # type: ignore[misc]
            plain = _timed(lambda t=transaction: _recomputed(peer, t), clock)  # type: ignore[misc]
            warm = number >= len(_REFRESH)  # the first round builds what is built at first use
            ours, theirs = ours + warm * mine, theirs + warm * plain
            print(_line(transaction, mine, plain) + ("" if warm else "  (not counted)"), flush=True)
        for name in QUERIES:
            maintain.verify(db, name)
    return ours, theirs


def _timed(action: Callable[[], None], clock: Clock) -> float:
    started = clock()
    action()
    return clock() - started


def _kept(db: ivm.Database, transaction: Transaction) -> None:
    maintain.commit(db, transaction)
    read_all(db)


def _recomputed(peer: duckdb.DuckDBPyConnection, transaction: Transaction) -> None:
    apply_plainly(peer, transaction)
    recompute_all(peer)


def _line(transaction: Transaction, ours: float, theirs: float) -> str:
    tables = ", ".join(f"{change.kind} {change.table}" for change in transaction)
    return (
        f"{changes_in(transaction):6,} rows ({tables}): {ours * 1e3:8.1f} ms, "
        f"recomputed {theirs * 1e3:8.1f} ms, {theirs / ours:5.1f} ×"
    )


def main() -> None:
    """Run in a temporary folder and print the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch_refresh", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor (default 0.1)")
    parser.add_argument("--rounds", type=int, default=4, help="of three transactions (default 4)")
    parser.add_argument("--rows", type=int, default=ROWS, help="changed by one transaction")
    parser.add_argument(
        "--cpu", action="store_true", help="processor time instead of time, on a busy machine"
    )
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    with tempfile.TemporaryDirectory(prefix="ivm-tpch-") as folder:
        ours, theirs = measure(Path(folder), options.scale, options.rounds, options.rows, clock)
    print(
        f"22 views kept: {ours:.2f} s, recomputed by DuckDB: {theirs:.2f} s, {theirs / ours:.1f} ×"
    )


if __name__ == "__main__":
    main()
