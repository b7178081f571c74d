"""Facts go through Spark as they are, and come to what `ivm ingest` makes of them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivm
from ivm.cdc.pipeline.carried_facts import carried, restored, struct
from ivm.cdc.sources.metadata import BYTES, COUNT, SMALL, TEXT, TIME
from tests.support.spark import session

MONDAY = datetime(2026, 11, 30, 8, 30, 0, 250_000, UTC)
LINES = [
    '{"id": 1, "v": "a"}',
    "",
    '{"id": 2, "nr": "none"}',
    '{"id": "x"}',
    '{"id": 1, "v": "b"}',
]


def run(db: ivm.Database, spark: bool) -> None:
    """Applies all that there is."""
    if spark:
        db.start_pipeline()
    else:
        db.start_sources()
    end = time.monotonic() + 120
    while not db.sources()[0].caught_up:
        assert time.monotonic() < end, db.sources()
        time.sleep(0.05)
    assert db.stop_sources(60)


def rows(db: ivm.Database, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sql).fetchall(), key=repr)


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([0, None, -1], TIME),
        ([1 << 62, None], COUNT),
        ([-(1 << 31), None], SMALL),
        (["ü", None, ""], TEXT),
        ([b"\xff\x00", None, b""], BYTES),
    ],
)
def test_facts_are_carried_as_they_are(values: list[Any], type: pa.DataType) -> None:
    array = pa.array(values, type)
    assert restored(carried(array), type).equals(array)
    assert restored(struct([array])[1:].flatten()[0], type).equals(array[1:])


@pytest.mark.full(smoke=1)
@pytest.mark.parametrize("format", ["json appends", "json upserts"])
def test_files_have_the_same_facts(tmp_path: Path, format: str) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in ("a", "b"):
        path = inbox / f"{name}.json"
        path.write_text("".join(f"{line}\n" for line in LINES))
        os.utime(path, (0, MONDAY.timestamp()))
    key = "PRIMARY KEY (file, id)" if format == "json upserts" else "PRIMARY KEY (file, nr)"
    metadata = "file = path, nr = row, changed = modified"
    source = ivm.sources.Files(path=str(inbox / "*.json"), format=format, metadata=metadata)
    found = []
    for number, spark in enumerate((True, False)):
        with ivm.connect(tmp_path / f"{number}.duckdb", spark=session()) as db:
            db.execute(f"""
                CREATE TABLE t (id INTEGER, v VARCHAR, file VARCHAR, nr BIGINT,
                    changed TIMESTAMPTZ, {key})
            """)
            db.create_source("s", source, into="t")
            run(db, spark)
            letters = rows(db, "SELECT stream, position, reason, payload FROM _ivm.dead_letters")
            kept = rows(db, "SELECT stream, position, facts FROM _ivm.letter_facts")
            found.append((rows(db, "FROM t"), letters, kept))
    assert found[0] == found[1]
    content, letters, _ = found[0]
    assert [row[1] for row in letters] == [4, 4]
    nrs = {(2, 3), (1, 5)} if format == "json upserts" else {(1, 1), (2, 3), (1, 5)}
    assert {(row[0], row[3]) for row in content} == nrs
    assert {row[4] for row in content} == {MONDAY}
