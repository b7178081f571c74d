"""Topics of a real broker are read by Spark: each message once, and in turns with `ivm ingest`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

import ivm
from tests.cdc.kafka.following import rows
from tests.cdc.kafka.test_kafka import Topic, add_source, ids, texts
from tests.support.kafka import Broker
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=4)

ALONE = "CREATE TABLE t (id INTEGER, v VARCHAR)"
KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)"


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def database(tmp_path: Path, table: str = ALONE) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "a.duckdb", spark=session()) as db:
        db.execute(table)
        yield db


@contextmanager
def pipeline(db: ivm.Database) -> Iterator[None]:
    db.start_pipeline()
    yield
    assert db.stop_sources(60)


def reason(db: ivm.Database) -> str:
    """Why the source has stopped."""
    wait_until(lambda: db.sources()[0].state == "stopped")
    return str(db.sources()[0].reason)


@pytest.mark.full
def test_a_pipeline_and_ingest_take_turns(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    name = topic(2)
    with database(tmp_path) as db:
        add_source(db, "s", broker, name)
        broker.send(name, texts(*range(10)))
        broker.send(name, ["{", *texts(*range(10, 20))], 1)
        with pipeline(db):
            wait_until(lambda: len(ids(db)) == 20)
            broker.send(name, texts(*range(20, 30)), 1)
            wait_until(lambda: len(ids(db)) == 30)
        broker.send(name, texts(*range(30, 40)))
        db.start_sources()
        wait_until(lambda: len(ids(db)) == 40)
        db.stop_sources()
        broker.send(name, texts(*range(40, 50)))
        with pipeline(db):
            wait_until(lambda: len(ids(db)) == 50)
            wait_until(lambda: db.sources()[0].caught_up)
        assert sorted(ids(db)) == list(range(50))
        letters = rows(db, "SELECT stream, position, reason, payload FROM _ivm.dead_letters")
        assert letters == [(f"{name}/1", 0, "it is not JSON", "{")]
        positions = rows(db, "SELECT stream, position FROM _ivm.positions")
        assert positions == [(f"{name}/0", 30), (f"{name}/1", 21)]


@pytest.mark.full
def test_what_is_no_message_is_passed(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    """Marks of transactions, aborted messages, and partitions that are added."""
    name = topic()
    producer = broker.producer(**{"transactional.id": name})
    producer.init_transactions()
    with database(tmp_path) as db:
        add_source(db, "s", broker, name)
        with pipeline(db):
            for number, end in enumerate(
                [producer.commit_transaction, producer.abort_transaction] * 2
            ):
                producer.begin_transaction()
                producer.produce(name, texts(number)[0], partition=0)
                producer.flush()
                end()
            wait_until(lambda: ids(db) == [0, 2])
            wait_until(lambda: rows(db, "SELECT position FROM _ivm.positions") == [(8,)])
            broker.widen(name, 2)
            broker.send(name, texts(7), 1)
            wait_until(lambda: ids(db) == [0, 2, 7])


@pytest.mark.full
def test_the_latest_is_that_of_the_first_run(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    name = topic()
    broker.send(name, texts(1))
    with database(tmp_path) as db:
        add_source(db, "s", broker, name, start="latest")
        with pipeline(db):
            wait_until(lambda: db.sources()[0].caught_up)
        broker.send(name, texts(2))
        with pipeline(db):
            wait_until(lambda: ids(db) == [2])


@pytest.mark.full
def test_topics_of_two_tables_and_tombstones(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    one, other = topic(), topic()
    tables = {each: each.rpartition(".")[2] for each in (one, other)}
    with database(tmp_path) as db:
        for table in tables.values():
            db.execute(KEYED.replace("TABLE t", f"TABLE {table}"))
        options = f"topic '{one}, {other}', format 'json upserts', key 'id'"
        db.execute(f"CREATE SOURCE s FROM KAFKA (brokers '{broker.address}', {options})")
        broker.send(one, [*texts(1, 2), None, None], keys=["1", "2", "1", None])
        broker.send(other, [*texts(3), None], keys=["3", '{"id": 9}'])
        with pipeline(db):
            wait_until(lambda: rows(db, f"SELECT id FROM {tables[one]}") == [(2,)])
            wait_until(lambda: rows(db, f"SELECT id FROM {tables[other]}") == [(3,)])


@pytest.mark.full
def test_gaps_and_other_topics_stop_it(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    name = topic()
    broker.send(name, texts(*range(5)))
    with database(tmp_path) as db:
        add_source(db, "s", broker, name)
        with pipeline(db):
            wait_until(lambda: len(ids(db)) == 5)
        broker.send(name, texts(*range(5, 10)))
        broker.forget(name, 7)
        with pipeline(db):
            assert "begins at offset 7, and those from 5 on were not read" in reason(db)
        broker.delete(name)
        broker.create(name)
        broker.send(name, texts(*range(9)))
        db.execute("RESUME SOURCE s")
        with pipeline(db):
            assert "deleted and created again" in reason(db)
        db.execute("DROP SOURCE s; DELETE FROM t")
        add_source(db, "s", broker, name)
        with pipeline(db):
            wait_until(lambda: sorted(ids(db)) == list(range(9)))
            broker.delete(name)
            broker.create(name)
            broker.send(name, texts(*range(20)))
            assert "deleted and created again" in reason(db)


def test_a_view_that_fails_is_broken(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    name = topic()
    with database(tmp_path) as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT (id * 100)::TINYINT AS x FROM t")
        add_source(db, "s", broker, name)
        broker.send(name, [json.dumps({"id": 7})])
        with pipeline(db):
            wait_until(lambda: ids(db) == [7])
        assert db.views()[0].broken is not None


@pytest.mark.full
@pytest.mark.parametrize("sent", [0, 3])
def test_ends_without_messages(broker: Broker, topic: Topic, tmp_path: Path, sent: int) -> None:
    """The last offsets of a micro-batch may have no message: an aborted transaction."""
    name = topic()
    producer = broker.producer(**{"transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(name, texts(99)[0], partition=0)
    producer.flush()
    producer.abort_transaction()
    broker.send(name, texts(*range(sent)))
    with database(tmp_path) as db:
        add_source(db, "s", broker, name)
        with pipeline(db):
            wait_until(lambda: db.sources()[0].position == f"{name}/0: {2 + sent}")
        assert ids(db) == list(range(sent))


@pytest.mark.full
def test_facts_come_through_spark(broker: Broker, topic: Topic, tmp_path: Path) -> None:
    """A letter that Spark's workers have refused is retried with them, too."""
    name = topic(2)
    headers = [("trace", "ü"), ("n", "7")]
    broker.send(name, ['{"id": 1}', '{"id": "x"}'], 1, ["k", b"\xff"], 1_700_000_000_123, headers)
    broker.send(name, ['{"id": 2}'], 0, None, 0, [("n", "seven")])
    table = """
        CREATE TABLE t (id INTEGER, v VARCHAR, received TIMESTAMP, part INTEGER, place BIGINT,
            k BLOB, origin VARCHAR, trace VARCHAR, n INTEGER)
    """
    metadata = (
        "received = timestamp, part = partition, place = offset, k = key, origin = topic, "
        "trace = header:trace, n = header:n"
    )
    with database(tmp_path, table) as db:
        add_source(db, "s", broker, name, metadata=metadata)
        with pipeline(db):
            wait_until(lambda: len(rows(db, "FROM _ivm.dead_letters")) == 2)
            wait_until(lambda: len(ids(db)) == 1)
        when = datetime(2023, 11, 14, 22, 13, 20, 123_000)
        facts = when, 1, 0, b"k", name, "ü", 7
        assert rows(db, "FROM t") == [(1, None, *facts)]
        reasons = rows(db, "SELECT reason FROM _ivm.dead_letters")
        assert reasons == [('id is no INTEGER: "x"',), ("n is no INTEGER: seven",)]
        db.execute("ALTER TABLE t ALTER id TYPE VARCHAR; RETRY DEAD LETTERS FOR s")
        assert rows(db, "FROM t WHERE id = 'x'") == [("x", None, when, 1, 1, b"\xff", name, "ü", 7)]


@pytest.mark.full
def test_a_pipeline_goes_on_where_the_position_was_set(
    broker: Broker, topic: Topic, tmp_path: Path
) -> None:
    name = topic(2)
    broker.send(name, texts(*range(10)))
    with database(tmp_path, KEYED) as db:
        add_source(db, "s", broker, name)
        with pipeline(db):
            wait_until(lambda: len(ids(db)) == 10)
            db.execute("PAUSE SOURCE s; DELETE FROM t")
            db.execute("ALTER SOURCE s SET POSITION '0:7'; RESUME SOURCE s")
            wait_until(lambda: ids(db) == [7, 8, 9])
            broker.send(name, texts(10), 1)
            wait_until(lambda: sorted(ids(db)) == [7, 8, 9, 10])
