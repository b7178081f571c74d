"""The formats of events: where the parts of an event are, and how values are written."""

from __future__ import annotations

import base64
import json
from datetime import date
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import ivm
from ivm import errors
from tests.cdc.orders import content, created
from tests.support.view_oracle import assert_verified


@pytest.mark.full
def test_formats(db: ivm.Database) -> None:
    row = {"id": 1, "customer": 1, "note": "ä"}
    assert (
        db.ingest(
            "orders", [{"schema": {}, "payload": created(1)}], format="debezium with schema"
        ).applied
        == 1
    )
    update = {"type": "update", "data": {**row, "id": 2}, "old": {"id": 1}}
    db.ingest("orders", [update], format="maxwell")
    assert content(db, "SELECT id, note FROM orders") == [(2, "ä")]
    db.ingest("orders", [{**row, "op": "insert"}, {"id": 2, "op": "delete"}], format="json")
    assert content(db, "SELECT id, note FROM orders") == [(1, "ä")]
    rows = pa.array(
        ['{"ID": 5, "Customer": 3, "made": "2024-02-29 12:00:00"}', None, " ", "\t\r\n"]
    )
    found = db.ingest("orders", rows, format="json appends")
    assert (found.applied, found.ignored) == (1, 3)
    assert_verified(db)
    with pytest.raises(errors.InputError, match="there is no format 'xml'; there are: debezium"):
        db.ingest("orders", [], format="xml")


@pytest.mark.full
@pytest.mark.parametrize(
    ("events", "says"),
    [
        ("{}", "not a single text"),
        ({"op": "c"}, "not a single dict"),
        (None, "not a single NoneType"),
        ([{"op": "c", "after": {"id": 1, "made": date(2024, 1, 1)}}], "of type date"),
        (pa.array([{"op": "c"}]), "has JSON texts"),
        (pa.table({"op": ["c"]}), "not a single Table"),
        (pd.DataFrame({"op": ["c"]}), "not a single DataFrame"),
    ],
)
def test_what_is_no_list_of_events_is_told(db: ivm.Database, events: Any, says: str) -> None:
    with pytest.raises(errors.InputError, match=says):
        db.ingest("orders", events)


@pytest.mark.full
def test_a_series_has_events(db: ivm.Database) -> None:
    """What stands for NULL in it is none."""
    texts = [json.dumps(created(1)), None]
    for number, type in enumerate(("str", "string", "object")):
        events = pd.Series([*texts, float("nan")] if type == "object" else texts, dtype=type)
        done = db.ingest("orders", events, position=number)
        assert (done.applied, done.refused, done.ignored) == (1, {}, len(events) - 1)


@pytest.mark.full
def test_rows_that_replace_others(db: ivm.Database) -> None:
    def give(*rows: dict[str, Any]) -> ivm.Ingested:
        return db.ingest("orders", list(rows), format="json upserts")

    row = {"id": 1, "customer": 1, "note": "a"}
    give(row, {**row, "id": 2, "__deleted": "false"}, {**row, "id": 3, "__deleted": False})
    done = give(
        {"id": 1, "note": "b"}, {"id": 3, "__deleted": "true"}, {"id": 9, "__deleted": True}
    )
    assert done.counts["unknown_deletes"] == 1
    assert content(db, "SELECT id, note FROM orders ORDER BY id") == [(1, "b"), (2, "a")]
    reasons = give({"id": 1, "__deleted": "maybe"}, {"__deleted": "true"}, {"note": "x"}).refused
    assert "operation" in reasons[0]
    assert "key" in reasons[1]
    assert len(reasons) == 3
    assert_verified(db)


def field(name: str, kind: str = "", **parameters: str) -> dict[str, Any]:
    return {"field": name, "name": kind, "parameters": parameters}


@pytest.mark.full
def test_the_schema_tells_how_values_are_written(db: ivm.Database) -> None:
    decimal = field("amount", "org.apache.kafka.connect.data.Decimal", scale="2")
    for unit, moment in (
        ("io.debezium.time.Timestamp", 10**3),
        ("io.debezium.time.MicroTimestamp", 10**6),
    ):
        fields = [field("id"), field("customer"), decimal, field("made", unit)]
        schema = {"fields": [{"field": "before"}, {"field": "after", "fields": fields}]}
        payload = created(1, amount="AfQ=", made=86_400 * moment)
        event = {"schema": schema, "payload": payload}
        db.ingest("orders", [event], format="debezium with schema")
        found = content(db, "SELECT amount::VARCHAR, made::VARCHAR FROM orders")
        assert found == [("5.00", "1970-01-02 00:00:00")]
    with pytest.raises(errors.InputError, match="the events' schema tells"):
        db.ingest("orders", [event], format="debezium with schema", times="ms")
    other = json.loads(json.dumps(event).replace("MicroTimestamp", "NanoTimestamp"))
    assert db.ingest("orders", [event, other], format="debezium with schema").applied == 2
    found = content(db, "SELECT made::VARCHAR FROM orders")
    assert found == [("1970-01-01 00:01:26.4",)]


