"""Changes that set a column of stored rows, told by their tokens."""

from __future__ import annotations

import pytest

from ivm.sql.statements.changes.assignments import sets_any

MERGE = "MERGE INTO c USING t ON c.id = t.id "


@pytest.mark.parametrize(
    ("script", "sets"),
    [
        ("UPDATE c SET id = id + 1", True),
        ('UPDATE c SET k = 1, "ID" = 5', True),
        ("UPDATE c SET (k, id) = (1, 2)", True),
        ("UPDATE c SET k = CASE WHEN id = 1 THEN 2 END, id = 5", True),
        ("INSERT INTO c VALUES (1) ON CONFLICT DO UPDATE SET c.id = 3", True),
        (MERGE + "WHEN MATCHED THEN UPDATE SET id = t.y", True),
        (
            MERGE + "WHEN MATCHED AND c.k = 1 THEN UPDATE SET k = 2 WHEN NOT MATCHED THEN"
            " INSERT VALUES (1) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = 3",
            True,
        ),
        ("UPDATE c SET k = 'x' WHERE id = 1", False),
        ("UPDATE c SET k = f(id, 2), m = g(1, id)", False),
        ("UPDATE c SET (k) = ROW(id)", False),
        ("UPDATE c SET k = 1 FROM (VALUES (1, 2)) t(id, n) WHERE t.id = c.id", False),
        ("WITH a AS (SELECT 1 AS id) UPDATE c SET k = (SELECT max(id) FROM a WHERE x = 1)", False),
        (
            "INSERT INTO c (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET k = 2 WHERE c.id = 3",
            False,
        ),
        (
            MERGE + "WHEN MATCHED THEN UPDATE SET ts = t.ts, k = t.k"
            " WHEN NOT MATCHED THEN INSERT (id, k) VALUES (t.id, t.k)",
            False,
        ),
    ],
)
def test_a_column_is_set_where_it_stands_behind_set(script: str, sets: bool) -> None:
    assert sets_any(script, {"id"}) == sets
