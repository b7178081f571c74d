"""A process that appends to a change log until it is killed, telling each epoch it has synced.

Usage: python -m tests.support.log_writer FOLDER; one line a synced epoch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ivm.storage.log.change import Record, TableChange
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet

SCHEMA: Schema = (("a", type_of("BIGINT")), ("b", type_of("BIGINT")))


def record(epoch: int) -> Record:
    """A record whose size and content follow from its epoch."""
    count = 1 + epoch * 7 % 50
    values = np.arange(count) * epoch
    rows = ZSet((FixedColumn(values), FixedColumn(-values)), np.ones(count, np.int64))
    return Record(epoch, (TableChange("t", rows.slice(0, 0).project((0,)), (0,), rows),))


def main(folder: str) -> None:
    log = ChangeLog.open(Path(folder), database_id="x", base_epoch=0)
    log.rotate({"t": SCHEMA})
    log.segment_bytes = 20_000
    while True:
        epoch = log.last_epoch + 1
        log.append(record(epoch))
        log.sync(epoch)
        print(epoch, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
