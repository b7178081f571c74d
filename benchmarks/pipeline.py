"""Time pipelines on Spark, with kills: `python -m benchmarks.pipeline`.

The same events of Debezium's (see `change_events`) lie in files and in a topic of Kafka's. Each is
applied by a source in the process (`ivm ingest`) and by a pipeline of Structured Streaming
(`ivm pipeline`), in processes of their own; shown is how many events a second both apply once they
read. Then each pipeline is run again and killed three times in the middle, with `kill -9`; its
table and its view must be those of the source in the process, row for row, and so must the number
of dead letters.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

import ivm
from benchmarks.harness.change_events import QUERY, TABLE, ChangeEvents
from benchmarks.harness.report import machine
from tests.support.kafka import Broker

FILES, PARTITIONS, KILLS = 40, 2, 3
_KEY = re.compile(rb'"id":(\d+)')
_OPTIONS = "format 'debezium', times 'us', decimals 'text', max_dead_letters 1000000"


def cut(events: Path, inbox: Path, count: int) -> None:
    """Cuts the file of events into files of the inbox, whose times are in their order."""
    inbox.mkdir()
    lines = events.read_bytes().splitlines(keepends=True)
    size = -(-count // FILES)
    for number in range(FILES):
        file = inbox / f"{number:04}.json"
        file.write_bytes(b"".join(lines[number * size : (number + 1) * size]))
        os.utime(file, (1_700_000_000 + number,) * 2)


def send(broker: Broker, topic: str, events: Path) -> None:
    """Writes the events into a topic, those of a key into one partition."""
    broker.create(topic, PARTITIONS)
    producer = broker.producer(**{"queue.buffering.max.messages": 1_000_000})
    for line in events.read_bytes().splitlines():
        key = _KEY.search(line)
        partition = int(key[1]) % PARTITIONS if key else 0
        while True:
            try:
                producer.produce(topic, line, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def create(file: Path, source: str) -> None:
    """A database whose source has not been started."""
    with ivm.connect(file) as db:
        db.execute(f"{TABLE}; CREATE MATERIALIZED VIEW revenue AS {QUERY}")
        db.execute(f"CREATE SOURCE shop INTO orders FROM {source}")


@contextmanager
def running(command: str, file: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of the command line's, killed at the end of the block."""
    words = [sys.executable, "-m", "ivm", command, str(file), "--json", *arguments]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        yield child
        child.kill()
        if child.stdout is not None:
            child.stdout.close()  # Spark may hold it open for a while


def seconds_of(command: str, file: Path) -> tuple[float, float]:
    """The seconds until all is applied: all in all, and since the source reads."""
    began, reads = time.perf_counter(), 0.0
    with running(command, file, "--once") as child:
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            if not reads and told.get("state") == "running":
                reads = time.perf_counter()
            if "ended" in told:
                assert told["ended"] == "caught up", line
                break
        ended = time.perf_counter()
        child.wait()
    return ended - began, ended - reads


def kill_often(file: Path, after: float) -> None:
    """Kills the pipeline three times, each time some seconds after it has begun to read."""
    chosen = random.Random(11)
    for _ in range(KILLS):
        with running("pipeline", file) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if json.loads(line).get("state") == "running":
                    break
            time.sleep(after * chosen.uniform(0.1, 0.4))


def compare(file: Path, other: Path) -> str:
    """Demands that two databases have the same rows, and says how many."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file}' AS a (READ_ONLY); ATTACH '{other}' AS b (READ_ONLY)")
        for name in ("orders", "revenue"):
            for one, two in (("a", "b"), ("b", "a")):
                left = f"FROM {one}.{name} EXCEPT ALL FROM {two}.{name}"
                assert con.execute(f"SELECT count(*) FROM ({left})").fetchall() == [(0,)], name
        letters = [
            con.execute(f"SELECT count(*) FROM {each}._ivm.dead_letters").fetchall()
            for each in ("a", "b")
        ]
        assert letters[0] == letters[1], letters
        ((rows,),) = con.execute("SELECT count(*) FROM a.orders").fetchall()
    return f"{rows:,} rows, {letters[0][0][0]:,} dead letters"


def measure(folder: Path, kind: str, source: str, count: int) -> None:
    """One kind of source, in the process, by Spark, and killed."""
    names = ("ingest", "pipeline", "killed")
    here, spark, killed = (folder / f"{kind}-{name}.duckdb" for name in names)
    found = {}
    for command, file in (("ingest", here), ("pipeline", spark)):
        create(file, source)
        whole, reading = seconds_of(command, file)
        found[command] = reading
        rate = f"{count / reading:,.0f} events/s while it reads"
        print(f"{kind:6} ivm {command:9}{rate}, {whole:.1f} s in all", flush=True)
    print(f"{kind:6} pipeline / ingest: {found['ingest'] / found['pipeline']:.2f}")
    print(f"{kind:6} equal: {compare(spark, here)}", flush=True)
    create(killed, source)
    kill_often(killed, found["pipeline"])
    with ivm.connect(killed) as db:
        ((reached,),) = db.execute("SELECT count(*) FROM orders").fetchall()
    seconds_of("pipeline", killed)
    print(f"{kind:6} killed {KILLS} times, {reached:,} rows then; equal: {compare(killed, here)}")


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="default 2_000_000")
    parser.add_argument("--kinds", nargs="*", default=["files", "kafka"])
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="ivm-pipeline-") as name:
        folder = Path(name)
        events = folder / "events.jsonl"
        ChangeEvents(options.events).write(events)
        (folder / "ivm.toml").write_text('[spark]\nmaster = "local[2]"\n')
        if "files" in options.kinds:
            cut(events, folder / "inbox", options.events)
            source = f"FILES (path '{folder}/inbox/*.json', {_OPTIONS})"
            measure(folder, "files", source, options.events)
        if "kafka" in options.kinds:
            (folder / "broker").mkdir()
            with Broker(folder / "broker") as broker:
                send(broker, "orders", events)
                source = f"KAFKA (brokers '{broker.address}', topic 'orders', {_OPTIONS})"
                measure(folder, "kafka", source, options.events)


if __name__ == "__main__":
    main()
