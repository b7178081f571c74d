"""What an event leaves out, or says in another way: unchanged values, NULLs, messages of no row."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import ivm
from ivm.cdc.formats.envelopes import FORMATS

PLACEHOLDER = "__debezium_unavailable_value"
BYTES = list(PLACEHOLDER.encode())
BASE64 = base64.b64encode(PLACEHOLDER.encode()).decode()
UUID = str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode()).digest(), version=3))
WHOLE = [
    ("BLOB", "'x'::BLOB", BASE64),
    ("BLOB", "'x'::BLOB", PLACEHOLDER),
    ("BLOB[]", "['x'::BLOB]", [BASE64]),
    ("VARCHAR", "'x'", PLACEHOLDER),
    ("VARCHAR", "'x'", BASE64),
    ("VARCHAR", "'x'", PLACEHOLDER.encode().hex()),
    ("VARCHAR", "'x'", [PLACEHOLDER]),
    ("VARCHAR", "'x'", BYTES),
    ("VARCHAR", "'x'", {PLACEHOLDER: PLACEHOLDER}),
    ("VARCHAR", "'x'", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
    ("VARCHAR[]", "['x']", [PLACEHOLDER]),
    ("INTEGER[]", "[7]", BYTES),
    ("BIGINT[]", "[7]", BYTES),
    ("DOUBLE[]", "[7]", [float(byte) for byte in BYTES]),
    ("DECIMAL(8,2)[]", "[7]", BYTES),
    ("DATE[]", "[DATE '2020-01-01']", BYTES),
    ("MAP(VARCHAR, VARCHAR)", "MAP {'k': 'v'}", {PLACEHOLDER: PLACEHOLDER}),
    ("JSON", "'[1]'", [PLACEHOLDER]),
    ("JSON", "'[1]'", PLACEHOLDER),
    ("UUID", f"'{uuid.UUID(int=1)}'", UUID),
    ("UUID[]", f"['{uuid.UUID(int=1)}']", [UUID]),
    ("UUID[]", f"['{uuid.UUID(int=1)}']", [PLACEHOLDER]),
    ("DECIMAL(8,2)", "1", PLACEHOLDER),
    ("DECIMAL(38,2)", "1", BASE64),
    ("BIT", "'101'", PLACEHOLDER),
    ("TIMESTAMP", "'2020-01-01'", PLACEHOLDER),
]
PARTS = [
    ("STRUCT(a VARCHAR)", "{'a': 'x'}", {"a": PLACEHOLDER}),
    ("STRUCT(a VARCHAR[])", "{'a': ['x']}", {"a": [PLACEHOLDER]}),
    ("STRUCT(a INTEGER[])", "{'a': [1]}", {"a": BYTES}),
    ("STRUCT(a BLOB)", "{'a': 'x'::BLOB}", {"a": BASE64}),
    ("VARCHAR[]", "['x']", ["y", PLACEHOLDER]),
    ("MAP(VARCHAR, VARCHAR)", "MAP {'k': 'v'}", {"k": PLACEHOLDER}),
    ("JSON", "'[1]'", {"a": {"b": PLACEHOLDER}}),
    ("STRUCT(a JSON)[]", "[{'a': '1'}]", [{"a": PLACEHOLDER}]),
]


def updated(type: str, init: str, value: Any, **options: Any) -> tuple[bool, dict[int, str]]:
    """Whether an update of a row's value leaves it, and why it is refused."""
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, v {type})")
        db.execute(f"INSERT INTO t VALUES (1, 1, {init})")
        before = db.execute("SELECT v FROM t").fetchall()
        for indent in (None, 1):
            event = json.dumps({"op": "u", "after": {"id": 1, "n": 2, "v": value}}, indent=indent)
            refused = db.ingest("t", [event], **options).refused
        after = db.execute("SELECT v, n FROM t").fetchall()
        assert after[0][1] == (1 if refused else 2)
        return before == [row[:1] for row in after], refused


@pytest.mark.full
@pytest.mark.parametrize(("type", "init", "value"), WHOLE)
def test_a_value_that_was_not_sent_stays(type: str, init: str, value: Any) -> None:
    assert updated(type, init, value) == (True, {})


@pytest.mark.full
@pytest.mark.parametrize(("type", "init", "value"), PARTS)
def test_a_value_of_which_a_part_was_not_sent_is_refused(type: str, init: str, value: Any) -> None:
    kept, refused = updated(type, init, value)
    assert kept
    assert refused[0].startswith("v has a part that was not sent")


