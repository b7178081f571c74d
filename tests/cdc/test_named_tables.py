"""An event names its table: one of another table is a dead letter, unless it is meant."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm import errors


def debezium(id: int, table: str, op: str = "c", schema: str | None = "public") -> dict[str, Any]:
    row = {"id": id}
    source = {"db": "shop", "schema": schema, "table": table}
    return {"op": op, "before": row if op == "d" else None, "after": row, "source": source}


def maxwell(id: int, table: str, op: str = "insert") -> dict[str, Any]:
    return {"database": "shop", "table": table, "type": op, "data": {"id": id}}


@pytest.fixture
def db() -> Any:
    with ivm.connect() as opened:
        opened.execute("CREATE TABLE ours (id INTEGER PRIMARY KEY)")
        yield opened


def content(db: ivm.Database, table: str = "ours") -> list[int]:
    return [id for (id,) in db.execute(f"FROM {table} ORDER BY ALL").fetchall()]


@pytest.mark.full
def test_the_first_event_names_the_table(db: ivm.Database) -> None:
    truncate = {"op": "t", "source": {"db": "shop", "schema": "public", "table": "b"}}
    moved = {**debezium(1, "b", "u"), "before": {"id": 2}, "after": {"id": "x"}}
    batch = [debezium(1, "a"), debezium(2, "a"), debezium(7, "b"), debezium(1, "b", "d")]
    found = db.ingest("ours", [*batch, truncate, moved, {"op": "c", "after": {"id": 3}}])
    assert (content(db), found.applied, [*found.refused]) == ([1, 2, 3], 3, [2, 3, 4, 5])
    assert found.refused[2].startswith(
        "it is of table shop.public.b, but the events before it are of shop.public.a"
    )
    assert [*db.ingest("ours", [debezium(8, "b"), debezium(9, "a")]).refused] == [0]
    assert [*db.ingest("ours", [debezium(8, "a", schema="old")]).refused] == [0]
    assert db.ingest("ours", [debezium(8, "b")], source="other").refused == {}


@pytest.mark.full
def test_maxwell_names_it_too(db: ivm.Database) -> None:
    batch = [maxwell(1, "a"), maxwell(2, "b"), maxwell(1, "b", "delete")]
    assert [*db.ingest("ours", batch, format="maxwell").refused] == [1, 2]
    assert content(db) == [1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("tables", "refused"),
    [("a", [1, 2]), ("public.a, b", [2]), ("shop.public.b", [0, 2]), ("*", []), ("?, ab", [])],
)
def test_tables_says_which_are_meant(db: ivm.Database, tables: str, refused: list[int]) -> None:
    batch = [debezium(1, "a"), debezium(2, "b"), debezium(3, "ab")]
    assert [*db.ingest("ours", batch, tables=tables).refused] == refused


def test_the_table_follows_ours(db: ivm.Database) -> None:
    db.ingest("ours", [debezium(1, "a")])
    db.execute("ALTER TABLE ours RENAME TO t")
    assert [*db.ingest("t", [debezium(2, "b")]).refused] == [0]
    db.execute("DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY)")
    assert db.ingest("t", [debezium(2, "b")]).refused == {}


def test_rows_without_a_table_have_no_such_option(db: ivm.Database) -> None:
    with pytest.raises(errors.InputError, match="do not name their tables"):
        db.ingest("ours", [], format="json", tables="a")


def test_a_source_of_files(db: ivm.Database, tmp_path: Path) -> None:
    lines = [json.dumps(debezium(i, "ab"[i % 2])) for i in range(4)]
    (tmp_path / "e.json").write_text("\n".join(lines) + "\n")
    db.execute(f"CREATE SOURCE s INTO ours FROM FILES (path '{tmp_path}/*', format 'debezium')")
    db.start_sources()
    while not db.sources()[0].caught_up:
        time.sleep(0.01)
    assert (content(db), db.sources()[0].dead_letters) == ([0, 2], 2)
    db.execute("ALTER SOURCE s SET (tables 'a, b')")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 2
    assert content(db) == [0, 1, 2, 3]
