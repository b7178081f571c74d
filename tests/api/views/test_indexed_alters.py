"""ALTER TABLE of a table with indexes: they are there afterwards, and refuse and find rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.storage.identifiers import quote
from tests.support.crash_image import image

TABLES = """CREATE SCHEMA s; CREATE TABLE s.t (b INTEGER, a INTEGER, c VARCHAR, "x(" VARCHAR);
INSERT INTO s.t VALUES (1, 2, 'A', 'q'), (3, 4, 'B', 'r'); CREATE INDEX i ON s.t (a);
CREATE UNIQUE INDEX "j ON (" ON s.t ((lower(c)), (a + 1)); CREATE INDEX "C" ON s.t ("x(", c)"""
ALTERS = {
    "RENAME TO u": ("s.u", "a", "b"),
    'RENAME TO "u "" ON x"': ('s."u "" ON x"', "a", "b"),
    'RENAME COLUMN A TO "Z z"': ("s.t", '"Z z"', "b"),
    "RENAME b TO z": ("s.t", "a", "z"),
    "ALTER a SET NOT NULL": ("s.t", "a", "b"),
    "ALTER COLUMN b DROP NOT NULL": ("s.t", "a", "b"),
    "ALTER b SET DATA TYPE BIGINT": ("s.t", "a", "b"),
    "ADD PRIMARY KEY (b)": ("s.t", "a", "b"),
    "ADD COLUMN n INTEGER": ("s.t", "a", "b"),
    "ALTER b SET DEFAULT 5": ("s.t", "a", "b"),
}
"""What the table and its first two columns are called afterwards."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "shop.duckdb") as database:
        database.execute(TABLES)
        yield database


def _indexes(db: ivm.Database) -> list[tuple[str, bool, str]]:
    return sorted(db.execute("SELECT index_name, is_unique, sql FROM duckdb_indexes()").fetchall())


@pytest.mark.full
@pytest.mark.parametrize("alter", ALTERS)
def test_indexes_stay(db: ivm.Database, tmp_path: Path, alter: str) -> None:
    table, indexed, other = ALTERS[alter]
    db.execute(f"ALTER TABLE s.t {alter}")
    (tmp_path / "crashed").mkdir()
    crashed = image(tmp_path / "shop.duckdb", tmp_path / "crashed" / "shop.duckdb")
    with ivm.connect(crashed) as again:
        for database in (db, again):
            found = _indexes(database)
            kinds = [(name, unique) for name, unique, _ in found]
            assert kinds == [("C", False), ("i", False), ("j ON (", True)]
            assert all(f" ON {table}(" in text for _, _, text in found)
            assert f"({indexed});" in found[1][2]
            row = f"9 AS {other}, 2 AS {indexed}, 'a' AS c"
            with pytest.raises(ivm.errors.ConstraintError, match="Duplicate key"):
                database.execute(f"INSERT INTO {table} BY NAME SELECT {row}")
            rows = database.execute(f"SELECT c FROM {table} WHERE {indexed} = 4").fetchall()
            assert rows == [("B",)]


@pytest.mark.full
def test_what_an_index_still_forbids_is_duckdbs_error(db: ivm.Database) -> None:
    before = _indexes(db)
    for alter in ("DROP COLUMN a", "DROP COLUMN b", "ALTER a TYPE BIGINT"):
        with pytest.raises(ivm.errors.SqlError, match="an index depends on"):
            db.execute(f"ALTER TABLE s.t {alter}")
    with pytest.raises(ivm.errors.ConstraintError, match="NOT NULL"):
        db.execute("UPDATE s.t SET c = NULL WHERE a = 2; ALTER TABLE s.t ALTER c SET NOT NULL")
    assert _indexes(db) == before
    db.execute("ALTER TABLE IF EXISTS s.nothing RENAME TO something")


def test_in_a_transaction_and_undone(db: ivm.Database) -> None:
    before = _indexes(db)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM range(3)")
    db.execute("BEGIN; INSERT INTO s.t VALUES (5, 6, 'C', 's'); ALTER TABLE s.t RENAME TO u")
    assert db.execute("SELECT c FROM s.u WHERE a = 6").fetchall() == [("C",)]
    db.execute("ROLLBACK")
    assert _indexes(db) == before
    db.execute("BEGIN; CREATE TABLE made AS SELECT 1 AS k; CREATE INDEX m ON made (k)")
    db.execute("ALTER TABLE made RENAME TO named; INSERT INTO named VALUES (2); COMMIT")
    assert db.execute("SELECT k FROM named WHERE k > 0 ORDER BY k").fetchall() == [(1,), (2,)]
    assert "ON named(k)" in _indexes(db)[3][2]


@pytest.mark.full
@pytest.mark.parametrize("name", ["i", "ON", 'a"b'])
def test_views_go_on_above_it(tmp_path: Path, name: str) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
        db.execute(f"CREATE INDEX {quote(name)} ON t (g)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3)")
        db.execute("ALTER TABLE t RENAME x TO y")
        db.execute("UPDATE t SET y = 9 WHERE g = 1; DELETE FROM t WHERE g = 2")
        assert db.execute("FROM v").fetchall() == [(1, 2)]
        assert db.execute("FROM t ORDER BY id").fetchall() == [(1, 1, 9), (2, 1, 9)]
