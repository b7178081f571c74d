"""A file that this process has open is shared: each `connect` gives a handle of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import dbapi, errors
from ivm.engine.engine import Engine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
    return tmp_path / "x.duckdb"


def is_released(path: Path) -> bool:
    try:
        duckdb.connect(path, read_only=True).close()
    except duckdb.Error:
        return False
    return True


@pytest.mark.full
def test_a_cell_that_connects_may_run_again(path: Path) -> None:
    db = ivm.connect(path)
    db.insert("t", {"a": [1]})
    db = ivm.connect(path)
    assert db.execute("FROM v").fetchall() == [(1,)]
    db.close()
    assert is_released(path)


@pytest.mark.full
def test_a_handle_is_closed_alone(path: Path) -> None:
    with ivm.connect(path) as outer:
        with ivm.connect(path) as inner:
            inner.execute("CREATE TEMP TABLE own (a INTEGER); BEGIN; INSERT INTO t VALUES (1)")
            feed = inner.subscribe("v")
        with pytest.raises(errors.UnavailableError, match="closed"):
            inner.execute("FROM t")
        outer.insert("t", {"a": [2]})
        assert outer.execute("FROM v").fetchall() == [(2,)]
        assert feed.poll(0) is None
        assert not is_released(path)
        with pytest.raises(errors.SqlError, match="own"):
            outer.execute("FROM own")
    assert is_released(path)


@pytest.mark.full
def test_the_jobs_of_a_handle_end_with_it(path: Path, tmp_path: Path) -> None:
    with ivm.connect(path) as db:
        with ivm.connect(path) as other:
            source = ivm.sources.Files(path=str(tmp_path / "*.jsonl"), format="json appends")
            other.create_source("s", source, "t")
            other.start_sources()
        assert not db._engine.jobs.runs("source")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_the_jobs_of_another_handle_go_on(path: Path, kind: str) -> None:
    with ivm.connect(path) as db:
        with ivm.connect(path) as other:
            for begun_by in (other, db, other):
                if begun_by is db:
                    getattr(other, f"stop_{kind}s")()
                getattr(begun_by, f"start_{kind}s")()  # does nothing where they run
        assert db._engine.jobs.runs(kind)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_forgotten_handle_stays_open_as_long_as_its_jobs_run(
    path: Path, tmp_path: Path, kind: str
) -> None:
    db = ivm.connect(path)
    files = str(tmp_path / "lines")
    db.create_source("s", ivm.sources.Files(path=files, format="json appends"), "t")
    db.create_sink("s", "v", ivm.sinks.Files(path=files, format="jsonl"))
    getattr(db, f"start_{kind}s")()
    engine = db._engine
    del db
    ivm.connect().close()  # closes those that are forgotten
    assert engine.jobs.runs(kind)
    ivm.connect(path).close()
    engine.jobs.stop(kind)
    ivm.connect().close()
    assert is_released(path)


@pytest.mark.full
@pytest.mark.parametrize("other", ["link", "relative"])
def test_the_same_file_by_another_path_is_the_same(path: Path, other: str) -> None:
    link = path.with_name("link.duckdb")
    link.symlink_to(path)
    with ivm.connect(path), ivm.connect(link if other == "link" else os.path.relpath(path)) as db:
        db.insert("t", {"a": [1]})
    assert is_released(path)


@pytest.mark.full
def test_handles_that_are_dropped_count_as_closed(path: Path) -> None:
    kept, dropped = ivm.connect(path), ivm.connect(path)
    dropped.begin()
    dropped.insert("t", {"a": [1]})
    del dropped
    kept.insert("t", {"a": [2]})  # nobody can commit the other's transaction any more
    assert kept.execute("FROM v").fetchall() == [(2,)]
    kept.close()
    assert is_released(path)


@pytest.mark.full
def test_threads_that_open_a_file_at_once_share_it(path: Path) -> None:
    handles: list[ivm.Database] = []
    threads = [threading.Thread(target=lambda: handles.append(ivm.connect(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 4
    for handle in handles:
        assert not is_released(path)
        handle.close()
    assert is_released(path)


def twice(a: int) -> int:
    return 2 * a


def made(text: str) -> Callable[[int], int]:
    found: dict[str, Any] = {}
    exec(text, found)
    function: Callable[[int], int] = found["f"]
    return function


def function(do: Callable[[int], int]) -> ivm.Function:
    return ivm.Function("f", do, ["INTEGER"], "INTEGER")


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second", "differing"),
    [
        ({"threads": 2}, {}, ""),
        ({"threads": 2}, {"threads": 2}, ""),
        ({"threads": 2}, {"threads": 1}, "threads: 2, not 1"),
        ({}, {"memory_limit": 1 << 30}, "memory_limit: the default, not 1073741824"),
        ({"durability": "interval"}, {}, "durability: 'interval', not 'commit'"),
        ({"durability": "interval"}, {"durability": None}, ""),
        ({}, {"clock": lambda: datetime.now(UTC)}, "clock: the default, not"),
        ({"functions": [function(twice)]}, {}, ""),
        ({"functions": [function(made("f = lambda a: a"))]}, {"functions": ["same"]}, ""),
        ({"functions": [function(twice)]}, {"functions": ["same"]}, "functions: f, not f"),
    ],
)
def test_settings_that_are_given_must_agree(
    path: Path, first: dict[str, Any], second: dict[str, Any], differing: str
) -> None:
    if second.get("functions"):  # what a cell defines that is run again
        second = {"functions": [function(made("f = lambda a: a"))]}
    with ivm.connect(path, **first):
        if not differing:
            ivm.connect(path, **second).close()
            return
        with pytest.raises(errors.UnavailableError, match=f"other settings.*{differing}"):
            ivm.connect(path, **second)
    ivm.connect(path, **second).close()


def test_connections_take_the_settings_that_are_there(path: Path) -> None:
    with ivm.connect(path, durability="interval"), dbapi.connect(path) as connection:
        assert connection.execute("FROM t").fetchall() == []
        with pytest.raises(errors.UnavailableError, match="durability"):
            dbapi.connect(path, durability="commit")


@pytest.mark.full
def test_a_database_that_was_deleted_while_it_was_open_is_not_shared(path: Path) -> None:
    db = ivm.connect(path)
    path.unlink()
    with pytest.raises(errors.UnavailableError, match=r"deleted .* close the database"):
        ivm.connect(path)
    with pytest.raises(errors.UnavailableError, match="deleted"):
        db.close()


@pytest.mark.full
def test_who_opens_a_file_that_is_being_closed_waits_for_that(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: it was said to be open already."""
    real, closing = Engine.close, threading.Event()

    def slowly(engine: Engine) -> None:
        closing.set()
        time.sleep(0.3)
        real(engine)

    monkeypatch.setattr(Engine, "close", slowly)
    db = ivm.connect(path)
    db.insert("t", {"a": [1]})
    closer = threading.Thread(target=db.close)
    closer.start()
    assert closing.wait(30)
    with ivm.connect(path) as again:
        assert again.execute("FROM v").fetchall() == [(1,)]
    closer.join()