@pytest.mark.full
@pytest.mark.parametrize("value", [f"about {PLACEHOLDER}", "[95,", '"x"', "null", "95"])
def test_a_text_that_speaks_of_it_is_stored(value: str) -> None:
    assert updated("VARCHAR", "'x'", value) == (False, {})


def deleted(id: int, lsn: int = 1) -> dict[str, Any]:
    return {"op": "d", "before": {"id": id, "n": None, "v": None}, "source": {"lsn": lsn}}


def created(id: int, n: int, lsn: int = 1) -> dict[str, Any]:
    row = {"id": id, "n": n, "v": PLACEHOLDER}
    return {"op": "c", "before": None, "after": row, "source": {"lsn": lsn}}


UNKNOWN: list[tuple[list[Any], list[int]]] = [
    ([created(2, 3)], [0]),
    ([deleted(7), created(2, 3, lsn=2)], [1]),
    ([created(2, 3), {"op": "u", "after": {"id": 2, "n": 4, "v": PLACEHOLDER}}], [0, 1]),
    ([{"op": "u", "before": {"id": 8}, "after": {"id": 2, "n": 4, "v": PLACEHOLDER}}], [0]),
    ([*[created(2, 3)] * 50, {"op": "c", "after": {"id": 3, "n": 1, "v": "y"}}], [*range(50)]),
]


@pytest.mark.full
@pytest.mark.parametrize(("events", "refused"), UNKNOWN)
def test_an_unchanged_value_that_no_row_has_is_refused(
    events: list[Any], refused: list[int]
) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, v VARCHAR)")
        found = db.ingest("t", events).refused
        assert [*found] == refused
        assert all(why.startswith("v was not sent, since it has not") for why in found.values())
        assert db.execute("FROM t WHERE v IS NULL").fetchall() == []


def test_an_unchanged_value_moves_with_a_key_that_is_changed_by_two_events() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, v VARCHAR)")
        db.execute("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (5, 5, 'z')")
        moves = [deleted(1), None, created(3, 4), deleted(3, 2), created(4, 6, 2), deleted(2, 3)]
        assert db.ingest("t", moves).refused == {}
        assert content(db) == [(4, 6, "x"), (5, 5, "z")]


def content(db: ivm.Database) -> list[Any]:
    return db.execute("FROM t ORDER BY ALL").fetchall()


@pytest.mark.full
@pytest.mark.parametrize("key", [" PRIMARY KEY", ""])
def test_a_value_that_only_the_row_before_has_is_null_now(key: str) -> None:
    def change(data: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        return {"type": "update", "data": data, "old": old}

    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER{key}, addr VARCHAR DEFAULT 'none', n INTEGER)")
        rows = [{"id": i, "addr": "a", "n": i} for i in range(4)]
        db.ingest("t", [{"type": "insert", "data": row} for row in rows], format="maxwell")
        events = [
            change({"id": 0, "n": 0}, {"addr": "a"}),
            change({"id": 1}, {"addr": "a", "n": 1}),
            change({"id": 9, "n": 2}, {"id": 2, "addr": "a"}),
            change({"id": 3, "addr": "a", "n": 4}, {"n": 3}),
        ]
        db.ingest("t", events, format="maxwell")
        assert content(db) == [(0, None, 0), (1, None, None), (3, "a", 4), (9, None, 2)]


@pytest.mark.full
@pytest.mark.parametrize("type", ["insert", "bootstrap-insert"])
@pytest.mark.parametrize("beside", [{}, {"a": "b"}])
def test_a_null_that_maxwell_leaves_out_of_a_known_row_is_null(
    type: str, beside: dict[str, str]
) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a VARCHAR, own VARCHAR DEFAULT 'none')")
        db.execute("INSERT INTO t VALUES (1, 'x', 'mine')")
        rows = [{"id": 1}, {"id": 2, **beside}]
        db.ingest("t", [{"type": type, "data": row} for row in rows], format="maxwell")
        assert content(db) == [(1, None, "mine"), (2, beside.get("a"), "none")]


@pytest.mark.full
def test_debezium_s_rows_without_their_nulls() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a VARCHAR, n INTEGER)")
        db.execute("INSERT INTO t VALUES (1, 'x', 5)")
        db.ingest("t", [{"op": "u", "before": {"id": 1, "n": 5}, "after": {"id": 1}}])
        assert content(db) == [(1, "x", None)]


def plain(message: Any) -> Any:
    return message


