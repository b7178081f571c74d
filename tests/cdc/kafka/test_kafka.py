"""Topics of a real broker are followed: each message once, whatever happens between."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.cdc.sources.source import SourceError
from tests.cdc.kafka.following import Following, examples_of, rows, wait_until
from tests.support.kafka import Broker
from tests.tiers import examples

Topic = Callable[..., str]


def created(
    broker: Broker, topic: str, path: Path | str = ":memory:", **options: str
) -> ivm.Database:
    """A database with a table of messages and a source of one topic."""
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (id INTEGER, v VARCHAR)")
    add_source(db, "s", broker, topic, **options)
    return db


def add_source(db: ivm.Database, name: str, broker: Broker, topic: str, **options: str) -> None:
    options = {"brokers": broker.address, "topic": topic, "format": "json appends", **options}
    listed = ", ".join(f"{option} '{value}'" for option, value in options.items())
    db.execute(f"CREATE SOURCE {name} INTO t FROM KAFKA ({listed})")


def texts(*ids: int) -> list[str]:
    return [json.dumps({"id": i, "v": f"v{i}"}) for i in ids]


def ids(db: ivm.Database) -> list[int]:
    return [i for (i,) in rows(db, "SELECT id FROM t")]


@pytest.mark.full
def test_a_topic_goes_into_the_table_of_its_name(broker: Broker) -> None:
    topic = broker.create("shop.public.Order-Items", 3)
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE "order-items" (id INTEGER PRIMARY KEY, v VARCHAR);
            CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM "order-items";
        """)
        db.execute(f"CREATE SOURCE s FROM KAFKA (brokers '{broker.address}', topic '{topic}')")
        db.start_sources()
        for i in range(3):
            event = {"op": "c", "after": {"id": i, "v": "a"}}
            broker.send(topic, [json.dumps(event)], i)
        wait_until(lambda: rows(db, "FROM counted") == [(3,)])
        gone = {"op": "d", "before": {"id": 1}, "after": None}
        broker.send(topic, [json.dumps(gone), None], 1, ["1", "1"])  # with its tombstone
        wait_until(lambda: rows(db, "FROM counted") == [(2,)])
        wait_until(lambda: db.sources()[0].caught_up)
        [source] = db.sources()
        assert (source.lag_events, source.dead_letters) == (0, 0)
        assert source.position == ", ".join(f"{topic}/{i}: {n}" for i, n in enumerate([1, 3, 1]))


@pytest.mark.full
@settings(max_examples=examples(12))
@given(
    st.lists(st.lists(st.integers(0, 2), max_size=20), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=20),
)
def test_every_message_is_read_once_wherever_the_source_is_left(
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[list[int]],
    steps: list[tuple[int, bool]],
) -> None:
    """Messages come now and then to these partitions; after any step all may be closed."""
    folder = tmp_path_factory.mktemp("left")
    topic = broker.create(f"left.{folder.name}", 3)
    db = created(broker, topic, path=folder / "db")
    left, number = iter(steps), 0
    following = Following(db, "s")
    for partitions in sent:
        for partition in range(3):
            count = partitions.count(partition)
            broker.send(topic, texts(*range(number, number + count)), partition)
            number += count
        for limit, leave in left:
            following.step(limit)
            if leave:
                following.reader.close()
                db.close()
                db = ivm.connect(folder / "db")
                following = Following(db, "s")
                break
    with db, following:
        following.catch_up()
        assert ids(db) == sorted(range(number), key=repr)


@pytest.mark.full
def test_only_what_was_committed_is_read(broker: Broker, topic: Topic) -> None:
    name = topic()
    producer = broker.producer(**{"transactional.id": name})
    producer.init_transactions()

    def begin(*numbers: int) -> None:
        producer.begin_transaction()
        for text in texts(*numbers):
            producer.produce(name, text, partition=0)
        producer.flush()

    with created(broker, name) as db:
        with Following(db, "s") as following:
            begin(1, 2)
            following.catch_up()
            assert ids(db) == []
            producer.commit_transaction()
            begin(3)
            producer.abort_transaction()
            begin(4)
            producer.commit_transaction()
            wait_until(lambda: bool(following.step()) and ids(db) == [1, 2, 4])
            wait_until(lambda: not following.step() and following.at(name) == 7)
            assert following.reader.lag() == 0
        broker.forget(name, 7)  # the last ones were marks of the broker: nothing is lost
        broker.send(name, texts(5))
        with Following(db, "s") as following:
            following.catch_up()
        assert ids(db) == [1, 2, 4, 5]


