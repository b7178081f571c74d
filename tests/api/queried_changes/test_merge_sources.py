"""MERGE from a source of which some columns fail: they are evaluated where DuckDB does it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.duckdb_twin import Twin

SETUP = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER);
CREATE TABLE u (k INTEGER, n INTEGER, s VARCHAR, "n m" INTEGER);
INSERT INTO t VALUES (1, 10), (2, 20);
INSERT INTO u VALUES (2, 5, 'x', 7), (3, 6, '8', 9);
CREATE VIEW uv AS SELECT *, s::INTEGER AS z FROM u;
CREATE VIEW rows AS SELECT k AS id, n AS a FROM u;
CREATE TABLE nested (id INTEGER, q STRUCT(k INTEGER, n INTEGER));
"""
VIEWS = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS a FROM t"
UNUSED = [
    "MERGE INTO t USING uv ON id = k WHEN MATCHED THEN UPDATE SET a = 6",
    "MERGE INTO t USING uv ON id = uv.k WHEN NOT MATCHED THEN INSERT VALUES (uv.k, uv.n)",
    'MERGE INTO t USING uv AS q ON t.id = q.k WHEN MATCHED THEN UPDATE SET a = q."N M"'
    " WHEN NOT MATCHED THEN INSERT (id, a) VALUES (q.k, CASE WHEN q.n > 1 THEN 3 END)",
    "MERGE INTO t USING (SELECT k, s::INTEGER AS z FROM u) q ON t.id = q.k"
    " WHEN MATCHED AND a > 1 THEN DELETE",
    "MERGE INTO t USING (SELECT s::INTEGER AS z FROM u WHERE k = 2) q ON true"
    " WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING uv ON id = k WHEN MATCHED THEN UPDATE SET a = n RETURNING id, a",
]
OTHER = [
    "MERGE INTO t USING uv ON id = k WHEN MATCHED THEN UPDATE SET a = z",
    "MERGE INTO t USING rows ON t.id = rows.id WHEN NOT MATCHED THEN INSERT",
    "MERGE INTO t USING rows USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO t USING rows USING (id) WHEN MATCHED THEN UPDATE SET *",
    "MERGE INTO t USING rows USING (id) WHEN NOT MATCHED THEN INSERT BY NAME",
    "MERGE INTO nested USING (SELECT k, n FROM u) q ON nested.id = k"
    " WHEN NOT MATCHED THEN INSERT VALUES (k, q)",
]


@pytest.mark.full
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("sql", [*UNUSED, *OTHER])
def test_it_does_what_duckdb_does(sql: str, keyed: bool) -> None:
    setup = SETUP if keyed else SETUP.replace(" PRIMARY KEY", "")
    twin = Twin(setup, VIEWS, ["t", "nested"])
    assert twin.run(sql) == (sql != OTHER[0])
    twin.check()
    (found,) = twin.db.execute("FROM v").fetchall()
    assert [found] == twin.duck.execute("SELECT count(*), sum(a) FROM t").fetchall()


@pytest.mark.parametrize("given", [[2, 6], {"k": 2, "a": 6}])
def test_a_source_with_parameters_does_what_duckdb_does(given: Any) -> None:
    twin = Twin(SETUP, VIEWS, ["t"])
    k, a = ("?", "?") if isinstance(given, list) else ("$k", "$a")
    sql = f"MERGE INTO t USING (SELECT k AS K, z FROM uv WHERE k >= {k}) q ON id = q.k"
    sql = f"{sql} WHEN MATCHED THEN UPDATE SET a = {a}"
    twin.db.execute(sql, given)
    twin.duck.execute(sql, given)
    twin.check()
