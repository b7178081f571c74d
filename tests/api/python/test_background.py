"""Threads of the database's own: what fails there is told once and tried again; feeds are exact."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm import errors
from ivm.engine.feeds.changefeed import ChangeFeeds, Subscription
from ivm.engine.tables import stored_tables
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.values.zset import empty
from ivm.storage.warehouse import checkpoints

WAIT = 60.0


def created(path: Path | str = ":memory:", **settings: Any) -> ivm.Database:
    db = ivm.connect(path, **settings)
    db.execute("CREATE TABLE t (a INTEGER)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    return db


def failing_once(real: Callable[..., Any], done: threading.Event) -> Callable[..., Any]:
    """Raises at its first call; tells when a later one has succeeded."""
    calls: list[int] = []

    def called(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("nobody has foreseen this")
        result = real(*args, **kwargs)
        done.set()
        return result

    return called


@pytest.mark.full
def test_a_failed_background_flush_is_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with created() as db:
        db.insert("t", {"a": [1]})
        flusher, done = db._lifetime.opened.flusher, threading.Event()
        failing = failing_once(db._engine.tables.flush, done)
        monkeypatch.setattr(db._engine.tables, "flush", failing)
        monkeypatch.setattr("ivm.engine.background_flush.AGAIN", 2 * WAIT)  # not before it was told
        flusher._flush()
        with pytest.raises(errors.UnavailableError, match=r"background.*foreseen.*repeat"):
            db.insert("t", {"a": [2]})
        db.insert("t", {"a": [3]})
        assert flusher._due is not None
        flusher._due -= 2 * WAIT
        assert done.wait(WAIT)  # the thread has done it by itself
        assert db.execute("FROM t ORDER BY a").fetchall() == [(1,), (3,)]


@pytest.mark.full
def test_a_background_flush_waits_for_the_end_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not if too many rows are pending, nor if they have been for long."""
    monkeypatch.setattr("ivm.engine.background_flush.MAX_ROWS", 10)
    monkeypatch.setattr("ivm.engine.background_flush.MOST_ROWS", 100)
    with created() as db:
        flusher, done = db._lifetime.opened.flusher, threading.Event()
        monkeypatch.setattr(db._engine.tables, "flush", done.set)
        with db._engine.alone():
            flusher.noticed(11)
            assert not done.wait(0.2)
        assert done.wait(WAIT)
        with db._engine.alone():
            done.clear()
            flusher.noticed(101)
            assert done.wait(WAIT)
            done.clear()
            flusher.noticed(11)
            assert not done.wait(0.2)
            flusher._due = 0.0
            assert done.wait(WAIT)
        with db._engine.alone():
            flusher.noticed(11)  # closing does not wait for it
        monkeypatch.undo()


def test_a_background_failure_that_is_over_is_told_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with created() as db:
        flusher, done = db._lifetime.opened.flusher, threading.Event()
        monkeypatch.setattr(db._engine.tables, "flush", failing_once(db._engine.tables.flush, done))
        flusher._flush()
        flusher._flush()
        db.insert("t", {"a": [1]})
        assert db.execute("FROM v").fetchall() == [(1,)]


def test_a_failed_checkpoint_is_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with created(tmp_path / "x.duckdb") as db:
        monkeypatch.setattr(checkpoints, "WAL_BYTES", 0)
        monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
        points, done = db._engine.warehouse._checkpointer, threading.Event()
        monkeypatch.setattr(points, "run", failing_once(points.run, done))
        db._engine.warehouse.recorded({})
        while not db._engine.warehouse.troubles._failures:
            assert points._thread is not None
            points._thread.join(0.01)
            assert points._thread.is_alive()
        with pytest.raises(errors.UnavailableError, match=r"checkpoint.*foreseen"):
            db.execute("SELECT 1")
        while not done.wait(0.01):
            db._engine.warehouse.recorded({})
        assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_a_checkpoint_under_way_does_not_keep_the_database_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = created(tmp_path / "x.duckdb")
    points = db._engine.warehouse._checkpointer
    running, may_end = threading.Event(), threading.Event()

    def slow() -> bool:
        running.set()
        return may_end.wait(WAIT)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "WAL_BYTES", 0)
        patch.setattr(points, "run", slow)
        points.consider()
        assert running.wait(WAIT)
        stopping = threading.Thread(target=points.stop, daemon=True)
        stopping.start()
        while not points._stopping.is_set():
            stopping.join(0.01)
        may_end.set()
        stopping.join(WAIT)
        assert not stopping.is_alive()
    db.close()


