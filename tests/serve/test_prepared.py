"""Prepared statements: their names, and the columns that they were told to have."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.serve.raw import DESCRIBE_PORTAL, EXECUTE, Raw, bind, describe, message, parse
from tests.serve.serving import Served


def _change(shop: Served, *statements: str) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as other:
        for statement in statements:
            other.execute(statement.encode())


@pytest.mark.full
def test_a_statement_that_does_not_bind_has_no_name(shop: Served) -> None:
    """As pgx sends it, and as pgJDBC does, which executes it at once."""
    asked = "SELECT * FROM later"
    for batch in (
        (describe("s"),),
        (bind("s"), DESCRIBE_PORTAL, EXECUTE),
        (bind("s"), EXECUTE),
    ):
        with Raw(shop.port) as client:
            failed = client.send(parse("s", asked), *batch)
            assert [answer.code for answer in failed if answer.tag == "E"] == ["42P01"]
            _change(shop, "CREATE TABLE later (id INTEGER)")
            found = client.send(parse("s", asked), *batch)
            assert "E" not in [answer.tag for answer in found]
        _change(shop, "DROP TABLE later")


def test_a_statement_that_fails_as_it_runs_keeps_its_name(shop: Served) -> None:
    with Raw(shop.port) as client:
        run = bind("s"), DESCRIBE_PORTAL, EXECUTE
        failed = client.send(parse("s", "SELECT error(n || '') FROM revenue"), *run)
        assert "E" in [answer.tag for answer in failed]
        again = client.send(*run)
        assert next(answer.code for answer in again if answer.tag == "E") != "26000"
        taken = client.send(parse("s", "SELECT 1"))
        assert next(answer.code for answer in taken if answer.tag == "E") == "42P05"


def test_the_end_of_a_failed_transaction_is_described(shop: Served) -> None:
    """As postgres.js sends it."""
    with Raw(shop.port) as client:
        client.ask(message(b"Q", "BEGIN"))
        client.ask(message(b"Q", "SELECT nosuch"))
        for described in (describe(""), message(b"D", b"P", "")):
            tags = [a.tag for a in client.send(parse("", "ROLLBACK"), bind(""), described)]
            assert tags[-1:] == ["Z"]
            assert "E" not in tags
        ended = client.send(parse("", "rollback"), describe(""), bind(""), EXECUTE)
        assert ended[-1].body == b"I"


@pytest.mark.full
@pytest.mark.parametrize("asked", ["SELECT * FROM told", "UPDATE told SET c = c + 1 RETURNING *"])
def test_columns_told_as_a_portal_runs_are_demanded_later(shop: Served, asked: str) -> None:
    """As pgJDBC, which describes a statement's first portal, and not those that follow."""
    _change(shop, "CREATE TABLE told (a INTEGER, b INTEGER, c INTEGER)")
    _change(shop, "INSERT INTO told VALUES (1, 2, 3)")
    with Raw(shop.port) as client:
        client.send(parse("s", asked), bind("s"), DESCRIBE_PORTAL, EXECUTE)
        assert [each.tag for each in client.send(bind("s"), EXECUTE)] == ["2", "D", "C", "Z"]
        _change(shop, "ALTER TABLE told DROP COLUMN b")
        changed = client.send(bind("s"), EXECUTE)
        assert [each.code for each in changed if each.tag == "E"] == ["0A000"]
        told = client.send(bind("s"), DESCRIBE_PORTAL, EXECUTE)
        assert [each.tag for each in told] == ["2", "T", "D", "C", "Z"]
        assert [each.tag for each in client.send(bind("s"), EXECUTE)] == ["2", "D", "C", "Z"]
    _change(shop, "DROP TABLE told")


def test_columns_told_by_a_portal_hold_for_other_values(shop: Served) -> None:
    with Raw(shop.port) as client:
        asked = message(b"P", "s", "SELECT $1 AS x, coalesce($1, 1) AS y", 1, b"\0\0\0\x14")
        told = client.send(asked, _bind_number(1), DESCRIBE_PORTAL, EXECUTE)
        assert next(each.body for each in told if each.tag == "T").count(b"\0\0\0\x14\0\x08") == 2
        (row,) = [e.body for e in client.send(_bind_number(1 << 40), EXECUTE) if e.tag == "D"]
        assert row == struct.pack("!hiqiq", 2, 8, 1 << 40, 8, 1 << 40)


