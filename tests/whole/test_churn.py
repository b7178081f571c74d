"""Readers without locks, beside threads that come and go: nothing is missed, doubled or raised.

The interpreter changes threads every 20 µs, and two threads do nothing but take their turns.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.catalog.catalog import Catalog
from ivm.catalog.version import Meaning
from ivm.engine.feeds.changefeed import ChangeFeeds, Subscription
from ivm.engine.views.view_contents import WholeContent
from ivm.reads.reads import StateReads
from ivm.storage.log.commit import Commit
from ivm.storage.values.zset import empty
from ivm.storage.warehouse.duckdb.arrow_streams import copying
from ivm.storage.warehouse.tables.table_info import TableInfo
from tests.support.churn import WAIT, beside, churning
from tests.tiers import examples

EPOCHS = examples(2_000)


@pytest.fixture(autouse=True)
def churn() -> Iterator[None]:
    with churning():
        yield


def read_all(feed: Subscription, found: list[int]) -> None:
    """Reads the epochs of a feed to its end."""
    while not feed.ended:
        item = feed.poll(0.001)
        if item is not None:
            found.append(item[0])


def read_one(feed: Subscription, found: list[int]) -> None:
    item = feed.poll(WAIT)
    assert item is not None
    found.append(item[0])


def reading(
    work: Callable[[Subscription, list[int]], None], threads: int, epochs: int
) -> list[int]:
    """What threads read of a feed that gets some epochs at once, and ends."""
    feed = Subscription("v", (), lambda epoch: None, lambda feed: None)
    found: list[int] = []
    readers = [threading.Thread(target=work, args=(feed, found)) for _ in range(threads)]
    for reader in readers:
        reader.start()
    for epoch in range(epochs):
        feed.put(epoch, empty([]))
    if work is read_all:
        feed.close()
    for reader in readers:
        reader.join(WAIT / 3)
    return sorted(found)


def test_a_feed_gets_each_epoch_once_beside_others_that_open_and_close() -> None:
    """Bug: a view had no feed at all while one of its feeds was taken out."""
    feeds = ChangeFeeds()

    def subscribed() -> Subscription:
        feed = Subscription("v", (), lambda epoch: None, feeds.remove)
        feeds.add(feed)
        return feed

    steady = subscribed()
    with beside(lambda: subscribed().close(), 3):
        for epoch in range(EPOCHS):
            feeds.notify(epoch, {"v": empty([])})
    steady.close()
    found: list[int] = []
    read_all(steady, found)
    assert found == list(range(EPOCHS))


def test_a_feed_gets_each_epoch_once_beside_others_that_overflow_or_are_forgotten() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        steady = db.subscribe("v")
        first = db.epoch + 1

        def come_and_go() -> None:
            overflowing, closed, _ = (db.subscribe("v", limit=1) for _ in range(3))
            closed.close()
            with contextlib.suppress(ivm.errors.UnavailableError):
                overflowing.poll(0.001)

        with beside(come_and_go, 2):
            for a in range(EPOCHS // 10):
                db.insert("t", {"a": [a]})
        last = db.epoch
        steady.close()
        found: list[int] = []
        read_all(steady, found)
        assert found == list(range(first, last + 1))


def test_the_end_of_a_feed_hides_no_delta() -> None:
    """Bug: one queued between a poll whose time was up and the end was not read any more."""
    for _ in range(EPOCHS // 10):
        assert reading(read_all, threads=1, epochs=3) == [0, 1, 2]


def test_no_delta_waits_while_a_reader_sleeps() -> None:
    """Bug: a reader took the bell of another's delta, and the other slept on."""
    for _ in range(EPOCHS // 40):
        assert reading(read_one, threads=2, epochs=2) == [0, 1]


def test_what_is_known_of_a_text_is_of_one_meaning_of_names() -> None:
    """Bug: a thread found what another had learnt under the meaning before."""
    with ivm.connect() as db:
        reads, turns = StateReads(db._engine), itertools.count()
        version = db._engine.catalog.version
        found: dict[int, tuple[object, Meaning]] = {}

        def look() -> None:
            meaning = Meaning(next(turns) // 5, version)
            known, _ = reads._given("SELECT 1 AS a", None, meaning, is_source=False)
            of = found.setdefault(id(known), (known, meaning))
            assert of[1] == meaning

        with beside(look, 3):
            for _ in range(10 * EPOCHS):
                look()


def test_tables_and_what_their_names_mean_are_of_one_moment() -> None:
    """Bug: a reader found the tables of one moment, and names and spellings of another."""
    catalog = Catalog("shop")

    def load(name: str) -> None:
        info = TableInfo(name, f'"shop"."main"."{name}"', ())
        catalog.load_tables({name: info}, [], {})

    def look() -> None:
        version = catalog.version
        (name,) = version.tables
        assert version.qualified.keys() == {name}
        assert version.names.resolve([name]) == name

    load("t0")
    with beside(look, 2):
        for number in range(EPOCHS):
            load(f"t{number}")
            catalog.load_databases([f"d{number}"])


def test_the_sizes_of_what_is_held_are_told_while_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bug: a dict changed its size while it was walked through."""
    monkeypatch.setattr(WholeContent, "nbytes", 0)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        held, schema = db._engine.held, db._engine.catalog.views["v"].schema
        contents = {(i,): WholeContent(schema, None) for i in range(2_000)}
        held._held["v"] = dict[Any, Any](contents)
        with beside(held.sizes, 2):
            for key in list(contents)[:EPOCHS]:
                with held.publishing:
                    held._drop("v", key, contents[key])


def test_rows_of_small_tables_are_those_of_whole_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: of a source dropped and one created in one transaction both were seen, or neither."""
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        create = f"CREATE SOURCE s{{}} INTO t FROM FILES (path '{tmp_path}/a', format 'json')"
        db.execute(create.format(0))
        small, commits = db._engine.small, list[Commit]()
        follow = small.follow
        monkeypatch.setattr(small, "follow", commits.append)
        for old, new in ((0, 1), (1, 0)):
            with db.transaction():
                db.execute(f"DROP SOURCE s{old}")
                db.execute(create.format(new))
                assert len(small.rows("_ivm.sources") or ()) == 1
            follow(commits[-1])

        def look() -> None:
            assert len(small.rows("_ivm.sources") or ()) == 1

        with beside(look, 2):
            for _ in range(EPOCHS):
                for commit in commits:
                    follow(commit)


def test_sinks_are_those_of_whole_commits(tmp_path: Path) -> None:
    """Bug: of a sink dropped and created again in one transaction none was listed, for a moment."""
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
        create = f"CREATE SINK s FROM v INTO FILES (path '{tmp_path}/a', format 'jsonl')"
        db.execute(create)

        def look() -> None:
            assert [sink.name for sink in db.sinks()] == ["s"]

        with beside(look, 2):
            for _ in range(EPOCHS // 20):
                with db.transaction():
                    db.execute("DROP SINK s")
                    db.execute(create)


def test_what_a_handle_begins_beside_its_end_ends_with_it(tmp_path: Path) -> None:
    """Bug: the end failed, or left feeds open and jobs to a handle that was closed."""
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t")
        for _ in range(EPOCHS // 40):
            other, feeds = ivm.connect(tmp_path / "x.duckdb"), list[Subscription]()

            def begin(handle: ivm.Database = other, found: list[Subscription] = feeds) -> None:
                with contextlib.suppress(ivm.errors.UnavailableError):
                    while True:
                        found.append(handle.subscribe("v"))
                        handle.start_sources()

            threads = [threading.Thread(target=begin) for _ in range(2)]
            for thread in threads:
                thread.start()
            other.close()
            for thread in threads:
                thread.join(WAIT)
            assert all(feed.closed for feed in feeds)
            assert not db._engine.jobs.runs("source")


def test_no_warning_comes_while_another_thread_leaves_its_block() -> None:
    """Bug: it put back the filters of before, and the other one's copy was a warning."""

    def copy() -> None:
        with copying():
            warnings.warn("Arrow output on a DB-API result makes an extra copy", stacklevel=1)

    with beside(copy, 3):
        for _ in range(EPOCHS):
            copy()
    with pytest.raises(UserWarning):
        warnings.warn("of the program", stacklevel=1)