def test_writers_who_must_wait_for_a_flush_that_fails_have_done_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise errors.UnavailableError("the disk is full")

    with created() as db:
        monkeypatch.setattr(stored_tables, "MOST_PENDING", 0)
        db.insert("t", {"a": [1]})  # stands, whatever is pending behind it
        with monkeypatch.context() as patch:
            patch.setattr(db._engine.warehouse, "flush", full)
            for work in (
                lambda: db.insert("t", {"a": [2]}),
                lambda: db.execute("INSERT INTO t VALUES (3)"),
                lambda: db.execute("BEGIN"),
            ):
                with pytest.raises(errors.UnavailableError, match="full"):
                    work()
        db.insert("t", {"a": [4]})
        assert db.execute("FROM t ORDER BY a").fetchall() == [(1,), (4,)]


def test_a_commit_stands_though_its_subscribers_cannot_be_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def odd(names: object) -> None:
        raise ValueError("nobody has foreseen this")

    with created() as db:
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT current_user AS u, a FROM t")
        feed = db.subscribe("w")
        with monkeypatch.context() as patch:
            patch.setattr(db._engine.recomputed, "refresh", odd)
            db.insert("t", {"a": [1]})
        with pytest.raises(errors.InternalError, match="foreseen"):
            feed.poll(0)
        assert feed.poll(0) is None
        assert db.execute("FROM t").fetchall() == [(1,)]


def test_a_feed_misses_nothing_beside_one_that_closes() -> None:
    feeds = ChangeFeeds()
    first, second, third = (
        Subscription("v", (), lambda epoch: None, feeds.remove) for _ in range(3)
    )
    for feed in (first, second, third):
        feeds.add(feed)
    first.put = lambda epoch, delta: first.close()  # type: ignore[method-assign]
    feeds.notify(1, {"v": empty([])})
    assert [len(feed._items) for feed in (second, third)] == [1, 1]
    feeds.close("v")
    assert feeds.views == []


def test_a_forgotten_feed_is_given_nothing_and_lets_its_database_go(tmp_path: Path) -> None:
    """Bug: the engine held the feed, the feed its database, and the file could not be opened."""
    db = created(tmp_path / "x.duckdb")
    feed, tail = db.subscribe("v"), db.tail("v")
    assert db._engine.feeds.views == ["v"]
    del feed, tail
    assert db._engine.feeds.views == []
    with_feed = db, db.subscribe("v")
    del db, with_feed
    ivm.connect(tmp_path / "x.duckdb").close()