def row_schema(*fields: object) -> dict[str, Any]:
    return {"fields": [{"field": "after", "fields": [field("id"), *fields]}]}


DECIMAL = "org.apache.kafka.connect.data.Decimal"
BAD_SCHEMAS: list[Any] = [
    *(5, "orders", [], True),
    *({"fields": 5}, {"fields": "after"}, {"fields": ["after"]}, {"fields": {"after": 1}}),
    *({"fields": [{"field": "after", "fields": rows}]} for rows in (5, "amount", [5])),
    *(row_schema(field("amount", DECIMAL, scale=scale)) for scale in ("x", "2147483647")),
    *(row_schema({"field": "amount", "parameters": told}) for told in (5, [1])),
    *(row_schema({"field": "amount", "name": kind}) for kind in (5, ["x"], {"x": 1})),
    row_schema({"field": ["amount"]}),
    row_schema({"field": "amount", "type": "array", "items": 5}),
    {"name": "too deep"},
]


@pytest.mark.full
@pytest.mark.parametrize("schema", BAD_SCHEMAS, ids=json.dumps)
def test_an_event_whose_schema_is_none_is_refused(db: ivm.Database, schema: Any) -> None:
    """And is forgotten: those beside it and after it are applied."""
    events: list[Any] = [
        {"schema": schema, "payload": created(1, amount="AQ==")},
        {"schema": row_schema(field("amount", DECIMAL, scale="2")), "payload": created(2)},
    ]
    texts = map(json.dumps, events)
    events = [text.replace('"too deep"', "[" * 10_000 + "]" * 10_000) for text in texts]
    refused = db.ingest("orders", events, format="debezium with schema").refused
    assert list(refused) == [0]
    assert "its schema" in refused[0]
    assert db.ingest("orders", events[1:], format="debezium with schema").applied == 1
    assert content(db, "SELECT id FROM orders") == [(2,)]


@pytest.mark.parametrize("scale", [2**31 - 1, -(2**31), 10**9, -(10**6), 10**20, None, [1]])
def test_a_number_with_a_scale_that_none_has_is_refused(scale: Any) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE n (x DECIMAL(10, 2), y DOUBLE)")
        wrong = {"scale": scale, "value": "AQ=="}
        rows = [{"x": wrong}, {"y": wrong}, {"x": {"scale": 2, "value": "AQ=="}}]
        done = db.ingest("n", [{"op": "c", "after": row} for row in rows])
        assert list(done.refused) == [0, 1]
        assert content(db, "FROM n") == [(Decimal("0.01"), None)]


