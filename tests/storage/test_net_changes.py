"""What a read flushes: the views it reads, and with them those that were read before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse import pending
from ivm.storage.warehouse.flusher import Flusher
from tests.support.view_oracle import assert_verified

VIEWS = {
    "total": "SELECT sum(x) AS s FROM t",
    "by_g": "SELECT g, count(*) AS n FROM t GROUP BY g",
    "whole": "SELECT id, x FROM t",
}


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        create(database)
        yield database


def create(database: ivm.Database) -> None:
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
    for name, query in VIEWS.items():
        database.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def insert(database: ivm.Database, start: int, count: int = 3) -> None:
    ids = list(range(start, start + count))
    database.insert("t", {"id": ids, "g": [i % 3 for i in ids], "x": ids})


def read(database: ivm.Database, *names: str) -> None:
    """Reads them by DuckDB: memory cannot answer the condition."""
    for name in names:
        database.execute(f"FROM {name} WHERE random() < 2").fetchall()


def fresh(database: ivm.Database) -> set[str]:
    """Relations that DuckDB holds as of the last commit ("t" stands for all tables)."""
    engine = database._engine
    held = {n for n in VIEWS if engine.warehouse.view_epoch(view_name(database, n)) == engine.epoch}
    return held | ({"t"} if engine.warehouse.base_epoch == engine.epoch else set())


def view_name(database: ivm.Database, name: str) -> str:
    views = database._engine.catalog.views
    (found,) = [view for view in views if view.rpartition(".")[2].strip('"') == name]
    return found


@pytest.mark.full
def test_a_view_that_was_read_before_is_taken_along(db: ivm.Database) -> None:
    read(db, "total", "by_g")
    insert(db, 0)
    read(db, "by_g")
    assert fresh(db) == {"total", "by_g"}


def test_a_view_that_nobody_reads_is_not_taken_along(db: ivm.Database) -> None:
    read(db, "total")
    for start in (0, 10, 20):
        insert(db, start)
        read(db, "total")
        assert fresh(db) == {"total"}


@pytest.mark.full
def test_a_view_is_taken_along_once_for_each_time_it_is_read(db: ivm.Database) -> None:
    read(db, "by_g")
    insert(db, 0)
    read(db, "total")
    assert fresh(db) == {"total", "by_g"}
    insert(db, 10)
    read(db, "total")
    assert fresh(db) == {"total"}
    read(db, "by_g")  # nobody took it along, and it was read
    insert(db, 20)
    read(db, "total")
    assert fresh(db) == {"total", "by_g"}


@pytest.mark.full
def test_reading_a_fresh_view_counts(db: ivm.Database) -> None:
    read(db, "by_g", "total")
    for start in (0, 10, 20):
        insert(db, start)
        read(db, "total")
        assert fresh(db) == {"total", "by_g"}
        read(db, "by_g")  # flushes nothing


@pytest.mark.full
def test_only_few_rows_are_taken_along(db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    read(db, "by_g", "whole")
    insert(db, 0, pending.ALONG + 1)
    read(db, "total")
    assert fresh(db) == {"total", "by_g"}
    read(db, "by_g", "whole")
    monkeypatch.setattr(pending, "ALONG", 8)  # of the 9 rows: −3 and +3 of by_g, 3 of whole
    insert(db, 1000)
    read(db, "total")
    assert fresh(db) == {"total", "whole"}


@pytest.mark.full
def test_reading_a_table_brings_everything(db: ivm.Database) -> None:
    insert(db, 0, pending.ALONG + 1)
    read(db, "t")
    assert fresh(db) == {"t", *VIEWS}


@pytest.mark.full
def test_a_failed_flush_gives_back_what_it_took_along(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(db, "by_g")
    insert(db, 0)

    def fail(*_: object) -> None:
        raise UnavailableError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Flusher, "_write", fail)
        with pytest.raises(UnavailableError):
            read(db, "total")
    assert fresh(db) == set()
    assert db.execute("FROM by_g ORDER BY g").fetchall() == [(0, 1), (1, 1), (2, 1)]


KILLED = """
import os, ivm
from tests.storage.test_net_changes import create, fresh, insert, read
database = ivm.connect({file!r})
create(database)
read(database, "total", "by_g")
insert(database, 0)
read(database, "by_g")
assert fresh(database) == {{"total", "by_g"}}
insert(database, 10)
os._exit(9)
"""


@pytest.mark.full(smoke=1)
def test_a_view_taken_along_takes_each_change_once_after_a_crash(tmp_path: Path) -> None:
    file = str(tmp_path / "shop.duckdb")
    code = KILLED.format(file=file)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with ivm.connect(file) as database:
        assert database.execute("FROM total").fetchall() == [(sum([0, 1, 2, 10, 11, 12]),)]
        assert_verified(database)
    with ivm.connect(file) as database:
        assert_verified(database)
