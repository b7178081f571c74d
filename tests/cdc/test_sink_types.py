"""Values of every type as JSON: what `ingest` reads back is the value, and every line is JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ivm
from tests.cdc.sink_files import caught_up
from tests.support.type_values import VALUES

# JSON knows no other spelling of a document, no null that is a document, and one NaN.
SAID_OTHERWISE = {"'{\"a\": 1}'", "'null'", "[-('nan'::DOUBLE)]"}


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("type", VALUES)
def test_values_come_back(tmp_path: Path, type: str) -> None:
    values = [value for value in VALUES[type] if value not in SAID_OTHERWISE]
    with ivm.connect() as db:
        for name in ("t", "copy"):
            db.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, x {type})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, x FROM t")
        for i, value in enumerate(values):
            db.execute(f"INSERT INTO t SELECT {i}, CAST({value} AS {type})")
        for format in ("jsonl", "debezium"):
            db.create_sink(format, "v", ivm.sinks.Files(path=str(tmp_path / format), format=format))
        db.execute("UPDATE t SET x = NULL WHERE id = 0")
        caught_up(db)
        for format in ("jsonl", "debezium"):
            lines = (tmp_path / format).read_text().splitlines()
            for line in lines:
                json.loads(line, parse_constant=refuse)
        assert db.ingest("copy", lines, decimals="text").refused == {}
        both = [
            db.execute(f"SELECT id, CAST(x AS VARCHAR) FROM {name} ORDER BY id").fetchall()
            for name in ("t", "copy")
        ]
        assert both[0] == both[1]