def base64_of(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


@pytest.mark.full
@pytest.mark.parametrize("type", ["DECIMAL(38,0)", "DECIMAL(12,3)", "BIGINT", "HUGEINT"])
def test_base64_is_the_unscaled_number(type: str) -> None:
    numbers = [0, 1, -1, 127, 128, -128, -129, 10**6, -(10**11), 10**15, 2**127 - 1, -(2**127)]
    with ivm.connect() as db, duckdb.connect() as duck:
        db.execute(f"CREATE TABLE n (id INTEGER PRIMARY KEY, x {type})")
        events = [{"op": "c", "after": {"id": i, "x": base64_of(n)}} for i, n in enumerate(numbers)]
        refused = db.ingest("n", events, decimals="base64").refused
        scale = 3 if type == "DECIMAL(12,3)" else 0
        for i, number in enumerate(numbers):
            whole, rest = divmod(abs(number), 10**scale)
            text = f"{'-' if number < 0 else ''}{whole}.{rest:03}"
            ((expected,),) = duck.execute(f"SELECT TRY_CAST($1 AS {type})", [text]).fetchall()
            stored = content(db, f"SELECT x FROM n WHERE id = {i}")
            assert stored == ([] if i in refused else [(expected,)])
            assert (expected is None) == (i in refused)


@pytest.mark.full
@pytest.mark.parametrize("type", ["VARCHAR", "VARCHAR[]", "DECIMAL(38,2)", "DOUBLE"])
def test_base64_of_more_digits_than_any_integer(type: str) -> None:
    """As PostgreSQL's numeric and MySQL's DECIMAL(65) have."""
    own = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "field": "x"}
    told = {"type": "array", "items": own, "field": "x"} if "[" in type else own
    schema = {"fields": [{"field": "after", "fields": [{"field": "id"}, told]}]}
    numbers = [2**127, -(2**127) - 1, 10**52 + 7, -(10**52) - 7, 3**300, 2**128 - 1, -(2**64)]
    values = [{"scale": 20, "value": base64_of(number)} for number in numbers]
    rows = [{"id": i, "x": [v] if "[" in type else v} for i, v in enumerate(values)]
    events = [{"schema": schema, "payload": {"op": "c", "after": row}} for row in rows]
    with ivm.connect() as db, localcontext(prec=200):
        db.execute(f"CREATE TABLE n (id INTEGER PRIMARY KEY, x {type})")
        refused = db.ingest("n", events, format="debezium with schema").refused
        assert set(refused) == ({4} if "DECIMAL" in type else set())
        for i, text in content(db, "SELECT id, trim(x::VARCHAR, '[]') FROM n ORDER BY id"):
            exact = Decimal(numbers[i]).scaleb(-20)
            if type == "DOUBLE":
                assert float(text) == float(exact)
            else:
                digits = "0.01" if "DECIMAL" in type else "1e-20"
                assert Decimal(text) == exact.quantize(Decimal(digits), ROUND_HALF_UP)


@pytest.mark.full
@pytest.mark.parametrize("type", ["DOUBLE", "FLOAT", "DOUBLE[]"])
@pytest.mark.parametrize("decimals", ["base64", "text"])
def test_floats_that_are_not_finite_are_texts(type: str, decimals: str) -> None:
    """Also beside decimals in base64, as which "Infinity" can be read."""
    values = [[text] if "[" in type else text for text in ("NaN", "Infinity", "-Infinity")]
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE n (id INTEGER PRIMARY KEY, x {type})")
        events = [{"op": "c", "after": {"id": i, "x": value}} for i, value in enumerate(values)]
        assert db.ingest("n", events, decimals=decimals).refused == {}
        found = content(db, "SELECT trim(x::VARCHAR, '[]') FROM n ORDER BY id")
        assert found == [("nan",), ("inf",), ("-inf",)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("type", "unit", "number", "expected"),
    [
        ("TIMESTAMP", "ms", -1, "1969-12-31 23:59:59.999"),
        ("TIMESTAMP", "ns", 1_000_000_001_999, "1970-01-01 00:16:40.000001"),
        ("TIMESTAMP_NS", "ns", 1_000_000_001_999, "1970-01-01 00:16:40.000001999"),
        ("TIMESTAMPTZ", "us", 0, "1970-01-01 00:00:00+00"),
        ("TIME", "ms", 86_399_999, "23:59:59.999"),
        ("TIME", "ms", 86_400_000, "24:00:00"),
        ("TIME", "ns", 86_400_000_000_000, "24:00:00"),
        ("TIME_NS", "us", 86_400_000_000, "24:00:00"),
        ("TIME", "ms", 86_400_001, None),
        ("TIME", "us", -1, None),
        ("DATE", None, 19_782, "2024-02-29"),
        ("DATE", None, -2_440_550, "4713-01-01 (BC)"),
        ("DATE", None, 20_240_229, None),
        ("DATE", None, 1_700_000_000, None),
        ("TIMESTAMP", "ms", 1_700_000_000_000_000, None),
        ("TIMESTAMP", "us", 1_700_000_000_000_000_000, None),
        ("TIMESTAMP", "us", 9_223_372_036_825_200_000, "infinity"),
        ("TIMESTAMPTZ", "us", -9_223_372_036_832_400_000, "-infinity"),
        ("TIMESTAMP", "ms", 9_223_372_036_825_200, "infinity"),
        ("TIMESTAMP_NS", "ms", -9_223_372_036_832_400, "-infinity"),
        ("INTERVAL", "us", 1_500_000, "00:00:01.5"),
        ("TIMESTAMP", "us", 2**63 - 1, None),
    ],
)
def test_numbers_that_are_times(type: str, unit: str, number: int, expected: str | None) -> None:
    with ivm.connect() as db:
        db.execute(f"SET TimeZone = 'UTC'; CREATE TABLE n (x {type})")
        refused = db.ingest("n", [{"x": number}], format="json appends", times=unit).refused
        assert list(refused) == ([] if expected else [0])
        assert content(db, "SELECT x::VARCHAR FROM n") == ([(expected,)] if expected else [])


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1Y2M-3DT4H5M6.789S", "1 year 2 months -3 days 04:05:06.789"),
        ("P0Y0M0DT0H0M-0.000001S", "-00:00:00.000001"),
        *[("PT0S", "00:00:00"), ("P2W", "14 days"), ("PT5M", "00:05:00"), ("P5M", "5 months")],
        *[("5 months", "5 months"), ("P1H", None), ("P", None), ("PT", None), ("P1.5D", None)],
    ],
)
@pytest.mark.parametrize("type", ["INTERVAL", "INTERVAL[]"])
def test_intervals_in_iso_8601(type: str, text: str, expected: str | None) -> None:
    """As Debezium writes them with interval.handling.mode=string."""
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE n (x {type})")
        event = {"op": "c", "after": {"x": [text] if "[" in type else text}}
        assert list(db.ingest("n", [event]).refused) == ([] if expected else [0])
        found = content(db, "SELECT replace(trim(x::VARCHAR, '[]'), chr(39), '') FROM n")
        assert found == ([(expected,)] if expected else [])


