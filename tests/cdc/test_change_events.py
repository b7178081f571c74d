"""A stream of events from the benchmark's generator comes to what DuckDB reads in the file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import ivm
from benchmarks.cdc import batches, told
from benchmarks.harness.change_events import DAMAGES, QUERY, TABLE, ChangeEvents

LINES = 3_000


def stored(path: Path, schema: bool) -> str:
    """SQL of the rows after a file of sound events: of each key the last, if it is no delete."""
    cents = "('0x' || hex(from_base64(last.after.amount)))::BIGINT"
    amount = f"({cents} - CASE WHEN {cents} >= 2^31 THEN 2^32 ELSE 0 END) / 100"
    amount = amount if schema else "last.after.amount"
    types = "customer INTEGER, amount VARCHAR, status VARCHAR, note VARCHAR, made BIGINT"
    row = f"STRUCT(id BIGINT, {types})"
    event = f"STRUCT(before {row}, after {row}, op VARCHAR)"
    columns = (
        f"{{payload: '{event}'}}"
        if schema
        else f"{{before: '{row}', after: '{row}', op: 'VARCHAR'}}"
    )
    read = f"read_json('{path}', format='newline_delimited', columns={columns})"
    lines = f"SELECT {'payload AS e' if schema else '{before: before, after: after, op: op} AS e'}"
    return f"""
        WITH e AS ({lines}, row_number() OVER () AS n FROM {read}),
        l AS (SELECT arg_max(e, n) AS last FROM e GROUP BY coalesce(e.after.id, e.before.id))
        SELECT last.after.id, last.after.customer, ({amount})::DECIMAL(12,2) AS amount,
               last.after.status, last.after.note, make_timestamp(last.after.made) AS made
        FROM l WHERE last.op <> 'd'
    """


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("size", [271, LINES])
def test_the_stream_is_what_duckdb_reads(schema: bool, size: int, tmp_path: Path) -> None:
    stream = ChangeEvents(LINES, seed=size, schema=schema)
    stream.write(file := tmp_path / "events.jsonl")
    lines = file.read_text().splitlines(keepends=True)
    dirty = set(stream.dirt.tolist())
    sound = tmp_path / "sound.jsonl"
    sound.write_text("".join([line for i, line in enumerate(lines) if i not in dirty]))
    format = "debezium with schema" if schema else "debezium"
    with ivm.connect() as db, duckdb.connect() as duck:
        db.execute(f"{TABLE}; CREATE MATERIALIZED VIEW revenue AS {QUERY}")
        for i, batch in enumerate(batches(file, size)):
            db.ingest("orders", batch, position=i, **told(format))
        duck.execute(f"CREATE TABLE orders AS {stored(sound, schema)}").fetchall()
        for query in ("FROM orders", QUERY):
            theirs = Counter(duck.execute(query).fetchall())
            assert Counter(db.execute(query).fetchall()) == theirs
        assert Counter(db.execute("FROM revenue").fetchall()) == theirs
        letters = db.execute("SELECT payload FROM _ivm.dead_letters ORDER BY position, event")
        assert [p for (p,) in letters.fetchall()] == [lines[i][:-1] for i in sorted(dirty)]


@pytest.mark.full
def test_the_generator_makes_what_it_says() -> None:
    stream = ChangeEvents(20_000)
    lines = [line for chunk in stream.chunks() for line in chunk.to_pylist()]
    assert (len(lines), len(stream.dirt)) == (20_000, 20)
    operations = Counter(re.findall(r'"op":"(.)"', "".join(lines)))
    assert operations["c"] > operations["u"] > operations["d"] > 1_000
    assert len(lines) - len(set(lines)) > 900
    assert len({lines[i] for i in stream.dirt}) == 20 >= len(DAMAGES)
    again = [line for chunk in ChangeEvents(20_000).chunks() for line in chunk.to_pylist()]
    assert lines == again
