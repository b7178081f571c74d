"""What a view must hold: DuckDB's answer to its query over the same tables, as a multiset."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import duckdb

import ivm

Row = tuple[Any, ...]


def _key(value: Any) -> Any:
    """A value as something that compares by SQL's equality, doubles cut to nine digits."""
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return str(value)
        return float(f"{value:.9g}") + 0.0
    if isinstance(value, list):
        return ("list", *[_key(v) for v in value])
    if isinstance(value, dict):
        return ("dict", *[(k, _key(v)) for k, v in value.items()])
    return value


def multiset(rows: Iterable[Row]) -> Counter[Any]:
    """Rows with their counts."""
    return Counter(tuple(_key(value) for value in row) for row in rows)


def assert_same_rows(found: Iterable[Row], wanted: Iterable[Row], what: str) -> None:
    """Equal as multisets, doubles at nine digits."""
    have, want = multiset(found), multiset(wanted)
    assert have == want, (
        f"{what}: missing {list((want - have).items())[:5]},"
        f" extra {list((have - want).items())[:5]}"
    )


def assert_views_right(db: ivm.Database, twin: duckdb.DuckDBPyConnection) -> None:
    """Every table equals the twin's; every view equals its query on the twin.

    Args:
        db: the database under test.
        twin: a plain DuckDB to which the same changes were made.
    """
    for table in db.tables():
        query = f"SELECT * FROM {table.name}"
        assert_same_rows(db.execute(query), twin.execute(query).fetchall(), table.name)
    for view in db.views():
        stored = db.execute(f"SELECT * FROM {view.name}").fetchall()
        assert_same_rows(stored, twin.execute(view.sql).fetchall(), f"{view.name}: {view.sql}")


def verdicts(db: ivm.Database, name: str | None = None) -> list[dict[str, Any]]:
    """What VERIFY says of a view, or of all, under the names of its columns."""
    what = "MATERIALIZED VIEWS" if name is None else f"MATERIALIZED VIEW {name}"
    result = db.execute(f"VERIFY {what}")
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def assert_verified(db: ivm.Database, name: str | None = None, told: object = "") -> None:
    """VERIFY calls this view right, or all of them, of which there must be some."""
    found = verdicts(db, name)
    assert found, (told, "no view was verified")
    assert [verdict for verdict in found if verdict["ok"] is not True] == [], told