@pytest.mark.full
def test_a_compacted_topic_has_gaps_that_are_none(broker: Broker, topic: Topic) -> None:
    name = topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    keys = [str(i % 3) for i in range(30)]
    broker.send(name, texts(*range(30)), keys=keys)

    def compacted() -> bool:
        broker.send(name, texts(99), keys=["x"])  # ends a segment
        return len(broker.read(name)) < 25

    wait_until(compacted)
    with created(broker, name) as db, Following(db, "s") as following:
        following.catch_up(limit=2)
        assert ids(db)[:3] == [27, 28, 29]


@pytest.mark.full
def test_messages_that_retention_has_removed_are_missed(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(name, texts(*range(10)))
    with created(broker, name) as db:
        with Following(db, "s") as following:
            following.step()
            wait_until(lambda: following.step(limit=1) is not None)
            broker.send(name, texts(10))
        broker.forget(name, 5)
        with pytest.raises(SourceError, match=r"begins at offset 5, and those from 1 on were not"):
            Following(db, "s")
        broker.forget(name, 11)
        db.execute("DROP SOURCE s")
        add_source(db, "s", broker, name)
        with Following(db, "s") as following:
            following.catch_up()
            assert following.at(name) == 11


def test_messages_are_missed_that_go_while_they_are_read(broker: Broker, topic: Topic) -> None:
    name = topic()
    little = "queued.max.messages.kbytes=1; message.max.bytes=1000; fetch.max.bytes=1000"
    with created(broker, name, properties=little) as db, Following(db, "s") as following:
        following.step()
        broker.send(name, [json.dumps({"id": i, "v": "x" * 1000}) for i in range(2000)])
        wait_until(lambda: following.step(limit=1) is not None)
        broker.forget(name, 1990)
        with pytest.raises(SourceError, match="begins at offset 1990"):
            following.catch_up()


@pytest.mark.full
def test_a_topic_that_was_created_again_is_another(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(name, texts(1, 2))
    with created(broker, name) as db, Following(db, "s") as following:
        following.catch_up()
        broker.delete(name)
        broker.create(name)
        broker.send(name, texts(3, 4, 5, 6))
        with pytest.raises(SourceError, match="deleted and created again"):
            wait_until(lambda: following.step() is not None)
        with pytest.raises(SourceError, match="deleted and created again"):
            Following(db, "s")
        assert ids(db) == [1, 2]
        broker.delete(name)
        with pytest.raises(SourceError, match="there is no topic"):
            Following(db, "s")


@pytest.mark.full(smoke=1)
def test_a_deleted_topic_stops_the_source(broker: Broker, topic: Topic) -> None:
    name = topic()
    with created(broker, name) as db:
        db.start_sources()
        wait_until(lambda: db.sources()[0].caught_up)
        broker.delete(name)
        wait_until(lambda: db.sources()[0].state == "stopped")
        assert "there is no topic" in str(db.sources()[0].reason)


@pytest.mark.full
def test_partitions_are_added(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(name, texts(1))
    with created(broker, name, start="latest") as db:
        with Following(db, "s") as following:
            following.catch_up()
            broker.widen(name, 2)
            broker.send(name, texts(2), 1)
            wait_until(lambda: bool(following.step()) and ids(db) == [2])
        broker.widen(name, 3)
        broker.send(name, texts(3), 2)
        with Following(db, "s") as following:
            following.catch_up()
        assert ids(db) == [2, 3]


@pytest.mark.full
def test_the_latest_message_is_that_when_the_source_was_begun(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(name, texts(1))
    with created(broker, name, start="latest") as db:
        with Following(db, "s") as following:
            following.step()
        broker.send(name, texts(2))
        with Following(db, "s") as following:
            following.catch_up()
        assert ids(db) == [2]


@pytest.mark.full(smoke=1)
def test_a_topic_is_begun_at_a_time(broker: Broker, topic: Topic) -> None:
    name, begin = topic(3), 1_700_000_000_000  # 2023-11-14 22:13:20+00
    for at, number in ((-2, 1), (-1, 2), (0, 3), (0, 4), (7, 5)):
        broker.send(name, texts(number), time=begin + at)
    broker.send(name, texts(6), 1, time=begin - 1)
    broker.send(name, texts(7), 2, time=begin + 9)
    with created(broker, name, start="2023-11-14 23:13:20+01") as db:
        with Following(db, "s") as following:
            following.catch_up()
        assert sorted(ids(db)) == [3, 4, 5, 7]
        broker.send(name, texts(8), 1, time=begin - 5)  # comes after the begin
        broker.widen(name, 4)
        broker.send(name, texts(9), 3, time=begin - 5)
        with Following(db, "s") as following:
            following.catch_up()
        assert sorted(ids(db)) == [3, 4, 5, 7, 8, 9]


@pytest.mark.full
def test_a_topic_is_begun_at_offsets(broker: Broker, topic: Topic) -> None:
    name = topic(3)
    for partition in range(3):
        broker.send(name, texts(*range(10 * partition, 10 * partition + 4)), partition)
    with created(broker, name, start=f"0:2, {name}/2:4") as db:
        with Following(db, "s") as following:
            following.catch_up()
        assert sorted(ids(db)) == [2, 3, 10, 11, 12, 13]
        broker.send(name, texts(30), 2)
        with Following(db, "s") as following:
            following.catch_up()
        assert sorted(ids(db)) == [2, 3, 10, 11, 12, 13, 30]
    for start, says in (("0:5", "offsets 0 to 4, not 5"), ("7:0", f"no partition {name}/7")):
        with created(broker, name, start=start) as db, pytest.raises(SourceError, match=says):
            Following(db, "s")


WRONG_STARTS = [
    ("soon", "'earliest', 'latest', a time such as"),
    ("2026-11-28 00:00", r"has no zone: write '2026-11-28 00:00\+00'"),
    ("0:1, 0:2", "a partition twice"),
    ("2026-11-28", r"has no zone: write '2026-11-28 00:00\+00'"),
    ("2026-11-28+00", r"has no zone: write '2026-11-28 00:00\+00'"),
    ("0:1, -1:2", "'earliest', 'latest', a time such as"),
    ("0:1, 2:-2", "the offset -2 of a/2 is negative: the first message .* has the offset 0"),
    ("other/0:1", "no topic of the source"),
    ("", "'earliest', 'latest', a time such as"),
    ("0:1', topic 'a, b", "as a/0:offset"),
]


@pytest.mark.parametrize(("start", "says"), WRONG_STARTS)
def test_a_start_that_means_nothing_is_refused(start: str, says: str) -> None:
    topic = "" if "topic" in start else "topic 'a', "
    options = f"brokers 'nowhere:1', {topic}start '{start}'"
    with ivm.connect() as db, pytest.raises(ivm.errors.InputError, match=says):
        db.execute(f"CREATE TABLE a (id INTEGER); CREATE SOURCE s INTO a FROM KAFKA ({options})")


@pytest.mark.full
def test_dirt_stays_alone(broker: Broker, topic: Topic) -> None:
    name = topic(2)
    dirt = [b"\xff\xfe{}", b"\x00\x00\x00\x00\x01{}", b'{"id": "\xff"}', b"[", b'{"id": "x"}', b"1"]
    broker.send(name, [*texts(1), *dirt, *texts(2), None, "", "null"], 1)
    with created(broker, name) as db, Following(db, "s") as following:
        following.catch_up()
        assert ids(db) == [1, 2]
        letters = "SELECT stream, position FROM _ivm.dead_letters"
        assert rows(db, letters) == [(f"{name}/1", i) for i in range(1, 7)]
        assert db.execute("RETRY DEAD LETTERS FOR s").fetchall() is not None
        assert rows(db, letters) == [(f"{name}/1", i) for i in range(1, 7)]


def with_schema(row: dict[str, Any], **types: str) -> str:
    """A Debezium event with its schema; a type with `?` is optional."""
    fields = [
        {"field": name, "type": kind.rstrip("?"), "optional": kind.endswith("?")}
        for name, kind in types.items()
    ]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    event = {"schema": schema, "payload": {"op": "c", "before": None, "after": row}}
    return json.dumps(event, separators=(",", ":"))


OLD = {"id": "int32", "a": "int32?"}
NEW = {**OLD, "a": "int64?", "payload": "string?"}


def test_the_table_follows_the_schema_of_its_events(broker: Broker) -> None:
    name = broker.create("followed.Upstream-Table")
    old = [with_schema({"id": i, "a": i}, **OLD) for i in range(3)]
    new = [with_schema({"id": i, "a": 1 << 40, "payload": "p"}, **NEW) for i in range(3, 6)]
    new = [json.dumps(json.loads(text), indent=1) for text in new]  # blanks mean nothing
    keys = [json.dumps({"id": i}) for i in range(6)]
    deep = "[" * 10_000
    dirt = ["{", None, '{"schema": "orders"}', f'{{"schema": {deep}{"]" * 10_000}}}']
    with ivm.connect() as db:
        source = ivm.sources.Kafka(
            brokers=broker.address, topic=name, format="debezium with schema"
        )
        db.create_source("s", source)
        table, other = '"upstream-table"', [deep] * len(dirt)
        sent = [*dirt, *old, *dirt, *new]
        broker.send(name, sent, keys=[*other, *keys[:3], *other, *keys[3:]])
        db.start_sources()
        wait_until(lambda: db.sources()[0].caught_up or db.sources()[0].state == "stopped")
        assert rows(db, f"FROM {table}") == [
            *[(i, i, None) for i in range(3)],
            *[(i, 1 << 40, "p") for i in range(3, 6)],
        ]
        described = db.execute(f"DESCRIBE {table}").fetchall()
        assert [(row[0], row[1], row[3]) for row in described] == [
            ("id", "INTEGER", "PRI"),
            ("a", "BIGINT", None),
            ("payload", "VARCHAR", None),
        ]
        assert db.sources()[0].dead_letters == 6
        broker.send(name, [with_schema({"id": 7, "a": 7}, **OLD)], keys=['{"id":7}'])
        wait_until(lambda: db.sources()[0].state == "stopped")
        assert "DROP COLUMN" in str(db.sources()[0].reason)
        assert "'payload'" in str(db.sources()[0].reason)


@pytest.mark.full
def test_schemas_of_several_partitions_come_in_any_order(broker: Broker) -> None:
    name = broker.create("followed.mixed", 2)
    with ivm.connect() as db:
        db.execute("CREATE TABLE mixed (id INTEGER PRIMARY KEY, a INTEGER)")
        source = ivm.sources.Kafka(
            brokers=broker.address, topic=name, format="debezium with schema"
        )
        db.create_source("s", source)
        for i in range(5):
            broker.send(name, [with_schema({"id": i, "a": i, "payload": "p"}, **NEW)], 0)
            broker.send(name, [with_schema({"id": -i - 1, "a": i}, **OLD)], 1)
        db.start_sources()
        wait_until(lambda: len(rows(db, "FROM mixed")) == 10)
        assert rows(db, "SELECT count(payload) FROM mixed") == [(5,)]
        assert db.sources()[0].state == "running"


@pytest.mark.full
@settings(max_examples=examples(10))
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), max_size=12), st.integers(0, 6))
def test_messages_that_wait_for_another_schema_are_read_once(
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
    sent: list[tuple[int, bool]],
    steps: int,
) -> None:
    """To these partitions with the old schema or the new one; all is closed after some steps."""
    folder = tmp_path_factory.mktemp("schemas")
    topic = broker.create(f"schemas.t{folder.name}", 2)
    for i, (partition, is_new) in enumerate(sent):
        types = {"id": "int64" if is_new else "int32"}
        broker.send(topic, [with_schema({"id": i}, **types)], partition)
    options = {"format": "debezium with schema", "follow": "false"}
    with created(broker, topic, path=folder / "db", **options) as db:
        with Following(db, "s") as following:
            for _ in range(steps):
                following.step()
        with Following(db, "s") as following:
            following.catch_up()
        assert ids(db) == sorted(range(len(sent)), key=repr)


@pytest.mark.full
def test_a_table_that_does_not_follow_its_events(broker: Broker, topic: Topic) -> None:
    name = topic()
    broker.send(
        name, [with_schema({"id": 1, "v": "x", "w": "y"}, id="int32", v="string", w="string")]
    )
    with created(broker, name, format="debezium with schema", follow="false") as db:
        with Following(db, "s") as following:
            following.catch_up()
        assert rows(db, "FROM t") == [(1, "x")]


KEYED = [
    ({"id": 1}, None),
    ({"schema": {"type": "struct"}, "payload": {"id": 1}}, None),
    (1, "id"),
    ("1", "id"),
]


@pytest.mark.parametrize(("key", "column"), KEYED)
def test_tombstones_delete_the_row_of_their_key(
    broker: Broker, topic: Topic, key: Any, column: str | None
) -> None:
    name = topic()
    given = {"format": "json upserts", **({"key": column} if column else {})}
    with created(broker, name, **given) as db:
        db.execute("CREATE OR REPLACE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)")
        broker.send(name, [*texts(1, 2), None, None], keys=["1", "2", json.dumps(key), None])
        broker.send(name, [None, None, *texts(3)], keys=[b"\xff", "{}", "3"])
        with Following(db, "s") as following:
            following.catch_up()
        assert ids(db) == [2, 3]
        letters = rows(db, "SELECT position, reason FROM _ivm.dead_letters")
        assert letters == [(4 + i, "the key of the deleted row is missing") for i in range(2)]
        assert db.execute("RETRY DEAD LETTERS FOR s").fetchall() is not None
        assert len(rows(db, "FROM _ivm.dead_letters")) == 2


@pytest.mark.full
def test_two_sources_read_one_topic(broker: Broker, topic: Topic) -> None:
    name = topic(2)
    broker.send(name, texts(1, 2))
    with created(broker, name) as db:
        add_source(db, "other", broker, name)
        with Following(db, "s") as one, Following(db, "other") as other:
            one.catch_up()
            broker.send(name, texts(3), 1)
            other.catch_up()
            one.catch_up()
        assert ids(db) == [1, 1, 2, 2, 3, 3]


@pytest.mark.full
def test_several_topics(broker: Broker, topic: Topic) -> None:
    one, other = topic(2), topic(1)
    broker.send(one, texts(1), 1)
    broker.send(other, texts(2))
    with created(broker, f"{one}, {other}") as db:
        last = [each.rpartition(".")[2] for each in (one, other)]
        for table in last:
            db.execute(f"CREATE TABLE {table} (id INTEGER, v VARCHAR)")
        db.execute(
            f"CREATE SOURCE apart FROM KAFKA (brokers '{broker.address}', topic '{one},{other}',"
            " format 'json appends')"
        )
        with Following(db, "s") as both, Following(db, "apart") as apart:
            both.catch_up()
            apart.catch_up()
        assert ids(db) == [1, 2]
        assert [rows(db, f"SELECT id FROM {table}") for table in last] == [[(1,)], [(2,)]]


@pytest.mark.full
def test_brokers_that_are_not_there_are_told_at_once(broker: Broker) -> None:
    for address in ("127.0.0.1:1", "no.such.host.invalid:9092"):
        unreached = pytest.raises(errors.UnavailableError, match="cannot be reached")
        with created(broker, "t", brokers=address) as db, unreached:
            Following(db, "s")


def test_a_missing_topic_is_told(broker: Broker) -> None:
    with created(broker, "no.such.topic") as db:
        with pytest.raises(SourceError, match=r"there is no topic 'no\.such\.topic': create it"):
            Following(db, "s")
        db.start_sources()
        wait_until(lambda: db.sources()[0].state == "stopped")
        assert "no.such.topic" in str(db.sources()[0].reason)


@pytest.mark.full(smoke=1)
def test_a_topic_that_comes_a_little_later_is_waited_for(broker: Broker) -> None:
    """Brokers that have just begun do not know their topics yet."""
    making = threading.Timer(0.5, broker.create, ["comes.in.time"])
    making.start()
    with created(broker, "comes.in.time") as db, Following(db, "s") as following:
        making.join()
        broker.send("comes.in.time", texts(1))
        following.catch_up()
        assert ids(db) == [1]


def test_properties_go_to_the_client(
    broker: Broker, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    unknown = pytest.raises(SourceError, match=r'No such configuration property: "no\.such"')
    with created(broker, name, properties="no.such=1") as db, unknown:
        Following(db, "s")
    secret = "security.protocol=SASL_PLAINTEXT; sasl.mechanism=PLAIN; sasl.username=u;"
    with created(broker, name, properties=f"{secret} sasl.password=env:IVM_TEST_SECRET") as db:
        with pytest.raises(SourceError, match="'IVM_TEST_SECRET' is not set"):
            Following(db, "s")
        monkeypatch.setenv("IVM_TEST_SECRET", "xyz")
        with pytest.raises(errors.IvmError, match=r"SASL|cannot be reached") as refused:
            Following(db, "s")
        assert "xyz" not in str(refused.value)


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"properties": "sasl.password=xyz"}, r"secret.*sasl.password=env:SASL_PASSWORD"),
        ({"properties": "ssl.key.pem=xyz"}, "secret"),
        ({"properties": "group.instance"}, "is no property"),
        ({"properties": "isolation.level=read_uncommitted"}, "cannot be set"),
        ({"topic": "a b"}, "is no name of a topic"),
        ({"topic": "a,,b"}, "is no name of a topic"),
        ({"start": "now"}, "earliest"),
        ({"format": "avro"}, "there is no format"),
        ({"nothing": "1"}, "no option"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], said: str) -> None:
    given = {"brokers": "localhost:9092", "topic": "t", **options}
    listed = ", ".join(f"{option} '{value}'" for option, value in given.items())
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER)")
        with pytest.raises(errors.InputError, match=said) as refused:
            db.execute(f"CREATE SOURCE s INTO t FROM KAFKA ({listed})")
        assert "xyz" not in str(refused.value)


