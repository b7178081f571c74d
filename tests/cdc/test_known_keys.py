"""A stream whose keys are known is decoded as one of which nothing is known."""

from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import ivm
from ivm.cdc.formats import json_lines, line_reader
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.events import Decoded, interleaved
from ivm.cdc.formats.json_statement import Survey
from ivm.cdc.formats.json_survey import survey
from ivm.cdc.formats.line_reader import LineReader
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=6)

TABLES = {
    "keyed": "id INTEGER, n INTEGER, s VARCHAR, made TIMESTAMPTZ, PRIMARY KEY (id, n)",
    "keyless": """"a""b" INTEGER, id INTEGER, n DECIMAL(8,2), s VARCHAR, local INTEGER DEFAULT 7""",
}
UNAVAILABLE = "__debezium_unavailable_value"
VALUES = [1, 2, None, None, "1234", "x", 1e9, [1], UNAVAILABLE, f"[{UNAVAILABLE}]", "2024-02-29"]


def some_row(random: Random, keys: list[str]) -> Any:
    if random.random() < 0.1:
        return random.choice([None, {}, [1], 3])
    return {key: random.choice(VALUES) for key in keys if random.random() < 0.9}


def some_line(random: Random, format: str, keys: list[str]) -> str | None:
    if random.random() < 0.1:
        return random.choice([None, "", "null", "{", "3", '{"id":1}{"id":2}', "[]", '{"op":"m"}'])
    row, old = some_row(random, keys), some_row(random, keys)
    event: Any = {
        "op": random.choice("ccuudt?"),
        "before": random.choice([None, old]),
        "after": row,
    }
    if format == "maxwell":
        kind = random.choice(["insert", "update", "delete", "bootstrap-start"])
        event = {"type": kind, "data": row, "old": old}
    elif format.startswith("json"):
        event = {**row, "op": random.choice("IUD")} if isinstance(row, dict) else row
    elif format == "debezium with schema":
        kind = random.choice(["io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"])
        field = {"field": "made", "name": kind if "S" in keys else ""}
        schema = {"fields": [{"field": "after", "fields": [field]}]}
        event = {"schema": random.choice([schema, schema, None]), "payload": event}
    return oddly(random, json.dumps(event))


def oddly(random: Random, line: str) -> str:
    """Sometimes with a key that comes twice, or is escaped."""
    if random.random() < 0.2:
        key = random.choice(['"id"', '"n"', '"s"', '"op"', '"ID"'])
        line = line.replace('{"id"', f'{{{key}: {random.choice(["7", "null"])}, "id"', 1)
    if random.random() < 0.2:
        line = line.replace('"n"', '"\\u006e"').replace('"op"', '"\\u006fp"')
    return line


def some_keys(random: Random) -> list[str]:
    """Mostly the same keys, sometimes fewer, more, or other spellings."""
    keys = ["id", "n", "s", "made"]
    if random.random() < 0.4:
        keys.append(random.choice(['a"b', "other", "a*", "ID", "S", "local"]))
    return keys if random.random() < 0.7 else [k for k in keys if random.random() < 0.7]


def shown(decoded: Decoded) -> str:
    """All that is decoded; of values that were not sent nothing."""
    events = decoded.events
    rows = range(len(events))
    columns = {
        i: [None if i in events.unknown and events.unknown[i][n] else column.cell(n) for n in rows]
        for i, column in events.columns.items()
    }
    old = sorted((i, [c.cell(row) for row in rows]) for i, c in (events.old or {}).items())
    unknown = sorted((i, mask.tolist()) for i, mask in events.unknown.items())
    refused = sorted(decoded.refused.items())
    rest = decoded.lines.tolist(), refused, decoded.truncates, decoded.ignored
    return repr((events.operations.tolist(), columns, old, unknown, rest))


def decoded(db: ivm.Database, lines: list[str | None], table: str, format: str) -> str:
    info, envelope = db._engine.catalog.tables[table], envelope_of(format, None, None)
    array = pa.array(lines, pa.large_string())
    return shown(json_lines.decode(db._engine.warehouse.cursor(), array, info, envelope))


FORMATS = ["debezium", "debezium with schema", "maxwell", "json", "json appends"]


