"""The change log: what was synced is replayed after any crash, what failed never is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ivm.storage.errors import CorruptionError, InternalError, UnavailableError
from ivm.storage.log import change_log as log_module
from ivm.storage.log import segment, segment_writer
from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.log.reading import read_records
from ivm.storage.log.record import TableCodes, decode, encode
from ivm.storage.log.segment import (
    FORMAT,
    HEADER_AT,
    MARK_AT,
    SegmentFile,
    header_bytes,
    mark_bytes,
    segment_paths,
)
from ivm.storage.values import dictionary
from ivm.storage.values.column import DictionaryColumn, FixedColumn, null_column
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, empty, from_arrow, ones
from ivm.storage.warehouse.duckdb.duck import describe, run, table
from tests.support.log_writer import SCHEMA, record
from tests.support.type_values import NAMES, select_values

TABLES = {"t": SCHEMA}


def open_log(folder: Path, base_epoch: int = 0, **options: Any) -> ChangeLog:
    return ChangeLog.open(folder, database_id="x", base_epoch=base_epoch, **options)


def written(folder: Path, epochs: int, *, synced: int | None = None) -> ChangeLog:
    """A log with that many records, still open."""
    log = open_log(folder)
    log.rotate(TABLES)
    for epoch in range(1, epochs + 1):
        log.append(record(epoch))
        if epoch == (epochs if synced is None else synced):
            log.sync(epoch)
    return log


def read_without_room(log: ChangeLog) -> bytes:
    """The last segment of an open log, without what is reserved for the next records."""
    whole = segment_paths(log.folder)[-1].read_bytes()
    assert not whole[log.nbytes :].strip(b"\0")
    return whole[: log.nbytes]


def epochs(folder: Path, after: int = 0) -> list[int]:
    """The epochs that a new process would replay, each record checked."""
    log = open_log(folder, after)
    found = list(read_records(log.folder, after))
    for one in found:
        assert same(one, record(one.epoch))
    return [one.epoch for one in found]


def same(a: Record, b: Record) -> bool:
    if (a.epoch, len(a.changes)) != (b.epoch, len(b.changes)):
        return False
    pairs = zip(a.changes, b.changes, strict=True)
    return all(same_change(one, other) for one, other in pairs)


def same_change(a: TableChange, b: TableChange) -> bool:
    types = [t for _, t in SCHEMA]
    if (a.table, a.removed_columns) != (b.table, b.removed_columns):
        return False
    removed_types = [types[i] for i in a.removed_columns]
    return same_rows(a.added, b.added, types) and same_rows(a.removed, b.removed, removed_types)


def same_rows(a: ZSet, b: ZSet, types: Any) -> bool:
    if len(a) != len(b) or not np.array_equal(a.weights, b.weights):
        return False
    every = np.arange(len(a))
    return bool(same_row(a.columns, every, b.columns, every, types).all())


def the_segment(folder: Path) -> Path:
    [path] = segment_paths(folder)
    return path


# -- what goes in comes out ------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("name", NAMES)
def test_every_type_comes_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    with duckdb.connect() as duck:
        run(duck, "SET arrow_lossless_conversion = true")
        query = select_values(name, numbered=True)
        schema: Schema = describe(duck, query)
        rows = from_arrow(table(duck, query), schema)
    types = [t for _, t in schema]
    count = len(rows)
    backwards = rows.take(np.arange(count)[::-1].copy())
    changes = (
        TableChange("t", rows.project((1,)), (1,), backwards),
        TableChange("t", rows.slice(1, count), (0, 1), rows.slice(0, 0)),
        TableChange("t", rows.slice(0, 0), (0, 1), rows.slice(count - 1, count)),
        TableChange("t", rows.slice(0, 1), (0, 1), rows.slice(1, 2)),
    )
    log = open_log(tmp_path)
    log.rotate({"other": SCHEMA, "t": schema})
    log.append(Record(1, changes))
    log.close()
    [back] = read_records(open_log(tmp_path).folder, 0)
    for found, want in zip(back.changes, changes, strict=True):
        assert (found.table, found.removed_columns) == (want.table, want.removed_columns)
        assert same_rows(found.added, want.added, types)
        removed = [types[i] for i in want.removed_columns]
        assert same_rows(found.removed, want.removed, removed)


@pytest.mark.parametrize("text", ["open", "", "grüß", None])
def test_a_label_comes_back_as_its_text(text: str | None) -> None:
    schema = (("s", type_of("VARCHAR")), ("n", type_of("INTEGER")))
    codes = dictionary.encode(pa.array([text], pa.large_string()), force=True)
    assert codes is not None
    rows = ZSet((DictionaryColumn(codes), FixedColumn(np.array([7], np.int32))), np.array([2]))
    tables = TableCodes({"t": schema})
    change = TableChange("t", rows, (0, 1), rows)
    payload = b"".join(encode(Record(1, (change,)), tables))
    found = decode(memoryview(payload), tables).changes[0]
    for back in (found.removed, found.added):
        assert back.to_arrow(schema).to_pylist() == [{"s": text, "n": 7}]
        assert back.weights.tolist() == [2]


def test_weights_and_big_records_come_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.rotate(TABLES)
    count = 300_000
    big = record(1).changes[0].added.take(np.zeros(count, np.int64))
    weighted = ZSet(big.columns, np.arange(1, count + 1))
    log.append(Record(1, (TableChange("t", weighted, (0, 1), big),)))
    log.append(Record(2, ()))
    log.close()
    first, second = read_records(open_log(tmp_path).folder, 0)
    assert same_rows(first.changes[0].removed, weighted, [t for _, t in SCHEMA])
    assert len(first.changes[0].added) == count
    assert second == Record(2, ())


def test_replay_begins_behind_the_base_epoch(tmp_path: Path) -> None:
    written(tmp_path, 5).close()
    assert epochs(tmp_path) == [1, 2, 3, 4, 5]
    assert epochs(tmp_path, after=3) == [4, 5]
    assert open_log(tmp_path, 9).last_epoch == 9


def test_room_is_reserved_for_the_next_records_alone(tmp_path: Path) -> None:
    log, path = written(tmp_path, 1), segment_paths(tmp_path)[-1]
    size = path.stat().st_size
    while log.nbytes < size:
        assert path.stat().st_size == size > len(read_without_room(log))
        log.append(record(log.last_epoch + 1))
    assert path.stat().st_size > size
    last = log.last_epoch
    log.rotate(TABLES)
    log.append(record(last + 1))
    assert epochs(tmp_path) == [*range(1, last + 2)]
    log.close()
    assert segment_paths(tmp_path)[-1].stat().st_size == log.nbytes
    assert epochs(tmp_path) == [*range(1, last + 2)]


def test_a_system_that_reserves_no_room_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    log = written(tmp_path, 2)
    assert the_segment(tmp_path).stat().st_size == log.nbytes
    monkeypatch.delattr(os, "posix_fallocate")
    log.rotate(TABLES)
    log.append(record(3))
    log.close()
    assert epochs(tmp_path) == [1, 2, 3]


def test_misuse_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(InternalError, match="rotate"):
        log.append(record(1))
    log.rotate(TABLES)
    log.append(record(3))
    with pytest.raises(InternalError, match="3"):
        log.append(record(3))
    with pytest.raises(InternalError, match="unknown"):
        log.append(Record(4, (TableChange("unknown", *removed_and_added()),)))
    log.close()
    log.close()
    assert [r.epoch for r in read_records(open_log(tmp_path).folder, 0)] == [3]


def removed_and_added() -> tuple[ZSet, tuple[int, ...], ZSet]:
    change = record(1).changes[0]
    return change.removed, change.removed_columns, change.added


# -- torn tails and damage -------------------------------------------------------------------------


@pytest.mark.full
def test_a_tail_torn_at_any_byte_is_cut(tmp_path: Path) -> None:
    log = written(tmp_path, 3, synced=3)
    end = log.nbytes
    log.append(record(50))
    path = the_segment(tmp_path)
    whole, room = read_without_room(log), bytes(segment_writer._RESERVED)
    for size in range(end, len(whole)):
        for behind in (b"", room[: len(whole) - size], room):
            path.write_bytes(whole[:size] + behind)
            assert epochs(tmp_path) == [1, 2, 3]
            assert path.read_bytes().rstrip(b"\0") == whole[:end].rstrip(b"\0")
    path.write_bytes(whole)
    assert epochs(tmp_path) == [1, 2, 3, 50]
    log.close()


def test_a_tail_with_any_wrong_byte_is_cut(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    log.append(record(50))
    path = the_segment(tmp_path)
    whole = read_without_room(log)
    start = int.from_bytes(whole[MARK_AT : MARK_AT + 8], "little")
    for at in range(start, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        assert epochs(tmp_path) == [1, 2]
    log.close()


def test_the_log_goes_on_behind_a_cut_tail(tmp_path: Path) -> None:
    log = written(tmp_path, 3, synced=2)
    path = the_segment(tmp_path)
    torn = read_without_room(log)[:-3]
    log.close()
    path.write_bytes(torn)
    again = open_log(tmp_path)
    assert again.last_epoch == 2
    again.rotate(TABLES)
    again.append(record(3))
    again.append(record(4))
    again.close()
    assert epochs(tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize("where", ["in a record", "cut short", "in the header", "in the mark"])
def test_damage_below_the_synced_mark_stops_the_opening(tmp_path: Path, where: str) -> None:
    written(tmp_path, 4).close()
    path = the_segment(tmp_path)
    whole = path.read_bytes()
    at = {"in the header": HEADER_AT + 30, "in the mark": MARK_AT}.get(where, len(whole) - 9)
    flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    path.write_bytes(whole[:-1] if where == "cut short" else flipped)
    before = path.read_bytes()
    with pytest.raises(CorruptionError, match="Nothing was changed") as caught:
        open_log(tmp_path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    if where in ("in a record", "cut short"):
        assert "behind epoch 3" in str(caught.value)


def test_every_damaged_byte_of_a_record_ends_the_log_before_it(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    path = the_segment(tmp_path)
    whole, start = path.read_bytes(), len(header_bytes(SegmentFile(path).header))
    ends = [end for end, *_ in SegmentFile(path)._frames()]
    for at in range(start, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        assert SegmentFile(path).scan().end == max([start, *[end for end in ends if end <= at]])


def test_a_segment_of_a_later_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 2).close()
    path = the_segment(tmp_path)
    old = SegmentFile(path).header
    path.write_bytes(header_bytes(replace(old, format=FORMAT + 1)) + b"something else")
    before = path.read_bytes()
    with pytest.raises(CorruptionError, match=r"has format 4.*a later one\. Nothing was changed"):
        open_log(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("lost", ["a byte", "a byte of the room", "a record"])
@pytest.mark.parametrize("marked", [True, False])
def test_damage_in_an_older_segment_stops_the_opening(
    tmp_path: Path, lost: str, marked: bool
) -> None:
    log = written(tmp_path, 2)
    log.rotate(TABLES)
    log.append(record(3))
    log.close()
    first = segment_paths(tmp_path)[0]
    whole = first.read_bytes()
    *_, before, end = [end for end, *_ in SegmentFile(first)._frames()]
    kept = {"a byte": whole[: end - 1], "a byte of the room": whole[:end] + b"\1"}
    kept |= {"a record": whole[:before] + bytes(len(whole) - before)}
    mark = whole[MARK_AT : MARK_AT + 16] if marked else mark_bytes(HEADER_AT)
    first.write_bytes(kept[lost][:MARK_AT] + mark + kept[lost][MARK_AT + 16 :])
    missing = lost == "a record" and not marked  # as if it had never been there
    with pytest.raises(CorruptionError, match="between them is" if missing else "later segment"):
        open_log(tmp_path)


def test_what_duckdb_committed_alone_between_two_segments_must_be_in_the_file(
    tmp_path: Path,
) -> None:
    log = written(tmp_path, 2)
    log.rotate(TABLES, after_epoch=3)
    log.append(record(4))
    log.close()
    for base_epoch in (0, 2):
        with pytest.raises(CorruptionError, match=r"behind epoch 3 .* older than its side folder"):
            open_log(tmp_path, base_epoch)
    assert epochs(tmp_path, after=3) == [4]


def test_a_missing_segment_stops_the_opening(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    for epoch in (3, 4):
        log.rotate(TABLES)
        log.append(record(epoch))
    log.close()
    paths = segment_paths(tmp_path)
    kept = paths[1].read_bytes()
    paths[1].unlink()
    with pytest.raises(CorruptionError, match="missing"):
        open_log(tmp_path)
    paths[1].write_bytes(kept)
    paths[0].unlink()
    with pytest.raises(CorruptionError, match="older than its side folder"):
        open_log(tmp_path)
    assert epochs(tmp_path, after=2) == [3, 4]


def test_a_foreign_log_stops_the_opening(tmp_path: Path) -> None:
    written(tmp_path, 1).close()
    with pytest.raises(CorruptionError, match="belongs to the database x"):
        ChangeLog.open(tmp_path, database_id="y", base_epoch=0)


# -- a disk that refuses ---------------------------------------------------------------------------


def full_disk(fd: int, parts: list[Any]) -> None:
    """A write that stops in the middle."""
    whole = b"".join(parts)
    os.write(fd, whole[: len(whole) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_takes_the_record_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 2)
    whole = read_without_room(log)
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "write_all", full_disk)
        with pytest.raises(UnavailableError, match="No space left"):
            log.append(record(3))
        with pytest.raises(UnavailableError, match="No space left"):
            log.rotate(TABLES)
    assert read_without_room(log) == whole
    assert log.last_epoch == 2
    log.append(record(3))
    log.close()
    assert epochs(tmp_path) == [1, 2, 3]


def test_what_cannot_be_taken_back_makes_it_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = written(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "write_all", full_disk)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(UnavailableError, match="No space left"):
            log.append(record(3))
    with pytest.raises(UnavailableError, match="read-only"):
        log.append(record(3))
    log.close()
    assert epochs(tmp_path) == [1, 2]


def broken_sync(fd: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_failed_sync_is_never_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 2)
    log.append(record(3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken_sync)
        with pytest.raises(UnavailableError, match="read-only"):
            log.sync(3)
    with pytest.raises(UnavailableError, match="read-only"):
        log.sync(3)
    with pytest.raises(UnavailableError, match="read-only"):
        log.append(record(4))
    log.sync(2)
    log.close()
    assert epochs(tmp_path) == [1, 2]


def test_between_syncs_a_failure_keeps_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, interval=3600.0)
    log.rotate(TABLES)
    log.append(record(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken_sync)
        with pytest.raises(UnavailableError, match="read-only"):
            log.sync(1)
    log.close()
    assert epochs(tmp_path) == [1]


def test_what_is_taken_back_is_taken_back_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path, 2)
    calls: list[str] = []

    def told(name: str) -> Callable[..., None]:
        real = getattr(os, name)

        def call(*args: Any) -> None:
            calls.append(name)
            real(*args)

        return call

    with monkeypatch.context() as patch:
        for name in ("ftruncate", "fdatasync"):
            patch.setattr(os, name, told(name))
        patch.setattr(segment_writer, "write_all", full_disk)
        with pytest.raises(UnavailableError, match="No space left"):
            log.append(record(3))
    assert calls == ["ftruncate", "fdatasync"]
    log.close()


def test_a_segment_that_may_or_may_not_be_there_ends_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: records went on in the old segment, and a crash left the new one behind it."""
    log = written(tmp_path, 2)

    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "sync_folder", refuse)
        with pytest.raises(UnavailableError):
            log.rotate(TABLES)
    with pytest.raises(UnavailableError, match="read-only"):
        log.append(record(3))
    log.close()
    assert epochs(tmp_path) == [1, 2]