def test_an_epoch_of_a_view_above_a_recomputed_one_is_one_delta() -> None:
    """Bug: the commit's rows and those of the recomputed view below came as two of one epoch."""
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE t (a INTEGER);
            INSERT INTO t VALUES (1);
            CREATE MATERIALIZED VIEW low AS SELECT approx_count_distinct(a) AS n FROM t;
            CREATE MATERIALIZED VIEW top AS SELECT a, n FROM t, low;
        """)
        with db.subscribe("top") as feed, db.subscribe("low") as below:
            db.insert("t", {"a": [2]})
            found = feed.poll(0)
            assert found is not None
            rows = sorted((row["_weight"], row["a"], row["n"]) for row in found[1].to_pylist())
            assert (found[0], rows) == (db.epoch, [(-1, 1, 1), (1, 1, 2), (1, 2, 2)])
            assert feed.poll(0) is None
            assert [below.poll(0) is None for _ in range(2)] == [False, True]


def test_what_a_view_had_before_it_failed_comes_before_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def odd(names: object) -> None:
        raise ValueError("nobody has foreseen this")

    with created() as db, db.subscribe("v") as feed:
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT approx_count_distinct(a) AS n FROM t")
        with monkeypatch.context() as patch:
            patch.setattr(db._engine.recomputed, "refresh", odd)
            db.insert("t", {"a": [1]})
        assert feed.poll(0) is not None
        with pytest.raises(errors.InternalError, match="foreseen"):
            feed.poll(0)


def test_feeds_have_an_epoch_whose_commit_is_interrupted_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with created() as db, db.subscribe("v") as feed:
        with monkeypatch.context() as patch:
            patch.setattr(db._engine.recomputed, "refresh_watched", interrupted)
            with pytest.raises(KeyboardInterrupt):
                db.insert("t", {"a": [1]})
        epochs = [feed.poll(0)]
        db.insert("t", {"a": [2]})
        epochs.append(feed.poll(0))
        assert [each and each[0] for each in epochs] == [db.epoch - 1, db.epoch]


def test_an_epoch_is_durable_before_subscribers_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChangeLog, "_start_ticker", lambda self: None)
    with created(tmp_path / "x.duckdb", durability="interval") as db, db.subscribe("v") as feed:
        log = db._engine.warehouse.log
        assert log is not None
        db.insert("t", {"a": [1]})
        assert log.synced_epoch < db.epoch
        found = feed.poll(WAIT)
        assert found is not None
        assert found[0] == db.epoch == log.synced_epoch


def test_an_interrupted_poll_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with created() as db, db.subscribe("v") as feed:
        db.insert("t", {"a": [1]})
        with monkeypatch.context() as patch:
            patch.setattr(feed, "_durable", lambda epoch: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                feed.poll(WAIT)
        found = feed.poll(0)
        assert found is not None
        assert found[0] == db.epoch
        assert feed.poll(0) is None


def test_many_threads_read_a_feed_each_epoch_once() -> None:
    with created() as db:
        feed = db.subscribe("v")
        seen: list[int] = []

        def read() -> None:
            seen.extend(epoch for epoch, _ in feed)

        readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
        for reader in readers:
            reader.start()
        first = db.epoch + 1
        for i in range(50):
            db.insert("t", {"a": [i]})
        feed.close()
        for reader in readers:
            reader.join(WAIT)
            assert not reader.is_alive()
        assert sorted(seen) == list(range(first, db.epoch + 1))


def test_a_slow_subscriber_fails_alone() -> None:
    with created() as db:
        slow, quick = db.subscribe("v", limit=3), db.subscribe("v")
        db.insert("t", {"a": range(10)})  # nothing waits before it
        db.execute("DELETE FROM t WHERE a > 1")
        with pytest.raises(errors.UnavailableError, match=r"'v' was read too slowly: .*limit is 3"):
            slow.poll(WAIT)
        assert (slow.poll(WAIT), slow.ended, quick.ended) == (None, True, False)
        assert [quick.poll(WAIT) is not None for _ in range(2)] == [True, True]


def test_a_subscriber_that_keeps_up_never_reaches_its_limit() -> None:
    with created() as db, db.subscribe("v", limit=1) as feed:
        for i in range(5):
            db.insert("t", {"a": [i]})
            assert feed.poll(WAIT) is not None


@pytest.mark.full
@pytest.mark.parametrize("limit", [0, True, "9"])
def test_a_limit_is_a_number_of_rows(limit: Any) -> None:
    with created() as db, pytest.raises(errors.InputError, match="is a number of rows"):
        db.subscribe("v", limit=limit)
