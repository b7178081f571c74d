"""Threads: writers take turns, readers see whole epochs, subscribers every one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ivm
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=1)

ROUNDS = 60


def run_all(*jobs: Callable[[], None]) -> None:
    """Run jobs in threads; the first failure is raised here."""
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.mark.full
@pytest.mark.parametrize("durability", ["commit", "interval"])
def test_readers_see_whole_transactions(tmp_path: Path, durability: str) -> None:
    with ivm.connect(tmp_path / "c.duckdb", durability=durability) as db:
        db.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER)")
        db.execute("CREATE TABLE b (n INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW va AS SELECT sum(n) AS s, count(*) AS c FROM a")
        db.execute("CREATE MATERIALIZED VIEW vb AS SELECT -sum(n) AS s, count(*) AS c FROM b")
        db.execute("CREATE MATERIALIZED VIEW vc AS SELECT median(n) AS m, count(*) AS c FROM b")
        done = threading.Event()

        def write(first: int) -> None:
            for i in range(first, first + ROUNDS):
                with db.transaction():  # every transaction keeps sum(a) + (−sum(b)) = 0
                    db.insert("a", [{"id": i, "n": i}])
                    db.insert("b", [{"n": i}])

        def write_all() -> None:
            run_all(lambda: write(0), lambda: write(1000), write_sql)
            done.set()

        def write_sql() -> None:
            for i in range(2000, 2000 + ROUNDS // 4):
                db.execute(
                    f"BEGIN; INSERT INTO a SELECT {i}, {i}; INSERT INTO b SELECT {i}; COMMIT"
                )

        def read() -> None:
            while not done.is_set():
                assert db.execute(
                    "SELECT coalesce(va.s, 0) + coalesce(vb.s, 0), va.c - vb.c,"
                    " va.c - (SELECT count(*) FROM a), vb.c - vc.c FROM va, vb, vc"
                ).fetchall() == [(0, 0, 0, 0)]

        run_all(write_all, read, read)
        assert db.execute("SELECT c FROM va").fetchall() == [(2 * ROUNDS + ROUNDS // 4,)]
        assert_verified(db)


def test_a_subscriber_misses_nothing(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "f.duckdb") as db:
        db.execute("CREATE TABLE t (n INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
        feed = db.subscribe("v")
        seen: dict[tuple[int, int], int] = {}

        def follow() -> None:
            for _, delta in feed:
                for row in delta.to_pylist():
                    key = (row["n"], row["c"])
                    seen[key] = seen.get(key, 0) + row["_weight"]

        def write(offset: int) -> None:
            for i in range(ROUNDS):
                db.insert("t", [{"n": (i + offset) % 7}])

        def write_all() -> None:
            run_all(lambda: write(0), lambda: write(3))
            feed.close()

        run_all(write_all, follow)
        rows = dict.fromkeys(db.execute("SELECT n, c FROM v").fetchall(), 1)
        assert {row: weight for row, weight in seen.items() if weight} == rows


def test_a_read_waits_for_a_flush_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the flush had taken was not pending any more, so a reader took the tables for fresh.
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        db.insert("t", {"a": [1]})
        under_way, may_end = threading.Event(), threading.Event()
        flush = db._engine.warehouse.flush

        def slow(*args: Any) -> None:
            under_way.set()
            may_end.wait(10)
            flush(*args)

        monkeypatch.setattr(db._engine.warehouse, "flush", slow)
        background = threading.Thread(target=db.flush)
        background.start()
        assert under_way.wait(10)
        threading.Timer(0.2, may_end.set).start()
        assert db.execute("SELECT * FROM t").fetchall() == [(1,)]
        background.join()
