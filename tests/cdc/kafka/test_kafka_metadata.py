"""Columns that get facts of Kafka's messages: from a real broker, and again by a retry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ivm
from tests.cdc.kafka.following import Following, rows, wait_until
from tests.support.kafka import Broker

Topic = Callable[..., str]

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
ALL = (
    "received = timestamp, utc = TIMESTAMP, part = partition, nr = offset, k = key, "
    "Topic = topic, trace = header:trace-id"
)
TABLE = """
    CREATE TABLE t (id INTEGER, v VARCHAR, received TIMESTAMPTZ, utc TIMESTAMP, part INTEGER,
        nr BIGINT, k VARCHAR, topic VARCHAR, trace VARCHAR)
"""


def millis(seconds: float) -> int:
    """A time on that noon in milliseconds since 1970."""
    return round((NOON + timedelta(seconds=seconds)).timestamp() * 1000)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("SET TimeZone = 'America/New_York'")
        yield opened


def source(db: ivm.Database, broker: Broker, topic: str, metadata: str, **options: str) -> None:
    given = {"brokers": broker.address, "topic": topic, "format": "json appends", **options}
    listed = ", ".join(f"{name} '{value}'" for name, value in given.items())
    db.execute(f"CREATE SOURCE s INTO t FROM KAFKA ({listed}, metadata '{metadata}')")


def caught_up(db: ivm.Database) -> None:
    with Following(db, "s") as following:
        following.catch_up()


def test_a_row_has_the_facts_of_its_message(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    name = topic(2)
    headers = [("trace-id", "old"), ("other", "x"), ("trace-id", "ü1")]
    broker.send(name, ['{"id": 1, "v": "a"}'], 0, ["k1"], millis(0.123), headers)
    broker.send(name, ['{"id": 2}', "null", '{"id": 3}'], 1, None, millis(1))
    db.execute(TABLE)
    source(db, broker, name, ALL)
    caught_up(db)
    first, second = NOON + timedelta(milliseconds=123), NOON + timedelta(seconds=1)
    assert rows(db, "FROM t") == [
        (1, "a", first, first.replace(tzinfo=None), 0, 0, "k1", name, "ü1"),
        (2, None, second, second.replace(tzinfo=None), 1, 0, None, name, None),
        (3, None, second, second.replace(tzinfo=None), 1, 2, None, name, None),
    ]


@pytest.mark.full
def test_metadata_wins_over_what_the_event_carries(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, ['{"id": 1, "NR": "no number"}', '{"id": 2, "nr": 77, "nr": 78}'])
    db.execute("CREATE TABLE t (nr BIGINT, id INTEGER)")
    source(db, broker, name, "nr = offset")
    caught_up(db)
    assert rows(db, "FROM t") == [(0, 1), (1, 2)]


@pytest.mark.full
def test_the_place_of_a_message_can_be_the_key(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic(2)
    for part in range(2):
        broker.send(name, ['{"v": 1}', '{"v": 2}', '{"v": "x"}'], part)
    db.execute("CREATE TABLE t (part INT, nr BIGINT, v INT, PRIMARY KEY (part, nr))")
    source(db, broker, name, "part = partition, nr = offset")
    caught_up(db)
    assert rows(db, "FROM t") == [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2)]
    db.execute("ALTER SOURCE s SET (start 'latest')")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 0
    assert rows(db, "SELECT key FROM _ivm.letter_keys") == [('["0", "2"]',), ('["1", "2"]',)]


FORMATS: dict[str, tuple[dict[str, str], Callable[[str, int, str], dict[str, Any]]]] = {
    "debezium": ({}, lambda op, id, v: _debezium(op, id, v)),
    "debezium with schema": (
        {"follow": "false"},
        lambda op, id, v: {"schema": None, "payload": _debezium(op, id, v)},
    ),
    "maxwell": (
        {},
        lambda op, id, v: {
            "type": {"c": "insert", "u": "update", "d": "delete"}[op],
            "data": {"id": id, "v": v},
            **({"old": {"v": "before"}} if op == "u" else {}),
        },
    ),
    "json": ({}, lambda op, id, v: {"op": op, "id": id, "v": v}),
    "json upserts": (
        {},
        lambda op, id, v: {"id": id, "v": v, "__deleted": "true" if op == "d" else "false"},
    ),
}


def _debezium(op: str, id: int, v: str) -> dict[str, Any]:
    row = {"id": id, "v": v}
    return {"op": op, "before": None if op == "c" else row, "after": None if op == "d" else row}


@pytest.mark.full
@pytest.mark.parametrize("format", FORMATS)
def test_the_event_that_wrote_a_row_last_tells_its_facts(
    broker: Broker, topic: Topic, db: ivm.Database, format: str
) -> None:
    options, event = FORMATS[format]
    name = topic()
    sent = [("c", 1, "a"), ("c", 2, "b"), ("u", 1, "c"), ("c", 3, "d"), ("d", 2, "b")]
    broker.send(name, [json.dumps(event(*each)) for each in sent])
    db.execute("CREATE TABLE t (nr BIGINT, id INTEGER PRIMARY KEY, v VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT max(nr) AS nr, count(*) AS n FROM t")
    source(db, broker, name, "nr = offset", format=format, **options)
    with Following(db, "s") as following:
        following.catch_up(limit=2)
        assert rows(db, "FROM t") == [(2, 1, "c"), (3, 3, "d")]
        broker.send(name, [json.dumps(event("u", 3, "e"))])
        following.catch_up()
    assert rows(db, "FROM t") == [(2, 1, "c"), (5, 3, "e")]
    assert rows(db, "FROM w") == [(5, 2)]
    assert rows(db, "FROM _ivm.dead_letters") == []


@pytest.mark.full
def test_an_offset_can_be_the_version(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    """What is read again from an older place changes nothing, deletions included."""
    name = topic()
    events = [("c", 1, "a"), ("u", 1, "b"), ("c", 2, "c"), ("d", 2, "c"), ("c", 2, "d")]
    broker.send(name, [json.dumps(_debezium(*event)) for event in events])
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR, nr BIGINT)")
    source(db, broker, name, "nr = offset", format="debezium", version="nr")
    caught_up(db)
    assert rows(db, "FROM t") == [(1, "b", 1), (2, "d", 4)]
    db.execute("DROP SOURCE s")
    db.execute("CREATE MATERIALIZED VIEW w AS FROM t")
    with db.subscribe("w", snapshot=False) as feed:
        source(db, broker, name, "nr = offset", format="debezium", version="nr")
        caught_up(db)
        assert rows(db, "FROM t") == [(1, "b", 1), (2, "d", 4)]
        assert feed.poll(timeout=0) is None


@pytest.mark.full
def test_shards_have_their_topic_in_the_key(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    one, two = topic(), topic()
    for name in (one, two):
        sent = [("c", 1, name[-1]), ("c", 2, "x"), ("u", 1, name[-2:]), ("d", 2, "x")]
        broker.send(name, [json.dumps(_debezium(*event)) for event in sent])
    db.execute("CREATE TABLE t (shard VARCHAR, id INT, v VARCHAR, PRIMARY KEY (shard, id))")
    source(db, broker, f"{one}, {two}", "shard = topic", format="debezium")
    caught_up(db)
    assert rows(db, "FROM t") == sorted([(one, 1, one[-2:]), (two, 1, two[-2:])], key=repr)


@pytest.mark.full
def test_dead_letters_keep_their_facts(broker: Broker, topic: Topic, db: ivm.Database) -> None:
    name = topic(2)
    broker.send(name, ['{"id": 1}'], 1)
    broker.send(name, ['{"id": "x", "v": "a"}', "{"], 1, ["k", b"\xff"], millis(5), [("n", "7")])
    broker.send(name, ['{"id": 2}'], 1, None, millis(6), [("n", "seven")])
    db.execute("""
        CREATE TABLE t (id INTEGER, v VARCHAR, nr BIGINT, part INTEGER, received TIMESTAMPTZ,
            k BLOB, n INTEGER)
    """)
    metadata = "nr = offset, part = partition, received = timestamp, k = key, n = header:n"
    source(db, broker, name, metadata)
    caught_up(db)
    assert rows(db, "SELECT position, reason, payload FROM _ivm.dead_letters") == [
        (1, 'id is no INTEGER: "x"', '{"id": "x", "v": "a"}'),
        (2, "it is not JSON", "{"),
        (3, "n is no INTEGER: seven", '{"id": 2}'),
    ]
    db.execute("ALTER TABLE t ALTER id TYPE VARCHAR; ALTER TABLE t ALTER n TYPE VARCHAR")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 2
    when = NOON + timedelta(seconds=5)
    assert rows(db, "FROM t WHERE id <> '1'") == [
        ("2", None, 3, 1, NOON + timedelta(seconds=6), None, "seven"),
        ("x", "a", 1, 1, when, b"k", "7"),
    ]
    assert rows(db, "SELECT position FROM _ivm.dead_letters") == [(2,)]
    [(_, _, stream, position, _, facts)] = rows(db, "FROM _ivm.letter_facts")
    assert (stream, position) == (f"{name}/1", 2)
    assert json.loads(facts) == {
        "offset": 2,
        "partition": 1,
        "timestamp": millis(5) * 1000,
        "key": {"hex": "ff"},
        "header:n": "7",
    }
    db.execute("DISCARD DEAD LETTERS FOR s")
    assert rows(db, "FROM _ivm.letter_facts") == []


@pytest.mark.full
def test_a_fact_that_was_not_kept_leaves_the_letter(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, ['{"id": "x"}'], 0, None, 0, [("n", "7")])
    db.execute("CREATE TABLE t (id INTEGER, nr BIGINT, n VARCHAR)")
    source(db, broker, name, "nr = offset")
    caught_up(db)
    db.execute("ALTER SOURCE s SET (metadata 'nr = offset, n = header:n')")
    db.execute("ALTER TABLE t ALTER id TYPE VARCHAR")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 0
    [(reason,)] = rows(db, "SELECT reason FROM _ivm.dead_letters")
    assert reason.startswith("its header:n was not kept")
    db.execute("ALTER SOURCE s SET (metadata '')")
    db.execute("ALTER TABLE t ALTER id TYPE INTEGER")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 0
    db.execute("ALTER SOURCE s SET (metadata 'nr = offset')")
    db.execute("ALTER TABLE t ALTER id TYPE VARCHAR")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 1
    assert rows(db, "FROM t") == [("x", 0, None)]


@pytest.mark.full
def test_a_key_that_is_no_text_is_refused_but_in_a_blob(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    broker.send(name, ['{"id": 1}', '{"id": 2}', '{"id": 3}'], 0, [b"\xff\x00", None, "k"])
    db.execute("CREATE TABLE t (id INTEGER, k VARCHAR)")
    source(db, broker, name, "k = key")
    caught_up(db)
    assert rows(db, "FROM t") == [(2, None), (3, "k")]
    [(reason,)] = rows(db, "SELECT reason FROM _ivm.dead_letters")
    assert reason == "its key is no UTF-8: no UTF-8: \\xff\x00"
    db.execute("CREATE OR REPLACE TABLE t (id INTEGER, k BLOB)")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 1
    assert rows(db, "FROM t") == [(1, b"\xff\x00")]


@pytest.mark.full
def test_a_table_made_by_the_events_schema_has_the_columns(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    fields = [{"field": "id", "type": "int32", "optional": False}]

    def event(id: int, **more: str) -> str:
        known = fields + [{"field": f, "type": "string", "optional": True} for f in more]
        row = {"field": "after", "type": "struct", "optional": True, "fields": known}
        payload = {"op": "c", "before": None, "after": {"id": id, **more}}
        return json.dumps({"schema": {"type": "struct", "fields": [row]}, "payload": payload})

    broker.send(name, [event(1), event(2, v="a"), event(3, v="b", nr="x")], 0, ['{"id": 1}'] * 3)
    source(db, broker, name, "nr = offset, received = timestamp", format="debezium with schema")
    db.start_sources()
    wait_until(lambda: db.sources()[0].caught_up)
    assert rows(db, "SELECT id, nr, v FROM t") == [(1, 0, None), (2, 1, "a"), (3, 2, "b")]
    assert rows(db, "SELECT column_name, column_type FROM (DESCRIBE t)") == [
        ("id", "INTEGER"),
        ("nr", "BIGINT"),
        ("received", "TIMESTAMP WITH TIME ZONE"),
        ("v", "VARCHAR"),
    ]


@pytest.mark.full
def test_the_watermark_holds_at_the_slower_partition(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic(2)
    db.execute("""
        CREATE TABLE t (id INTEGER, ts TIMESTAMP, part INTEGER,
            WATERMARK FOR ts AS ts - INTERVAL '1 second') WITH (watermark_by = part)
    """)
    source(db, broker, name, "part = partition")

    def send(partition: int, *seconds: int) -> None:
        times = [(NOON + timedelta(seconds=s)).strftime("%F %T") for s in seconds]
        texts = [json.dumps({"id": s, "ts": t}) for s, t in zip(seconds, times, strict=True)]
        broker.send(name, texts, partition)

    def watermark() -> float:
        [(time,)] = rows(db, "SELECT watermark('t')")
        return float((time - NOON.replace(tzinfo=None)).total_seconds())

    with Following(db, "s") as following:
        send(0, 0)
        send(1, 5)
        following.catch_up()
        assert watermark() == -1
        send(1, 100, 200)
        following.catch_up()
        assert watermark() == -1, "the other partition has come no further"
        send(0, 50)
        following.catch_up()
        assert watermark() == 49
        send(0, 300)
        following.catch_up()
        assert watermark() == 199


@pytest.mark.full
def test_a_running_source_goes_on_with_metadata(
    broker: Broker, topic: Topic, db: ivm.Database
) -> None:
    name = topic()
    db.execute("CREATE TABLE t (id INTEGER, nr BIGINT)")
    source(db, broker, name, "nr = offset")
    db.start_sources()
    broker.send(name, ['{"id": 1}'])
    wait_until(lambda: rows(db, "FROM t") == [(1, 0)])
    db.execute("ALTER TABLE t DROP COLUMN nr")
    broker.send(name, ['{"id": 2}'])
    wait_until(lambda: db.sources()[0].state == "stopped")
    reason = db.sources()[0].reason or ""
    assert 'lacks: ALTER TABLE t ADD COLUMN "nr" BIGINT' in reason
    db.execute('ALTER TABLE t ADD COLUMN "nr" BIGINT; RESUME SOURCE s')
    wait_until(lambda: rows(db, "FROM t") == [(1, None), (2, 1)])
