"""RETRY applies no event that is older than what the table has."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.cdc.letter_keys import OVERTAKEN

Send = Callable[..., None]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "t.duckdb") as opened:
        opened.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n DECIMAL(4, 1), m INT NOT NULL)")
        yield opened


@pytest.fixture
def send(db: ivm.Database, tmp_path: Path) -> Send:
    file = tmp_path / "events.json"
    file.touch()
    db.execute(f"CREATE SOURCE s INTO t FROM FILES (path '{file}', format 'debezium')")
    db.start_sources()
    sent = 0

    def send(*events: dict[str, Any]) -> None:
        nonlocal sent
        sent += len(events)
        with file.open("a") as out:
            out.writelines([json.dumps(event) + "\n" for event in events])
        while [row[0] for row in db.execute("SELECT position FROM _ivm.positions").fetchall()] != [
            sent
        ]:
            assert db.sources()[0].state != "stopped", db.sources()[0].reason
            time.sleep(0.01)

    return send


def row(id: int, n: str | int | None) -> dict[str, Any]:
    """A row; one without n breaks a constraint."""
    return {"id": id, "n": n or 13, "m": None if n is None else 1}


def created(id: int, n: str | int | None) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": row(id, n)}


def updated(id: int, n: str | int | None, old: int | None = None) -> dict[str, Any]:
    return {"op": "u", "before": {"id": id if old is None else old}, "after": row(id, n)}


def deleted(id: int) -> dict[str, Any]:
    return {"op": "d", "before": {"id": id}, "after": None}


def content(db: ivm.Database) -> list[Any]:
    return [(id, float(n)) for id, n in db.execute("SELECT id, n FROM t ORDER BY id").fetchall()]


def letters(db: ivm.Database) -> list[bool]:
    """Of each letter whether it is overtaken."""
    found = db.execute("SELECT reason FROM _ivm.dead_letters ORDER BY position").fetchall()
    return [reason.endswith(OVERTAKEN) for (reason,) in found]


def retried(db: ivm.Database) -> int:
    db.execute("ALTER TABLE t ALTER n TYPE DOUBLE")
    return db.execute("RETRY DEAD LETTERS FOR s").rowcount


@pytest.mark.full
@pytest.mark.parametrize("apart", [False, True])
def test_an_older_event_changes_no_newer_row_and_brings_none_back(
    db: ivm.Database, send: Send, apart: bool
) -> None:
    bad = [created(id, "NaN" if id < 4 else None) for id in (1, 2, 3, 4, 5)]
    good = [updated(1, 7), deleted(2), deleted(4)]
    for batch in [bad, good] if apart else [[*bad, *good]]:
        send(*batch)
    assert (content(db), letters(db)) == ([(1, 7.0)], [True, True, False, True, False])
    assert retried(db) == 1
    assert [id for id, _ in content(db)] == [1, 3]
    assert letters(db) == [True, True, True, False]
    assert db.execute("DISCARD DEAD LETTERS FOR s").rowcount == 4
    assert db.execute("FROM _ivm.letter_keys").fetchall() == []


@pytest.mark.full
def test_letters_of_one_row_are_retried_in_order(db: ivm.Database, send: Send) -> None:
    send(created(1, "1e9"), updated(1, "2e9"), created(2, "3e9"))
    send(updated(2, 1), updated(2, "4e9"))
    assert letters(db) == [False, False, True, False]
    assert retried(db) == 3
    assert content(db) == [(1, 2e9), (2, 4e9)]


@pytest.mark.full
@pytest.mark.parametrize("n", ["NaN", None])
def test_a_refused_move_leaves_no_row_under_the_old_key(
    db: ivm.Database, send: Send, n: str | None
) -> None:
    send(created(1, 1), created(2, 2))
    send(updated(5, n, old=1), created(1, 8))
    assert (content(db), letters(db)) == ([(1, 8.0), (2, 2.0)], [False])
    send(updated(5, 6))
    assert letters(db) == [True]
    assert retried(db) == 0
    assert content(db) == [(1, 8.0), (2, 2.0), (5, 6.0)]


def test_a_retried_move_takes_no_row_away(db: ivm.Database, send: Send) -> None:
    send(created(1, 1))
    send(updated(5, "1e9", old=1), created(1, 8))
    assert retried(db) == 1
    assert content(db) == [(1, 8.0), (5, 1e9)]


@pytest.mark.full
def test_a_stale_event_overtakes_no_letter(db: ivm.Database, send: Send) -> None:
    def versioned(n: str | int, m: int) -> dict[str, Any]:
        return {"op": "u", "before": {"id": 1}, "after": {"id": 1, "n": n, "m": m}}

    db.execute("ALTER SOURCE s SET (version 'm')")
    send(versioned(1, 5), versioned("1e9", 6), versioned(2, 4))
    assert letters(db) == [False]
    assert retried(db) == 1
    assert content(db) == [(1, 1e9)]


@pytest.mark.full
def test_what_empties_the_table_overtakes_all(db: ivm.Database, send: Send) -> None:
    send(created(1, "NaN"), {"op": "c", "after": {"id": "x"}})
    send({"op": "t"}, created(2, "NaN"))
    assert letters(db) == [True, True, False]


@pytest.mark.full
def test_overtaken_letters_are_known_after_a_restart(tmp_path: Path) -> None:
    file, path = tmp_path / "events.json", tmp_path / "t.duckdb"
    file.write_text(json.dumps(created(1, "NaN")) + "\n")
    for more in (deleted(1), deleted(7)):
        with ivm.connect(path) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, n INTEGER)")
            files = f"FILES (path '{file}', format 'debezium')"
            db.execute(f"CREATE SOURCE IF NOT EXISTS s INTO t FROM {files}")
            db.start_sources()
            while not db.sources()[0].caught_up:
                time.sleep(0.01)
        with file.open("a") as out:
            out.write(json.dumps(more) + "\n")
    with ivm.connect(path) as db:
        assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 0
        assert letters(db) == [True]
