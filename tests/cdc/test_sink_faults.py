"""Targets that fail, are slow or full, and files that others have touched: no epoch is lost."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.cdc.sinks import files, job, stored_sinks
from ivm.cdc.sinks.files import FilesTarget
from ivm.engine.feeds import backlog
from ivm.storage.durable_files import write_all
from tests.cdc.sink_files import WAIT, caught_up, lines_of, rows_in, rows_of
from tests.support.crash_image import image
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=4)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        opened.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR)")
        opened.execute("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        for name in ("f", "other"):
            opened.create_sink(name, "v", ivm.sinks.Files(path=str(tmp_path / name)))
        yield opened


def until(db: ivm.Database, name: str, condition: Callable[[ivm.SinkInfo], bool]) -> ivm.SinkInfo:
    end = time.monotonic() + WAIT
    while True:
        [found] = [sink for sink in db.sinks() if sink.name == name]
        if condition(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.01)


def insert(db: ivm.Database, *ids: int) -> None:
    db.insert("t", {"id": list(ids), "g": ["abc"[id % 3] for id in ids]})


def test_a_full_disk_stops_one_sink_until_there_is_room(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(fd: int, parts: list[Any]) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") != str(tmp_path / "f"):
            return write_all(fd, parts)
        write_all(fd, [parts[0][:10]])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", write)
        db.start_sinks()
        insert(db, 1, 2, 3)
        found = until(db, "f", lambda sink: sink.state == "failing")
        assert found.reason is not None
        assert "No space left on device" in found.reason
        until(db, "other", lambda sink: not sink.lag_epochs)
        insert(db, 4)
    caught_up(db)
    assert rows_of(tmp_path / "f") == rows_of(tmp_path / "other") == rows_in(db, "v")
    assert {sink.state for sink in db.sinks()} == {"running"}


def test_nobody_waits_for_a_target(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on, real = threading.Event(), FilesTarget.write

    def write(self: FilesTarget, *args: Any) -> None:
        if self._path.name == "f":
            assert going_on.wait(WAIT)
        real(self, *args)

    monkeypatch.setattr(FilesTarget, "write", write)
    monkeypatch.setattr(backlog, "MOST_BYTES", 2000)
    db.start_sinks()
    for i in range(40):
        insert(db, i)
    db.execute("DELETE FROM t WHERE id % 4 = 0")
    slow = until(db, "f", lambda sink: sink.state == "running")
    assert (slow.lag_epochs, slow.lag_rows) == (41, 3 + 37 * 2 + 6)
    assert len(db._engine.outbox._backlogs["f"]._recent) < 10
    going_on.set()
    caught_up(db)
    assert rows_of(tmp_path / "f") == rows_of(tmp_path / "other") == rows_in(db, "v")


@pytest.mark.full
def test_acknowledgements_wait_for_open_transactions(db: ivm.Database, tmp_path: Path) -> None:
    db.start_sinks()
    insert(db, 1)
    db.execute("BEGIN")
    until(db, "f", lambda _: (tmp_path / "f").exists() and bool(lines_of(tmp_path / "f")))
    before = db.epoch
    db.execute("INSERT INTO t VALUES (2, 'a'); COMMIT")
    assert db.epoch >= before + 1
    caught_up(db)
    assert rows_of(tmp_path / "f") == rows_in(db, "v")
    time.sleep(0.3)
    epoch = db.epoch
    time.sleep(0.5)
    assert db.epoch == epoch  # what is acknowledged is acknowledged once


def test_an_open_transaction_that_drops_the_view_ends_no_sink(
    db: ivm.Database, tmp_path: Path
) -> None:
    insert(db, 1, 2)
    db.execute("BEGIN; DROP TABLE t CASCADE")
    assert [view.name for view in db.views()] == []
    db.start_sinks()
    until(db, "f", lambda _: (tmp_path / "f").exists() and len(lines_of(tmp_path / "f")) == 2)
    assert {sink.state for sink in db.sinks()} == {"running"}
    db.execute("ROLLBACK")
    insert(db, 3)
    caught_up(db)
    assert rows_of(tmp_path / "f") == rows_in(db, "v")


def test_a_line_of_somebody_else_is_not_cut_off(db: ivm.Database, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("hello\n")
    db.start_sinks()
    insert(db, 1)
    found = until(db, "f", lambda sink: sink.state == "failing")
    assert found.reason is not None
    assert "has a line at byte 0 that this sink has not written" in found.reason
    assert (tmp_path / "f").read_text() == "hello\n"
    (tmp_path / "f").unlink()
    caught_up(db)
    assert rows_of(tmp_path / "f") == rows_in(db, "v")


@pytest.mark.parametrize("runs", [True, False])
def test_a_file_that_was_moved_away_is_begun_anew(
    db: ivm.Database, tmp_path: Path, runs: bool
) -> None:
    insert(db, 1)
    caught_up(db)
    if not runs:
        assert db.stop_sinks()
    (tmp_path / "f").rename(tmp_path / "old")
    insert(db, 2)
    caught_up(db)
    both = lines_of(tmp_path / "old") + lines_of(tmp_path / "f")
    assert both == lines_of(tmp_path / "other")


def test_a_file_that_is_moved_before_it_is_flushed_is_begun_anew(
    db: ivm.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(db, 1)
    caught_up(db)
    flush = FilesTarget.flush

    def late(self: FilesTarget) -> int:
        if self._path == tmp_path / "f" and not (tmp_path / "old").exists():
            self._path.rename(tmp_path / "old")
        return flush(self)

    monkeypatch.setattr(FilesTarget, "flush", late)
    insert(db, 2)
    caught_up(db)
    other = lines_of(tmp_path / "other")
    assert lines_of(tmp_path / "old") == other
    assert lines_of(tmp_path / "f") == other[1:]  # again: who moved it may have read it before


def test_a_file_that_others_write_to_while_a_sink_runs_is_noticed(
    db: ivm.Database, tmp_path: Path
) -> None:
    insert(db, 1)
    caught_up(db)
    os.truncate(tmp_path / "f", 5)  # the rest of a line is no beginning of the next one
    insert(db, 2)
    caught_up(db)
    assert lines_of(tmp_path / "f") == lines_of(tmp_path / "other")[1:]
    with (tmp_path / "f").open("a") as file:
        file.write("hello\n")
    insert(db, 3)
    found = until(db, "f", lambda sink: sink.state == "failing" and "byte" in str(sink.reason))
    assert "that this sink has not written" in str(found.reason)


def test_what_was_not_acknowledged_is_written_again_byte_for_byte(
    db: ivm.Database, tmp_path: Path
) -> None:
    for i in range(5):
        insert(db, i)
    target = ivm.sinks.Files(path=str(tmp_path / "f")).target()
    caught_up(db)
    written = (tmp_path / "f").read_bytes()
    ends = [i + 1 for i, byte in enumerate(written) if byte == ord("\n")]
    epochs = [line["_epoch"] for line in lines_of(tmp_path / "f")]
    for last in range(epochs[0] - 1, epochs[-1] + 1):
        (tmp_path / "f").write_bytes(written + b'{"_epoch":99999,"torn')
        target.open(last)
        target.close()
        kept = max([end for end, epoch in zip(ends, epochs, strict=True) if epoch <= last] or [0])
        assert (tmp_path / "f").read_bytes() == written[:kept]


def test_what_another_program_has_written_comes_as_a_difference(
    db: ivm.Database, tmp_path: Path
) -> None:
    insert(db, 1, 2)
    db.close()
    with duckdb.connect(str(tmp_path / "a.duckdb")) as other:
        other.execute("INSERT INTO t VALUES (9, 'z'); DELETE FROM t WHERE id = 1").fetchall()
    with ivm.connect(tmp_path / "a.duckdb") as again:
        insert(again, 3)
        caught_up(again)
        assert rows_of(tmp_path / "f") == rows_in(again, "v")
        assert_verified(again)


@pytest.mark.full
def test_a_snapshot_of_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_sinks, "SNAPSHOT_ROWS", 2048)
    monkeypatch.setattr(job, "BATCH", 2000)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t AS SELECT range AS id FROM range(10_000)")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        db.create_sink("f", "v", ivm.sinks.Files(path=str(tmp_path / "f"), format="debezium"))
        db.execute("DELETE FROM t WHERE id < 9000")
        assert db.sinks()[0].lag_epochs == 2
        caught_up(db)
        assert rows_of(tmp_path / "f") == rows_in(db, "v")
        assert len(lines_of(tmp_path / "f")) == 19_000


def test_a_broken_view_gives_the_difference_when_it_is_mended(tmp_path: Path) -> None:
    file, copy, path = tmp_path / "a.duckdb", tmp_path / "b.duckdb", tmp_path / "f"
    with ivm.connect(file) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, s::INTEGER AS n FROM t")
        db.ingest("t", [], position=0)
        db.create_sink("f", "v", ivm.sinks.Files(path=str(path)))
        for i in range(3):
            db.insert("t", {"id": [i], "s": [str(i)]})
        db._engine.broken.mark(["v"], "for a test")  # while rows are in the log alone
        db.insert("t", {"id": [7], "s": ["7"]})
        image(file, copy)
    for opened in (file, copy):
        path.unlink(missing_ok=True)
        with ivm.connect(opened) as db:
            assert db.sinks()[0].lag_epochs >= 3
            db.execute("REFRESH MATERIALIZED VIEW v")
            caught_up(db)
            assert rows_of(path) == rows_in(db, "v")
            assert len(rows_in(db, "v")) == 4