def test_topics_of_one_table_need_into() -> None:
    source = ivm.sources.Kafka(brokers="localhost:9092", topic="a.t,b.t")
    with pytest.raises(errors.InputError, match="INTO"):
        source.open("s", None, {})


@pytest.mark.full
def test_the_examples_of_the_docs_are_accepted(broker: Broker) -> None:
    """And the first one runs; the brokers of the others are not there."""
    [example] = examples_of("sources.md")
    topic = broker.create("shop.public.clicks")
    event = {"op": "c", "after": {"id": 1, "page": "/", "seen": 1_700_000_000_000_000}}
    broker.send(topic, [json.dumps(event)])
    with ivm.connect() as db:
        db.execute(example.replace("localhost:9092", broker.address))
        with Following(db, "clicks") as following:
            following.catch_up()
        assert rows(db, "SELECT id, year(seen) FROM clicks") == [(1, 2023)]
        with pytest.raises(SourceError, match="KAFKA_PASSWORD"):
            Following(db, "visits")


def test_without_the_client_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ivm.cdc.sources.kafka.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    source = ivm.sources.Kafka(brokers="localhost:9092", topic="t")
    with pytest.raises(SourceError, match=r"pip install 'ivmdb\[kafka\]'"):
        source.open("s", "t", {})
