"""A running source: what it does about dirt, dead letters, statements, and kill −9."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.storage.errors import UnavailableError
from tests.cdc.orders import ORDERS, VIEW, content, created
from tests.tiers import TIER

pytestmark = pytest.mark.full(smoke=3)

PATIENCE = 60.0  # seconds


def waited(ready: Callable[[], Any], db: ivm.Database) -> None:
    """Waits until something is so; fails with the state of the sources if it does not come."""
    end = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < end, db.sources()
        time.sleep(0.02)


def caught_up(db: ivm.Database) -> bool:
    """Whether every source has applied all that there is."""
    return all(source.caught_up for source in db.sources())


def state(db: ivm.Database) -> str:
    """The state of the only source."""
    [source] = db.sources()
    return source.state


def write(path: Path, events: list[Any]) -> None:
    """Appends events to a file; texts are written as they are."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "orders.jsonl"


@pytest.fixture
def db(tmp_path: Path, inbox: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "shop.duckdb") as opened:
        opened.execute(ORDERS + ";" + VIEW)
        files = ivm.sources.Files(path=str(inbox), format="debezium")
        opened.create_source("shop", files, into="orders")
        yield opened


@pytest.mark.full
def test_events_are_applied_as_they_come(db: ivm.Database, inbox: Path) -> None:
    db.start_sources()
    for id in range(3):
        write(inbox, [created(id, amount=1)])
        waited(lambda: len(content(db)) > id, db)  # noqa: B023
    assert content(db, "SELECT n FROM revenue") == [(3,)]
    assert db.stop_sources()
    write(inbox, [created(3)])
    assert state(db) == "not started"
    assert len(content(db)) == 3


@pytest.mark.full
def test_a_full_disk_is_waited_for(
    db: ivm.Database, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sources are doing can be seen meanwhile, though the tables cannot be written."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def refused(*_: object) -> None:
        raise duckdb.TransactionException("Failed to commit: No space left on device")

    write(inbox, [created(1)])
    db.start_sources()
    waited(lambda: len(content(db)) == 1, db)
    with monkeypatch.context() as patch:
        patch.setattr("ivm.storage.log.segment_writer.write_all", full)
        patch.setattr("ivm.storage.warehouse.flusher.apply_changes", refused)
        db._engine.warehouse.troubles.add("something", OSError("of another thread"))
        write(inbox, [created(2)])
        waited(lambda: "No space left" in (db.sources()[0].reason or ""), db)
        assert state(db) == "waiting"
        with pytest.raises(UnavailableError, match="No space left"):
            db.insert("orders", {"id": [3], "customer": [1]})
    waited(lambda: caught_up(db), db)
    assert content(db) == [(1,), (2,)]


def test_dirt_is_retried_after_its_cause_is_mended(db: ivm.Database, inbox: Path) -> None:
    write(inbox, [created(1), created(2, customer="?"), created(3)])
    db.start_sources()
    waited(lambda: caught_up(db), db)
    assert content(db) == [(1,), (3,)]
    [source] = db.sources()
    assert (source.events, source.dead_letters) == (2, 1)
    assert db.execute("RETRY DEAD LETTERS FOR shop").rowcount == 0
    db.execute("DROP MATERIALIZED VIEW revenue; ALTER TABLE orders ALTER customer TYPE VARCHAR")
    assert db.execute("RETRY DEAD LETTERS FOR Shop").rowcount == 1
    assert content(db) == [(1,), (2,), (3,)]
    assert content(db, "FROM _ivm.dead_letters") == []


def test_dead_letters_are_discarded(db: ivm.Database, inbox: Path) -> None:
    write(inbox, ["{", created(1)])
    db.start_sources()
    waited(lambda: caught_up(db), db)
    letters = content(db, "SELECT stream, position, payload FROM _ivm.dead_letters")
    assert letters == [(str(inbox), 1, "{")]
    assert db.execute("DISCARD DEAD LETTERS FOR shop").rowcount == 1
    assert content(db, "FROM _ivm.dead_letters") == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("limit", "dirt", "reason"),
    [
        ("max_dead_letters 9", 10, "10 events could not be"),
        ("max_dead_share 0.1", 300, "of the last"),
    ],
)
def test_too_much_dirt_stops_a_source(
    db: ivm.Database, inbox: Path, limit: str, dirt: int, reason: str
) -> None:
    write(inbox, [*["{"] * dirt, *[created(id) for id in range(1000)]])
    db.execute(f"ALTER SOURCE shop SET ({limit})")
    db.start_sources()
    waited(lambda: state(db) == "stopped", db)
    [source] = db.sources()
    assert reason in str(source.reason)
    assert "it is not JSON" in str(source.reason)
    assert (content(db), source.dead_letters) == ([], 0)
    db.execute("ALTER SOURCE shop SET (max_dead_letters 1000, max_dead_share 1)")
    db.execute("RESUME SOURCE shop")
    waited(lambda: caught_up(db), db)
    assert (len(content(db)), db.sources()[0].dead_letters) == (1000, dirt)


