"""Statements, roles and ways in: each way asks for the same role, whatever a statement names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import asyncpg
import httpx
import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

import ivm
from ivm.serve.settings import ServerSettings
from tests.serve.http_world import HttpWorld
from tests.serve.in_process import Listening, listening
from tests.tiers import some

USERS = ("read", "write", "root", "limited")  # limited reads in the schema s
_MAKE = """
    CREATE SCHEMA s; CREATE TABLE s.u (a INTEGER); INSERT INTO s.u VALUES (1);
    CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR); INSERT INTO t VALUES (1, 'x');
    CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t;
    CREATE MATERIALIZED VIEW s.w AS SELECT count(*) AS n FROM s.u;
    CREATE VIEW of_file AS SELECT content FROM read_text('/etc/hostname');
    CREATE SCHEMA m; CREATE MACRO m.write_log(x) AS x; CREATE MACRO query(x) AS x;
    CREATE USER read PASSWORD 'x' ROLE read; CREATE USER write PASSWORD 'x' ROLE write;
    CREATE USER root PASSWORD 'x' ROLE admin; CREATE USER limited PASSWORD 'x' ROLE read IN SCHEMA s
"""
FOR_READERS = (
    "SELECT unnest([1, 2])",
    "SELECT a FROM t",
    "SELECT * FROM v",
    "SELECT count(*) FROM pg_class",
    "SELECT c.relname, n.nspname FROM pg_catalog.pg_class c JOIN pg_namespace n "
    "ON n.oid = c.relnamespace WHERE pg_table_is_visible(c.oid) AND c.relkind IN ('r', 'm')",
    "SELECT table_name, column_name FROM information_schema.columns ORDER BY 1, 2",
    "WITH c AS (SELECT oid, relname FROM pg_class) SELECT upper(relname) FROM c LIMIT 1",
    "SELECT array_to_string(indkey, ' ') FROM pg_index",
)
OF_POSTGRESQL = (  # over its protocol alone
    "SELECT unnest(conkey) FROM pg_constraint",
    "SELECT version(), current_schemas(true), current_setting('server_version')",
    "SELECT format_type(atttypid, atttypmod), 't'::regclass::oid FROM pg_attribute",
)
FOR_ADMINS = (  # what reaches files, settings, other users and DuckDB itself, or ends it
    "SELECT content FROM read_text('/etc/hostname')",
    "SELECT * FROM of_file",
    "SELECT * FROM '/etc/hostname'",
    "SELECT * FROM query('SELECT 1')",
    "SELECT m.write_log('x')",  # where there is a macro, a function of its name may be meant
    "SELECT main.write_log('x')",
    "SELECT system.main.write_log('x')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM _ivm.users",
    "SELECT pg_sleep(0)",
    """SELECT "="(b, a) FROM t""",
    """SELECT "="(relname, oid) FROM pg_class""",
    """SELECT "<"(1, 'a'::BLOB) FROM information_schema.tables""",
    "SELECT q.* FROM pg_namespace, query('FROM enable_logging()') q LIMIT 1",
    "SELECT q.* FROM (SELECT 1 FROM pg_namespace LIMIT 1), query('FROM duckdb_logs') q",
    "SELECT * FROM pg_class WHERE EXISTS (SELECT 1 FROM duckdb_settings())",
    "WITH c AS (SELECT * FROM duckdb_memory()) SELECT * FROM c, pg_class",
    "SELECT write_log('x') FROM pg_namespace",
    "SELECT json_serialize_plan('SELECT 1') FROM pg_namespace",
    "SELECT system.main.current_setting('temp_directory') FROM pg_namespace",
    "SELECT pg_sleep(0) FROM pg_namespace",
    "SELECT (SELECT max(content) FROM read_text('/etc/hostname')) FROM pg_namespace",
    "SELECT relname FROM pg_class UNION ALL SELECT content FROM read_text('/etc/hostname')",
    "SELECT version(), write_log('x')",
)
_CHANGES = ("INSERT INTO t VALUES (7, 'y')", "DELETE FROM t WHERE a = 7", "UPDATE t SET b = 'z'")
_STATEMENTS = (  # for admins as well; there is nothing to wrap in these
    *("CREATE TABLE z (a INTEGER)", "DROP TABLE t", "SET threads = 1", "LOAD inet", "SHOW USERS"),
    *("COPY t TO '/tmp/no'", "ATTACH 'x'", "CREATE USER z PASSWORD 'x' ROLE admin", "CHECKPOINT"),
    *("SET VARIABLE x = 1", "CREATE TEMP TABLE z (a INTEGER)", "PRAGMA version", "INSTALL inet"),
    *("COPY (SELECT 1) TO '/tmp/no' (FORMAT parquet)", "EXPORT DATABASE '/tmp/no'"),
)
_WRAPS = (
    "{0}",
    "SELECT * FROM ({0}) ivm_x",
    "WITH ivm_x AS ({0}) SELECT * FROM ivm_x",
    "EXPLAIN {0}",
    "EXPLAIN ANALYZE {0}",
    "PREPARE ivm_p AS {0}",
    "DECLARE ivm_c CURSOR WITH HOLD FOR {0}",
    "COPY ({0}) TO STDOUT",
)


Run = Callable[[str, str], str]
"""Runs a statement as a user: it is "done", "refused" for want of a role, or "failed" otherwise."""


@pytest.fixture(scope="module")
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute(_MAKE)
    found = HttpWorld(database, trust="")
    yield found
    found.close()


@pytest.fixture(scope="module")
def door(world: HttpWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    folder, settings = tmp_path_factory.mktemp("door"), ServerSettings(pg="127.0.0.1:0")
    with listening(world.database, folder, settings, world.users) as found:
        yield found


@pytest.fixture(scope="module", params=("simple", "extended", "http"))
def run(request: pytest.FixtureRequest, world: HttpWorld, door: Listening) -> Iterator[Run]:
    """One way in, with a connection for each user."""
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            clients = {n: stack.enter_context(world.client(auth=(n, "x"))) for n in USERS}
            yield lambda user, sql: _posted(clients[user], sql)
            return
        dsns = {name: f"{door.dsn(name)} password=x" for name in USERS}
        connections = {
            name: stack.enter_context(psycopg.connect(dsn, autocommit=True)).pgconn
            for name, dsn in dsns.items()
        }
        yield lambda user, sql: _asked(connections[user], sql, request.param)


def _posted(client: httpx.Client, sql: str) -> str:
    status = client.post("/sql", content=sql).status_code
    return {200: "done", 403: "refused"}.get(status, "failed")


def _asked(connection: PGconn, sql: str, way: str) -> str:
    try:
        if way == "simple":
            return _outcome(connection, connection.exec_(sql.encode()))
        return _outcome(connection, connection.exec_params(sql.encode(), None))
    finally:
        connection.exec_(b"CLOSE ALL; DEALLOCATE ALL")


def _outcome(connection: PGconn, result: PGresult) -> str:
    while result.status == ExecStatus.COPY_OUT:
        while connection.get_copy_data(0)[0] > 0:
            pass
        result = connection.get_result() or result
    while connection.get_result() is not None:
        pass
    if result.status != ExecStatus.FATAL_ERROR:
        return "done"
    code = result.error_field(DiagnosticField.SQLSTATE)
    return "refused" if code == b"42501" else "failed"


@pytest.mark.parametrize("sql", FOR_READERS)
def test_every_role_reads(run: Run, sql: str) -> None:
    for user in ("read", "write", "root"):
        assert run(user, sql) == "done", user


@pytest.mark.full
@pytest.mark.parametrize("sql", FOR_ADMINS)
def test_what_is_for_admins_is_refused_in_every_form(run: Run, sql: str) -> None:
    for user in ("read", "write", "limited"):
        assert run(user, sql) == "refused", user
    for wrap in some(_WRAPS, 3):
        for user in ("read", "write"):
            wrapped = wrap.format(sql)
            assert run(user, wrapped) != "done", wrapped


def test_statements_are_described_for_whom_they_are(door: Listening) -> None:
    async def describe() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=door.port, user="read", password="x", database="shop"
        )
        for sql in FOR_ADMINS:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.prepare(sql)
        for sql in (*FOR_READERS, *OF_POSTGRESQL):
            await (await connection.prepare(sql)).fetch()
        await connection.close()

    asyncio.run(describe())


@pytest.mark.parametrize("sql", _CHANGES)
def test_one_role_changes(run: Run, sql: str) -> None:
    assert run("write", sql) == "done"
    for user in ("read", "limited"):
        assert run(user, sql) == "refused", user


@pytest.mark.parametrize("sql", _STATEMENTS)
def test_statements_for_admins(run: Run, sql: str) -> None:
    for user in ("read", "write", "limited"):
        assert run(user, sql) == "refused", user


@pytest.mark.full
def test_a_schema_limits_every_way_in(run: Run) -> None:
    for sql in ("SELECT * FROM s.u", "SELECT * FROM s.w", "SELECT count(*) FROM pg_class"):
        assert run("limited", sql) == "done", sql
    for sql in ("SELECT * FROM t", "SELECT * FROM v", "SELECT (SELECT max(a) FROM t) FROM s.u"):
        for wrap in _WRAPS:
            assert run("limited", wrap.format(sql)) != "done", wrap


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT '1.2.3.4'::INET", "SELECT * FROM t WHERE b::INET IS NULL"),
        *("""SELECT json_transform('{"a": "x"}', '{"a": "INET"}')""", "SELECT INET '::1' FROM v"),
        *("SELECT CAST(NULL AS STRUCT(a INET[]))", "INSERT INTO t VALUES (8, '1.2.3.4'::INET)"),
    ],
)
def test_nothing_is_loaded_by_the_way(run: Run, world: HttpWorld, sql: str) -> None:
    for user in ("write", "root"):
        assert run(user, sql) != "done"
    loaded = "SELECT count(*) FROM duckdb_extensions() WHERE loaded AND extension_name = 'inet'"
    assert world.database.execute(loaded).fetchall() == [(0,)]


def test_the_database_has_outlived_all_that(run: Run) -> None:
    for sql in ("SELECT * FROM t", "SELECT * FROM pg_class", "SELECT * FROM pg_type"):
        assert run("root", sql) == "done"


@pytest.mark.parametrize("view", ["v", "t", "of_file"])
def test_a_schema_limits_changefeeds(world: HttpWorld, view: str) -> None:
    with world.client(auth=("limited", "x")) as client:
        for path in (f"/views/{view}", f"/views/{view}/changes"):
            with client.stream("GET", path) as answer:
                assert answer.status_code in (403, 404), path
