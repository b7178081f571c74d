"""Bulk ingest: Arrow batches into a durable file, the view right after each of them."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import ivm

BATCHES, ROWS = 20, 10_000


def batch(number: int) -> pa.Table:
    """Measurements `number * ROWS` and on."""
    rng = np.random.default_rng(number)
    return pa.table(
        {
            "id": np.arange(number * ROWS, (number + 1) * ROWS),
            "sensor": rng.integers(0, 100, ROWS),
            "value": rng.normal(20, 5, ROWS).round(2),
        }
    )


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "sensors.duckdb"
    with ivm.connect(str(file)) as db:
        db.execute("""
            CREATE TABLE measurements (id BIGINT PRIMARY KEY, sensor BIGINT, value DOUBLE);
            CREATE MATERIALIZED VIEW sensors AS
                SELECT sensor, count(*) AS measurements, avg(value) AS mean, max(value) AS highest
                FROM measurements GROUP BY sensor;
        """)
        batches = [batch(number) for number in range(BATCHES)]
        started = time.perf_counter()
        for rows in batches:
            db.insert("measurements", rows)  # each is one durable commit
        seconds = time.perf_counter() - started
        total = db.execute("SELECT sum(measurements) FROM sensors").fetchone()
        print(f"{total} rows in the view after {BATCHES} commits")
        print(f"{BATCHES * ROWS / seconds:,.0f} rows/s")

    with ivm.connect(str(file)) as db:  # opened again: the log is replayed, the view is right
        print("verified:", db.execute("VERIFY MATERIALIZED VIEW sensors").fetchall())
