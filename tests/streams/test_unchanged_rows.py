"""A late row that stays as it is is no event: it is neither refused nor counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ivm
from ivm.errors import ConstraintError
from tests.support.view_oracle import assert_verified

COLUMNS = "ts TIMESTAMP, page VARCHAR, x DOUBLE, length INTERVAL, WATERMARK FOR ts AS ts"
ROWS = [
    {"id": 1, "ts": "2026-03-01 10:00:00", "page": "a", "x": 0.0, "length": "30 days"},
    {"id": 2, "ts": "2026-03-01 10:10:00", "page": None, "x": 1.5, "length": None},
    {"id": 3, "ts": "2026-03-01 12:00:00", "page": "c", "x": None, "length": None},
]


@pytest.fixture(params=["refuse", "dead letters"])
def db(request: pytest.FixtureRequest) -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        late = f"WITH (late = '{request.param}')"
        opened.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {COLUMNS}) {late}")
        opened.execute(f"CREATE TABLE keyless (id INTEGER, {COLUMNS}) {late}")
        opened.execute("CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) FROM t GROUP BY 1")
        for table in ("t", "keyless"):
            opened.insert(table, {name: [row[name] for row in ROWS] for name in ROWS[0]})
        yield opened


def event(op: str, row: dict[str, Any], **other: Any) -> str:
    return json.dumps({"op": op, "after": None if op == "d" else {**row, **other}, "before": row})


def ingest(db: ivm.Database, *events: str, table: str = "t", **given: Any) -> list[int]:
    """Gives events to a table, and returns the ids of all dead letters."""
    db.ingest(table, list(events), format="debezium", source="s", **given)
    sql = "SELECT payload->'after'->>'id' FROM _ivm.dead_letters ORDER BY ALL"
    return [int(id) for (id,) in db.execute(sql).fetchall()]


def late(db: ivm.Database, table: str = "t") -> int:
    marks = """SELECT late_rows FROM _ivm.watermarks WHERE "table" = ?"""
    return int(db.execute(marks, [table]).fetchall()[0][0])


def refuses(db: ivm.Database) -> bool:
    found = db.execute("SELECT late FROM _ivm.watermarks").fetchall()
    return found == [("refuse",)] * 2


def values(row: dict[str, Any]) -> list[Any]:
    return list(row.values())


STATEMENTS = [
    "INSERT OR REPLACE INTO t FROM t",
    "INSERT OR REPLACE INTO t SELECT * FROM t WHERE id < 3",
    "INSERT OR REPLACE INTO t VALUES (1, '2026-03-01 10:00', 'a', 0, INTERVAL '30 days')",
    "INSERT INTO t BY NAME (SELECT id, page FROM t) ON CONFLICT DO UPDATE SET page = excluded.page",
    "UPDATE t SET page = page",
    "UPDATE t SET page = 'a' WHERE id = 1",
    "UPDATE t SET page = NULL, ts = ts WHERE page IS NULL",
    "MERGE INTO t USING (FROM t) s ON s.id = t.id WHEN MATCHED THEN UPDATE SET page = s.page",
    "BEGIN; CREATE OR REPLACE TABLE z (i INTEGER); UPDATE t SET x = x + 0; COMMIT",
    "UPDATE keyless SET page = page",
]
CALLS: list[Callable[[ivm.Database], object]] = [
    lambda db: db.upsert("t", {name: [row[name] for row in ROWS] for name in ROWS[0]}),
    lambda db: db.upsert("t", {"id": [1, 2], "page": ["a", None]}),
    lambda db: db.executemany("INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?, ?)", map(values, ROWS)),
    lambda db: ingest(db, *[event("c", row) for row in ROWS]),
    lambda db: ingest(db, *[event("r", row) for row in ROWS * 2]),
    lambda db: ingest(db, event("u", ROWS[1])),
    lambda db: ingest(db, json.dumps({"op": "u", "after": {"id": 1, "page": "a"}})),
]


@pytest.mark.parametrize("way", [*STATEMENTS, *CALLS])
def test_what_comes_again_changes_nothing(
    db: ivm.Database, way: str | Callable[[ivm.Database], Any]
) -> None:
    known = [db.execute(f"FROM {table} ORDER BY id").fetchall() for table in ("t", "keyless")]
    for _ in range(2):
        way(db) if callable(way) else db.execute(way)
    assert ingest(db) == []
    assert [db.execute(f"FROM {t} ORDER BY id").fetchall() for t in ("t", "keyless")] == known
    assert (late(db), late(db, "keyless")) == (0, 0)
    assert_verified(db)


def test_a_dead_letter_is_of_what_has_changed(db: ivm.Database) -> None:
    again = [event("c", row) for row in ROWS]
    changed = event("u", ROWS[1], page="other")
    assert ingest(db, *again, changed, *again) == [2]
    assert late(db) == 0  # in the end the row is as it was
    assert ingest(db, *again[:1], changed) == [2, 2]
    assert late(db) == 0


def test_a_removal_and_a_row_that_comes_back_are_one_change(db: ivm.Database) -> None:
    assert ingest(db, event("d", ROWS[0]), event("c", ROWS[0])) == []
    assert late(db) == 0
    assert len(db.execute("FROM t").fetchall()) == 3


def test_events_with_versions_that_come_again(db: ivm.Database) -> None:
    db.execute("ALTER TABLE t ADD COLUMN v INTEGER")
    events = [event("c", row, v=1) for row in ROWS]
    assert ingest(db, *events, version="v") == [1, 2]
    assert ingest(db, *[event("c", row, v=None) for row in ROWS][:2], version="v") == [1, 2]
    assert late(db) == 0


@pytest.mark.parametrize(
    "change",
    ["x = '-0.0'::DOUBLE", "length = INTERVAL '1 month'", "page = 'A'", "ts = ts - INTERVAL 1 DAY"],
)
def test_another_representation_is_another_row(db: ivm.Database, change: str) -> None:
    sql = f"UPDATE t SET {change} WHERE id < 4 AND id <> 2"
    if refuses(db):
        with pytest.raises(ConstraintError, match=r"its ts 2026-0(3-01|2-28) 10:00:00 is before"):
            db.execute(sql)
    else:
        assert db.execute(sql).rowcount == 1 - change.startswith("ts")


def test_the_error_names_what_is_late(db: ivm.Database) -> None:
    sql = "UPDATE t SET page = 'a'"
    if refuses(db):
        with pytest.raises(ConstraintError, match="its ts 2026-03-01 10:10:00 is before"):
            db.execute(sql)
    else:
        assert db.execute(sql).rowcount == 2  # of one row all stays, and one is not late
        assert late(db) == 1


def test_without_a_key_a_row_that_comes_again_is_a_new_one(db: ivm.Database) -> None:
    assert ingest(db, event("c", ROWS[0]), table="keyless") == [1]
    assert late(db, "keyless") == 0
