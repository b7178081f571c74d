"""The benchmark's change stream: made before the clock starts, kept as one Arrow file.

Of 100 changes 60 are new orders, 20 correct the amount and status of a live order, 10 delete a live
order and 10 move a customer to another region. Every change is valid when its turn comes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harness.workload import CUSTOMERS_PER_ORDER, REGIONS, STATUSES

Ids = npt.NDArray[np.int64]

INSERT, UPDATE, DELETE, MOVE = range(4)
SHARES = (0.6, 0.2, 0.1, 0.1)
SECONDS = np.datetime64("2025-01-01", "us")


@dataclass(frozen=True)
class Change:
    """One call on the database.

    Attributes:
        kind: "insert", "upsert" or "delete".
        table: the base table.
        rows: whole rows, or the keys to delete.
    """

    kind: str
    table: str
    rows: pa.Table


Transaction = tuple[Change, ...]


class Shop:
    """What the generator must know of the tables: who bought what when, and which orders live."""

    def __init__(self, path: Path, seed: int, spare: int) -> None:
        with duckdb.connect(str(path), read_only=True) as con:
            orders = con.execute("SELECT customer_id, ts FROM orders ORDER BY id").fetchnumpy()
            segments = con.execute("SELECT segment FROM customers ORDER BY id").fetchnumpy()
            self.amount = con.execute("SELECT typeof(amount) FROM orders LIMIT 1").fetchall()[0][0]
        self.rng = np.random.default_rng(seed)
        self.count = len(orders["ts"])
        self.customers = self.count // CUSTOMERS_PER_ORDER
        self.customer = np.concatenate([orders["customer_id"], np.zeros(spare, np.int64)])
        self.ts = np.concatenate([orders["ts"].astype("M8[us]"), np.zeros(spare, "M8[us]")])
        self.segment = segments["segment"].astype(str)
        self.live = np.concatenate([np.arange(self.count), np.zeros(spare, np.int64)])
        self.alive = self.count

    def add(self, count: int) -> Ids:
        """Ids of `count` new orders, with customers and times drawn for them."""
        ids = np.arange(self.count, self.count + count)
        self.customer[ids] = self.rng.integers(0, self.customers, count)
        self.ts[ids] = SECONDS + ids.astype("m8[s]")
        self.live[self.alive : self.alive + count] = ids
        self.count += count
        self.alive += count
        return ids

    def places(self, count: int) -> Ids:
        """Distinct places in `live`."""
        drawn = np.unique(self.rng.integers(0, self.alive, count + 8))
        while len(drawn) < count:
            more = self.rng.integers(0, self.alive, count)
            drawn = np.unique(np.concatenate([drawn, more]))
        return self.rng.permutation(drawn)[:count]

    def remove(self, places: Ids) -> Ids:
        """Ids at `places`, which live no longer; the last live ids move into the gaps."""
        ids = self.live[places]
        last = np.arange(self.alive - len(places), self.alive)
        movers = np.setdiff1d(last, places)
        self.live[np.sort(places)[: len(movers)]] = self.live[movers]
        self.alive -= len(places)
        return ids

    def move(self, count: int) -> Ids:
        """Distinct customers."""
        drawn = self.rng.integers(0, self.customers, min(2 * count + 8, 10 * self.customers))
        return self.rng.permutation(np.unique(drawn))[:count]


def generate(shop: Shop, transactions: int, size: int) -> pa.Table:
    """A stream of `transactions` times `size` changes, a row each, in order."""
    blocks = [block for i in range(transactions) for block in _transaction(shop, i, size)]
    return pa.concat_tables(blocks).combine_chunks()


def _transaction(shop: Shop, number: int, size: int) -> Iterator[pa.Table]:
    inserts, updates, deletes, moves = _split(shop, size)
    touched = shop.places(updates + deletes)
    updated = shop.live[touched[deletes:]]
    deleted = shop.remove(touched[:deletes])
    added = shop.add(inserts)
    yield _block(shop, number, INSERT, added)
    yield _block(shop, number, UPDATE, updated)
    yield _block(shop, number, DELETE, deleted)
    yield _block(shop, number, MOVE, shop.move(moves))


def _split(shop: Shop, size: int) -> list[int]:
    """How many changes of each kind; a small transaction draws them."""
    if size < 10:
        return [int(n) for n in shop.rng.multinomial(size, SHARES)]
    return [round(size * share) for share in SHARES]


def _block(shop: Shop, number: int, kind: int, ids: Ids) -> pa.Table:
    count = len(ids)
    orders, moves = kind in (INSERT, UPDATE), kind == MOVE
    columns = {
        "transaction": np.full(count, number, np.int32),
        "kind": np.full(count, kind, np.int8),
        "id": ids,
        "customer_id": shop.customer[ids] if orders else _nulls(count, pa.int64()),
        "amount": shop.rng.integers(0, 100_000, count) / 100,
        "status": shop.rng.choice(STATUSES, count) if orders else _nulls(count, pa.string()),
        "ts": shop.ts[ids] if orders else _nulls(count, pa.timestamp("us")),
        "region": shop.rng.choice(REGIONS, count) if moves else _nulls(count, pa.string()),
        "segment": shop.segment[ids] if moves else _nulls(count, pa.string()),
    }
    block = pa.table(columns)
    if shop.amount != "DOUBLE":
        index = block.schema.get_field_index("amount")
        block = block.set_column(index, "amount", block["amount"].cast(pa.decimal128(12, 2)))
    return block


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


ORDER = ["id", "customer_id", "amount", "status", "ts"]
CUSTOMER = ["id", "region", "segment"]
CALLS = {
    INSERT: ("insert", "orders", ORDER),
    UPDATE: ("upsert", "orders", ORDER),
    DELETE: ("delete", "orders", ["id"]),
    MOVE: ("upsert", "customers", CUSTOMER),
}


def write(table: pa.Table, path: Path) -> None:
    """Keep a stream in an Arrow file."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read(path: Path) -> list[Transaction]:
    """The transactions of a kept stream, each as the calls that make it."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    number, kind = table["transaction"].to_numpy(), table["kind"].to_numpy()
    starts = np.flatnonzero(np.diff(number, prepend=-1) | np.diff(kind, prepend=-1))
    bounds = [*starts.tolist(), len(number)]
    transactions: dict[int, list[Change]] = {}
    for start, stop in itertools.pairwise(bounds):
        call, name, columns = CALLS[int(kind[start])]
        rows = table.slice(start, stop - start).select(columns).take(list(range(stop - start)))
        transactions.setdefault(int(number[start]), []).append(Change(call, name, rows))
    return [tuple(changes) for changes in transactions.values()]


def changes_in(transaction: Transaction) -> int:
    """Number of changed rows."""
    return sum(change.rows.num_rows for change in transaction)