def with_schema(message: Any) -> Any:
    return {"schema": {"type": "struct"}, "payload": message}


MESSAGES: list[Any] = [
    {"ts_ms": 1700000000000},
    {"ts_ms": 1700000000000, "ts_us": 1700000000000000, "ts_ns": 1700000000000000000},
    {"status": "BEGIN", "id": "5:1", "event_count": None, "data_collections": None, "ts_ms": 3},
    {"status": "END", "id": "5:1", "event_count": 1, "data_collections": [], "ts_ms": 3},
    {"source": {"db": "s"}, "ts_ms": 1, "databaseName": "s", "ddl": "ALTER …", "tableChanges": []},
    {"op": "m", "message": {"prefix": "p", "content": ""}},
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("format", "wrapped"), [("debezium", plain), ("debezium with schema", with_schema)]
)
def test_messages_of_no_row_are_ignored(format: str, wrapped: Callable[[Any], Any]) -> None:
    batch = [*map(wrapped, MESSAGES), '{"schema":null,"payload":null}', None, "null"]
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, ts_ms BIGINT)")
        found = db.ingest("t", [*batch, wrapped({"ts_ms": 1, "x": 2})], format=format)
        assert (found.ignored, list(found.refused)) == (len(batch), [len(batch)])


def test_maxwell_s_ddl_is_ignored() -> None:
    kinds = [f"{of}-{what}" for of in ("table", "database") for what in ("create", "alter", "drop")]
    batch = [{"type": kind, "database": "s", "table": "t", "sql": "…"} for kind in kinds]
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        found = db.ingest("t", batch, format="maxwell")
        assert (found.ignored, found.refused) == (len(kinds), {})


TWICE = [
    ("json", '{"op": "c", "id": 1, "a": 1, "a": 2}', "a"),
    ("json", '{"op": "c", "op": "d", "id": 1}', "op"),
    ("json appends", '{"id": 1, "id": 1}', "id"),
    ("json upserts", '{"id": 1, "__deleted": "true", "__deleted": "false"}', "__deleted"),
    ("debezium", '{"op": "c", "after": {"id": 1, "a": 1, "a": 2}}', "a"),
    ("debezium", '{"op": "c", "after": {"id": 1, "a": 1, "a": null}}', "a"),
    ("debezium", '{"op": "c", "op": "d", "after": {"id": 1}}', "op"),
    ("debezium", '{"op": "c", "after": {"id": 1}, "after": {"id": 2}}', "after"),
    ("debezium", '{"op": "d", "before": {"id": 1, "id": 2}}', "id"),
    ("debezium with schema", '{"payload": {"op": "c", "op": "d", "after": {"id": 1}}}', "op"),
    ("maxwell", '{"type": "insert", "type": "delete", "data": {"id": 1}}', "type"),
    ("maxwell", '{"type": "update", "data": {"id": 1}, "old": {"a": 1, "a": 2}}', "a"),
]


@pytest.mark.full
@pytest.mark.parametrize(("format", "line", "key"), TWICE)
def test_a_key_that_comes_twice_is_refused(format: str, line: str, key: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)")
        assert db.ingest("t", [line], format=format).refused == {0: f"it has the key {key} twice"}
        assert content(db) == []


@pytest.mark.full
@pytest.mark.parametrize("format", FORMATS)
def test_a_key_of_no_column_may_come_twice(format: str) -> None:
    row = '{"id": 1, "x": 1, "x": 2}'
    lines = {
        "debezium": f'{{"op": "c", "after": {row}}}',
        "debezium with schema": f'{{"payload": {{"op": "c", "after": {row}}}}}',
        "maxwell": f'{{"type": "insert", "data": {row}}}',
        "json": row.replace("{", '{"op": "c", '),
    }
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        db.ingest("t", [lines.get(format, row)], format=format)
        assert content(db) == [(1,)]


@pytest.mark.full
@pytest.mark.parametrize("bad", [{"op": "c", "after": {"id": 2, "s": "\ud800"}}, '{"op": "\ud800"'])
def test_half_a_character_is_one_dead_letter(bad: Any) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR)")
        good = [{"op": "c", "after": {"id": i, "s": "é"}} for i in (1, 3)]
        found = db.ingest("t", [good[0], bad, good[1]])
        assert (found.applied, found.refused) == (2, {1: "it is not JSON"})
        payload = db.execute("SELECT payload FROM _ivm.dead_letters").fetchone()
        assert payload is not None
        assert r"\xed\xa0\x80" in payload[0]
