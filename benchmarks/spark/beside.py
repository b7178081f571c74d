"""Time commits beside a first fill on Spark: `python -m benchmarks.spark.beside`.

A writer commits one order after the other, as fast as it can up to a rate, first alone and then
while Spark fills a view that joins and groups the orders. Shown are the latencies of both, how many
epochs came during the fill, and the longest wait. At the end the view is compared with its query.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import ivm
from benchmarks.harness.maintain import verify
from benchmarks.harness.report import machine
from benchmarks.spark.fills import OPTIONS

TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, region VARCHAR);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12,2), weight DOUBLE);
INSERT INTO customers SELECT range, 'r' || (range % 20) FROM range(1000);
INSERT INTO orders SELECT range, range % 1000, (range % 997) / 7, range / 3 FROM range({});
"""
LIVE = "SELECT customer, count(*) AS n, sum(amount) AS s FROM orders GROUP BY customer"
FILLED = """SELECT region, count(*) AS n, sum(amount) AS total, avg(weight) AS mean,
    max(amount) AS most FROM orders JOIN customers ON customer = customers.id GROUP BY region"""


class Writer(threading.Thread):
    """Commits an order at a time.

    Args:
        db: open.
        first: the number of the first order.
        rate: commits a second at most.

    Attributes:
        seconds: of each commit.
    """

    def __init__(self, db: ivm.Database, first: int, rate: float) -> None:
        super().__init__()
        self._db, self._first, self._pause = db, first, 1 / rate
        self._ending = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        number, due = self._first, time.perf_counter()
        while not self._ending.is_set():
            began = time.perf_counter()
            row = {"id": number, "customer": number % 1000, "amount": 1.5, "weight": 0.1}
            self._db.insert("orders", [row])
            self.seconds.append(time.perf_counter() - began)
            number, due = number + 1, due + self._pause
            self._ending.wait(max(0.0, due - time.perf_counter()))

    def end(self) -> list[float]:
        """Ends it; the seconds of its commits."""
        self._ending.set()
        self.join()
        return self.seconds


def tell(what: str, seconds: list[float], lasted: float) -> None:
    """Prints one line."""
    p50, p99 = np.quantile(seconds, [0.5, 0.99]) * 1e3
    most, rate = max(seconds) * 1e3, len(seconds) / lasted
    print(f"{what:22}{rate:8.0f} commits/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, most {most:.0f} ms")


def measure(folder: Path, orders: int, rate: float) -> None:
    """Measures both."""
    with ivm.connect(folder / "shop.duckdb", spark=OPTIONS) as db:
        db.execute(TABLES.format(orders))
        db.execute(f"CREATE MATERIALIZED VIEW live AS {LIVE}")
        db.execute("CREATE MATERIALIZED VIEW warm WITH (backfill = 'spark') AS FROM customers")
        db.backfill("warm")
        writer, began = Writer(db, orders, rate), time.perf_counter()
        writer.start()
        time.sleep(10)
        tell("alone", writer.end(), time.perf_counter() - began)
        writer, began = Writer(db, 2 * orders, rate), time.perf_counter()
        writer.start()
        db.execute(f"CREATE MATERIALIZED VIEW filled WITH (backfill = 'spark') AS {FILLED}")
        db.backfill("filled")
        lasted = time.perf_counter() - began
        tell(f"beside {lasted:.0f} s of a fill", writer.end(), lasted)
        for view in ("live", "filled"):
            verify(db, view)


def main() -> None:
    """Measure with so many orders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.beside", description=__doc__)
    parser.add_argument("--orders", type=int, default=10_000_000)
    parser.add_argument("--rate", type=float, default=1_000, help="commits a second at most")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments.orders, arguments.rate)


if __name__ == "__main__":
    main()
