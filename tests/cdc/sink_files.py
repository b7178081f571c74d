"""What the tests of sinks share: waiting for them, and reading what they wrote."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import ivm

WAIT = 60.0


def caught_up(db: ivm.Database) -> None:
    """Wait until every sink has acknowledged all it has to get."""
    db.start_sinks()
    end = time.monotonic() + WAIT
    while lagging := [sink for sink in db.sinks() if sink.lag_epochs]:
        assert time.monotonic() < end, lagging
        time.sleep(0.005)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(path: Path) -> Counter[str]:
    """The sum of the deltas in a file of either format, whose epochs ascend; rows as JSON."""
    found: Counter[str] = Counter()
    last = -1
    for line in lines_of(path):
        debezium = "op" in line and "source" in line
        epoch = line["source"]["epoch"] if debezium else line.pop("_epoch")
        assert epoch >= last, (epoch, last)
        last = epoch
        if debezium:
            for key, sign in (("before", -1), ("after", 1)):
                if line[key] is not None:
                    found[json.dumps(line[key], sort_keys=True)] += sign
        else:
            weight = line.pop("_weight")
            found[json.dumps(line, sort_keys=True)] += weight
    assert all(count >= 0 for count in found.values()), found
    return +found


def rows_in(db: ivm.Database, view: str) -> Counter[str]:
    """The rows of a view of integers and strings, as JSON."""
    result = db.execute(f"FROM {view}")
    names = result.columns
    return Counter(
        json.dumps(dict(zip(names, row, strict=True)), sort_keys=True) for row in result.fetchall()
    )
