"""Time change events against DuckDB's reading of the same file: `python -m benchmarks.cdc`.

A file of Debezium's events in JSON (see `change_events`) is decoded and applied to a keyed table
with one aggregate view, in batches. The bound is DuckDB's `read_json` alone, which reads the same
file into Arrow batches in the same run. Beside it stands what DuckDB alone takes to keep the table:
it reads the file with the columns' types, and writes the last row of each key, without a view, a
log or dead letters. At the end the view is verified, the dead letters are compared with the dirt
in the file, and the table with DuckDB's, which may differ where there was dirt.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import csv

import ivm
from benchmarks.harness.change_events import QUERY, TABLE, ChangeEvents
from benchmarks.harness.maintain import verify
from benchmarks.harness.report import machine

BATCHES = (10_000, 50_000)
ONES = 300
"""Batches of one event that are timed."""
_BLOCK = 1 << 24
_OF_DUCKDB = 200_000
"""Events of a transaction of DuckDB alone."""


@dataclass
class Timed:
    """Seconds of wall clock, and of all threads of the process."""

    wall: float = 0.0
    user: float = 0.0


@contextmanager
def timed() -> Iterator[Timed]:
    """Times the block."""
    found, used, start = Timed(), _user(), time.perf_counter()
    yield found
    found.wall, found.user = time.perf_counter() - start, _user() - used


def _user() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def read_json(file: Path) -> Timed:
    """DuckDB reads the file, with the types that it finds by itself."""
    with duckdb.connect() as duck, timed() as found:
        sql = f"FROM read_json('{file}', format='newline_delimited', ignore_errors=true)"
        for batch in duck.sql(sql).to_arrow_reader(100_000):
            assert batch.num_rows
    return found


_TYPED = """
SELECT op, coalesce(after.id, before.id) AS id, after.* EXCLUDE (id, made),
    make_timestamp(after.made) AS made
