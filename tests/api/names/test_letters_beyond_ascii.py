"""Names that differ in the case of a letter beyond A to Z are two names, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind.bind import bind
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.plan_oracle import assert_means

SETUP = """
CREATE TABLE one ("Ä" INTEGER, k INTEGER);
INSERT INTO one VALUES (1, 1), (2, 3);
CREATE TABLE two ("Ä" INTEGER, "ä" INTEGER);
INSERT INTO two VALUES (1, 9), (5, 4), (3, 3);
CREATE MACRO "Ö"(x) AS x + 1;
CREATE MACRO "ö"(x, y := 2) AS x * 10;
CREATE MACRO named("Ä") AS "Ä" * 10;
"""

QUERIES = [
    'WITH "Ä" AS (SELECT 1 AS x), "ä" AS (SELECT 2 AS x) FROM "Ä", "ä"',
    'WITH RECURSIVE "Ä" AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM "Ä" WHERE x < 4) FROM "Ä"',
    'SELECT "Ä" AS "Ö", "ä" AS "ö", "ö" + 0 AS q, "Ö" + 0 AS r FROM two',
    'SELECT "Ä" AS "Ö", "ä" AS "ö" FROM two ORDER BY "ö" LIMIT 1',
    'SELECT "Ä" AS "Ö", sum("ä") AS "ö" FROM two GROUP BY "Ö" HAVING "ö" > 3',
    'SELECT DISTINCT ON ("ö") 1 AS "Ö", "ä" AS "ö" FROM two ORDER BY "ö"',
    'SELECT "Ä" AS "Ö", "ä" AS "ö", (SELECT max(k) FROM one WHERE k < "ö") AS m FROM two',
    'SELECT * EXCLUDE ("ä") FROM two',
    'SELECT * REPLACE (7 AS "ä") FROM two',
    'SELECT * REPLACE (7 AS "ä", 8 AS "Ä") FROM two',
    'SELECT * RENAME ("ä" AS z) FROM one',
    'SELECT * RENAME ("ä" AS z) FROM two',
    'FROM one NATURAL JOIN (SELECT 5 AS "ä", 1 AS k) AS s',
    'FROM two UNION ALL BY NAME FROM one',
    'FROM two UNION BY NAME FROM one',
    'SELECT sum(k) OVER "ä" AS a, sum(k) OVER "Ä" AS b FROM one'
    ' WINDOW "Ä" AS (ORDER BY k), "ä" AS (ORDER BY k DESC)',
    'FROM (SELECT 1 AS "Ä", 2 AS "ä")',
    'FROM (SELECT two FROM two)',
    'UNPIVOT two ON "Ä", "ä"',
    'PIVOT (SELECT *, 3 AS k FROM two) ON k IN (3) USING sum("Ä")',
    'PIVOT (SELECT *, 3 AS k FROM two) ON k IN (3) USING sum("Ä") GROUP BY "ä"',
    'SELECT "Ö"(k) AS a, "ö"(k, 1) AS b FROM one',
    'SELECT "ö"(k) AS b FROM one',
    'SELECT named(k) AS a FROM one',
]  # fmt: skip


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        for statement in SETUP.split(";\n"):
            connection.execute(statement)
        yield connection


@pytest.mark.parametrize("query", QUERIES)
def test_the_plan_means_the_query(cursor: Cursor, query: str) -> None:
    assert_means(cursor, bind(query, DuckCatalog(cursor), cursor), query)
