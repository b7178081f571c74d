"""Few rows and many go other ways to the same result, wherever the crossing points stand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import ivm
from ivm.storage.values import thresholds
from tests.support.thresholds import NAMES, WAYS, crossing, one_way
from tests.tiers import TIER

ROOT = Path(ivm.__file__).parent
TABLES = """
CREATE TABLE o (id INTEGER PRIMARY KEY, c INTEGER, s VARCHAR, x DOUBLE);
CREATE TABLE c (id INTEGER PRIMARY KEY, low INTEGER, high INTEGER, region VARCHAR);
CREATE TABLE bag (a INTEGER, s VARCHAR);
"""
VIEWS = (
    "SELECT region, count(*) AS n, sum(x) AS total, min(s) AS least FROM o JOIN c ON o.c = c.id"
    " GROUP BY region",
    "SELECT o.id, region FROM o LEFT JOIN c ON o.c = c.id",
    "SELECT a.id, b.id AS other FROM c AS a JOIN o AS b ON b.id BETWEEN a.low AND a.high",
    "SELECT c, median(id) AS middle, count(DISTINCT s) AS kinds, arg_max(s, id) AS latest FROM o"
    " GROUP BY c",
    "SELECT id, c FROM o QUALIFY row_number() OVER (PARTITION BY c ORDER BY s DESC, id) <= 3",
    "SELECT id, sum(c) OVER (PARTITION BY s ORDER BY id ROWS 3 PRECEDING) AS t,"
    " lag(id) OVER (ORDER BY c, id) AS before FROM o",
    "SELECT id, s FROM o ORDER BY s DESC, id LIMIT 7",
    "SELECT DISTINCT s FROM bag EXCEPT SELECT s FROM o",
    "SELECT a, s, count(*) AS n FROM bag GROUP BY ALL",
)


def change(db: ivm.Database, draw: random.Random, start: int) -> int:
    """One transaction with a few rows, or with some dozens."""
    count = draw.choice([1, 2, 5, 20, 70])
    with db.transaction():
        db.insert("o", [order(draw, i) for i in range(start, start + count)])
        db.upsert("o", [order(draw, draw.randrange(start + count)) for _ in range(count // 2)])
        db.upsert("c", [customer(draw) for _ in range(count // 3)])
        db.execute(f"DELETE FROM o WHERE id % {draw.randrange(3, 9)} = 1 AND id > {start - 40}")
        db.insert("bag", [{"a": i % 3, "s": f"s{draw.randrange(9)}"} for i in range(count)])
        db.execute(f"DELETE FROM bag WHERE s = 's{draw.randrange(9)}'")
    return start + count


def order(draw: random.Random, id: int) -> dict[str, object]:
    text = draw.choice([None, "", *(f"s{i}" for i in range(6)), f"seldom {id}"])
    return {"id": id, "c": draw.randrange(12), "s": text, "x": draw.choice([None, 0.25, -2.5, 1e6])}


def customer(draw: random.Random) -> dict[str, object]:
    low = draw.randrange(60)
    region = draw.choice(["north", "south", None])
    return {
        "id": draw.randrange(15),
        "low": low,
        "high": low + draw.randrange(20),
        "region": region,
    }


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("way", WAYS)
def test_views_are_right_each_way(way: str) -> None:
    draw = random.Random(5)
    with one_way(way), ivm.connect() as db:
        db.execute(TABLES)
        for number, query in enumerate(VIEWS):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        start = 0
        for _ in range(4 if TIER == "quick" else 12):
            start = change(db, draw, start)
            for number, query in enumerate(VIEWS):
                found = db.execute(f"FROM v{number}").fetchall()
                assert sorted(map(repr, found)) == sorted(map(repr, db.execute(query).fetchall()))


def test_the_crossing_points_come_back() -> None:
    before = {name: getattr(thresholds, name) for name in NAMES}
    with one_way("numpy"), crossing(PROBES=3):
        assert thresholds.PROBES == 3
        assert thresholds.TUPLE_ROWS == 0
    assert {name: getattr(thresholds, name) for name in NAMES} == before


def test_each_crossing_point_is_read_somewhere() -> None:
    folders = ("capture", "ingest", "storage", "delta_ops")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    assert [name for name in NAMES if not any(f"thresholds.{name}" in text for text in texts)] == []
