"""Opening a log: finding its segments, checking them, and cutting a torn tail.

Contract: everything is checked before anything is changed. Every segment but the last was synced to
its end before its successor was created, so damage in it is never a torn tail.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path

from ivm.storage.errors import CorruptionError
from ivm.storage.log.segment import MARK_AT, SegmentFile, SegmentScan, mark_bytes, segment_paths
from ivm.storage.values.types import Schema


def scan_chain(
    folder: Path, database_id: str, base_epoch: int
) -> tuple[tuple[Path, SegmentScan], ...]:
    """Checks all segments of a folder.

    Args:
        folder: the side folder.
        database_id: every segment must carry it.
        base_epoch: the epoch that the base tables have durably reached.

    Returns:
        The segments, oldest first; only the last one may have a torn tail.

    Raises:
        CorruptionError: naming file, offset and epoch; nothing was changed.
    """
    scans = tuple([(path, SegmentFile(path).scan()) for path in segment_paths(folder)])
    for path, scan in scans:
        _check_owner(path, scan, database_id)
    if scans:
        _check_start(*scans[0], base_epoch)
        _check_last(*scans[-1])
    for (path, scan), (following, after) in itertools.pairwise(scans):
        _check_link(path, scan, following, after)
        if after.header.after_epoch > scan.last_epoch:  # DuckDB committed DDL alone
            _check_start(following, after, base_epoch)
    return scans


def check_tables(folder: Path, base_epoch: int, tables: Mapping[str, Schema]) -> None:
    """Checks that the records after an epoch are of these tables: another program may alter them.

    Raises:
        CorruptionError: naming the table that is gone or has other columns.
    """
    for path in segment_paths(folder):
        segment = SegmentFile(path)
        for record in segment.records(base_epoch):
            for name in {change.table for change in record.changes}:
                if segment.header.tables[name] != tables.get(name):
                    raise CorruptionError(
                        f"The log holds commits to the table {name}, which is gone or has other"
                        f" columns than they were made for. Nothing was changed."
                    )


def settle(path: Path, scan: SegmentScan) -> None:
    """Cuts the torn tail of the last segment and makes the rest of it durable."""
    fd = os.open(path, os.O_RDWR)
    try:
        if scan.end < scan.size:
            os.ftruncate(fd, scan.end)
        os.fsync(fd)
        os.pwrite(fd, mark_bytes(scan.end), MARK_AT)
    finally:
        os.close(fd)


def _check_owner(path: Path, scan: SegmentScan, database_id: str) -> None:
    if scan.header.database_id != database_id:
        raise CorruptionError(
            f"The log segment {path} belongs to the database {scan.header.database_id}, not to"
            f" this one ({database_id}): put the side folder back beside its own database file."
        )


def _check_start(path: Path, scan: SegmentScan, base_epoch: int) -> None:
    if scan.header.after_epoch > base_epoch:
        raise CorruptionError(
            f"The log goes on behind epoch {scan.header.after_epoch} ({path}), but the tables in"
            f" the database file stand at epoch {base_epoch}, and what came between was committed"
            " in the file alone: the file is older than its side folder, or its .wal file is not"
            " beside it. Nothing was changed; restore both from one backup."
        )


def _check_last(path: Path, scan: SegmentScan) -> None:
    if scan.end < scan.synced:
        raise _damaged(path, scan, f"the log was synced up to offset {scan.synced}")


def _check_link(path: Path, scan: SegmentScan, following: Path, after: SegmentScan) -> None:
    if scan.end < max(scan.size, scan.synced):
        raise _damaged(path, scan, f"a later segment ({following.name}) exists")
    if after.header.chain != scan.chain or after.header.after_epoch < scan.last_epoch:
        raise CorruptionError(
            f"The log segment {following} does not follow {path.name}, which ends with epoch"
            f" {scan.last_epoch}: a segment between them is missing. Nothing was changed; restore"
            " the database file and its side folder from one backup."
        )


def _damaged(path: Path, scan: SegmentScan, evidence: str) -> CorruptionError:
    return CorruptionError(
        f"The log segment {path} is damaged at offset {scan.end}, in the record behind epoch"
        f" {scan.last_epoch}: its checksum is wrong or it is cut short, though {evidence}. Nothing"
        " was changed; restore the database file and its side folder from one backup."
    )