@pytest.mark.parametrize("times", [None, "ms", "us", "ns"])
def test_debezium_counts_intervals_in_microseconds(times: str | None) -> None:
    """Whatever it counts times of the day in."""
    with ivm.connect() as db:
        db.execute("CREATE TABLE n (x INTERVAL)")
        event = {"op": "c", "after": {"x": 1_500_000}}
        assert db.ingest("n", [event], times=times).refused == {}
        assert content(db, "SELECT x::VARCHAR FROM n") == [("00:00:01.5",)]


@pytest.mark.full
@pytest.mark.parametrize("type", ["INTERVAL", "INTERVAL[]", "STRUCT(a INTERVAL)"])
@pytest.mark.parametrize("format", ["debezium", "json"])
def test_an_interval_that_is_too_long_is_refused_alone(type: str, format: str) -> None:
    """Beside its months and days it has 64 bits of nanoseconds."""
    texts = ["2562046 hours", "2562047 hours", "-1000 years -3000000 hours", "1000000 days"]
    values: list[Any] = [*texts, *([10**16, -(10**16)] if format == "debezium" else [])]
    if type == "INTERVAL[]":
        values = [[value] for value in values]
    elif type != "INTERVAL":
        values = [{"a": value} for value in values]
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE n (id INTEGER PRIMARY KEY, x {type})")
        rows = [{"id": i, "x": value} for i, value in enumerate(values)]
        events = [{"op": "c", "after": row} if format == "debezium" else row for row in rows]
        format = format if format == "debezium" else "json appends"
        refused = db.ingest("n", events, format=format).refused
        assert content(db, "SELECT id FROM n ORDER BY id") == [(0,), (3,)]
        assert list(refused) == [1, 2, *range(4, len(values))]
        assert type != "INTERVAL" or "may have up to 2562046 hours" in refused[1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        ("TIMESTAMPTZ", "+12345-01-01T00:00:00.000000Z", "12345-01-01 00:00:00+00"),
        ("TIMESTAMP", "+12345-01-01T00:00:00Z", "12345-01-01 00:00:00"),
        ("DATE", "+5874897-12-31Z", "5874897-12-31"),
        ("TIMESTAMP", "-0043-03-15T10:00:00Z", "0044-03-15 (BC) 10:00:00"),
        ("TIMESTAMP[]", ["+294247-01-10T04:00:25.2Z"], "[infinity]"),
        ("TIMESTAMP", "-290308-12-21T19:59:27.6Z", "-infinity"),
    ],
)
def test_times_far_from_now(type: str, text: Any, expected: str) -> None:
    """As ISO 8601 and Debezium write them."""
    with ivm.connect() as db:
        db.execute(f"SET TimeZone = 'UTC'; CREATE TABLE n (x {type})")
        assert db.ingest("n", [{"x": text}], format="json appends").refused == {}
        assert content(db, "SELECT x::VARCHAR FROM n") == [(expected,)]


@pytest.mark.full
def test_a_column_may_be_called_op(db: ivm.Database) -> None:
    db.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, op INTEGER DEFAULT 5)")
    db.ingest("o", [{"id": 1, "op": "insert"}], format="json")
    db.ingest("o", [created(2, op=6)])
    assert content(db, "FROM o ORDER BY id") == [(1, 5), (2, 6)]
