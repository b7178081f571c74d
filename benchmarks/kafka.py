"""Time a source of Kafka against a real broker: `python -m benchmarks.kafka`.

A topic of three partitions holds updates of some keys in Debezium's JSON, 400 bytes each. Part 1:
how fast a reader alone turns them into Arrow, and how fast a running source applies them to a table
with one aggregate view. Part 2: the peak memory of a process that works off the topic, and one of a
hundredth of it. The broker (Java and Maven, see `tests/support/kafka.py`) runs on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ivm
from benchmarks.harness.maintain import verify
from benchmarks.harness.report import machine
from tests.support.kafka import Broker

TABLE = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER)"
QUERY = "SELECT customer, count(*) AS orders, sum(amount) AS s FROM orders GROUP BY customer"
PARTITIONS, KEYS, BYTES = 3, 5_000, 400
LIMITS = (2_000, 20_000)
"""Messages of a batch of the reader alone."""


def fill(broker: Broker, topic: str, count: int) -> None:
    """Writes updates; those of a key are all in one partition."""
    broker.create(topic, PARTITIONS)
    producer = broker.producer(**{"queue.buffering.max.messages": 1_000_000})
    for number in range(count):
        row = {"id": number % KEYS, "customer": number % 1000, "amount": number}
        line = json.dumps({"op": "u", "before": None, "after": row, "ts_ms": 1_700_000_000_000})
        while True:
            try:
                producer.produce(topic, line.ljust(BYTES), partition=number % KEYS % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def time_reader(broker: Broker, topic: str, count: int, limit: int) -> None:
    """The first half of part 1."""
    reader = ivm.sources.Kafka(brokers=broker.address, topic=topic).open("s", "orders", {})
    start, used, found = time.perf_counter(), time.process_time(), 0
    while found < count:
        found += len(reader.read(limit, 0.1) or ())
    wall, user = time.perf_counter() - start, time.process_time() - used
    reader.close()
    rates = f"{count / wall:,.0f}/s, {count / user:,.0f} per second of CPU"
    print(f"reading alone, in batches of {limit:,}: {rates}", flush=True)


def create(file: Path, broker: Broker, topic: str) -> None:
    """A database whose source has not been started."""
    with ivm.connect(file) as db:
        db.execute(TABLE)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        source = ivm.sources.Kafka(brokers=broker.address, topic=topic)
        db.create_source("s", source, "orders")


def run_source(db: ivm.Database) -> None:
    """Runs the source until it has caught up."""
    db.start_sources()
    while not db.sources()[0].has_caught_up:
        time.sleep(0.02)
    db.stop_sources()


CHILD = r"""
import re, sys
from pathlib import Path
import ivm
from benchmarks.kafka import run_source
with ivm.connect(sys.argv[1]) as db:
    run_source(db)
# Not getrusage, which begins with what the parent had.
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


def peak_memory(folder: Path, broker: Broker, topic: str) -> int:
    """The peak memory, in MiB, of a process that works off a topic."""
    file = folder / f"{topic}.duckdb"
    create(file, broker, topic)
    child = [sys.executable, "-c", CHILD, str(file)]
    return int(subprocess.run(child, check=True, stdout=subprocess.PIPE, env=os.environ).stdout)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="default 1_000_000")
    count = parser.parse_args().messages
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="ivm-kafka-") as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        with Broker(folder / "broker") as broker:
            fill(broker, "long", count)
            fill(broker, "short", count // 100)
            for limit in LIMITS:
                time_reader(broker, "long", count, limit)
            create(folder / "timed.duckdb", broker, "long")
            with ivm.connect(folder / "timed.duckdb") as db:
                start = time.perf_counter()
                run_source(db)
                rate = count / (time.perf_counter() - start)
                print(f"applied, with one view: {rate:,.0f}/s", flush=True)
                verify(db, "v")
            short, long = (peak_memory(folder, broker, topic) for topic in ("short", "long"))
            print(f"peak memory: {short} MiB with {count // 100:,} messages, {long} with {count:,}")


if __name__ == "__main__":
    main()
