"""The keys of messages without a value: they delete the row that has them, and no other."""

from __future__ import annotations

import json

import pytest

import ivm
from ivm.cdc.sources.kafka.tombstones import deletion

TEXTS = ["null", "NaN", "-Infinity", "true", "007", "1e3", "1.50", "", "5", " 5", "0", "-0", "ä"]


@pytest.mark.full
@pytest.mark.parametrize("text", TEXTS)
def test_keys_that_are_texts(text: str) -> None:
    """Also those that are words of JSON."""
    rows = [{"id": each} for each in TEXTS]
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id VARCHAR PRIMARY KEY)")
        lines = [*map(json.dumps, rows), deletion(text.encode(), "id").decode()]
        done = db.ingest("t", lines, format="json upserts")
        assert (done.refused, done.counts["deletes"]) == ({}, 1)
        assert db.execute("SELECT count(*) FROM t WHERE id = $1", [text]).fetchall() == [(0,)]
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(len(TEXTS) - 1,)]


@pytest.mark.parametrize("key", [b"[" * 100_000, b'{"schema": null, "payload": null}', b"\xff"])
def test_keys_that_are_none(key: bytes) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        done = db.ingest("t", [deletion(key, "id").decode()], format="json upserts")
        assert list(done.refused.values()) == ["the key of the deleted row is missing"]
        assert db.execute("FROM t").fetchall() == [(1,)]