def test_statements_take_effect_while_a_source_runs(db: ivm.Database, inbox: Path) -> None:
    db.start_sources()
    db.execute("BEGIN; PAUSE SOURCE shop; ROLLBACK")
    write(inbox, [created(1)])
    waited(lambda: caught_up(db) and len(content(db)) == 1, db)
    db.execute("PAUSE SOURCE shop")
    write(inbox, [created(2)])
    time.sleep(0.3)
    assert (state(db), len(content(db))) == ("paused", 1)
    db.execute("RESUME SOURCE shop")
    waited(lambda: len(content(db)) == 2, db)
    db.execute("DROP SOURCE shop")
    write(inbox, [created(3)])
    time.sleep(0.3)
    assert (db.sources(), len(content(db))) == ([], 2)
    assert content(db, "FROM _ivm.positions") == []


def test_a_dropped_table_stops_its_source_and_a_new_one_goes_on(
    db: ivm.Database, inbox: Path
) -> None:
    write(inbox, [created(1)])
    db.start_sources()
    waited(lambda: caught_up(db), db)
    db.execute("DROP MATERIALIZED VIEW revenue; DROP TABLE orders")
    write(inbox, [created(2)])
    waited(lambda: state(db) == "stopped", db)
    assert "no table 'orders'" in str(db.sources()[0].reason)
    db.execute(ORDERS)
    db.execute("RESUME SOURCE shop")
    waited(lambda: caught_up(db), db)
    assert content(db) == [(2,)]


CHILD = """
import sys, time, ivm
with ivm.connect(sys.argv[1]) as db:
    db.start_sources()
    while not all(source.caught_up for source in db.sources()):
        time.sleep(0.01)
"""


@pytest.mark.full
def test_kill_9_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rounds, count = (3, 3_000) if TIER == "quick" else (10, 30_000)
    inbox, file = tmp_path / "in.jsonl", tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:  # without a key, so that what comes twice is there twice
        db.execute("CREATE TABLE seen (id INTEGER, note VARCHAR)")
        db.execute(
            "CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n, sum(id) AS s FROM seen"
        )
        db.create_source("in", ivm.sources.Files(path=str(inbox), format="debezium"), into="seen")
    events = [{"op": "c", "after": {"id": id, "note": "…" * (id % 50)}} for id in range(count)]
    for round in range(rounds):
        write(inbox, events[round * count // rounds : (round + 1) * count // rounds])
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(file)])
        time.sleep(1.0 + 0.3 * round)
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
        child.wait()
    subprocess.run([sys.executable, "-c", CHILD, str(file)], check=True, timeout=PATIENCE)
    with ivm.connect(file) as db:
        assert content(db, "FROM counted") == [(count, count * (count - 1) // 2)]
        assert content(db, "SELECT count(DISTINCT id) FROM seen") == [(count,)]
        assert content(db, "VERIFY MATERIALIZED VIEW counted")[0][4]
        assert content(db, "SELECT position FROM _ivm.positions") == [(count,)]
