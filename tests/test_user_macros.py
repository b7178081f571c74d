"""Macros of the user's with the names of built-in functions: what we write never calls them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.storage.duck import quote
from tests.tiers import examples

ROOT = Path(__file__).parent.parent
OURS = ("ivm", "sql", "delta_ops", "storage")
TABLES = [
    "CREATE TABLE t(id INT, a INT, s VARCHAR)",
    "CREATE TABLE k(id INT PRIMARY KEY, a INT)",
    "INSERT INTO t VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 2, NULL), (3, 3, 'z'), (3, 3, 'z')",
    "INSERT INTO k VALUES (1, 1), (2, 2)",
]
VIEWS = {
    "filtered": "SELECT id, a FROM t WHERE id > 0",
    "distinct_": "SELECT DISTINCT id FROM t",
    "joined": "SELECT t.id, k.a FROM t JOIN k ON t.id = k.id",
    "padded": "SELECT t.id, k.a FROM t LEFT JOIN k ON t.id = k.id",
    "first_two": "SELECT id FROM t ORDER BY a, id LIMIT 2",
    "scalar": "SELECT id, (SELECT a FROM k WHERE k.id = t.id) AS x FROM t",
    "existing": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM k WHERE k.id = t.id)",
    "closure": (
        "WITH RECURSIVE r AS (SELECT id FROM k UNION SELECT t.a FROM r JOIN t ON t.id = r.id)"
        " SELECT * FROM r"
    ),
    "united": "SELECT id FROM t UNION ALL SELECT a FROM k",
    "less": "SELECT id FROM t EXCEPT SELECT a FROM k",
}
CHANGES = [
    "DELETE FROM t WHERE a = 2",
    "INSERT INTO t VALUES (9, 9, 'n'), (9, 9, 'n')",
    "UPDATE t SET a = 7 WHERE id = 1",
    "UPDATE t SET a = k.a FROM k WHERE k.id = t.id",
    "INSERT INTO k VALUES (9, 9)",
    "UPDATE k SET a = 5 WHERE id = 1",
    "DELETE FROM k WHERE id = 2",
    "INSERT INTO t SELECT * FROM t",
    "INSERT INTO k VALUES (1, 2) ON CONFLICT DO UPDATE SET a = excluded.a",
    "MERGE INTO k USING (SELECT 4 AS id, 4 AS a) AS n ON n.id = k.id"
    " WHEN MATCHED THEN UPDATE SET a = n.a WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.a)",
    "BEGIN",
    "INSERT INTO t VALUES (5, 5, 'p')",
    "DELETE FROM t WHERE id = 9",
    "COMMIT",
    "ALTER TABLE k ADD COLUMN b INT",
    "UPDATE k SET b = 1",
]


def built_in_names() -> list[str]:
    """Of functions that are called with parentheses: all those in our texts, and some others."""
    with duckdb.connect() as connection:
        sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE internal"
        found = sorted(name for (name,) in connection.execute(sql).fetchall() if name[0].isalpha())
    sources = [path for folder in OURS for path in (ROOT / folder).glob("*.py")]
    ours = set(re.findall(r"[a-z_]+", " ".join(path.read_text() for path in sources)))
    every = len(found) // examples(len(found))
    return [name for place, name in enumerate(found) if name in ours or place % every == 0]


def failing(name: str) -> str:
    """A macro of that name that fails, however many arguments it gets."""
    forms = [", ".join(f"p{i}" for i in range(count)) for count in range(5)]
    body = f"system.main.error('the macro {name}')"
    return f"CREATE MACRO {quote(name)} " + ", ".join(f"({form}) AS {body}" for form in forms)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in which every built-in name is a macro that fails."""
    found = tmp_path / "x.duckdb"
    with duckdb.connect(str(found)) as connection:
        connection.execute(f"BEGIN; {';'.join(map(failing, built_in_names()))}; COMMIT")
    return found


def same(db: ivm.Database, plain: duckdb.DuckDBPyConnection) -> None:
    for name in ("t", "k", *VIEWS):
        assert sorted(map(repr, db.execute(f"FROM {name}").fetchall())) == sorted(
            map(repr, plain.execute(f"FROM {name}").fetchall())
        ), name
        if name in VIEWS:
            assert db.execute(f"VERIFY MATERIALIZED VIEW {name}").fetchall()[0][2:4] == (0, 0)


def test_the_life_of_a_database_in_which_every_name_is_a_macro(path: Path, tmp_path: Path) -> None:
    plain = duckdb.connect(shutil.copy(path, tmp_path / "plain.duckdb"))
    views = [f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()]
    with ivm.connect(path) as db:
        for statement in [*TABLES, *views, *CHANGES]:
            plain.execute(statement)
            db.execute(statement.replace("CREATE VIEW", "CREATE MATERIALIZED VIEW"))
        db.insert("t", [{"id": 8, "a": 8, "s": "q"}, {"id": 3, "a": 1, "s": None}])
        plain.execute("INSERT INTO t VALUES (8, 8, 'q'), (3, 1, NULL)")
        same(db, plain)
        assert len(db.execute("SHOW MATERIALIZED VIEWS").fetchall()) == len(VIEWS)
    with ivm.connect(path) as db:
        for statement in ("DELETE FROM t WHERE a = 5", "UPDATE k SET a = 3 WHERE id = 1"):
            plain.execute(statement)
            db.execute(statement)
        same(db, plain)


def test_a_macro_that_hides_min_costs_no_row(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t(id INT, a INT)")
        db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 2)")
        db.execute("CREATE MACRO min(x) AS NULL")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, a FROM t WHERE id > 0")
        db.execute("DELETE FROM t WHERE a = 1")
        assert sorted(db.execute("FROM v").fetchall()) == [(1, 2), (2, 2)]
