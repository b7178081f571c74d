"""Changes with names that are clause words, which stand behind a dot, a dollar or AS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import ivm
from tests.support.duckdb_twin import Twin

SETUP = """
CREATE SEQUENCE q;
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER);
CREATE TABLE s (id INTEGER, "returning" INTEGER, "where" INTEGER);
INSERT INTO t VALUES (1, 10), (2, 20);
INSERT INTO s VALUES (1, 5, 6);
"""
VIEWS = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS a FROM t"
CHANGES: Mapping[str, Mapping[str, int]] = {
    "INSERT INTO t SELECT id, s.returning FROM s ON CONFLICT (id) DO UPDATE SET a = excluded.a"
    " RETURNING id": {},
    "INSERT INTO t SELECT 1 AS id, 7 AS returning ON CONFLICT (id) DO UPDATE SET a = 6"
    " RETURNING id": {},
    "INSERT INTO t SELECT id, s.returning FROM s ON CONFLICT DO NOTHING": {},
    "INSERT INTO t SELECT id + 4, s . returning FROM s": {},
    "INSERT INTO t SELECT $id + 0, $returning ON CONFLICT (id) DO UPDATE SET a = 1": {
        "id": 1,
        "returning": 2,
    },
    "INSERT INTO t SELECT id + 4, $from FROM s": {"from": 3},
    "INSERT INTO t (TABLE t) ON CONFLICT DO NOTHING": {},
    "INSERT INTO t AS z VALUES (5, 1) RETURNING t.a": {},
    "INSERT INTO t AS z VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET a = 7 RETURNING z.a": {},
    "INSERT OR IGNORE INTO t AS z SELECT 10, nextval('q') RETURNING z.a, z.a, id": {},
    "INSERT INTO t (VALUES (1, 1.5), (7, nextval('q'))) ON CONFLICT (id) DO UPDATE SET"
    " a = excluded.a * 2": {},
    "UPDATE t SET a = s.where FROM s WHERE t.id = s.id RETURNING t.a": {},
    "UPDATE t SET a = s.distinct FROM (SELECT 1 AS id, 4 AS distinct) AS s WHERE s.id = t.id": {},
    "UPDATE t SET a = {'from': 3}.from WHERE id = 1": {},
    "DELETE FROM t WHERE id = $returning": {"returning": 1},
    "DELETE FROM t WHERE id = $where RETURNING a": {"where": 1},
    "DELETE FROM s WHERE s.returning = 5 RETURNING s.where": {},
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.where > 1 THEN UPDATE SET"
    " a = s.returning": {},
}


@pytest.mark.parametrize("sql", CHANGES)
def test_words_behind_a_dot_a_dollar_or_as_are_names(sql: str) -> None:
    """Bug: views lost rows that ON CONFLICT updated, since a column `returning` hid it."""
    twin = Twin(SETUP, VIEWS, ["t", "s"])
    assert twin.run(sql, CHANGES[sql] or None)
    twin.check()
    (found,) = twin.db.execute("FROM v").fetchall()
    assert [found] == twin.duck.execute("SELECT count(*), sum(a) FROM t").fetchall()


PIVOT = "(PIVOT (SELECT 16 AS id, 1 AS g UNION ALL SELECT 1, 1) ON g USING count(*) GROUP BY id)"
PIVOTS = {
    f"INSERT OR IGNORE INTO t {PIVOT}": 1,
    f"INSERT INTO t {PIVOT} ON CONFLICT (id) DO UPDATE SET a = excluded.a": 2,
    f"INSERT INTO t SELECT id + 100, 1 FROM {PIVOT}": 2,
    f"UPDATE t SET a = 77 FROM {PIVOT} AS p WHERE p.id = t.id": 1,
    f"DELETE FROM t WHERE id IN (SELECT id FROM {PIVOT})": 1,
    f"MERGE INTO t USING {PIVOT} AS p ON p.id = t.id WHEN MATCHED THEN DELETE"
    " WHEN NOT MATCHED THEN INSERT VALUES (p.id, 5)": 2,
}


@pytest.mark.parametrize("sql", PIVOTS)
def test_changes_by_a_pivot_are_counted(sql: str) -> None:
    """Bug: they failed, since DuckDB makes several statements of them and counts nothing."""
    twin = Twin(SETUP, VIEWS)
    twin.duck.execute(sql)
    assert twin.db.execute(sql).fetchall() == [(PIVOTS[sql],)]
    twin.check()


def test_of_a_table_whose_history_lies_in_files(tmp_path: Path) -> None:
    with ivm.connect() as db:
        db.execute(f"COPY (SELECT 1 AS id, 5 AS \"from\") TO '{tmp_path}/h.parquet'")
        columns = 'id INTEGER PRIMARY KEY, "from" INTEGER'
        db.execute(f"CREATE TABLE f ({columns}) FROM PARQUET '{tmp_path}/h.parquet'")
        db.execute("UPDATE f SET id = id + f.from WHERE f.from = 5")
        db.execute("DELETE FROM f WHERE id = $returning", {"returning": 7})
        put = "INSERT INTO f AS z (id) VALUES (9)"
        assert db.execute(f"{put} RETURNING f.from").fetchall() == [(None,)]
        assert db.execute("FROM f ORDER BY id").fetchall() == [(6, 5), (9, None)]
