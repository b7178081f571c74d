"""Sinks into topics of a real broker: each epoch is committed there once, and in order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.cdc.sinks import job
from ivm.cdc.sinks.target import Target
from tests.cdc.kafka.following import Following, examples_of, rows, wait_until
from tests.cdc.sink_files import caught_up
from tests.support.kafka import Broker
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=4)

Topic = Callable[..., str]


def made(path: Path | str = ":memory:") -> ivm.Database:
    db = ivm.connect(path)
    db.execute("""
        CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR, x DECIMAL(8, 2));
        CREATE MATERIALIZED VIEW grouped AS SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g;
        CREATE MATERIALIZED VIEW listed AS SELECT g, x FROM t;
    """)
    return db


def add_sink(db: ivm.Database, view: str, broker: Broker, topic: str, **options: Any) -> None:
    db.create_sink(view, view, ivm.sinks.Kafka(brokers=broker.address, topic=topic, **options))


def test_a_view_is_followed_through_a_topic(broker: Broker, topic: Topic) -> None:
    name = topic(3)
    with made() as db, made() as copy:
        db.insert("t", {"id": [1, 2], "g": ["a", "b"], "x": [1, 2]})
        db.execute(
            f"CREATE SINK s FROM grouped INTO KAFKA (brokers '{broker.address}', topic '{name}')"
        )
        db.start_sinks()
        copy.execute("CREATE TABLE r (g VARCHAR, n BIGINT, s DECIMAL(38, 2), PRIMARY KEY (g))")
        copy.execute(
            f"CREATE SOURCE s INTO r FROM KAFKA (brokers '{broker.address}', topic '{name}',"
            " decimals 'text')"
        )
        copy.start_sources()
        for i in range(3, 30):
            db.insert("t", {"id": [i], "g": ["abc"[i % 3]], "x": [i / 4]})
            db.execute(f"DELETE FROM t WHERE id = {i // 2}")
        db.execute("DELETE FROM t WHERE g = 'b'")
        wait_until(lambda: rows(copy, "FROM r") == rows(db, "FROM grouped"))


def test_a_broker_that_hangs_is_told(
    broker: Broker, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "UNANSWERED", 1.0)
    with made() as db:
        add_sink(db, "grouped", broker, topic())
        caught_up(db)
        with broker.hanging():
            db.insert("t", {"id": [1], "g": ["a"], "x": [1]})
            wait_until(lambda: "has not answered for" in str(db.sinks()[0].reason))
            assert (db.sinks()[0].state, db.sinks()[0].lag_epochs) == ("failing", 1)
        caught_up(db)
        assert (db.sinks()[0].state, db.sinks()[0].reason) == ("running", None)


def test_messages_have_keys_epochs_and_tombstones(broker: Broker, topic: Topic) -> None:
    name = topic()
    with made() as db:
        add_sink(db, "grouped", broker, name, tombstones=True)
        for sql in (
            "INSERT INTO t VALUES (1, 'ä\"', 5), (2, NULL, 1)",
            "DELETE FROM t WHERE id = 1",
        ):
            db.execute(sql)
        last = db.epoch
        caught_up(db)
        found = broker.read(name)
        events = [message.value() and json.loads(message.value()) for message in found]
        assert [json.loads(message.key()) for message in found] == [
            {"g": each} for each in ('ä"', None, 'ä"', 'ä"')
        ]
        assert [event and event["op"] for event in events] == ["c", "c", "d", None]
        assert events[0]["after"] == {"g": 'ä"', "n": 1, "s": "5.00"}
        epochs = [message.headers() for message in found]
        assert epochs == [[("epoch", str(each).encode())] for each in (last - 1,) * 2 + (last,) * 2]
        assert [e["source"]["epoch"] for e in events if e] == [last - 1, last - 1, last]


def test_a_view_without_a_key_keeps_its_order(broker: Broker, topic: Topic) -> None:
    name = topic(3)
    with made() as db:
        add_sink(db, "listed", broker, name, format="jsonl", snapshot=False)
        for i in range(20):
            db.insert("t", {"id": [i], "g": ["a"], "x": [i]})
        caught_up(db)
        found = [json.loads(message.value()) for message in broker.read(name)]
        assert [line["x"] for line in found] == [*range(20)]
        assert [message.key() for message in broker.read(name)] == [None] * 20


def opened(broker: Broker, topic: str, epoch: int) -> Target:
    sink = ivm.sinks.Kafka(brokers=broker.address, topic=topic, identity=f"ivm-{topic}")
    target = sink.prepared([]).target()
    target.open(epoch)
    return target


def give(target: Target, epoch: int, *lines: str) -> None:
    target.write(epoch, pa.array(lines), None)


def give_all(target: Target, epochs: list[tuple[int, list[str]]]) -> None:
    for epoch, lines in epochs:
        give(target, epoch, *lines)
    target.flush()


def values(broker: Broker, topic: str) -> list[str]:
    return [message.value().decode() for message in broker.read(topic)]


def test_what_the_topic_has_is_left_out(broker: Broker, topic: Topic) -> None:
    """The acknowledgement was lost, the first time before the end of the transaction."""
    name = topic()
    target = opened(broker, name, 3)
    give(target, 4, "a", "b")
    assert target.flush() == 4
    give(target, 5, "c")
    target = opened(broker, name, 4)
    give(target, 5, "c")
    give(target, 7, "d", "e")
    assert target.flush() == 7
    target = opened(broker, name, 4)
    give(target, 5, "c")
    assert target.flush() == 5
    give(target, 7, "d")
    give(target, 7, "e")
    give(target, 9, "f")
    assert target.flush() == 9
    target.close()
    assert values(broker, name) == ["a", "b", "c", "d", "e", "f"]


ENDS = ["flush", "lose", "fail"]


@pytest.mark.full
@settings(max_examples=examples(10))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["flush", "lose", "fail"])), max_size=9)
)
def test_every_epoch_is_there_once(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]]
) -> None:
    """Some epochs, then a flush: it is acknowledged, or that is lost, or there is none."""
    name = broker.create(f"once.{tmp_path_factory.mktemp('once').name}")
    acknowledged = last = 0
    target = opened(broker, name, 0)
    for count, end in [*steps, (1, "flush")]:
        last += count
        for epoch in range(acknowledged + 1, last + 1):
            give(target, epoch, f"{epoch}.a", f"{epoch}.b")
        reached = target.flush() if end != "fail" else None
        if reached is not None and end == "flush":
            acknowledged = reached
        else:
            target.close()
            target = opened(broker, name, acknowledged)
    target.close()
    assert values(broker, name) == [f"{e}.{part}" for e in range(1, last + 1) for part in "ab"]


def test_another_writer_with_the_same_identity_is_told(broker: Broker, topic: Topic) -> None:
    name = topic()
    one = opened(broker, name, 0)
    give(one, 1, "a")
    other = opened(broker, name, 0)
    with pytest.raises(errors.UnavailableError, match="is a copy of the database open"):
        give_all(one, [(2, ["b"])])
    one.close()
    give(other, 1, "a")
    other.flush()
    other.close()
    assert values(broker, name) == ["a"]


@pytest.mark.parametrize("again", [[(5, ["x"])], [(6, ["c"])], [(5, ["b", "c"]), (6, ["d"])]])
def test_a_database_with_another_history_is_refused(
    broker: Broker, topic: Topic, again: list[tuple[int, list[str]]]
) -> None:
    name = topic()
    target = opened(broker, name, 4)
    give(target, 5, "b")
    target.flush()
    target.close()
    target = opened(broker, name, 4)
    with pytest.raises(errors.UnavailableError, match="restored from a backup"):
        give_all(target, again)
    target.close()
    assert values(broker, name) == ["b"]


def test_a_target_that_is_not_there_yet_is_waited_for(broker: Broker) -> None:
    with made() as db:
        add_sink(db, "grouped", broker, "comes.later")
        db.insert("t", {"id": [1], "g": ["a"], "x": [1]})
        db.start_sinks()
        wait_until(lambda: "there is no topic 'comes.later'" in str(db.sinks()[0].reason))
        broker.create("comes.later")
        caught_up(db)
        assert len(values(broker, "comes.later")) == 1


def test_the_example_of_the_docs_runs(broker: Broker) -> None:
    [example] = examples_of("sinks.md")
    name = broker.create("shop.revenue")
    with made() as db:
        db.execute("CREATE MATERIALIZED VIEW revenue AS SELECT g, sum(x) AS x FROM t GROUP BY g")
        db.execute(example.replace("localhost:9092", broker.address))
        db.insert("t", {"id": [1], "g": ["EU"], "x": [1]})
        db.execute("DELETE FROM t")
        caught_up(db)
        assert [message.key() for message in broker.read(name)] == [b'{"g":"EU"}'] * 3


def test_what_means_nothing_is_refused() -> None:
    given: dict[str, Any] = {"brokers": "localhost:9092", "topic": "t"}
    for options, said in (
        ({"topic": "a b"}, "is no name of a topic"),
        ({"format": "avro"}, "there is no format"),
        ({"tombstones": True, "format": "jsonl"}, "tombstones"),
        ({"properties": "sasl.password=xyz"}, "secret"),
        ({"properties": "transactional.id=xyz"}, "cannot be set"),
        ({"properties": "group.id=xyz"}, "cannot be set"),
    ):
        with pytest.raises(errors.InputError, match=said):
            ivm.sinks.Kafka(**{**given, **options}).prepared([])
    one = ivm.sinks.Kafka(**given).prepared([])
    with pytest.raises(errors.InputError, match="another sink"):
        ivm.sinks.Kafka(**given).prepared([one])
    assert one.identity != ivm.sinks.Kafka(**given).prepared([]).identity


@pytest.mark.full
def test_a_sink_and_a_source_of_many_rows(broker: Broker, topic: Topic) -> None:
    name = topic(2)
    with made() as db, ivm.connect() as copy:
        db.execute("INSERT INTO t SELECT i, 'g' || i % 100, i % 7 FROM range(20_000) r(i)")
        db.execute("CREATE MATERIALIZED VIEW all_of_t AS FROM t")
        add_sink(db, "all_of_t", broker, name)
        db.execute("UPDATE t SET x = x + 1 WHERE id % 2 = 0")
        caught_up(db)
        copy.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, g VARCHAR, x DECIMAL(8, 2))")
        source = ivm.sources.Kafka(brokers=broker.address, topic=name, decimals="text")
        copy.create_source("s", source, "c")
        with Following(copy, "s") as following:
            following.catch_up(limit=10_000)
        assert Counter(rows(copy, "FROM c")) == Counter(rows(db, "FROM t"))
