"""Macros and plain views below materialized ones: a view follows them, also over a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.errors import UnsupportedError

SETUP = """
CREATE TABLE t (k INTEGER);
CREATE TABLE u (k INTEGER);
INSERT INTO t VALUES (1), (3);
INSERT INTO u VALUES (100);
CREATE MACRO f(x, d := 10) AS x + 1;
CREATE MACRO above(x) AS TABLE SELECT k FROM t WHERE k > x;
CREATE VIEW plain AS SELECT k FROM t;
CREATE MATERIALIZED VIEW a AS SELECT f(k) AS y FROM t;
CREATE MATERIALIZED VIEW b AS SELECT * FROM above(0);
CREATE MATERIALIZED VIEW c AS SELECT * FROM plain LIMIT 100%;
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "m.duckdb") as database:
        for statement in SETUP.strip().split(";\n"):
            database.execute(statement)
        yield database


def column(db: ivm.Database, view: str) -> list[int]:
    return sorted(row[0] for row in db.execute(f"SELECT * FROM {view}").fetchall())


@pytest.mark.full
def test_a_replaced_macro_fills_its_views_anew(db: ivm.Database) -> None:
    assert column(db, "a") == [2, 4]
    db.execute("CREATE OR REPLACE MACRO f(x, d := 10) AS x + 2")
    db.execute("INSERT INTO t VALUES (5)")
    assert column(db, "a") == [3, 5, 7]


@pytest.mark.full
def test_views_follow_the_tables_that_a_replaced_definition_reads(
    db: ivm.Database, tmp_path: Path
) -> None:
    # Once the view below a recomputed one read another table, changes of that went unseen.
    db.execute("CREATE OR REPLACE MACRO above(x) AS TABLE SELECT k FROM u WHERE k > x")
    db.execute("CREATE OR REPLACE VIEW plain AS SELECT k FROM u")
    db.execute("INSERT INTO u VALUES (200)")
    assert column(db, "b") == [100, 200]
    assert column(db, "c") == [100, 200]
    with pytest.raises(UnsupportedError, match="DROP TABLE would break the materialized view b"):
        db.execute("DROP TABLE u")
    db.close()
    with ivm.connect(tmp_path / "m.duckdb") as again:
        again.execute("INSERT INTO u VALUES (300)")
        assert column(again, "b") == column(again, "c") == [100, 200, 300]


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE OR REPLACE MACRO f(x, d := 10) AS x + random()::INTEGER", r"view a \(random"),
        ("CREATE OR REPLACE MACRO f(x, d := 10) AS x::VARCHAR", "would give 'y' as VARCHAR"),
        ("DROP MACRO f", "view a:"),
        ("DROP MACRO TABLE above", "view b:"),
        ("DROP VIEW plain", "view c:"),
        ("CREATE OR REPLACE VIEW plain AS SELECT y AS k FROM a2", "created after it"),
    ],
)
def test_what_would_break_a_view_is_refused(
    db: ivm.Database, tmp_path: Path, statement: str, message: str
) -> None:
    # A macro that became volatile once left a file that could not be opened again.
    db.execute("CREATE MATERIALIZED VIEW a2 AS SELECT y FROM a")
    with pytest.raises(UnsupportedError, match=message):
        db.execute(statement)
    db.execute("INSERT INTO t VALUES (5)")
    assert column(db, "a") == [2, 4, 6]
    assert column(db, "c") == [1, 3, 5]
    db.close()
    with ivm.connect(tmp_path / "m.duckdb") as again:
        assert column(again, "a2") == [2, 4, 6]
        assert column(again, "b") == [1, 3, 5]


@pytest.mark.full
def test_a_rolled_back_replacement_leaves_the_views_as_they_were(db: ivm.Database) -> None:
    db.execute("BEGIN")
    db.execute("CREATE OR REPLACE VIEW plain AS SELECT k FROM u")
    assert column(db, "c") == [100]
    db.execute("ROLLBACK")
    db.execute("INSERT INTO t VALUES (7)")
    assert column(db, "c") == [1, 3, 7]


def test_a_macro_sees_the_common_table_expressions_of_its_caller(db: ivm.Database) -> None:
    query = "WITH t AS (SELECT k FROM u) SELECT a.k, main.t.k AS other FROM above(0) AS a, main.t"
    db.execute(f"CREATE MATERIALIZED VIEW seeing AS {query}")
    for change in ("INSERT INTO u VALUES (200), (200)", "DELETE FROM t WHERE k = 3"):
        db.execute(change)
        wanted = sorted(db.execute(query).fetchall())
        assert sorted(db.execute("FROM seeing").fetchall()) == wanted != []
