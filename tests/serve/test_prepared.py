"""Prepared statements: their names, and the columns that they were told to have."""

from __future__ import annotations

import psycopg

from tests.serve.raw import DESCRIBE_PORTAL, EXECUTE, Raw, bind, describe, parse
from tests.serve.serving import Served


def _change(shop: Served, *statements: str) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as other:
        for statement in statements:
            other.execute(statement.encode())


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
