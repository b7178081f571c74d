"""Users that SQL has made log in over PostgreSQL's protocol too, and may do what their role may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

import ivm
from ivm.serve.settings import ServerSettings
from ivm.serve.users import Users
from tests.serve.in_process import Listening, listening


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    folder = tmp_path_factory.mktemp("users")
    (folder / "secret.csv").write_text("hidden,b\n1,2\n")
    settings = ServerSettings(pg="127.0.0.1:0")
    with ivm.connect() as database:
        database.execute("""
            CREATE TABLE t (a INTEGER PRIMARY KEY);
            CREATE USER ann PASSWORD 'violet' ROLE read;
            CREATE USER bob PASSWORD 'indigo' ROLE write;
        """)
        database.execute(f"CREATE TABLE place AS SELECT '{folder / 'secret.csv'}' AS file")
        with listening(database, Path(folder), settings, Users(database._engine, {})) as found:
            yield found


def connected(server: Listening, user: str, password: str) -> psycopg.Connection:
    return psycopg.connect(
        f"{server.dsn(user)} password={password} sslmode=disable", autocommit=True
    )


@pytest.mark.full
def test_roles(server: Listening) -> None:
    with connected(server, "bob", "indigo") as bob:
        bob.execute("INSERT INTO t VALUES (%s)", [1])
        with bob.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write_row((2,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bob.execute("DROP TABLE t")
    with connected(server, "ann", "violet") as ann:
        assert ann.execute("SELECT a FROM t ORDER BY a").fetchall() == [(1,), (2,)]
        for sql in ("DELETE FROM t", "COPY t TO '/tmp/x'", "CREATE TABLE u (a INTEGER)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ann.execute(sql)
    with pytest.raises(psycopg.OperationalError):
        connected(server, "ann", "indigo")


def test_rows_are_copied_into_tables_alone(server: Listening) -> None:
    with connected(server, "bob", "indigo") as bob:
        row = bob.execute("SELECT file FROM place").fetchone()
        assert row is not None
        for relation in (f'"{row[0]}"', "nowhere.csv", "_ivm.users"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                _copy(bob, f"COPY {relation} FROM STDIN")


def _copy(client: psycopg.Connection, sql: str) -> None:
    with client.cursor().copy(sql) as copy:
        copy.write_row(("1",))


def test_a_statement_is_not_even_described_for_who_may_not_run_it(server: Listening) -> None:
    with connected(server, "ann", "violet") as ann:
        row = ann.execute("SELECT file FROM place").fetchone()
        assert row is not None
    file = row[0]

    async def described(sql: str) -> object:
        client = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="ann", password="violet", ssl=False
        )
        try:
            return (await client.prepare(sql)).get_attributes()
        finally:
            await client.close()

    assert asyncio.run(described("SELECT a FROM t"))
    for sql in (
        f"SELECT * FROM read_csv('{file}')",
        f"FROM '{file}'",
        f"SELECT * FROM '{file}' WHERE hidden = $1",
        f"INSERT INTO t SELECT hidden FROM '{file}' RETURNING a",
        "INSERT INTO t VALUES ($1)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError) as refused:
            asyncio.run(described(sql))
        assert "hidden" not in str(refused.value)
