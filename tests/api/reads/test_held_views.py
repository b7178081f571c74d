"""Which rows of views are held in memory, from when on and until when."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.delta_ops.aggregates.group_lookup import GroupLookup
from ivm.engine.views import held_views
from ivm.engine.views.view_contents import KeyedContent
from ivm.session.results.state_result import StateResult
from ivm.storage.errors import UnavailableError
from ivm.storage.values.zset import ZSet

ROWS = 300
TEXT = "SELECT * FROM v WHERE k = ?"


@pytest.fixture(autouse=True)
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows under the key of a view's groups are not read from the state of its aggregate."""
    monkeypatch.setattr(GroupLookup, "of", lambda *_: None)


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ivm.Database]:
    """A view whose rows are looked up, and loaded in a thread."""
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    monkeypatch.setattr(held_views, "LARGE", 100)
    with ivm.connect(tmp_path / "x.duckdb") as opened:
        opened.execute("CREATE TABLE t (k INTEGER, d INTEGER)")
        opened.execute(f"INSERT INTO t SELECT i, i FROM range({ROWS}) r(i)")
        opened.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(d) AS s FROM t GROUP BY k")
        yield opened


class Gate:
    """Holds up the loading of rows by key until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.open, self.fails = threading.Event(), threading.Event(), False
        load = KeyedContent.load

        def waits(content: KeyedContent, epoch: int, count: int, chunks: Any) -> None:
            self.begun.set()
            assert self.open.wait(60)
            if self.fails:
                raise MemoryError
            load(content, epoch, count, chunks)

        monkeypatch.setattr(KeyedContent, "load", waits)


def loaded(db: ivm.Database) -> None:
    """Waits until no rows are being loaded."""
    for thread in list(db._engine.held._threads):
        thread.join(60)
        assert not thread.is_alive()


def is_from_memory(db: ivm.Database, key: int, text: str = TEXT) -> bool:
    result = db.execute(text, [key])
    assert result.fetchall() == [(key, key if key < ROWS else 7)]
    return isinstance(result, StateResult)


@pytest.mark.full
def test_duckdb_answers_while_a_large_view_is_loaded(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    assert not is_from_memory(db, 5)
    assert gate.begun.wait(60)
    for key in (ROWS, ROWS + 1):
        db.execute("INSERT INTO t VALUES (?, 7)", [key])
        assert not is_from_memory(db, key)
    gate.open.set()
    loaded(db)
    for key in (5, ROWS, ROWS + 1):
        assert is_from_memory(db, key)


@pytest.mark.full
def test_a_loading_that_fails_is_tried_by_the_next_reader(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.fails = True
    gate.open.set()
    assert not is_from_memory(db, 5)
    loaded(db)
    with pytest.raises((MemoryError, UnavailableError)):
        db.execute(TEXT, [5])
    gate.fails = False
    db.execute(TEXT, [5]).fetchall()
    loaded(db)
    assert is_from_memory(db, 5)


@pytest.mark.full
@pytest.mark.parametrize("statement", ["DROP MATERIALIZED VIEW v", "DROP TABLE t CASCADE"])
def test_what_it_loads_may_be_dropped_meanwhile(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    gate = Gate(monkeypatch)
    assert not is_from_memory(db, 5)
    assert gate.begun.wait(60)
    db.execute(statement)
    if "CASCADE" in statement:
        db.execute("CREATE TABLE t AS SELECT i::INT AS k, i::INT AS d FROM range(300) r(i)")
    db.execute("DELETE FROM t WHERE k = 6")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(d) AS s FROM t GROUP BY k")
    gate.open.set()
    loaded(db)
    assert db.execute(TEXT, [6]).fetchall() == []
    loaded(db)
    assert is_from_memory(db, 5)
    assert db.execute(TEXT, [6]).fetchall() == []


def test_closing_ends_the_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    monkeypatch.setattr(held_views, "LARGE", 100)
    read = threading.Event()

    def slowly(self: Any, chunks: Iterator[ZSet]) -> Iterator[ZSet]:
        for chunk in chunks:
            read.set()
            while not self._stopped:
                time.sleep(0.001)
            yield from stops(self, iter([chunk]))

    stops = held_views.HeldViews._unless_stopped
    monkeypatch.setattr(held_views.HeldViews, "_unless_stopped", slowly)
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t (k INTEGER)")
        db.execute("INSERT INTO t SELECT i FROM range(300) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS s FROM t GROUP BY k")
        db.execute(TEXT, [5]).fetchall()
        assert read.wait(60)
    assert not db._engine.held._threads


@pytest.mark.full
def test_ddl_drops_the_rows_of_the_views_that_it_concerns(db: ivm.Database) -> None:
    db.execute("CREATE TABLE other (k INTEGER)")
    db.execute("CREATE MACRO of(x) AS x + 10")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT k, max(of(k)) AS s FROM other GROUP BY k")
    db.execute("INSERT INTO other VALUES (1)")
    w = TEXT.replace("v", "w")
    for _ in range(2):
        db.execute(TEXT, [5]).fetchall()
        db.execute(w, [1]).fetchall()
        loaded(db)
    held = db._engine.held
    before = {name: [*contents.values()] for name, contents in held._held.items()}
    assert held.sizes().keys() == {"v", "w"}
    db.execute("CREATE TABLE third (x INTEGER)")
    db.execute("INSERT INTO t VALUES (300, 7)")
    assert is_from_memory(db, 5)
    assert is_from_memory(db, 300)
    assert [*held._held["v"].values()] == before["v"]
    db.execute("CREATE OR REPLACE MACRO of(x) AS x + 20")
    assert [*held._held["v"].values()] == before["v"]
    assert "w" not in held.sizes()
    db.execute("INSERT INTO other VALUES (2)")
    assert db.execute(w, [1]).fetchall() == [(1, 21)]
    assert db.execute(w, [2]).fetchall() == [(2, 22)]


@pytest.mark.full
def test_rows_that_were_read_longest_ago_make_room(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("w", "x"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT k, sum(d) AS s FROM t GROUP BY k")
    texts = {name: TEXT.replace("v", name) for name in ("v", "w", "x")}
    sizes = db._engine.held.sizes
    for name in ("v", "w"):
        for _ in range(2):
            db.execute(texts[name], [5]).fetchall()
            loaded(db)
    monkeypatch.setattr(held_views, "MOST_BYTES", sum(size for _, size in sizes().values()))
    assert is_from_memory(db, 5, texts["v"])
    for _ in range(2):
        db.execute(texts["x"], [5]).fetchall()
        loaded(db)
    assert sizes().keys() == {"v", "x"}
    monkeypatch.setattr(held_views, "MOST_BYTES", 0)
    for _ in range(2):
        db.execute(texts["w"], [5]).fetchall()
        loaded(db)
    assert sizes().keys() == {"w"}
    assert is_from_memory(db, 5, texts["w"])
