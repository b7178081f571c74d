"""The demo's change stream: orders come with their lineitems, prices are corrected, orders go.

New orders copy old ones under new keys. Order keys fall in three classes that do not meet: keys
divisible by 5 are deleted, those with remainder 1 are corrected, the rest is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.harness.stream import Change, Transaction

MOST_ORDERS = 150_000
# How often a transaction has how many orders (or prices), and is of which kind.
SIZES = {1: 0.7, 10: 0.2, 100: 0.08, 1000: 0.02}
KINDS = {"orders": 0.6, "prices": 0.25, "deletions": 0.15}

ORDERS = """
CREATE TEMP TABLE copied AS
SELECT o_orderkey AS old, last.key + row_number() OVER (ORDER BY hash(o_orderkey)) AS new
FROM orders, (SELECT max(o_orderkey) AS key FROM orders) last
QUALIFY new <= last.key + {most};
"""
POOLS = {
    "orders": [
        ("insert", "orders", "SELECT new AS entity, orders.* REPLACE (new AS o_orderkey) "
         "FROM orders JOIN copied ON o_orderkey = old ORDER BY new"),
        ("insert", "lineitem", "SELECT new AS entity, lineitem.* REPLACE (new AS l_orderkey) "
         "FROM lineitem JOIN copied ON l_orderkey = old ORDER BY new, l_linenumber"),
    ],
    "prices": [
        ("upsert", "lineitem",
         "SELECT row_number() OVER (ORDER BY hash(l_orderkey, l_linenumber)) AS entity, "
         "l_orderkey, l_linenumber, (l_extendedprice * 0.95)::DECIMAL(15,2) AS l_extendedprice "
         "FROM lineitem WHERE l_orderkey % 5 = 1 ORDER BY entity LIMIT {most}"),
    ],
    "deletions": [
        ("delete", "lineitem",
         "SELECT hash(l_orderkey) // 2 AS entity, l_orderkey, l_linenumber FROM lineitem "
         "WHERE l_orderkey % 5 = 0 ORDER BY entity, l_linenumber LIMIT {most}"),
        ("delete", "orders",
         "SELECT hash(o_orderkey) // 2 AS entity, o_orderkey FROM orders "
         "WHERE o_orderkey % 5 = 0 ORDER BY entity LIMIT {most}"),
    ],
}  # fmt: skip


@dataclass
class Pool:
    """Changes of one table, grouped by the entity (an order, a line) they belong to."""

    call: str
    table: str
    rows: pa.Table
    bounds: list[int]

    @property
    def entities(self) -> int:
        return len(self.bounds) - 1

    def cut(self, start: int, stop: int) -> Change:
        """The changes of entities `start` to `stop`."""
        first, last = self.bounds[start], self.bounds[stop]
        return Change(self.call, self.table, self.rows.slice(first, last - first))


def pools(file: Path, most: int = MOST_ORDERS) -> dict[str, list[Pool]]:
    """What the stream draws from: per kind of transaction the changes it can make.

    Args:
        file: the loaded DuckDB file, not open elsewhere for writing.
        most: at most so many new orders, corrections and deleted rows.
    """
    with duckdb.connect(str(file), read_only=True) as con:
        con.execute(ORDERS.format(most=most)).fetchall()
        return {
            kind: [
                _pool(call, table, con.sql(query.format(most=most)).to_arrow_table())
                for call, table, query in queries
            ]
            for kind, queries in POOLS.items()
        }


def _pool(call: str, table: str, rows: pa.Table) -> Pool:
    entity = rows["entity"].to_numpy()
    starts = np.flatnonzero(np.diff(entity, prepend=entity[:1] - 1))
    bounds = [*starts.tolist(), len(entity)]
    return Pool(call, table, rows.drop_columns("entity").combine_chunks(), bounds)


def transactions(drawn: dict[str, list[Pool]], seed: int = 7) -> Iterator[Transaction]:
    """Transactions of mixed kind and size until one pool is used up."""
    rng = np.random.default_rng(seed)
    kinds = list(KINDS)
    used = dict.fromkeys(kinds, 0)
    while True:
        kind = kinds[rng.choice(len(kinds), p=list(KINDS.values()))]
        start = used[kind]
        stop = start + int(rng.choice(list(SIZES), p=list(SIZES.values())))
        if stop >= min(pool.entities for pool in drawn[kind]):  # the last may be cut short
            return
        used[kind] = stop
        yield tuple(pool.cut(start, stop) for pool in drawn[kind])