@pytest.mark.parametrize("described", [describe("s"), b""])
def test_a_decimal_keeps_its_digits(shop: Served, described: bytes) -> None:
    asked = message(b"P", "s", "SELECT $1 AS x", 1, b"\0\0\x06\xa4")
    with Raw(shop.port) as client:
        for text in (b"1.5", b"0.00000000000000000123"):
            value = struct.pack("!i", len(text)) + text
            bound = message(b"B", "", "s", 0, 1, value, 0)
            found = client.send(asked, described, bound, DESCRIBE_PORTAL, EXECUTE)
            assert [each.body[6:] for each in found if each.tag == "D"] == [text]
            asked = described = b""
        assert "D" in [each.tag for each in client.send(bound, EXECUTE)]


def _bind_number(number: int) -> bytes:
    """A Bind of one int8, for results in binary."""
    return message(b"B", "", "s", 1, 1, 1, struct.pack("!iq", 8, number), 1, 1)


def test_an_older_statement_keeps_its_name(shop: Served) -> None:
    _change(shop, "CREATE TABLE gone (id INTEGER)")
    with Raw(shop.port) as client:
        client.send(parse("s", "SELECT * FROM gone"), describe("s"))
        _change(shop, "DROP TABLE gone")
        failed = client.send(bind("s"), DESCRIBE_PORTAL, EXECUTE)
        assert next(answer.code for answer in failed if answer.tag == "E") == "42P01"
        _change(shop, "CREATE TABLE gone (id INTEGER)")
        found = client.send(bind("s"), DESCRIBE_PORTAL, EXECUTE)
        assert "E" not in [answer.tag for answer in found]
    _change(shop, "DROP TABLE gone")


CHANGED = (  # a statement, what changes under it, and what undoes that
    ("SELECT * FROM told", "ALTER TABLE told RENAME a TO z", "ALTER TABLE told RENAME z TO a"),
    (
        "SELECT * FROM told",
        "CREATE OR REPLACE TABLE told AS SELECT b, a, c FROM told",
        "CREATE OR REPLACE TABLE told AS SELECT a, b, c FROM told",
    ),
    ("SELECT * FROM told", "ALTER TABLE told ADD COLUMN d INTEGER", "ALTER TABLE told DROP d"),
    ("SELECT * FROM told", "ALTER TABLE told DROP c", "ALTER TABLE told ADD c DECIMAL(8, 2)"),
    (
        "SELECT sum(a) AS s FROM told WHERE b < $1",
        "ALTER TABLE told ALTER a TYPE DOUBLE",
        "ALTER TABLE told ALTER a TYPE INTEGER",
    ),
    (
        "SELECT * FROM live",
        "CREATE OR REPLACE MATERIALIZED VIEW live AS SELECT b AS y, a AS x FROM other",
        "CREATE OR REPLACE MATERIALIZED VIEW live AS SELECT a AS x, b AS y FROM other",
    ),
    (
        "UPDATE told SET b = b + 1 RETURNING *",
        "ALTER TABLE told ALTER a TYPE DOUBLE",
        "ALTER TABLE told ALTER a TYPE INTEGER",
    ),
)


def _told(shop: Served) -> None:
    _change(
        shop,
        "CREATE OR REPLACE TABLE told (a INTEGER, b INTEGER, c DECIMAL(8, 2))",
        "INSERT INTO told VALUES (1, 2, 3.5)",
        "CREATE TABLE IF NOT EXISTS other (a INTEGER, b INTEGER)",
        "CREATE OR REPLACE MATERIALIZED VIEW live AS SELECT a AS x, b AS y FROM other",
        "DELETE FROM other",
        "INSERT INTO other VALUES (100, 2)",
        'CREATE OR REPLACE TABLE words (a INTEGER, "returning" INTEGER)',
        "INSERT INTO words VALUES (1, 1)",
        "CREATE OR REPLACE TABLE keyed (a INTEGER PRIMARY KEY, b INTEGER)",
    )


