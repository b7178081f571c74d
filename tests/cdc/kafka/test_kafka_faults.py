"""A broker that stops, crashes and comes back, and a process of ours that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ivm
from ivm import errors
from ivm.cdc.sources.kafka import client, topics
from tests.cdc.kafka.following import Following, rows, wait_until
from tests.cdc.sink_files import caught_up
from tests.support import ROOT
from tests.support.kafka import Broker

pytestmark = pytest.mark.full(smoke=2)


@pytest.fixture
def own_broker(broker: Broker) -> Iterator[Broker]:
    """The broker of the process, which may be stopped: it runs again afterwards."""
    yield broker
    if not broker.runs:
        broker.start()


def created(path: Path | str, broker: Broker, topic: str) -> ivm.Database:
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (id INTEGER, v VARCHAR)")
    db.execute(
        "CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n, count(DISTINCT id) AS d FROM t"
    )
    db.execute(
        f"CREATE SOURCE s INTO t FROM KAFKA (brokers '{broker.address}', topic '{topic}',"
        " format 'json appends')"
    )
    return db


def send(broker: Broker, topic: str, ids: range, partitions: int = 1) -> None:
    for partition in range(partitions):
        mine = ids[partition::partitions]
        broker.send(topic, [json.dumps({"id": i, "v": "x" * (i % 50)}) for i in mine], partition)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_comes_back_is_read_on(own_broker: Broker, how: str) -> None:
    topic = own_broker.create(f"back.{how}", 2)
    with created(":memory:", own_broker, topic) as db:
        send(own_broker, topic, range(100), 2)
        db.start_sources()
        wait_until(lambda: rows(db, "FROM counted") == [(100, 100)])
        getattr(own_broker, how)()
        own_broker.start()
        send(own_broker, topic, range(100, 200), 2)
        wait_until(lambda: rows(db, "FROM counted") == [(200, 200)])
        wait_until(lambda: db.sources()[0].caught_up)


@pytest.mark.full
def test_a_broker_that_is_away_is_waited_for(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE", 2.0)
    monkeypatch.setattr(topics, "PATIENCE", 2.0)
    topic = own_broker.create("away")
    with created(":memory:", own_broker, topic) as db:
        db.start_sources()
        send(own_broker, topic, range(10))
        wait_until(lambda: rows(db, "FROM counted") == [(10, 10)])
        own_broker.kill()
        wait_until(lambda: db.sources()[0].state == "waiting")
        assert "cannot be reached" in str(db.sources()[0].reason)
        assert not db.sources()[0].caught_up
        with pytest.raises(errors.UnavailableError):
            Following(db, "s")
        own_broker.start()
        send(own_broker, topic, range(10, 20))
        wait_until(lambda: rows(db, "FROM counted") == [(20, 20)])


_CHILD = textwrap.dedent("""
    import sys, time, ivm
    db = ivm.connect(sys.argv[1])
    db.start_sources()
    print("started", flush=True)
    time.sleep(600)
""")


_WRITER = textwrap.dedent("""
    import sys, time, ivm
    db = ivm.connect(sys.argv[1])
    db.start_sinks()
    print("started", flush=True)
    i = db.execute("SELECT coalesce(max(id), -1) + 1 FROM t").fetchone()[0]
    while True:
        db.insert("t", [{"id": i + j, "v": str(i % 7)} for j in range(5)])
        i += 5
        time.sleep(0.005)
""")


@pytest.mark.full
def test_each_epoch_is_written_once_by_a_process_that_is_killed(
    own_broker: Broker, tmp_path: Path
) -> None:
    topic = own_broker.create("written")
    with ivm.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (id INTEGER, v VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW l AS FROM t")
        sink = ivm.sinks.Kafka(brokers=own_broker.address, topic=topic, format="jsonl")
        db.create_sink("s", "l", sink)
    for turn in range(4):
        with running(_WRITER, tmp_path / "db"):
            wanted = len(own_broker.read(topic)) + 20 * turn
            wait_until(lambda wanted=wanted: len(own_broker.read(topic)) > wanted)  # type: ignore[misc]
    with ivm.connect(tmp_path / "db") as db:
        caught_up(db)
        lines = [json.loads(message.value()) for message in own_broker.read(topic)]
        epochs = [line["_epoch"] for line in lines]
        assert epochs == sorted(epochs)
        assert sorted(line["id"] for line in lines) == [i for (i,) in rows_by_id(db)]


def rows_by_id(db: ivm.Database) -> list[tuple[int]]:
    return db.execute("SELECT id FROM t ORDER BY id").fetchall()


@contextmanager
def running(script: str, path: Path) -> Iterator[None]:
    """A process that is killed at the end of the block, with kill -9."""
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        yield
        child.kill()


@pytest.mark.full
def test_each_message_is_applied_once_by_a_process_that_is_killed(
    own_broker: Broker, tmp_path: Path
) -> None:
    """With kill -9, four times while messages come; the broker is stopped once as well."""
    topic = own_broker.create("killed", 3)
    created(tmp_path / "db", own_broker, topic).close()
    for turn in range(4):
        with running(_CHILD, tmp_path / "db"):
            for step in range(4):
                first = (turn * 4 + step) * 3000
                send(own_broker, topic, range(first, first + 3000), 3)
            if turn == 2:
                own_broker.kill()
                own_broker.start()
            time.sleep(0.05 * turn)
    with ivm.connect(tmp_path / "db") as db:
        found = rows(db, "FROM counted")
        assert found[0][0] == found[0][1]
        db.start_sources()
        wait_until(lambda: rows(db, "FROM counted") == [(48_000, 48_000)])