@pytest.mark.full
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(examples(12)))
def test_known_keys_change_nothing(format: str, seed: int) -> None:
    random = Random(f"{seed} {format}")
    with ivm.connect() as db:
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
        table = random.choice(list(TABLES))
        for _ in range(5):
            keys = some_keys(random)
            batch = [some_line(random, format, keys) for _ in range(random.randint(0, 8))]
            known = decoded(db, batch, table, format)
            kept = dict(json_lines._known)
            json_lines._known.clear()
            assert known == decoded(db, batch, table, format)
            json_lines._known.update(kept)


@pytest.mark.full
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(examples(12)))
def test_lines_mean_the_same_alone_and_together(format: str, seed: int) -> None:
    """Whatever the lines beside them are, other spellings and other encodings too."""
    random = Random(f"{seed} {format}")
    envelope = envelope_of(format, None, None)
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE keyed ({TABLES['keyed']})")
        info, cursor = db._engine.catalog.tables["keyed"], db._engine.warehouse.cursor()
        for _ in range(4):
            kinds = [some_keys(random), ["id", "n", "S", "made"], ["ID", "N", "s"]]
            lines = [some_line(random, format, random.choice(kinds)) for _ in range(6)]
            array = pa.array(lines, pa.large_string())
            alone = [
                (np.array([i]), json_lines.decode(cursor, array[i : i + 1], info, envelope))
                for i in range(len(lines))
            ]
            together = json_lines.decode(cursor, array, info, envelope)
            assert shown(together) == shown(interleaved(alone, {}))


@pytest.mark.full
def test_lines_keep_their_order(db: ivm.Database) -> None:
    lines = [json.dumps({"op": "c", "after": {"id": i, "customer": i % 9}}) for i in range(60_000)]
    info = db._engine.catalog.tables["orders"]
    cursor, array = db._engine.warehouse.cursor(), pa.array(lines, pa.large_string())
    found = json_lines.decode(cursor, array, info, envelope_of("debezium", None, None))
    assert (np.asarray(found.events.columns[0].values) == np.arange(60_000)).all()  # type: ignore[union-attr]
    assert found.lines.tolist() == list(range(60_000))


@pytest.mark.full
def test_a_stream_is_surveyed_once(db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    surveys: list[int] = []

    def counted(reader: LineReader, lines: pa.Array, *rest: Any) -> Survey:
        surveys.append(len(lines))
        return survey(reader, lines, *rest)

    monkeypatch.setattr(json_lines, "survey", counted)
    json_lines._known.clear()
    for i in range(4):
        db.ingest("orders", [{"op": "c", "after": {"id": i, "customer": 1}}])
    assert surveys == [1]
    db.ingest("orders", [{"op": "c", "after": {"id": 5, "customer": 1, "note": "new"}}] * 3)
    db.ingest("orders", [{"op": "c", "after": {"customer": 1, "id": 6}}])
    assert surveys == [1, 3]


def test_statements_run_by_public_calls_too() -> None:
    cursor = duckdb.connect()
    cursor.execute("PREPARE rows AS SELECT range AS i, 'x' AS s FROM range(5000)")
    public = SimpleNamespace(sql=cursor.sql)
    assert line_reader._executed(public, "rows").equals(line_reader._executed(cursor, "rows"))  # type: ignore[arg-type]


def test_times_are_read_in_the_zone_of_the_session(db: ivm.Database) -> None:
    db.execute("CREATE TABLE z (id INTEGER PRIMARY KEY, made TIMESTAMPTZ)")
    for i, zone in enumerate(["UTC", "America/New_York", "UTC"]):
        db.execute(f"SET TimeZone = '{zone}'")
        db.ingest("z", [{"id": i, "made": "2024-01-01 00:00:00"}], format="json appends")
    db.execute("SET TimeZone = 'UTC'")
    hours = db.execute("SELECT hour(made) FROM z ORDER BY id").fetchall()
    assert hours == [(0,), (5,), (0,)]


def test_lines_without_any_column_are_refused_one_by_one(db: ivm.Database) -> None:
    refused = db.ingest("orders", [{"op": "insert"}, "{", {"op": "?"}], format="json").refused
    assert refused == {
        0: "NOT NULL constraint failed: orders.id",
        1: "it is not JSON",
        2: "its operation (op) is unknown or missing",
    }