def _asyncpg(shop: Served, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        place: dict[str, Any] = {"host": "127.0.0.1", "port": shop.port, "user": "ann"}
        client = await asyncpg.connect(**place, database="shop")
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(run())


@pytest.mark.full
@pytest.mark.parametrize(("asked", "change", "back"), CHANGED)
def test_other_columns_than_were_told_are_refused(
    shop: Served, asked: str, change: str, back: str
) -> None:
    _told(shop)
    given = [5] * asked.count("$1")

    async def work(client: asyncpg.Connection) -> None:
        statement = await client.prepare(asked)
        before = await statement.fetch(*given)
        _change(shop, change)
        for _ in range(2):
            with pytest.raises(asyncpg.InvalidCachedStatementError):
                await statement.fetch(*given)
        _change(shop, back)
        after = await statement.fetch(*given)
        if not asked.startswith("SELECT * FROM told"):  # which has NULL in a new column
            changed = asked.startswith("UPDATE")  # twice in all: what is refused changes nothing
            assert [row[0] for row in after] == [row[0] for row in before]
            assert [row["b"] for row in after] == [4] if changed else after == before

    _asyncpg(shop, work)


def test_other_columns_of_a_file_are_refused(shop: Served, tmp_path: Path) -> None:
    """They change without a commit, also below a view."""
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n")
    _change(shop, f"CREATE OR REPLACE VIEW of_file AS FROM '{file}'")

    async def work(client: asyncpg.Connection) -> None:
        for source in ("of_file", f"'{file}'"):
            file.write_text("a,b\n1,2\n")
            statement = await client.prepare(f"SELECT * FROM {source} WHERE a < $1::INTEGER")
            assert [tuple(row.items()) for row in await statement.fetch(5)] == [
                (("a", 1), ("b", 2))
            ]
            file.write_text("b,a\n1,2\n")
            with pytest.raises(asyncpg.InvalidCachedStatementError):
                await statement.fetch(5)

    _asyncpg(shop, work)


def test_deallocate_all_forgets_what_sql_has_prepared(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as client:
        for way in ("DEALLOCATE ALL", "DISCARD ALL"):
            client.execute(
                "PREPARE one AS SELECT 1; PREPARE two AS DELETE FROM orders WHERE id = $1"
            )
            client.execute(way.encode())
            for name in ("one", "two(1)"):
                with pytest.raises(psycopg.Error, match="there is no prepared statement"):
                    client.execute(f"EXECUTE {name}".encode())


def test_psycopg_prepares_anew_what_it_is_refused(shop: Served) -> None:
    """It describes each run, so it may be told other columns: it is told what it gets."""
    _told(shop)
    with psycopg.connect(shop.dsn(), autocommit=True) as client:
        asked = "SELECT * FROM live"
        assert client.execute(asked, prepare=True).fetchall() == [(100, 2)]
        change = (
            "CREATE OR REPLACE MATERIALIZED VIEW live AS SELECT b AS y, a::DOUBLE AS x FROM other"
        )
        _change(shop, change)
        cursor = client.execute(asked, prepare=True)
        assert [column.name for column in cursor.description or ()] == ["y", "x"]
        assert cursor.fetchall() == [(2, 100.0)]


@pytest.mark.full
def test_ddl_that_leaves_the_columns_is_harmless(shop: Served) -> None:
    _told(shop)

    async def work(client: asyncpg.Connection) -> None:
        statements = [
            await client.prepare(sql)
            for sql in (
                "SELECT * FROM told",
                "SELECT a + $1 AS x, $2 AS y FROM told",
                "SELECT x, $1 + 1 FROM live",
                "UPDATE told SET c = $1 RETURNING a, c",
            )
        ]

        async def run() -> list[list[tuple[Any, ...]]]:
            given: list[list[Any]] = [[], [7, "t"], [1], [Decimal("2.5")]]
            return [
                [tuple(row) for row in await s.fetch(*g)]
                for s, g in zip(statements, given, strict=True)
            ]

        wanted = [[(1, 2, Decimal("3.5"))], [(8, "t")], [(100, 2)], [(1, Decimal("2.5"))]]
        assert await run() == wanted
        wanted[0] = [(1, 2, Decimal("2.5"))]
        for change in (
            "CREATE INDEX told_a ON told (a)",
            "CREATE OR REPLACE TABLE told AS FROM told",
            "CREATE TABLE beside (x INTEGER)",
            "DROP TABLE beside",
            "CREATE OR REPLACE MATERIALIZED VIEW live AS SELECT max(a) AS x, 2 AS y FROM other",
        ):
            _change(shop, change)
            assert await run() == wanted, change

    _asyncpg(shop, work)


RETURNED = (
    ("UPDATE told AS c SET b = 5 FROM other AS o WHERE o.a <> c.a RETURNING c.a, b, c.c", "abc"),
    ("DELETE FROM told AS d USING other AS o WHERE o.a = d.a RETURNING d.*", "abc"),
    ("DELETE FROM told d WHERE d.a = $1 RETURNING d.b AS x, d.b", "xb"),
    ("INSERT INTO told VALUES (7, 8, 9) RETURNING a AS x, 'returning'||b AS y", "xy"),
    ("INSERT INTO told VALUES (7, 8, 9) RETURNING a AS x, 'ß returning' AS y, 'ß' AS z", "xyz"),
    ("UPDATE main.told SET b = 1 RETURNING a -- no returning", "a"),
    (
        "MERGE INTO told AS m USING other AS o ON m.a = o.a WHEN MATCHED THEN UPDATE SET b = o.b "
        "WHEN NOT MATCHED THEN INSERT VALUES (o.a, o.b, 1) RETURNING upper(merge_action) AS u, *",
        "uabc",
    ),
    ("WITH w AS (SELECT 1 AS k) UPDATE told AS z SET b = k FROM w WHERE a = k RETURNING z.b", "b"),
    ("UPDATE told z SET b = 4 FROM words AS w WHERE w.returning = $1 RETURNING z.b", "b"),
    ("INSERT INTO told SELECT a + 9, w.returning AS returning, 1 FROM words w RETURNING b", "b"),
    ("INSERT INTO told AS z VALUES (9, 9, 9) RETURNING told.a", "a"),
    (
        "INSERT INTO keyed AS z VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 3 RETURNING z.b",
        "b",
    ),
)


@pytest.mark.full
@pytest.mark.parametrize(("asked", "names"), RETURNED)
def test_what_a_change_returns_is_described_as_it_comes(
    shop: Served, asked: str, names: str
) -> None:
    _told(shop)

    async def work(client: asyncpg.Connection) -> None:
        statement = await client.prepare(asked)
        assert [column.name for column in statement.get_attributes()] == list(names)
        rows = await statement.fetch(*[1] * asked.count("$1"))
        assert all(list(row.keys()) == list(names) for row in rows)

    _asyncpg(shop, work)


def test_what_returning_cannot_see_is_refused_as_it_is_described(shop: Served) -> None:
    _told(shop)

    async def work(client: asyncpg.Connection) -> None:
        for asked in (
            "UPDATE told AS c SET b = 5 FROM other WHERE other.a = c.a RETURNING other.b",
            "UPDATE told AS c SET b = 5 RETURNING told.a",
        ):
            with pytest.raises(asyncpg.UndefinedTableError):
                await client.prepare(asked)

    _asyncpg(shop, work)


def test_explain_takes_parameters_and_runs_once(shop: Served) -> None:
    _change(shop, "CREATE SEQUENCE explained")

    async def work(client: asyncpg.Connection) -> None:
        plan = await client.fetch("EXPLAIN SELECT * FROM customers WHERE id = $1", 5)
        assert "id = 5" in plan[0]["explain_value"]
        await client.fetch("EXPLAIN ANALYZE SELECT nextval('explained') FROM range($1::INT)", 1)
        assert await client.fetchval("SELECT nextval('explained')") == 2

    _asyncpg(shop, work)


CATALOG_PARAMETERS = (  # queries about the session, the types of their parameters, and values
    ("SELECT current_user, $1", ["text"], ["x"]),
    ("SELECT relname, $1 FROM pg_class LIMIT 1", ["text"], ["x"]),
    ("SELECT version(), $1::int, $2::bigint", ["int4", "int8"], [3, 4]),
    ("SELECT current_user, CAST($1 AS integer), $2::boolean", ["int4", "bool"], [3, True]),
    ("SELECT current_user, $1::double precision", ["float8"], [0.5]),
)


@pytest.mark.full
@pytest.mark.parametrize(("sql", "types", "values"), CATALOG_PARAMETERS)
def test_parameters_of_queries_about_the_catalog(
    shop: Served, sql: str, types: list[str], values: list[Any]
) -> None:
    async def work(client: asyncpg.Connection) -> None:
        statement = await client.prepare(sql)
        assert [each.name for each in statement.get_parameters()] == types
        for _ in range(2):
            [row] = await statement.fetch(*values)
            assert list(row.values())[1:] == values

    _asyncpg(shop, work)


def test_the_state_of_an_aggregate_ends_no_server(shop: Served) -> None:
    state = "SELECT sum(1) EXPORT_STATE"
    with psycopg.connect(shop.dsn(), autocommit=True) as client:
        client.execute(f"PREPARE of_state AS {state}")
        for sql in (state, "EXECUTE of_state", f"COPY ({state}) TO STDOUT"):
            with pytest.raises(psycopg.Error, match="write finalize"):
                client.execute(sql.encode())
        assert client.execute("SELECT finalize(sum(1) EXPORT_STATE)").fetchall() == [(1,)]
