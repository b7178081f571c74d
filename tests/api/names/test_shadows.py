"""Temporary things of one session never get into materialized views, which all sessions share."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ivm
from ivm.errors import UnsupportedError
from tests.support.view_oracle import assert_verified

VIEWS = {
    "linear": "SELECT m(c0) AS a FROM t",
    "recomputed": "SELECT current_user AS w, m(c0) AS a FROM t",
    "through_view": "SELECT current_user AS w, c0 AS a FROM pv",
    "through_macro": "SELECT current_user AS w, c0 AS a FROM tm()",
    "grouped": "SELECT c0, mad(c1) AS a FROM t GROUP BY c0",
    "above": "SELECT current_user AS w, a FROM recomputed",
}
TEMPORARY = {
    "table": "CREATE TEMP TABLE t AS SELECT 77 AS c0, 78 AS c1",
    "macro": "CREATE TEMP MACRO m(x) AS x + 1000",
    "view": "CREATE TEMP VIEW pv AS SELECT 55 AS c0, 5 AS c1",
    "table macro": "CREATE TEMP MACRO tm() AS TABLE SELECT 99 AS c0",
    "table of a view": "CREATE TEMP TABLE recomputed AS SELECT 'x' AS w, 42 AS a",
}
CHANGES = {
    "rows": ["INSERT INTO memory.main.t VALUES (3, 4)"],
    "transaction": ["BEGIN", "INSERT INTO memory.main.t VALUES (3, 4)", "FROM above", "COMMIT"],
    "alter": ["ALTER TABLE memory.main.t ADD COLUMN z INTEGER"],
    "macro": ["CREATE OR REPLACE MACRO m(x) AS x * 10"],
    "table macro": ["CREATE OR REPLACE MACRO tm() AS TABLE SELECT c0 + 1 AS c0 FROM t"],
    "view": ["CREATE OR REPLACE VIEW pv AS SELECT c0 + 1 AS c0, c1 FROM t"],
    "in between": [
        "BEGIN",
        "ALTER TABLE memory.main.t ADD COLUMN y INTEGER",
        "CREATE TEMP MACRO nothing() AS 1",
        "INSERT INTO memory.main.t(c0) VALUES (7)",
        "COMMIT",
    ],
    "new view": ["CREATE OR REPLACE MATERIALIZED VIEW linear AS SELECT m(c0) AS a FROM t"],
    "new view in a transaction": [
        "BEGIN",
        "CREATE TABLE other (a INTEGER)",
        "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT current_user AS w, a FROM recomputed",
        "COMMIT",
    ],
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (c0 INTEGER, c1 INTEGER)")
        database.execute("INSERT INTO t VALUES (1, 2)")
        database.execute("CREATE MACRO m(x) AS x + 1")
        database.execute("CREATE VIEW pv AS SELECT c0, c1 FROM t")
        database.execute("CREATE MACRO tm() AS TABLE SELECT c0 FROM t")
        for name, query in VIEWS.items():
            database.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield database


def run(db: ivm.Database, statements: list[str]) -> bool:
    """Whether all were let through; else the transaction is rolled back."""
    try:
        for statement in statements:
            db.execute(statement).fetchall()
    except UnsupportedError:
        if statements[0] == "BEGIN":
            db.execute("ROLLBACK")
        return False
    return True


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize("temporary", TEMPORARY)
def test_views_hold_what_other_sessions_read(db: ivm.Database, temporary: str) -> None:
    with ThreadPoolExecutor(1) as other:

        def elsewhere(sql: str) -> list[tuple[Any, ...]]:
            return sorted(other.submit(lambda: db.execute(sql).fetchall()).result())

        db.execute(TEMPORARY[temporary])
        let_through = {name for name, change in CHANGES.items() if run(db, change)}
        for view in db.views():
            assert elsewhere(f"FROM {view.name}") == elsewhere(view.sql), view.name
        other.submit(assert_verified, db).result()
        with pytest.raises(UnsupportedError, match="this session alone sees"):
            db.execute("VERIFY MATERIALIZED VIEWS")
    assert "rows" in let_through


@pytest.mark.full
def test_what_hides_nothing_is_no_hindrance(db: ivm.Database) -> None:
    """The temporary table's name is that of a column."""
    db.execute("CREATE TEMP TABLE c0 AS SELECT 1 AS x")
    assert all(run(db, statements) for statements in CHANGES.values())
    assert_verified(db)


def test_nor_where_duckdb_serializes_no_plan(db: ivm.Database) -> None:
    """As above, of a view with USING KEY; what it reads is a hindrance still."""
    db.execute(
        "CREATE MATERIALIZED VIEW keyed AS WITH RECURSIVE r(c0, c1) USING KEY (c0) AS "
        "(SELECT c0, c1 FROM t AS s UNION SELECT c0, c1 + 1 FROM r WHERE c1 < 3) SELECT c0 FROM r"
    )
    db.execute("CREATE TEMP TABLE c1 AS SELECT 1 AS x")
    assert run(db, CHANGES["alter"])
    assert_verified(db)
    db.execute("CREATE TEMP TABLE t AS SELECT 1 AS c0, 2 AS c1")
    with pytest.raises(UnsupportedError, match="'keyed' would read the temporary table 't'"):
        db.execute("REFRESH MATERIALIZED VIEW keyed")
