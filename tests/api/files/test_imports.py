"""EXPORT DATABASE, IMPORT DATABASE and COPY FROM DATABASE carry tables and views."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import CorruptionError, InputError, IvmError
from tests.support.view_oracle import assert_verified

SCRIPT = """
CREATE SCHEMA s; CREATE TYPE mood AS ENUM ('a;b', 'c'); CREATE SEQUENCE numbers;
CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, m mood);
INSERT INTO t VALUES (1, 'x;y', 'a;b'), (2, '''q', NULL);
CREATE TABLE s.u (a INTEGER);
CREATE MACRO twice(x) AS x * 2;
CREATE VIEW low AS SELECT a, twice(a) AS d FROM t;
CREATE MATERIALIZED VIEW mv (n) AS SELECT count(*) FROM low;
CREATE VIEW above AS SELECT n FROM mv;
CREATE MATERIALIZED VIEW s."m w" AS SELECT n + 1 AS m FROM above;
CREATE INDEX ix ON t (b)
"""
RELATIONS = ("t", "s.u", "low", "mv", "above", 's."m w"')


def rows(db: ivm.Database | duckdb.DuckDBPyConnection) -> list[list[tuple[object, ...]]]:
    return [db.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in RELATIONS]


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("options", ["", " (FORMAT parquet)"])
@pytest.mark.parametrize("how", ["IMPORT DATABASE '{}'", "PRAGMA import_database('{}')"])
def test_what_was_exported_is_imported(tmp_path: Path, options: str, how: str) -> None:
    with ivm.connect() as db:
        db.execute(SCRIPT)
        db.execute(f"EXPORT DATABASE '{tmp_path / 'one'}'{options}")
        expected = rows(db)
    shutil.move(tmp_path / "one", tmp_path / "it's moved")
    with ivm.connect() as db:
        db.execute(how.format(str(tmp_path / "it's moved").replace("'", "''")))
        assert rows(db) == expected
        db.execute("INSERT INTO t VALUES (3, 'z', 'c')")
        assert db.execute('FROM s."m w"').fetchall() == [(4,)]
        assert_verified(db)
        with pytest.raises(IvmError, match="already exists"):
            db.execute(f"IMPORT DATABASE '{tmp_path}/it''s moved'")
        assert db.execute('FROM s."m w"').fetchall() == [(4,)]


@pytest.mark.full
def test_a_folder_of_plain_duckdb_and_one_that_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t AS SELECT 1 AS a; CREATE VIEW v AS SELECT a FROM t")
        plain.execute(f"EXPORT DATABASE '{folder}'")
    with ivm.connect() as db:
        with pytest.raises(InputError, match="no folder"):
            db.execute(f"IMPORT DATABASE '{tmp_path}'")
        with db.transaction():
            db.execute(f"IMPORT DATABASE '{folder}'")
            db.execute("CREATE MATERIALIZED VIEW mv AS SELECT sum(a) AS s FROM v")
        db.execute("INSERT INTO t VALUES (2)")
        assert db.execute("FROM mv").fetchall() == [(3,)]


@pytest.mark.full
def test_duckdb_alone_imports_and_copies_all(tmp_path: Path) -> None:
    with ivm.connect() as db:
        db.execute(SCRIPT)
        expected = rows(db)
        db.execute(f"EXPORT DATABASE '{tmp_path / 'one'}'")
        db.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copied")
        db.execute("COPY FROM DATABASE memory TO copied; DETACH copied")
    with duckdb.connect() as plain:
        plain.execute(f"IMPORT DATABASE '{tmp_path / 'one'}'")
        assert rows(plain) == expected
    with ivm.connect(tmp_path / "copy.duckdb") as db:
        assert rows(db) == expected
        db.execute("DELETE FROM t WHERE a = 1")
        assert db.execute('FROM s."m w"').fetchall() == [(2,)]


@pytest.mark.full
@pytest.mark.parametrize("target", ["copied", "COPIED", '"copied"'])
def test_a_copy_of_the_opened_file_is_a_database_of_its_own(tmp_path: Path, target: str) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(SCRIPT)
        db.execute("INSERT INTO t (a) SELECT a + 10 FROM t")  # in the log alone
        expected = rows(db)
        db.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copied")
        with pytest.raises(ivm.IvmError), db.transaction():
            db.execute(f"DELETE FROM t; COPY FROM DATABASE shop TO {target}")
        db.execute(f"COPY FROM DATABASE Shop TO {target}; DETACH copied")
        with ivm.connect(tmp_path / "copy.duckdb") as copy:
            assert rows(copy) == expected
            copy.execute("DELETE FROM t WHERE a = 1")
            assert_verified(copy)
        assert rows(db) == expected
        db.execute("DELETE FROM t")
        assert_verified(db)
    with ivm.connect(tmp_path / "copy.duckdb") as copy:
        assert_verified(copy)
        assert len(rows(copy)) == len(expected)


def test_a_copy_of_the_definitions_alone_has_tables(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(SCRIPT)
        db.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copied")
        db.execute("COPY FROM DATABASE shop TO copied (SCHEMA); DETACH copied")
    with ivm.connect(tmp_path / "copy.duckdb") as copy:
        assert copy.execute("SHOW MATERIALIZED VIEWS").fetchall() == []
        assert copy.execute("FROM t").fetchall() == []
        copy.execute("INSERT INTO t (a) VALUES (1)")
        copy.execute("CREATE OR REPLACE TABLE mv AS SELECT 1 AS n")
    with ivm.connect(tmp_path / "copy.duckdb") as copy:
        assert copy.execute("FROM t").fetchall() == [(1, None, None)]


@pytest.mark.full
def test_a_copy_of_the_definitions_and_then_of_the_rows_has_views(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(SCRIPT)
        db.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS copied")
        db.execute("COPY FROM DATABASE shop TO copied (SCHEMA)")
        db.execute("INSERT INTO t (a) SELECT a + 10 FROM t")
        db.execute("COPY FROM DATABASE shop TO copied (DATA); DETACH copied")
        expected = rows(db)
    with ivm.connect(tmp_path / "copy.duckdb") as copy:
        assert rows(copy) == expected
        copy.execute("DELETE FROM t WHERE a = 1")
        assert_verified(copy)


@pytest.mark.full
def test_lost_records_are_no_copy_of_the_definitions(tmp_path: Path) -> None:
    ivm.connect(tmp_path / "shop.duckdb").close()
    with duckdb.connect(tmp_path / "shop.duckdb") as plain:
        plain.execute("DELETE FROM _ivm.meta")
    with pytest.raises(CorruptionError, match="format None"):
        ivm.connect(tmp_path / "shop.duckdb")


def test_a_copy_of_another_database_is_left_alone(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "one.duckdb") as plain:
        plain.execute("CREATE SCHEMA _ivm; CREATE TABLE _ivm.meta AS SELECT 'open' AS key")
    with ivm.connect() as db:
        db.execute(f"ATTACH '{tmp_path / 'one.duckdb'}' AS one; ATTACH ':memory:' AS two")
        db.execute("COPY FROM DATABASE one TO two")
        assert db.execute("FROM two._ivm.meta").fetchall() == [("open",)]
