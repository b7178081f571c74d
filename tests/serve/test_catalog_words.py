"""Which queries are of PostgreSQL's catalog: those that read it, whatever words others have."""

from __future__ import annotations

import psycopg
import pytest

from ivm.serve.pg.catalog.catalog_rewrite import rewritten
from ivm.serve.pg.catalog.catalog_words import asks_catalog
from tests.serve.serving import Served

PLAIN = (
    "SELECT pg_rating FROM films",
    'SELECT f."pg_rating" FROM films f WHERE f.pg_rating = $$pg_class$$',
    "SELECT count(*) FROM films WHERE pg_rating <> 'information_schema.tables'",
    "SELECT id AS pg_type FROM films -- after pg_dump",
    'SELECT * FROM films /* {"app": "dbt", "profile_name": "pg_prod"} */',
    "SELECT id FROM pg_films",
    "SELECT x.id FROM films pg_class, LATERAL (SELECT pg_class.id) x",
    "SELECT pg_typeof(id) FROM films",
    "SELECT extract(year FROM pg_type) FROM (SELECT DATE '2024-01-01' AS pg_type) t",
    "SELECT id FROM films ORDER BY id, pg_rating",
    "WITH pg_x AS (SELECT id FROM films) SELECT * FROM pg_x",
    "WITH pg_class(a) AS NOT MATERIALIZED (SELECT id FROM films) SELECT a FROM pg_class",
    "SELECT * FROM (VALUES (1, 2), (2, 3)) pg_class(a, b)",
    "SELECT array_to_string([1, 2], ',')",
    "SELECT 'version()'",
    "SELECT * FROM 'films'",
    "WITH x AS (UPDATE films SET id = 1 RETURNING id) SELECT id, current_user FROM x",
    "WITH x AS (INSERT INTO films (id) VALUES (1) RETURNING id) SELECT id, version() FROM x",
    "SELECT DISTINCT ON (current_user) id, current_user FROM films",
    "SELECT f.distinct FROM (SELECT id AS distinct FROM films) f WHERE version() > ''",
    "SELECT id AS distinct, current_user FROM films",
    "SELECT a.id FROM films a JOIN films b USING (id), pg_films",
)
CATALOG = (
    "SELECT relname FROM pg_class",
    "SELECT relname FROM 'pg_class' AS c",  # a plain string is a name, as DuckDB reads it
    "SELECT relname FROM pg_class a JOIN 'PG_CLASS' b USING (relname), pg_index",
    "SELECT relname AS table, 'abc' AS from, 'k' AS using, 'z' FROM pg_class",
    "TABLE pg_catalog.pg_class",
    'SELECT 1 FROM "information_schema"."tables" WHERE true',
    "SELECT 1 FROM (pg_catalog.pg_class c JOIN pg_namespace n ON true)",
    "SELECT (SELECT count(*) FROM pg_index i, pg_class)",
    "WITH x AS (SELECT oid FROM pg_class) SELECT * FROM x",
    "SELECT * FROM current_schema()",
    "SELECT n FROM unnest(current_schemas(true)) n",
    "SELECT version()",
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 1 END",
    "SELECT 'orders'::regclass",
    "SELECT $1::text::regtype::oid",
    'SELECT quote_literal(1::"pg_catalog"."int4"::text)',
)


@pytest.fixture
def client(shop: Served) -> psycopg.Connection:
    client = psycopg.connect(shop.dsn(), autocommit=True)
    client.execute("CREATE OR REPLACE TABLE films (id INTEGER, pg_rating VARCHAR)")
    client.execute("CREATE OR REPLACE TABLE pg_films (id INTEGER)")
    return client


@pytest.mark.full
def test_relations_decide_and_no_other_words(client: psycopg.Connection) -> None:
    with client:
        for sql in PLAIN:
            assert not asks_catalog(sql), sql
            client.execute(sql.encode())
        for sql in CATALOG:
            assert asks_catalog(sql), sql
            client.execute(sql.encode().replace(b"$1", b"'text'"))


def test_both_are_not_read_in_one(client: psycopg.Connection) -> None:
    with client, pytest.raises(psycopg.errors.FeatureNotSupported, match="not both"):
        client.execute("SELECT * FROM films, pg_class")


def test_what_is_no_source_is_an_error_of_syntax(client: psycopg.Connection) -> None:
    with client, pytest.raises(psycopg.errors.SyntaxError):
        client.execute("SELECT version() FROM 5(3)")


def test_functions_give_their_names_to_columns_of_queries_inside(
    client: psycopg.Connection,
) -> None:
    with client:
        for sql, wanted in (
            ("SELECT * FROM (SELECT current_database(), n.nspname FROM pg_namespace n) c",
             ["current_database", "nspname"]),
            ("WITH a AS (SELECT current_user, count(*) FROM pg_class) SELECT * FROM a",
             ["current_user", "count"]),
            ("SELECT * FROM current_schema()", ["current_schema"]),
        ):  # fmt: skip
            found = client.execute(sql.encode()).description or []
            assert [column.name for column in found] == wanted


def test_types_of_the_catalog_are_known_with_its_name() -> None:
    for given, wanted in (
        ("1::pg_catalog.int4", "INT"), ('1::"pg_catalog"."int4"', "INT"),
        ('x::"pg_catalog"."_int4"', "INT[]"), ('1::"pg_catalog"."name"', "TEXT"),
    ):  # fmt: skip
        assert f" AS {wanted})" in rewritten(f"SELECT {given}").sql