FROM read_json('{file}', format = 'newline_delimited', ignore_errors = true, columns = {{
    op: 'VARCHAR', before: 'STRUCT(id BIGINT)', after: 'STRUCT(id BIGINT, customer INTEGER,
    amount DECIMAL(12, 2), status VARCHAR, note VARCHAR, made BIGINT)'}})
"""
_LAST = """
CREATE OR REPLACE TEMP TABLE last AS
FROM (SELECT *, row_number() OVER () AS n FROM events WHERE id IS NOT NULL)
QUALIFY row_number() OVER (PARTITION BY id ORDER BY n DESC) = 1
"""
_WRITE = """
INSERT OR REPLACE INTO orders BY NAME SELECT * EXCLUDE (op, n) FROM last
WHERE op != 'd' AND customer IS NOT NULL;
DELETE FROM orders USING last WHERE orders.id = last.id AND last.op = 'd'
"""


def upsert(file: Path, place: Path) -> Timed:
    """DuckDB alone keeps the table in another file, in transactions of many events."""
    with duckdb.connect(place) as duck, timed() as found:
        duck.execute(TABLE)
        reader = duck.cursor().sql(_TYPED.format(file=file)).to_arrow_reader(_OF_DUCKDB)
        for batch in reader:
            with duck.cursor() as cursor:
                cursor.register("events", batch)
                cursor.execute(f"BEGIN; {_LAST}; {_WRITE}; COMMIT")
    return found


def compare(db: ivm.Database, place: Path, stream: ChangeEvents) -> None:
    """Ends the program if the table differs from DuckDB's by more than the dirt."""
    db.execute(f"ATTACH '{place}' AS bare (READ_ONLY)")
    sides = "(FROM orders EXCEPT FROM bare.orders) UNION ALL (FROM bare.orders EXCEPT FROM orders)"
    ((rows,),) = db.execute(f"SELECT count(*) FROM ({sides})").fetchall()
    if rows > 2 * len(stream.dirt):  # an update has two sides
        raise SystemExit(f"{rows} rows differ from what DuckDB makes of the events")
    db.execute("DETACH bare")


def batches(file: Path, size: int) -> Iterator[pa.Array]:
    """The lines of a file in batches, as large strings."""
    options = csv.ReadOptions(column_names=["line"], block_size=_BLOCK)
    one_column = csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False)
    strings = csv.ConvertOptions(column_types={"line": pa.large_string()})
    rest = pa.array([], pa.large_string())
    with csv.open_csv(file, options, one_column, strings) as reader:
        for block in reader:
            rest = pa.concat_arrays([rest, block.column(0)])
            while len(rest) >= size:
                yield rest.slice(0, size)
                rest = rest.slice(size)
    yield rest


def told(format: str) -> dict[str, Any]:
    """What `ingest` must be told of the events' format."""
    values = {} if format == "debezium with schema" else {"times": "us", "decimals": "text"}
    return {"format": format, **values}


def ingest(db: ivm.Database, file: Path, size: int, format: str) -> Timed:
    """The file through `ingest`, from the reading of its lines to the last commit."""
    with timed() as found:
        for position, lines in enumerate(batches(file, size)):
            db.ingest("orders", lines, source="shop", position=position, **told(format))
    return found


def check(db: ivm.Database, stream: ChangeEvents, size: int) -> str:
    """Verifies the view, and compares the dead letters with the dirt."""
    verify(db, "revenue")
    sql = f"SELECT position * {size} + event FROM _ivm.dead_letters ORDER BY ALL"
    letters = [line for (line,) in db.execute(sql).fetchall()]
    if letters != stream.dirt.tolist():
        raise SystemExit(f"{len(letters)} dead letters, but {len(stream.dirt)} lines of dirt")
    return f"{len(letters):,} dead letters, exactly the dirt"


def one_by_one(file: Path, format: str) -> float:
    """Milliseconds of a batch of one event (median)."""
    times = []
    with ivm.connect() as db:
        db.execute(f"{TABLE}; CREATE MATERIALIZED VIEW revenue AS {QUERY}")
        for lines in batches(file, 1):
            start = time.perf_counter()
            db.ingest("orders", lines, **told(format))
            times.append(time.perf_counter() - start)
            if len(times) == ONES:
                break
    return sorted(times)[len(times) // 2] * 1e3


def measure(folder: Path, count: int, *, schema: bool = False) -> None:
    """Makes a file, ingests it in batches of each size, and prints what it took.

    Args:
        folder: for the file and the databases.
        count: lines of the file.
        schema: whether each event comes with its schema.
    """
    format = "debezium with schema" if schema else "debezium"
    file = folder / "events.jsonl"
    stream = ChangeEvents(count, schema=schema)
    stream.write(file)
    print(f"{count:,} events, {file.stat().st_size / count:.0f} bytes each", flush=True)
    for size in BATCHES:
        bound = read_json(file)
        tell("read_json", bound, count, bound)
        bare = folder / f"{size}_bare.duckdb"
        if not schema:
            tell("DuckDB keeps the table", upsert(file, bare), count, bound)
        with ivm.connect(folder / f"{size}.duckdb") as db:
            db.execute(f"{TABLE}; CREATE MATERIALIZED VIEW revenue AS {QUERY}")
            found = ingest(db, file, size, format)
            tell(f"ingest, batches of {size:,}", found, count, bound)
            print(f"  {check(db, stream, size)}", flush=True)
            if not schema:
                compare(db, bare, stream)
    print(f"one event a batch: {one_by_one(file, format):.2f} ms")


def main() -> None:
    """Measure in a folder of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cdc", description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000, help="lines (default 5_000_000)")
    parser.add_argument("--quick", action="store_true", help="200_000 lines")
    parser.add_argument("--schema", action="store_true", help="each event with its schema")
    options = parser.parse_args()
    count = 200_000 if options.quick else options.events
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="ivm-cdc-") as folder:
        measure(Path(folder), count, schema=options.schema)


def tell(what: str, found: Timed, count: int, bound: Timed) -> None:
    """Prints one line."""
    rate, cost = count / found.wall, found.user / count * 1e6
    ratio = f"{bound.wall / found.wall:>6.2f} x read_json"
    print(f"{what:28} {rate:>11,.0f} events/s {ratio} {cost:>6.2f} us of CPU an event", flush=True)


if __name__ == "__main__":
    main()
