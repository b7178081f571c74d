"""Columns that Connect's schemas tell of: tables made by them hold what the events say."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ivm
from ivm.cdc.formats.connect_schema import upstream_columns
from ivm.cdc.formats.upstream_schema import UpstreamColumn, follow

D, K = "io.debezium.", "org.apache.kafka.connect.data."
UUID = "7fffffff-ffff-ffff-0000-000000000001"

# The field of the schema, the value in the event, the column's type, the stored value as text.
TYPES: list[tuple[dict[str, Any], Any, str, str]] = [
    ({"type": "int8"}, -128, "TINYINT", "-128"),
    ({"type": "int16"}, 32767, "SMALLINT", "32767"),
    ({"type": "int32"}, -2147483648, "INTEGER", "-2147483648"),
    ({"type": "int64"}, 9223372036854775807, "BIGINT", "9223372036854775807"),
    ({"type": "float"}, 1.5, "FLOAT", "1.5"),
    ({"type": "double"}, 0.1, "DOUBLE", "0.1"),
    ({"type": "boolean"}, True, "BOOLEAN", "true"),
    ({"type": "string"}, "1234", "VARCHAR", "1234"),
    ({"type": "bytes"}, "BQ==", "BLOB", r"\x05"),
    ({"type": "int32", "name": K + "Date"}, 19782, "DATE", "2024-02-29"),
    ({"type": "int32", "name": K + "Time"}, 3600001, "TIME", "01:00:00.001"),
    ({"type": "int64", "name": K + "Timestamp"}, 86400001, "TIMESTAMP", "1970-01-02 00:00:00.001"),
    ({"type": "int32", "name": D + "time.Date"}, -1, "DATE", "1969-12-31"),
    ({"type": "int32", "name": D + "time.Time"}, 3600001, "TIME", "01:00:00.001"),
    ({"type": "int64", "name": D + "time.MicroTime"}, 3600000001, "TIME", "01:00:00.000001"),
    (
        {"type": "int64", "name": D + "time.NanoTime"},
        86399999999999,
        "TIME_NS",
        "23:59:59.999999999",
    ),
    ({"type": "int64", "name": D + "time.Timestamp"}, 1, "TIMESTAMP", "1970-01-01 00:00:00.001"),
    (
        {"type": "int64", "name": D + "time.MicroTimestamp"},
        -1,
        "TIMESTAMP",
        "1969-12-31 23:59:59.999999",
    ),
    (
        {"type": "int64", "name": D + "time.NanoTimestamp"},
        1700000000000000001,
        "TIMESTAMP_NS",
        "2023-11-14 22:13:20.000000001",
    ),
    (
        {"type": "string", "name": D + "time.ZonedTimestamp"},
        "2024-01-01T12:00:00.123456+02:00",
        "TIMESTAMP WITH TIME ZONE",
        "2024-01-01 10:00:00.123456+00",
    ),
    (
        {"type": "string", "name": D + "time.ZonedTime"},
        "12:00:00Z",
        "TIME WITH TIME ZONE",
        "12:00:00+00",
    ),
    ({"type": "string", "name": D + "time.IsoDate"}, "2024-02-29Z", "DATE", "2024-02-29"),
    ({"type": "string", "name": D + "time.IsoTime"}, "10:11:12.5Z", "TIME", "10:11:12.5"),
    (
        {"type": "string", "name": D + "time.IsoTimestamp"},
        "2024-02-29T10:11:12.5Z",
        "TIMESTAMP",
        "2024-02-29 10:11:12.5",
    ),
    (
        {"type": "int64", "name": D + "time.MicroDuration"},
        1500000,
        "INTERVAL",
        "00:00:01.5",
    ),
    ({"type": "int64", "name": D + "time.NanoDuration"}, 1500000000, "INTERVAL", "00:00:01.5"),
    *(
        ({"type": "int32", "name": D + "time.Date"}, days, "DATE", text)
        for days, text in ((2**31 - 2, "5881580-07-10"), (-2_440_550, "4713-01-01 (BC)"))
    ),
    *(
        ({"type": "int64", "name": D + "time.MicroTimestamp"}, micros, "TIMESTAMP", text)
        for micros, text in (
            (327_403_382_400_000_000, "12345-01-01 00:00:00"),
            (2**63 - 2, "294247-01-10 04:00:54.775806"),
            (-9_223_372_022_400_000_000, "290309-12-22 (BC) 00:00:00"),
        )
    ),
    ({"type": "string", "name": D + "time.Interval"}, "P1Y2M", "VARCHAR", "P1Y2M"),
    ({"type": "int32", "name": D + "time.Year"}, 2024, "INTEGER", "2024"),
    (
        {
            "type": "bytes",
            "name": K + "Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        "1234",
        "DECIMAL(10,2)",
        "-26588.24",
    ),
    (
        {"type": "bytes", "name": K + "Decimal", "parameters": {"scale": "3"}},
        "BQ==",
        "DECIMAL(38,3)",
        "0.005",
    ),
    (
        {
            "type": "bytes",
            "name": K + "Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "60"},
        },
        "1234",
        "VARCHAR",
        "-26588.24",
    ),
    (
        {"type": "bytes", "name": K + "Decimal", "parameters": {"scale": "-2"}},
        "MDk=",
        "VARCHAR",
        "1234500",
    ),
    (
        {"type": "struct", "name": D + "data.VariableScaleDecimal"},
        {"scale": 2, "value": "1234"},
        "VARCHAR",
        "-26588.24",
    ),
    ({"type": "bytes", "name": D + "data.Bits"}, "BQE=", "BLOB", r"\x05\x01"),
    ({"type": "string", "name": D + "data.Json"}, '{"a": [1, null]}', "JSON", '{"a": [1, null]}'),
    ({"type": "string", "name": D + "data.Json"}, "null", "JSON", "null"),
    ({"type": "string", "name": D + "data.Uuid"}, UUID, "UUID", UUID),
    ({"type": "string", "name": D + "data.Xml"}, "<a/>", "VARCHAR", "<a/>"),
    ({"type": "string", "name": D + "data.Enum"}, "a", "VARCHAR", "a"),
    ({"type": "string", "name": D + "data.EnumSet"}, "a,b", "VARCHAR", "a,b"),
    ({"type": "struct", "name": D + "data.geometry.Point"}, {"x": 1.5}, "JSON", '{"x":1.5}'),
    ({"type": "map"}, {"k": "v"}, "JSON", '{"k":"v"}'),
    ({"type": "array", "items": {"type": "int32"}}, [1, None], "INTEGER[]", "[1, NULL]"),
    (
        {"type": "array", "items": {"type": "bytes", "name": K + "Decimal"}},
        ["BQ==", None],
        "DECIMAL(38,0)[]",
        "[5, NULL]",
    ),
    (
        {"type": "array", "items": {"type": "int32", "name": D + "time.Date"}},
        [0, None],
        "DATE[]",
        "[1970-01-01, NULL]",
    ),
    ({"type": "array", "items": {"type": "bytes"}}, ["BQ=="], "BLOB[]", r"['\\x05']"),
    (
        {"type": "array", "items": {"type": "string", "name": D + "data.Json"}},
        ['{"a":1}', None],
        "JSON[]",
        '[{"a":1}, NULL]',
    ),
    ({"type": "array", "items": {"type": "string"}}, ["x", None], "VARCHAR[]", "[x, NULL]"),
]


def test_every_type() -> None:
    fields = [{"field": "id", "type": "int32", "optional": False}]
    fields += [{**f, "field": f"c{i}", "optional": True} for i, (f, *_) in enumerate(TYPES)]
    schema = {"fields": [{"field": "before"}, {"field": "after", "fields": fields}]}
    columns = upstream_columns(json.dumps(schema), "after")
    assert columns[0] == UpstreamColumn("id", "INTEGER", nullable=False)
    assert [column.type for column in columns[1:]] == [type for *_, type, _ in TYPES]
    row = {"id": 1, **{f"c{i}": value for i, (_, value, _, _) in enumerate(TYPES)}}
    events = [{"schema": schema, "payload": {"op": "c", "after": row}}]
    events += [{"schema": schema, "payload": {"op": "c", "after": dict.fromkeys(row) | {"id": 2}}}]
    with ivm.connect() as db:
        db.execute("SET TimeZone = 'UTC'; " + follow(None, "t", columns, ["id"])[0])
        assert db.ingest("t", events, format="debezium with schema").refused == {}
        ((_, *found), nulls) = db.execute("SELECT COLUMNS(*)::VARCHAR FROM t ORDER BY id")
        assert found == [text for *_, text in TYPES]
        assert set(nulls[1:]) == {None}
        assert follow(db._engine.catalog.tables["t"], "t", columns, ["id"]) == []


MISFITS = [
    ("INTEGER[]", [1, "x"]),
    ("DATE[]", ["x", None]),
    ("DATE[2]", [1]),
    ("BLOB[]", ["not base64!"]),
    ("STRUCT(a INTEGER)", {"a": "x"}),
    ("STRUCT(a INTEGER)[]", [{"a": "x"}]),
    ("STRUCT(a BLOB)", {"a": "BQ=="}),
    ("STRUCT(a DECIMAL(10,2))", {"a": "1234"}),
    ("DECIMAL(10,2)[]", ["1234"]),
    ("MAP(VARCHAR, INTEGER)", {"a": "x"}),
    ("JSON", "{"),
]


@pytest.mark.full
def test_no_part_of_a_value_is_lost() -> None:
    """What does not fit into a list or struct, or may mean two things, refuses the whole event."""
    columns = ", ".join(f"c{i} {type}" for i, (type, _) in enumerate(MISFITS))
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        rows = [{"id": i, f"c{i}": value} for i, (_, value) in enumerate(MISFITS)]
        done = db.ingest("t", [{"op": "c", "after": row} for row in rows])
        for i, (type, _) in enumerate(MISFITS):
            assert done.refused[i].startswith(f"c{i} is no {type}: ")
        assert done.applied == 0


@pytest.mark.full
@pytest.mark.parametrize("days", [-622_191_234, -2_147_472_692, 2**31 - 1])
def test_infinite_dates_of_debezium_are_refused(days: int) -> None:
    """As which it writes numbers that mean nothing."""
    date = {"type": "int32", "name": D + "time.Date", "field": "x"}
    schema = {"fields": [{"field": "after", "fields": [date]}]}
    event = {"schema": schema, "payload": {"op": "c", "after": {"x": days}}}
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (x DATE)")
        assert list(db.ingest("t", [event], format="debezium with schema").refused) == [0]


@pytest.mark.full
def test_values_that_were_not_sent_stay() -> None:
    """Debezium's placeholder, in columns of texts, of JSON and of others."""
    types, unavailable = ["VARCHAR", "JSON", "INTEGER[]", "BLOB"], "__debezium_unavailable_value"
    with ivm.connect() as db:
        columns = ", ".join(f"c{i} {type}" for i, type in enumerate(types))
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        db.execute("INSERT INTO t VALUES (1, 'text', '{\"a\": 1}', [1, 2], 'blob')")
        before = db.execute("FROM t").fetchall()
        row = {"id": 1, **{f"c{i}": unavailable for i in range(len(types))}}
        for format in ("debezium", "json"):
            event = {"op": "u", "after": row} if format == "debezium" else {"op": "update", **row}
            assert db.ingest("t", [event], format=format).refused == {}
            assert db.execute("FROM t").fetchall() == before


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("decimals", [None, "base64", "text"])
def test_numbers_keep_their_digits(decimals: str | None) -> None:
    """Also as numbers of JSON, which DuckDB's functions of JSON read as doubles."""
    number = "123456789012345678901234567890123.99999"
    types = {"DECIMAL(38,5)": number, "DECIMAL(38,5)[]": f"[{number}, NULL]"}
    types |= {"STRUCT(a DECIMAL(38,5))": f"{{'a': {number}}}", "DECIMAL(38,5)[][]": f"[[{number}]]"}
    values = [number, f"[{number}, null]", f'{{"a": {number}}}', f"[[{number}]]"]
    row = ", ".join(f'"c{i}": {value}' for i, value in enumerate(values))
    columns = ", ".join(f"c{i} {type}" for i, type in enumerate(types))
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t ({columns})")
        events = [f'{{"op": "c", "after": {{{row}}}}}']
        refused = db.ingest("t", events, decimals=decimals).refused
        if decimals != "text":  # in the struct there might be base64
            assert refused[0].startswith("c2 is no STRUCT(a DECIMAL(38,5)): ")
            db.execute("ALTER TABLE t ALTER c2 TYPE VARCHAR")
            assert db.ingest("t", events, decimals=decimals).refused == {}
        else:
            assert refused == {}
        ((*found,),) = db.execute("SELECT COLUMNS(*)::VARCHAR FROM t").fetchall()
        told = list(types.values())
        assert (*found[:2], found[3]) == (*told[:2], told[3])
        assert decimals != "text" or found == told


@pytest.mark.full
@pytest.mark.parametrize(
    ("format", "event"),
    [
        ("debezium", '{"op": "c", "after": {"id": 1, "x": 0.5, "d": %s}}'),
        ("json", '{"op": "insert", "id": 1, "x": 0.5, "d": %s}'),
        ("json appends", '{"id": 1, "x": 0.5, "d": %s}'),
    ],
)
def test_documents_keep_the_digits_of_their_numbers(format: str, event: str) -> None:
    document = '{"a":[0.12345678901234567890,12345678901234567.891],"b":1.10}'
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x DOUBLE, d JSON)")
        assert db.ingest("t", [event % document], format=format).refused == {}
        assert db.execute("SELECT x, d::VARCHAR FROM t").fetchall() == [(0.5, document)]
