"""Reading the records of a log, also while later ones are appended.

Law: the records of some epochs are those of the segments in the folder, oldest first. What stands
behind the last committed one may be cut off at any time, and is not looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from ivm.storage.log.change import Record
from ivm.storage.log.segment import SegmentFile, first_epoch, segment_paths


def read_records(
    folder: Path, after_epoch: int, through_epoch: int | None = None
) -> Iterator[Record]:
    """The records of some epochs, in order.

    Args:
        folder: the side folder, of a log whose torn tail is cut.
        after_epoch: the epoch before the first one; of a log that is appended to, one that
            `ChangeLog.hold` holds.
        through_epoch: the last one, which is committed; None for all, of a log that nobody
            appends to.
    """
    paths = segment_paths(folder)
    for path, following in itertools.zip_longest(paths, paths[1:]):
        if following is not None and first_epoch(following) <= after_epoch + 1:
            continue
        for record in SegmentFile(path).records(after_epoch):
            if through_epoch is not None and record.epoch > through_epoch:
                return
            yield record
            if record.epoch == through_epoch:
                return


def has_records(folder: Path, after_epoch: int) -> bool:
    """Returns whether every record with a higher epoch is there still."""
    paths = segment_paths(folder)
    return bool(paths) and first_epoch(paths[0]) <= after_epoch + 1