# -- a record that is begun ------------------------------------------------------------------------


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are begun however short they are."""
    monkeypatch.setattr(segment, "_JOIN_BELOW", 0)


def begun(folder: Path) -> tuple[ChangeLog, Record]:
    """A log of two records, and the one that it has begun."""
    log, third = written(folder, 2), record(3)
    log.begin(third, durable=True)
    assert len(the_segment(folder).read_bytes().rstrip(b"\0")) > log.nbytes
    return log, third


@pytest.mark.usefixtures("any_size")
def test_a_record_begun_before_is_written_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    log, third = begun(tmp_path / "a")
    log.append(third)
    other = written(tmp_path / "b", 2)
    other.append(third)
    for one in (log, other):
        one.append(record(4))
        one.close()
    whole = [the_segment(tmp_path / name).read_bytes() for name in "ab"]
    assert whole[0] == whole[1]
    assert epochs(tmp_path / "a") == [1, 2, 3, 4]


@pytest.mark.usefixtures("any_size")
def test_a_record_that_was_only_begun_is_not_there(tmp_path: Path) -> None:
    """Neither after a crash, nor when others follow it."""
    log, _ = begun(tmp_path)
    whole = the_segment(tmp_path).read_bytes()
    (tmp_path / "crash").mkdir()
    (tmp_path / "crash" / the_segment(tmp_path).name).write_bytes(whole)
    assert epochs(tmp_path / "crash") == [1, 2]
    short = record(3)
    log.append(short)
    log.append(record(4))
    log.close()
    assert epochs(tmp_path) == [1, 2, 3, 4]


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("next", ["close", "rotate", "retract", "begin", "sync"])
def test_a_record_that_is_not_ended_is_cut_off(tmp_path: Path, next: str) -> None:
    log, _ = begun(tmp_path)
    if next == "rotate":
        log.rotate(TABLES)
    elif next == "retract":
        log.retract(2)
    elif next == "sync":
        log.sync(2)
    elif next == "begin":
        fourth = record(4)
        log.begin(fourth, durable=False)
        log.append(fourth)
    log.close()
    want = {"retract": [1], "begin": [1, 2, 4]}.get(next, [1, 2])
    assert epochs(tmp_path) == want


@pytest.mark.usefixtures("any_size")
def test_a_full_disk_takes_back_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, third = written(tmp_path, 2), record(3)
    whole = read_without_room(log)

    def refuse(*given: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(segment_writer, "write_all", full_disk)
        with pytest.raises(UnavailableError, match="No space left"):
            log.begin(third, durable=True)
    assert read_without_room(log) == whole
    log.begin(third, durable=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        with pytest.raises(UnavailableError, match="No space left"):
            log.append(third)
    assert read_without_room(log) == whole
    log.append(third)
    log.close()
    assert epochs(tmp_path) == [1, 2, 3]


@pytest.mark.usefixtures("any_size")
def test_a_sync_that_fails_while_a_record_is_begun_ends_the_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, third = written(tmp_path, 2), record(3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken_sync)
        with pytest.raises(UnavailableError, match="read-only"):
            log.begin(third, durable=True)
    with pytest.raises(UnavailableError, match="read-only"):
        log.append(third)
    log.close()
    assert epochs(tmp_path) == [1, 2]


# -- syncing ---------------------------------------------------------------------------------------


def test_one_sync_serves_many_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdatasync

    def slow(fd: int) -> None:
        time.sleep(0.005)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    log = open_log(tmp_path)
    log.rotate(TABLES)
    turn = threading.Lock()
    late: list[int] = []

    def write() -> None:
        for _ in range(10):
            with turn:
                epoch = log.last_epoch + 1
                log.append(record(epoch))
            log.sync(epoch)
            if log.synced_epoch < epoch:
                late.append(epoch)

    writers = [threading.Thread(target=write) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not late
    assert log.last_epoch == log.synced_epoch == 80
    assert log.syncs <= 40  # 10 rounds of 8 writers; alone they would need 80
    log.close()
    assert epochs(tmp_path) == list(range(1, 81))


def test_interval_syncs_in_the_background(tmp_path: Path) -> None:
    log = open_log(tmp_path, interval=0.01)
    log.rotate(TABLES)
    log.append(record(1))
    end = time.monotonic() + 10
    while log.synced_epoch < 1 and time.monotonic() < end:
        time.sleep(0.005)
    assert log.synced_epoch == 1
    log.close()


# -- segments --------------------------------------------------------------------------------------


def test_segments_are_removed_once_they_are_passed(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    log.rotate(TABLES)
    log.append(record(3))
    log.append(record(4))
    log.rotate({**TABLES, "u": SCHEMA})
    log.append(record(5))
    log.truncate(1)
    assert len(segment_paths(tmp_path)) == 3
    log.truncate(3)
    assert len(segment_paths(tmp_path)) == 2
    log.sync(5)
    assert epochs(tmp_path, after=3) == [4, 5]
    log.truncate(5)
    assert len(segment_paths(tmp_path)) == 1
    log.close()
    assert epochs(tmp_path, after=5) == []


def test_a_full_segment_is_followed_by_a_new_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.segment_bytes = 10_000
    log.rotate(TABLES)
    for epoch in range(1, 61):
        log.append(record(epoch))
    log.sync(60)
    assert len(segment_paths(tmp_path)) > 2
    assert epochs(tmp_path) == list(range(1, 61))
    log.truncate(60)
    assert len(segment_paths(tmp_path)) == 1
    log.append(record(61))
    log.close()
    assert epochs(tmp_path, after=60) == [61]


def test_segments_may_go_while_others_write(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.segment_bytes = 30_000
    log.rotate(TABLES)
    done = threading.Event()

    def trim() -> None:
        while not done.is_set():
            log.truncate(log.synced_epoch)

    trimmer = threading.Thread(target=trim)
    trimmer.start()
    for epoch in range(1, 301):
        log.append(record(epoch))
        log.sync(epoch - epoch % 3)
    done.set()
    trimmer.join()
    log.close()
    first = segment_paths(tmp_path)[0]
    base = int(first.stem.removeprefix("log-")) - 1
    assert base > 0
    assert epochs(tmp_path, after=base) == list(range(base + 1, 301))


def test_epochs_that_duckdb_committed_alone_leave_a_gap(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    log.rotate({"t": SCHEMA, "u": (("v", type_of("VARCHAR")),)}, after_epoch=3)
    assert log.last_epoch == 3
    log.append(record(4))
    log.close()
    assert epochs(tmp_path, after=3) == [4]


# -- a killed process ------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("lines", [1, 40, 173])
def test_a_killed_writer_loses_nothing_it_had_synced(tmp_path: Path, lines: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "tests.support.log_writer", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        told += [int(line) for line in child.stdout if line.endswith(b"\n")]
    found = epochs(tmp_path)
    assert found == list(range(1, len(found) + 1))
    assert told[-1] <= len(found) <= told[-1] + 1


@pytest.mark.parametrize(
    "columns",
    [
        [("a", "BIGINT"), ("b", "VARCHAR")],
        [("a", "INTEGER"), ("b", "INTEGER")],
        [("a", "INTEGER"), ("b", "BLOB")],
        [("a", "INTEGER"), ("b", "INTEGER[]")],
        [("a", "INTEGER")],
        [("a", "INTEGER"), ("b", "VARCHAR"), ("c", "INTEGER")],
    ],
)
def test_a_change_for_other_columns_is_not_written(
    tmp_path: Path, columns: list[tuple[str, str]]
) -> None:
    # It was written as it was, and the log could not be read again.
    schema = (("a", type_of("INTEGER")), ("b", type_of("VARCHAR")))
    types = [type_of(type) for _, type in columns]
    added = ZSet(tuple([null_column(type, 1) for type in types]), ones(1))
    log = open_log(tmp_path)
    log.rotate({"t": schema})
    size = log.nbytes
    for change in (
        TableChange("t", empty([]), (), added),
        TableChange("t", added, tuple(range(len(columns))), empty(types)),
    ):
        if len(change.removed) and len(columns) < 2:
            continue  # a removal may hold some of the columns
        with pytest.raises(InternalError, match="other columns"):
            log.append(Record(1, (change,)))
    assert log.nbytes == size
    log.close()
    assert list(read_records(open_log(tmp_path).folder, 0)) == []
