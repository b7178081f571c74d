"""The change log: an append-only chain of segment files; a synced record is a committed epoch.

Contract: a record for whose epoch `sync` has returned is replayed after any crash, in order, once.
A record that `append` or `sync` has reported as failed, or that was only begun, is never replayed.
Damage below the synced mark stops the opening and changes nothing; damage above it is a torn tail
and is cut. An exception of any kind, at any point, leaves the log as before or read-only, and no
thread waiting.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ivm.storage.durable_files import sync_folder
from ivm.storage.errors import InternalError, UnavailableError
from ivm.storage.log.change import Record
from ivm.storage.log.record import TableCodes, encode
from ivm.storage.log.recovery import scan_chain, settle
from ivm.storage.log.segment import (
    SegmentHeader,
    first_epoch,
    frame,
    segment_path,
    segment_paths,
)
from ivm.storage.log.segment_writer import SegmentWriter, size_of
from ivm.storage.place import Place
from ivm.storage.values.types import Schema


class _Begun(NamedTuple):
    """A record that lacks its checksum."""

    record: Record
    end: int  # offset behind it
    chain: int
    checksum: bytes

    def is_of(self, record: Record) -> bool:
        mine, others = self.record.changes, record.changes
        same = len(mine) == len(others) and all(a is b for a, b in zip(mine, others, strict=True))
        return same and self.record.epoch == record.epoch


class ChangeLog:
    """The log of one database, safe for any number of threads; made by `ChangeLog.open`.

    Attributes:
        last_epoch: of the last record written.
        synced_epoch: of the last record known to be durable.
        segment_bytes: size from which a segment is followed by a new one.
        syncs: how often records were made durable.
    """

    def __init__(
        self, folder: Path, database_id: str, last_epoch: int, chain: int, interval: float | None
    ) -> None:
        self.folder = folder
        self.database_id = database_id
        self.last_epoch = last_epoch
        self.synced_epoch = last_epoch
        self.segment_bytes = 64 << 20
        self._chain = chain
        self._interval = interval
        self._tables: Mapping[str, Schema] = {}
        self._codes = TableCodes({})
        self._segment = SegmentWriter()
        self._place: Place | None = None  # of the segment
        self._before = (0, chain, last_epoch)  # end, chain and epoch before the last record
        self._synced_end = 0
        self._begun: _Begun | None = None  # behind the end
        self._failed: str | None = None
        self._syncing = False
        self._writer = threading.RLock()  # held while the end of the log moves
        self._state = threading.Condition()
        self._closing = threading.Event()
        self._ticker: threading.Thread | None = None
        self.syncs = 0
        self._holds: dict[str, int] = {}

    @staticmethod
    def open(
        folder: Path, *, database_id: str, base_epoch: int, interval: float | None = None
    ) -> ChangeLog:
        """Checks the log of a database and cuts its torn tail, if it has one.

        Args:
            folder: the side folder; it exists.
            database_id: the log must belong to it.
            base_epoch: the epoch the base tables have durably reached.
            interval: seconds between background syncs (`durability="interval"`), or None.

        Returns:
            A log that can be read; `rotate` must be called before the first `append`.

        Raises:
            CorruptionError: damage below the synced mark, a missing segment, a foreign log.
                Nothing was changed.
        """
        scans = scan_chain(folder, database_id, base_epoch)
        if not scans:
            return ChangeLog(folder, database_id, base_epoch, 0, interval)
        path, last = scans[-1]
        settle(path, last)
        epoch = max(base_epoch, last.last_epoch)
        return ChangeLog(folder, database_id, epoch, last.chain, interval)

    def hold(self, owner: str, after_epoch: int) -> None:
        """Keeps the records with higher epochs until `release` is called for the owner."""
        self._holds[owner] = after_epoch

    @property
    def held(self) -> tuple[str, ...]:
        """For whom records are kept."""
        return tuple(self._holds)

    def release(self, owner: str) -> None:
        """Ends a hold, if there is one."""
        self._holds.pop(owner, None)

    def demand_in_place(self) -> None:
        """Checks that the folder of that name is the log's: another database's is left alone.

        Raises:
            UnavailableError: the files were moved, deleted or replaced.
        """
        if self._place is not None:
            self._place.demand()

    def rotate(self, tables: Mapping[str, Schema], after_epoch: int | None = None) -> None:
        """Syncs, then starts a new segment whose records are of these tables.

        Args:
            tables: all base tables by name; needed again after every change of schema.
            after_epoch: the last epoch, if it was committed by DuckDB alone (DDL).

        Raises:
            UnavailableError: the disk refuses; the log is as before, or read-only until reopened.
        """
        with self._writer:
            self._demand_open()
            self.demand_in_place()
            self._cut_begun()
            if self._segment.is_open:
                self.sync(self.last_epoch)
            self._check()
            epoch = max(self.last_epoch, after_epoch or 0)
            header = SegmentHeader(self.database_id, epoch, self._chain, dict(tables))
            try:
                self._adopt(self._create(header), header)
            except OSError as error:
                raise UnavailableError(_write_failed(self.folder, error)) from error
        self._start_ticker()

    def append(self, record: Record) -> None:
        """Writes a record after the last one; `sync` makes it durable.

        Args:
            record: its epoch is above `last_epoch`; its tables are those of the last `rotate`.

        Raises:
            UnavailableError: it could not be written (disk full, log read-only, files moved); the
                log is as before and the epoch is free again.
        """
        with self._writer:
            self.demand_in_place()
            if not self._has_ended(record):
                framed, chain = self._framed(record)
                self._write(record.epoch, framed, chain)

    def begin(self, record: Record, *, durable: bool) -> None:
        """Writes a large record but for its checksum, by which it counts; `append` ends it.

        What else is written first removes it.

        Args:
            record: as of `append`.
            durable: whether what is written is made durable, so that little is left to `sync`.

        Raises:
            UnavailableError: as `append`.
        """
        with self._writer:
            self._cut_begun()
            framed, chain = self._framed(record)
            if len(framed) == 1:
                return
            with self._state:
                end = self._written([*framed[:-1], bytes(len(framed[-1]))])
                self._begun = _Begun(record, end, chain, framed[-1])
            if durable:
                self._sync_data(self._segment)

    def sync(self, epoch: int) -> None:
        """Returns once every record up to `epoch` is durable (one fdatasync serves all waiters).

        Raises:
            UnavailableError: fdatasync failed; without `interval` the unsynced records are taken
                back. The log is read-only until reopened.
        """
        state, leading = self._state, False
        try:
            with state:
                epoch = min(epoch, self.last_epoch)
                while self.synced_epoch < epoch:
                    self._check()
                    if not self._syncing:
                        break
                    state.wait()
                else:
                    return
                leading = self._syncing = True
                segment, target, end = self._segment, self.last_epoch, self._segment.end
            self._lead_sync(segment, target, end)
        finally:
            if leading:
                with state:
                    self._syncing = False
                    state.notify_all()

    def retract(self, epoch: int) -> None:
        """Removes the last record, synced or not, because its transaction has not happened.

        Raises:
            UnavailableError: it may be in the file still; the log is read-only until reopened.
        """
        with self._writer, self._state:
            while self._syncing:
                self._state.wait()
            self._cut_begun()
            if self.last_epoch != epoch or self._before[2] == epoch:
                raise InternalError(f"Epoch {epoch} is not the last record of the log.")
            if self._failed is None or self._interval is not None:  # else it has been cut off
                end, chain, last = self._before
                self._take_back(end, marked=True)
                self._segment.end, self._chain, self.last_epoch = end, chain, last
                self.synced_epoch = min(self.synced_epoch, last)
                self._synced_end = min(self._synced_end, end)
            self._check()

    def truncate(self, through_epoch: int) -> None:
        """Removes the segments whose records all have an epoch up to `through_epoch`.

        The base tables must have reached that epoch durably. A big current segment is replaced
        by a new one first if it is wholly passed too. What is held stays.

        Raises:
            UnavailableError: the log's files were moved or deleted, or the disk refuses.
        """
        through_epoch = min([through_epoch, *self._holds.values()])
        self.demand_in_place()
        with self._writer:
            passed = self._segment.is_open and self.last_epoch <= through_epoch
            if passed and self._segment.end >= self.segment_bytes // 16:
                self.rotate(self._tables)
        paths = segment_paths(self.folder)
        removed = False
        for path, following in itertools.pairwise(paths):
            if first_epoch(following) > through_epoch + 1:
                break
            path.unlink()
            removed = True
        if removed:
            sync_folder(self.folder)

    def close(self) -> None:
        """Syncs and closes; closing twice does nothing."""
        self._closing.set()
        if self._ticker is not None:
            self._ticker.join()
        with self._writer:
            if not self._segment.is_open:
                return
            try:
                if self._failed is None:
                    self._cut_begun()
                    self.sync(self.last_epoch)
                    self._segment.trim()
            finally:
                with self._state:
                    while self._syncing:  # or its descriptor might be another file's by then
                        self._state.wait()
                    self._segment.close()

    @property
    def nbytes(self) -> int:
        """Bytes of the current segment."""
        return self._segment.end

    # -- segments --------------------------------------------------------------------------

    def _create(self, header: SegmentHeader) -> SegmentWriter:
        """A new durable segment without records.

        Once it may be in the folder, it is the log's last segment or the log is read-only.
        """
        path = segment_path(self.folder, header.after_epoch)
        draft = path.with_suffix(".new")
        made = SegmentWriter.create(draft, header)
        try:
            self._failed = "a new segment could not be put in its place"
            os.replace(draft, path)
            sync_folder(self.folder)
        except BaseException:
            made.close()
            raise
        return made

    def _adopt(self, made: SegmentWriter, header: SegmentHeader) -> None:
        """Continues in the new, empty and durable segment."""
        place = made.at(segment_path(self.folder, header.after_epoch))
        with self._state:
            former, self._segment, self._place = self._segment, made, place
            self._synced_end = made.end
            self._tables, self._codes = header.tables, TableCodes(header.tables)
            self.last_epoch = self.synced_epoch = header.after_epoch
            self._before = (made.end, header.chain, header.after_epoch)
            self._failed = None
            former.close()

    def _start_ticker(self) -> None:
        if self._interval is None or self._ticker is not None:
            return
        self._ticker = threading.Thread(target=self._tick, name="ivm-log-sync", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        """Syncs at intervals; a failure leaves the log read-only, and the next append says so."""
        while not self._closing.wait(self._interval):
            with contextlib.suppress(Exception):  # another one is met by the next round
                self.sync(self.last_epoch)

    # -- writing ---------------------------------------------------------------------------

    def _framed(self, record: Record) -> tuple[list[Any], int]:
        """The buffers of a record that comes next, and its checksum."""
        self._demand_open()
        if record.epoch <= self.last_epoch:
            raise InternalError(f"Epoch {record.epoch} was appended after {self.last_epoch}.")
        if not self._segment.is_open:
            raise InternalError("The log needs `rotate` before its first record.")
        parts = encode(record, self._codes)
        if self._segment.end >= self.segment_bytes:
            self.rotate(self._tables)
        return frame(record.epoch, parts, size_of(parts), self._chain)

    def _write(self, epoch: int, framed: list[Any], chain: int) -> None:
        with self._state:
            self._accept(epoch, self._written(framed), chain)

    def _accept(self, epoch: int, end: int, chain: int) -> None:
        """Counts the record that ends there."""
        self._before = self._segment.end, self._chain, self.last_epoch
        self._segment.end, self._chain, self.last_epoch = end, chain, epoch

    def _written(self, framed: list[Any]) -> int:
        """Writes buffers behind the end, or nothing; returns the offset behind them."""
        self._check()
        with self._taking_back():
            return self._segment.write(framed)

    @contextlib.contextmanager
    def _taking_back(self) -> Iterator[None]:
        """Cuts off what is behind the end if the block fails."""
        try:
            yield
        except BaseException as error:
            self._take_back(self._segment.end)
            if isinstance(error, OSError):
                raise UnavailableError(_write_failed(self.folder, error)) from error
            raise

    def _has_ended(self, record: Record) -> bool:
        """Ends the record if it is the one that was begun; else removes that one."""
        with self._state:
            begun = self._begun
            if begun is None or not begun.is_of(record):
                self._cut_begun()
                return False
            self._demand_open()
            self._check()
            self._begun = None
            with self._taking_back():
                self._segment.write_before(begun.end, begun.checksum)
            self._accept(record.epoch, begun.end, begun.chain)
            return True

    def _cut_begun(self) -> None:
        with self._state:
            if self._begun is not None:
                self._begun = None
                self._take_back(self._segment.end)

    def _take_back(self, end: int, *, marked: bool = False) -> None:
        """Cuts off, durably, a record that must not be replayed; else refuses all further writes.

        Args:
            end: offset of the end of the records that stay.
            marked: the synced mark may be above it, and is lowered first.
        """
        failed = self._failed
        self._failed = failed or "a record that failed could not be removed"
        try:
            if marked:
                self._segment.mark(end)
                self._segment.sync()
            self._segment.cut(end)
        except OSError as error:
            self._failed = failed or f"{self._failed} ({error.strerror})"
        else:
            self._failed = failed

    def _demand_open(self) -> None:
        if self._closing.is_set():
            raise UnavailableError("the database is closed: open it again with ivm.connect()")

    def _check(self) -> None:
        if self._failed is not None:
            raise UnavailableError(
                f"The change log in {self.folder} is read-only: {self._failed}. Close the"
                " database, mend the disk and open it again."
            )

    # -- syncing ---------------------------------------------------------------------------

    def _lead_sync(self, segment: SegmentWriter, target: int, end: int) -> None:
        """Syncs for all waiting threads."""
        self._sync_data(segment)
        try:
            with contextlib.suppress(OSError):  # a lost mark only hides corruption as a torn tail
                segment.mark(end)
        finally:
            with self._state:
                self.syncs += 1
                self.synced_epoch, self._synced_end = target, end

    def _sync_data(self, segment: SegmentWriter) -> None:
        try:
            segment.sync()
        except OSError as error:
            with self._state:
                self._sync_failed(error)
                self._check()

    def _sync_failed(self, error: OSError) -> None:
        self._cut_begun()
        self._failed = f"its fdatasync failed ({error.strerror})"
        if self._interval is None:  # these records were never acknowledged as committed
            self._take_back(self._synced_end)


def _write_failed(folder: Path, error: OSError) -> str:
    return (
        f"The change log in {folder} could not be written ({error.strerror}): the transaction was"
        " not committed. Free some disk space and try again."
    )
