"""The types of parameters that a client leaves open: psycopg of every text, asyncpg of all."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import asyncpg
import duckdb
import psycopg
import pytest

from tests.serve.serving import Served

_TABLES = (
    "CREATE SCHEMA old",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE p (id INTEGER, code VARCHAR, big BIGINT, f FLOAT, d DECIMAL(8, 2), "
    "ts TIMESTAMPTZ, l INTEGER[], st STRUCT(a VARCHAR))",
    "INSERT INTO p VALUES (7, '007', 7, 0.1, 1.5, '2024-01-01 00:00:00+00', [7], {'a': '07'})",
    "CREATE TABLE old.p (id VARCHAR, code INTEGER, st VARCHAR)",
    "INSERT INTO old.p VALUES ('07', 7, 'x')",
    "CREATE TABLE q (id INTEGER, code INTEGER, st STRUCT(id VARCHAR))",
    "INSERT INTO q VALUES (7, 8, {'id': '07'})",
    "CREATE TABLE g (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1), code VARCHAR)",
    "CREATE TABLE w (ns TIMESTAMP_NS, tn TIME_NS, h HUGEINT, u UHUGEINT)",
    "CREATE VIEW v AS SELECT id::VARCHAR AS id, code AS k FROM p",
)


@pytest.fixture(scope="module")
def tables(shop: Served) -> Served:
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        for sql in _TABLES:
            connection.execute(sql.encode())
    return shop


@pytest.fixture(scope="module")
def reference() -> duckdb.DuckDBPyConnection:
    """DuckDB with the same tables, where parameters that are texts have no type either."""
    connection = duckdb.connect()
    for sql in _TABLES:
        connection.execute(sql)
    return connection


@pytest.fixture
def connection(tables: Served) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(tables.dsn()) as connection:
        yield connection
        connection.rollback()


def described(server: Served, sql: str) -> list[str]:
    async def work() -> list[str]:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="ann", database="shop"
        )
        try:
            statement = await connection.prepare(sql)
            return [each.name for each in statement.get_parameters()]
        finally:
            await connection.close()

    return asyncio.run(work())


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "types"),
    [
        # the columns of exactly the table that is changed
        ("INSERT INTO p (id, code) VALUES ($1, $2)", "int4 text"),
        ("INSERT INTO old.p (id, code) VALUES ($1, $2)", "text int4"),
        ("INSERT INTO shop.old.p VALUES ($1, $2, $3), ('x', $2, $3)", "text int4 text"),
        ("INSERT INTO q VALUES (-$1, ($2), NULL)", "int4 int4"),
        ("INSERT INTO g VALUES ($1, $2)", "text text"),  # b is between them
        ("INSERT INTO g (a, code) VALUES ($1, $2)", "int4 text"),
        (
            "INSERT INTO p (big, id) SELECT $1, ($2) WHERE NOT EXISTS (FROM q WHERE id = $2)",
            "int8 int4",
        ),
        ("INSERT INTO q SELECT $1, q.* FROM q", "text"),
        ("UPDATE p SET code = $1, id = ($2) FROM q WHERE p.id = q.id", "text int4"),
        ("UPDATE q SET code = $1 FROM p WHERE p.code = $2", "int4 text"),
        ("DELETE FROM old.p AS o USING q WHERE o.code = q.code AND o.id = $1", "text"),
        ("MERGE INTO q USING p ON q.id = p.id WHEN MATCHED THEN UPDATE SET code = $1", "int4"),
        # the columns of the relations of the query around, by their qualifiers
        ("SELECT 1 FROM p, q WHERE p.code = $1 AND q.code = $2", "text int4"),
        ("SELECT 1 FROM p, q WHERE p.id = $1 AND big < $2", "int4 int8"),
        ("SELECT 1 FROM p JOIN q USING (id) WHERE id = $1", "int4"),
        ("SELECT 1 FROM p AS q, q AS p WHERE q.code = $1 AND p.code = $2", "text int4"),
        ("SELECT 1 FROM old.p WHERE old.p.code = $1 AND p.id = $2", "int4 text"),
        ("SELECT 1 FROM q WHERE EXISTS (FROM old.p WHERE p.id = $1 AND q.code = $2)", "text int4"),
        ("SELECT 1 FROM q WHERE st.id = $1", "text"),
        ("SELECT 1 FROM q JOIN (SELECT id::VARCHAR AS id FROM q) s ON q.code = $1", "int4"),
        ("SELECT 1 FROM (SELECT id::VARCHAR AS id FROM q) WHERE id = $1", "text"),
        ("WITH q AS (SELECT '07' AS id) SELECT 1 FROM q WHERE id = $1", "text"),
        ("SELECT 1 FROM q u(code, x) WHERE code = $1", "text"),
        # what a CTE or a subquery selects
        ("SELECT 1 FROM (SELECT id, code AS k FROM p) x WHERE x.id = $1 AND k = $2", "int4 text"),
        (
            "WITH x AS (SELECT p.big, code::DATE AS day FROM p) FROM x WHERE big = $1 AND day < $2",
            "int8 date",
        ),
        (
            "WITH x AS (SELECT id FROM p), y AS (SELECT id FROM x) SELECT 1 FROM y WHERE id = $1",
            "int4",
        ),
        ("WITH p AS (SELECT code AS id FROM p) SELECT 1 FROM p WHERE id = $1", "text"),
        ("WITH q AS (SELECT id FROM q) SELECT 1 FROM q WHERE id = $1", "text"),  # itself is unknown
        ("WITH x(code) AS (SELECT id FROM q) SELECT 1 FROM x WHERE code = $1", "text"),
        ("WITH x AS (SELECT id + 1 AS id FROM q) SELECT 1 FROM x WHERE id = $1", "text"),
        (
            "WITH x AS (SELECT id FROM q UNION SELECT code FROM p) SELECT 1 FROM x WHERE id = $1",
            "text",
        ),
        ("WITH RECURSIVE x AS (SELECT id FROM q) SELECT 1 FROM x WHERE id = $1", "text"),
        ("SELECT 1 FROM q WHERE id = $1 AND EXISTS (WITH q AS (SELECT '7' AS id) FROM q)", "text"),
        ("SELECT 1 FROM (SELECT id, q.* FROM q) WHERE id = $1", "text"),
        ("SELECT 1 FROM (SELECT id, unnest(st) AS x FROM p) WHERE id = $1", "text"),
        ("SELECT 1 FROM (SELECT id, COLUMNS('code') AS x FROM p) WHERE id = $1", "text"),
        ("SELECT 1 FROM (SELECT id, count(*) AS n FROM p GROUP BY 1) WHERE id = $1", "int4"),
        ("SELECT 1 FROM v JOIN revenue ON true WHERE id = $1 AND n = $2", "text int8"),
        ("SELECT 1 FROM q st WHERE EXISTS (FROM q WHERE st.id = $1)", "text"),
        ("SELECT id::VARCHAR AS id FROM q GROUP BY ALL HAVING id = $1", "text"),
        ("SELECT id::VARCHAR AS k FROM q WHERE k = $1", "text"),
        ("SELECT code::VARCHAR AS id FROM q WHERE id = $1", "int4"),
        # the other side of a comparison, if its type is certain
        ("SELECT 1 FROM q WHERE id IN ($1, $2) OR code BETWEEN $3 AND $4", "int4 int4 int4 int4"),
        (
            "SELECT 1 FROM p WHERE id = ANY($1) OR code = ANY($2) OR id IN $3",
            "int4[] text[] int4[]",
        ),
        ("SELECT 1 FROM p WHERE lower(code) <> ALL($1)", "text[]"),
        ("SELECT 1 FROM p WHERE $1 = ANY(l) OR l = $2", "int4 int4[]"),
        ("SELECT 1 FROM q WHERE (id = 1) = $1 OR id::DATE = $2 OR (id) = ($3)", "text date int4"),
        ("SELECT 1 FROM p WHERE id IN ($1, code)", "text"),
        ("SELECT 1 FROM p WHERE id = 7 AND $1", "text"),
        ("SELECT 1 FROM p WHERE list_contains([x FOR x IN l IF x = $1], 7)", "text"),
        ("SELECT $1 = 5, $2 > -1.5, big + $3, $4 = 'x' FROM p", "int8 numeric int8 text"),
        (
            "SELECT 1 FROM p WHERE id % 2 = $1 OR d * 2 + $2 > 0 OR id / 2 < $3",
            "int8 numeric float8",
        ),
        ("SELECT 1 FROM p WHERE ts - ts = $1 OR d IN ($2, 5)", "text numeric"),
        ("SELECT ts - $1, $2 - ts::DATE FROM p", "timestamptz date"),
        ("FROM p LIMIT $1 OFFSET $2", "int8 int8"),
        ("UPDATE p SET (code, id) = ($1, $2)", "text int4"),
        (
            "SELECT 1 FROM p WHERE (id, code) = ($1, $2) OR (big, ts) > ($3, $4)",
            "int4 text int8 timestamptz",
        ),
        (
            "SELECT 1 FROM p WHERE (id, code) IN (($1, $2), (7, $3)) OR ($4, $5) < (id, $6)",
            "int4 text text int4 text text",
        ),
        # what DuckDB takes where a text does not bind
        (
            "SELECT 1 FROM p WHERE length(code) > $1 HAVING count(*) < $2 AND sum(d) > $3",
            "int8 int8 numeric",
        ),
        (
            "SELECT left(code, $1), coalesce(id, $2), greatest(ts, $3) FROM p",
            "int4 int4 timestamptz",
        ),
        (
            "SELECT ts + $1, abs($2), $3 * INTERVAL '1 day', l[$4] FROM p",
            "interval numeric numeric int4",
        ),
        (
            "WITH x AS (SELECT sum(id) AS s FROM p) SELECT 1 FROM x WHERE s > $1 AND s = $2",
            "numeric text",
        ),
        ("INSERT INTO p (id, code) SELECT $1, left(code, $2) FROM p", "int4 int4"),
        ("UPDATE p SET code = left(code, $1) WHERE id = $2", "int4 int4"),
        # of several places all must agree
        ("SELECT $1, $1 IS NULL FROM p WHERE id = $1", "int4"),
        ("SELECT 1 FROM p WHERE id = $1 OR big = $1", "int8"),
        ("SELECT 1 FROM p WHERE id = $1 OR code = $1", "text"),
        ("SELECT 1 FROM p WHERE id = $1 OR lower(code) = $1", "text"),
        # casts, in all spellings
        ("SELECT $1::INT[], CAST($2 AS TIMESTAMPTZ), $3::TIMETZ", "int4[] timestamptz timetz"),
        ("SELECT $1::REAL, $2::HUGEINT, $3::INT8, $4::BYTEA", "float4 numeric int8 bytea"),
        ("SELECT $1::mood, $2::FLOAT, ($3)::STRING, $4::VARCHAR(3)[]", "text float4 text text[]"),
        ("SELECT TRY_CAST($1 AS INTEGER), TRY($2::INTEGER)", "text text"),
    ],
)
def test_types_by_place(tables: Served, sql: str, types: str) -> None:
    assert " ".join(described(tables, sql)) == types


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT id FROM p WHERE id::VARCHAR = {}", ["07"]),
        ("SELECT id FROM p WHERE CAST(id AS VARCHAR) IN ({}, 'x')", ["07"]),
        ("SELECT id FROM p WHERE strftime(ts, '%Y') = {}", ["2024"]),
        ("SELECT id FROM p WHERE CASE WHEN id > 8 THEN 'hi' ELSE 'lo' END = {}", ["lo"]),
        ("SELECT id FROM p WHERE l[1] = {} AND {}", ["7", "true"]),
        ("SELECT p.id FROM p, q WHERE p.code = {} AND q.code = {}", ["007", "8"]),
        ("SELECT id FROM old.p WHERE id = {} AND code = {}", ["07", "7"]),
        ("SELECT k FROM v WHERE id = {}", ["07"]),
        ("SELECT id FROM q WHERE st.id = {}", ["07"]),
        ("SELECT code FROM (SELECT id::VARCHAR AS id, code FROM q) WHERE id = {}", ["07"]),
        ("WITH q AS (SELECT '07' AS id) SELECT id FROM q WHERE id = {}", ["07"]),
        ("SELECT id FROM p WHERE f = {} AND f IN ({}, 5)", ["0.1", "0.1"]),
        ("SELECT {} - ts::DATE FROM p", ["2024-01-03"]),
        ("SELECT {}::INTEGER[] = l FROM p", ["[7]"]),
        ("SELECT TRY_CAST({} AS INTEGER), TRY({}::INTEGER)", ["x", "x"]),
        ("SELECT TRY_CAST({} AS INTEGER[])", ["x"]),
        ("SELECT {}::mood::VARCHAR, {}::TIMESTAMPTZ = ts FROM p", ["ok", "2024-01-01 01:00:00+01"]),
        ("INSERT INTO p (id, code) VALUES ({}, {}) RETURNING id, code", ["08", "008"]),
        ("INSERT INTO old.p VALUES ({}, {}, {}) RETURNING id, code", ["08", "008", "1"]),
        ("INSERT INTO g VALUES ({}, {}) RETURNING a, b, code", ["08", "008"]),
        ("UPDATE p SET code = {} FROM q WHERE p.id = q.id RETURNING p.code", ["08"]),
        (
            "INSERT INTO w VALUES ({}, {}, {}, {}) RETURNING w::VARCHAR",
            [
                "2024-01-01 00:00:00.123456789",
                "01:02:03.123456789",
                str(-(1 << 127)),
                str((1 << 128) - 1),
            ],
        ),
    ],
)
def test_texts_are_read_as_duckdb_reads_them(
    connection: psycopg.Connection[Any],
    reference: duckdb.DuckDBPyConnection,
    sql: str,
    values: list[str],
) -> None:
    expected = reference.begin().execute(sql.replace("{}", "?"), values).fetchall()
    reference.rollback()
    written = sql.replace("%", "%%").replace("{}", "%s")
    assert connection.execute(written.encode(), values).fetchall() == expected


def test_texts_are_read_as_what_duckdb_takes(connection: psycopg.Connection[Any]) -> None:
    sql = "SELECT left(code, %s), coalesce(NULL, id, %s) FROM p WHERE length(code) > %s"
    assert connection.execute(sql, ["2", "5", "2"]).fetchall() == [("00", 7)]
    sql = "SELECT id FROM p GROUP BY id HAVING count(*) <= %s AND sum(d) > %s"
    assert connection.execute(sql, ["1", "1.25"]).fetchall() == [(7,)]


def test_where_several_types_are_taken_the_client_says_which(tables: Served) -> None:
    for sql in ("SELECT ts::DATE + $1 FROM p", "SELECT now() - $1"):
        with pytest.raises(asyncpg.UndefinedFunctionError, match="explicit type casts"):
            described(tables, sql)
    assert described(tables, "SELECT ts::DATE + $1::INTEGER FROM p") == ["int4"]


@pytest.mark.full
def test_thousands_of_parameters(connection: psycopg.Connection[Any]) -> None:
    """A list and the relations of a statement are looked at once, not for each parameter."""
    values = [f"{i:05}" for i in range(5000)]
    marks = ", ".join(["%s"] * len(values))
    sql = f"SELECT count(*) FROM p WHERE id IN ({marks})"
    assert connection.execute(sql.encode(), values).fetchone() == (1,)
    rows = ", ".join(["(%s, %s)"] * (len(values) // 2))
    sql = f"INSERT INTO old.p (id, code) VALUES {rows} RETURNING id, code"
    found = connection.execute(sql.encode(), values).fetchall()
    assert found[:2] == [("00000", 1), ("00002", 3)]


def test_one_name_in_two_places_keeps_the_text(connection: psycopg.Connection[Any]) -> None:
    sql = "SELECT id FROM p WHERE id = %(x)s AND code = %(x)s"
    assert connection.execute(sql, {"x": "007"}).fetchall() == [(7,)]


def test_lists(connection: psycopg.Connection[Any]) -> None:
    """psycopg sends a list of nothing, or of texts, without a type."""
    inserted: list[tuple[list[Any], list[Any]]] = [([], []), ([1, None], [1, None]), (["3"], [3])]
    for value, stored in inserted:
        sql = "INSERT INTO p (l) VALUES (%s) RETURNING l"
        assert connection.execute(sql, [value]).fetchone() == (stored,)
    compared: list[tuple[list[Any], list[Any]]] = [([], []), ([6, 7], [(7,)]), (["07"], [(7,)])]
    for value, found in compared:
        sql = "SELECT id FROM p WHERE id = ANY(%s)"
        assert connection.execute(sql, [value]).fetchall() == found


@pytest.mark.parametrize(
    ("type", "text", "wanted"),
    [
        ("bytea", "é€", "é€".encode()),
        ("bytea", r"a\\\001\377", b"a\\\x01\xff"),
        ("bytea", r"a\b", None),
        ("bytea", r"\u0041", None),
        ("text[]", r'{\NULL, null,"null"}', ["NULL", None, "null"]),
        ("text[]", '{"a" , b  c\t, d\\ }', ["a", "b  c", "d "]),
        ("text[]", '{a,"b}', None),
        ("text[]", '{a"b"}', None),
        ("text[]", "{,}", None),
        ("text[]", "{a}}", None),
        ("int4[]", " { 1 ,2} ", [1, 2]),
        ("float8", "1e308", 1e308),
        ("float8", "1e309", None),
    ],
)
def test_texts_are_read_as_postgresql_reads_them(
    tables: Served, type: str, text: str, wanted: object
) -> None:
    """As drivers write them that send texts with the type of the parameter."""
    with psycopg.connect(tables.dsn()) as connection:
        oid = psycopg.postgres.types.get_oid(type.replace("[]", ""))
        if type.endswith("[]"):
            oid = psycopg.postgres.types[type.removesuffix("[]")].array_oid
        found = connection.pgconn.exec_params(b"SELECT $1", [text.encode()], [oid], [0], 0)
        assert (_loaded(connection, found) if found.ntuples else None) == wanted


def _loaded(connection: psycopg.Connection[Any], found: psycopg.pq.abc.PGresult) -> object:
    transformer = psycopg.adapt.Transformer(connection)
    transformer.set_pgresult(found)
    loaded = transformer.load_row(0, tuple)
    return None if loaded is None else loaded[0]


@pytest.mark.parametrize(
    ("oid", "value"),
    [
        (1009, struct.pack("!6i", 1, 0, 25, 1, 1, 5) + b"hi"),
        (1009, struct.pack("!6i", 1, 0, 25, 1, 1, 2) + b"hi!"),
        (1009, struct.pack("!5i", 1, 0, 25, -1, 1)),
        (1700, struct.pack("!5h", 1, 0, 0, 0, 10_000)),
    ],
)
def test_binary_values_of_no_sense_are_refused(tables: Served, oid: int, value: bytes) -> None:
    with psycopg.connect(tables.dsn()) as connection:
        found = connection.pgconn.exec_params(b"SELECT $1", [value], [oid], [1], 0)
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22P02"


def test_a_format_that_is_none_is_refused(tables: Served) -> None:
    with psycopg.connect(tables.dsn()) as connection:
        found = connection.pgconn.exec_params(b"SELECT $1", [b"1"], [23], [7], 0)
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22023"


@pytest.mark.parametrize("form", ["%t", "%b"])
@pytest.mark.parametrize("number", [-(1 << 127), (1 << 127) - 1, 10**38])
def test_integers_of_128_bits(connection: psycopg.Connection[Any], form: str, number: int) -> None:
    sql = f"INSERT INTO w (h) VALUES ({form}) RETURNING h::VARCHAR"
    assert connection.execute(sql.encode(), [number]).fetchone() == (str(number),)


def test_a_temporary_table_hides_another(connection: psycopg.Connection[Any]) -> None:
    sql = "INSERT INTO q (id) VALUES (%s) RETURNING id"
    assert connection.execute(sql, ["08"]).fetchone() == (8,)
    connection.execute("CREATE TEMP TABLE q (id VARCHAR)")
    assert connection.execute(sql, ["08"]).fetchone() == ("08",)


def test_a_table_of_another_database(connection: psycopg.Connection[Any]) -> None:
    connection.autocommit = True
    connection.execute("ATTACH ':memory:' AS other")
    connection.execute("CREATE TABLE other.q (id VARCHAR, code VARCHAR)")
    sql = "INSERT INTO other.q VALUES (%s, %s) RETURNING id, code"
    assert connection.execute(sql, ["08", "09"]).fetchone() == ("08", "09")
    connection.execute("DETACH other")
