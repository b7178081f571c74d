"""psql: what `\\d` and its family print, queries, transactions, errors and COPY.

The golden files are what psql of PostgreSQL 15 prints; `IVM_GOLDEN=write` writes them anew.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.serve.serving import Served, psql

GOLDEN = Path(__file__).parents[1] / "golden" / "psql"
_SEARCHED = (
    "(SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM generate_series("
    "array_lower(string_to_array(current_setting('search_path'), ','), 1), "
    "array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, "
    "string_to_array(current_setting('search_path'), ',') s)"
)
GRAFANA = (
    "SELECT CASE WHEN quote_ident(table_schema) IN " + _SEARCHED + " THEN quote_ident(table_name) "
    "ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS \"table\" "
    "FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN "
    "('information_schema', 'pg_catalog', 'timescaledb_information') ORDER BY "
    "CASE WHEN quote_ident(table_schema) IN " + _SEARCHED + " THEN 0 ELSE 1 END, 1",
    'SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM '
    "information_schema.columns WHERE CASE WHEN array_length(parse_ident('orders'), 1) = 2 THEN "
    "quote_ident(table_schema) = (parse_ident('orders'))[1] AND "
    "quote_ident(table_name) = (parse_ident('orders'))[2] ELSE quote_ident(table_name) = 'orders' "
    "AND quote_ident(table_schema) IN " + _SEARCHED + " END",
    "SELECT current_setting('server_version_num')::int/100 AS version",
    "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'",
    'SELECT floor(extract(epoch from placed)/2592000)*2592000 AS "time", sum(amount) AS "value" '
    "FROM orders WHERE placed BETWEEN '2024-01-01T00:00:00Z' AND '2024-06-30T23:59:59.999Z' "
    "GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('month', placed) AS \"time\", region AS metric, avg(amount)::float8 AS "
    '"value" FROM orders JOIN customers ON customer = customers.id WHERE placed >= '
    "'2024-01-01T00:00:00Z' AND placed <= '2024-03-01T00:00:00Z' GROUP BY 1, 2 ORDER BY 1, 2",
    'SELECT extract(epoch FROM placed) AS "time", amount FROM orders WHERE extract(epoch FROM '
    "placed) >= 1704067200 AND extract(epoch FROM placed) <= 1704240000 ORDER BY placed ASC",
    "SELECT region, n, total FROM revenue ORDER BY region LIMIT 50",
    "SELECT DISTINCT region AS __text, id AS __value FROM customers ORDER BY 2 LIMIT 3",
)
"""What Grafana's data source and query builder send, and queries of dashboards as its macros fill
them in."""
COMMANDS = {
    "grafana": GRAFANA,
    "d": (r"\d",),
    "relations": (r"\dt", r"\dv", r"\dm", r"\di", r"\ds", r"\dE"),
    "databases": (r"\l", r"\dn", r"\du", r"\db"),
    "functions": (r"\df", r"\da", r"\do", r"\dT", r"\dD", r"\dC", r"\dL", r"\dx", r"\dy"),
    "table": (r"\d orders", r"\d customers", r"\d s.t"),
    "table_plus": (r"\d+ orders",),
    "views": (r"\d revenue", r"\d+ revenue", r"\d+ big", r"\sv big"),
    "other": (r"\d by_customer", r"\d numbers", r"\d nothing", r"\dt+", r"\dp", r"\dd"),
    "rest": (r"\des", r"\dO", r"\dFd", r"\dRp", r"\drds"),
}

pytestmark = [
    pytest.mark.full(smoke=4),
    pytest.mark.skipif(
        shutil.which("psql") is None and os.environ.get("IVM_SERVERS") != "required",
        reason="NOT RUN: psql is not installed (Debian: postgresql-client)",
    ),
]


@pytest.mark.full
@pytest.mark.parametrize("name", COMMANDS)
def test_what_psql_shows_of_the_catalog(shop: Served, name: str) -> None:
    version = psql(shop, r"\echo :VERSION_NAME")
    if not version.startswith("15."):
        pytest.skip(f"NOT RUN: the golden files are of psql 15, and this is {version}")
    found = "".join(f"=> {c}\n{psql(shop, c)}" for c in COMMANDS[name])
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("IVM_GOLDEN") == "write":
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


def test_queries_and_what_was_done(shop: Served) -> None:
    told = psql(
        shop,
        "SELECT region, n FROM revenue ORDER BY 1 LIMIT 1",
        "CREATE TABLE made (a INTEGER PRIMARY KEY, b VARCHAR)",
        "INSERT INTO made VALUES (1, 'x'), (2, NULL)",
        "UPDATE made SET b = 'y' WHERE a = 2",
        "DELETE FROM made WHERE a = 1 RETURNING b",
        "DROP TABLE made",
        "SHOW MATERIALIZED VIEWS",
    )
    words = [" ".join(line.split()) for line in told.splitlines()]
    for line in ("R0 | 340", "CREATE TABLE", "INSERT 0 2", "UPDATE 1", "x", "DELETE 1"):
        assert line in words
    assert "DROP TABLE" in words


def test_a_place_and_a_hint_are_told(shop: Served) -> None:
    told = psql(shop, "SELECT region, nope FROM revenue")
    assert re.search(r"LINE 1: SELECT region, nope FROM revenue\n {23}\^", told)
    assert "HINT:" in told


def test_several_statements_are_one_transaction(shop: Served) -> None:
    told = psql(
        shop,
        "CREATE TABLE twice (a INTEGER PRIMARY KEY)",
        "INSERT INTO twice VALUES (1); INSERT INTO twice VALUES (1)",
        "SELECT count(*) AS c FROM twice",
        "DROP TABLE twice",
    )
    assert "Duplicate key" in told
    assert re.search(r" c \n---\n 0\n", told)


def test_copy_there_and_back(shop: Served, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('1,"a,""b"""\n2,\n3,""\n', encoding="utf-8")
    back = tmp_path / "back.txt"
    told = psql(
        shop,
        "CREATE TABLE copied (a INTEGER PRIMARY KEY, b VARCHAR)",
        rf"\copy copied FROM '{file}' WITH (FORMAT csv)",
        rf"\copy copied TO '{back}'",
        rf"\copy (SELECT a, b FROM copied ORDER BY a) TO '{tmp_path}/back.csv' CSV HEADER",
        "DROP TABLE copied",
    )
    assert told.count("COPY 3") == 3, told
    assert back.read_text(encoding="utf-8") == '1\ta,"b"\n2\t\\N\n3\t\n'
    assert (tmp_path / "back.csv").read_text(encoding="utf-8") == 'a,b\n1,"a,""b"""\n2,\n3,""\n'
