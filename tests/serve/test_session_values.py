"""current_user and its like in statements: the user who is logged in, never one for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

import ivm
from ivm.client import connect as connect_to
from ivm.errors import UnsupportedError
from ivm.serve.session_values import SessionValues, with_values
from ivm.serve.settings import ServerSettings
from ivm.serve.users import Users
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from tests.serve.http_world import HttpWorld
from tests.serve.in_process import Listening, listening

SCHEMA = """
    CREATE TABLE notes (id INTEGER PRIMARY KEY, owner VARCHAR);
    INSERT INTO notes VALUES (1, 'bob'), (2, 'ann');
    CREATE TABLE logs (id INTEGER, "user" VARCHAR, version INTEGER);
    CREATE TABLE numbers ("user" INTEGER);
    CREATE MATERIALIZED VIEW live AS SELECT owner, count(*) AS n FROM notes GROUP BY owner;
    CREATE USER ann PASSWORD 'violet' ROLE write;
    CREATE USER bob PASSWORD 'indigo' ROLE write;
"""

WRITTEN = (  # statements, and what they are for bob; None if they stay as they are
    ("SELECT current_user", "SELECT 'bob' AS \"current_user\""),
    ("SELECT CURRENT_USER, id FROM notes", "SELECT 'bob' AS \"CURRENT_USER\", id FROM notes"),
    ("SELECT id FROM notes WHERE owner <> user", "SELECT id FROM notes WHERE owner <> 'bob'"),
    ("SELECT upper(session_user) AS u, id x", "SELECT upper('bob') AS u, id x"),
    (
        "SELECT user, count(*) FROM notes GROUP BY user",
        "SELECT 'bob' AS \"user\", count(*) FROM notes GROUP BY CAST('bob' AS VARCHAR)",
    ),
    ('SELECT "user" AS x FROM notes', "SELECT 'bob' AS x FROM notes"),  # as DuckDB reads it
    (
        "SELECT user AS x, (SELECT max(user) FROM logs) FROM notes",
        "SELECT 'bob' AS x, (SELECT max(user) FROM logs) FROM notes",
    ),
    (
        "WITH q AS (SELECT user) SELECT q.user FROM q",
        "WITH q AS (SELECT 'bob' AS \"user\") SELECT q.user FROM q",
    ),
    ("SELECT user,\n version() FROM logs", "SELECT user,\n 'v' AS \"version\" FROM logs"),
    ("SELECT pg_catalog.current_user() AS u", "SELECT 'bob' AS u"),
    ('SELECT "main".user() AS u, system.main.user() AS v', "SELECT 'bob' AS u, 'bob' AS v"),
    ("SELECT system.current_user() AS u", "SELECT 'bob' AS u"),
    ("SELECT current_user.upper().lower() AS u", "SELECT 'bob'.upper().lower() AS u"),
    (
        "SELECT current_setting('application_name') AS a, current_setting('threads') AS t",
        "SELECT 'app' AS a, current_setting('threads') AS t",
    ),
    ("INSERT INTO notes VALUES (3, current_user)", "INSERT INTO notes VALUES (3, 'bob')"),
    (
        "UPDATE notes SET owner = user WHERE owner <> user RETURNING current_role, id",
        "UPDATE notes SET owner = 'bob' WHERE owner <> 'bob' RETURNING 'bob' AS \"current_role\", "
        "id",
    ),
    ("DELETE FROM notes WHERE owner = user", "DELETE FROM notes WHERE owner = 'bob'"),
    ("SELECT user AS u FROM notes WHERE id = $1", "SELECT 'bob' AS u FROM notes WHERE id = $1"),
    (
        "MERGE INTO notes AS n USING (SELECT 1 AS k) ON n.id = k WHEN MATCHED THEN UPDATE SET "
        "owner = user",
        "MERGE INTO notes AS n USING (SELECT 1 AS k) ON n.id = k WHEN MATCHED THEN UPDATE SET "
        "owner = 'bob'",
    ),
    ("CREATE TABLE made AS SELECT user AS u", "CREATE TABLE made AS SELECT 'bob' AS u"),
    ("PREPARE p AS SELECT current_user || $1", None),  # it gets the value as it is run
    ("EXPLAIN SELECT current_user AS u FROM notes", "EXPLAIN SELECT 'bob' AS u FROM notes"),
    ("SELECT 'current_user', $$user$$ FROM /* user */ notes", None),
    ("SELECT user FROM logs WHERE user = $1 LIMIT $2", None),
    ("SELECT l.user, version FROM logs l ORDER BY user", None),
    ("SELECT user FROM numbers", None),
    ("SELECT user.upper() AS u FROM logs", None),
    ("SELECT user() AS u, current_user AS c FROM logs", "SELECT 'bob' AS u, 'bob' AS c FROM logs"),
    ("SELECT user.id FROM notes AS user", None),
    ('SELECT owner AS "user", count(*) FROM notes GROUP BY "user"', None),
    ("SELECT user FROM (SELECT id AS user FROM notes)", None),
    ("SELECT user FROM (SELECT unnest({'user': 5}))", None),
    ("SELECT list_transform(['a'], lambda user: user || '!')", None),
    ("SELECT id user, {user: 1} FROM notes AS current_user", None),
    ("SELECT id AS current_user FROM notes", None),
    ("INSERT INTO logs (id, user) VALUES (1, 'x') RETURNING user", None),
    ("UPDATE logs SET user = user || 'x'", None),
    ("CREATE TABLE made (user VARCHAR CHECK (user <> 'x'))", None),
    ("CREATE VIEW made AS SELECT user FROM logs", None),
    ("CREATE MATERIALIZED VIEW made AS SELECT user FROM logs", None),
)  # fmt: skip
REFUSED = (
    "CREATE VIEW mine AS SELECT * FROM notes WHERE owner = current_user",
    "CREATE VIEW mine AS SELECT user FROM notes",
    "CREATE MACRO me() AS current_user",
    "CREATE MACRO mine() AS TABLE SELECT * FROM notes WHERE owner = session_user",
    "CREATE TABLE stamped (id INTEGER, owner VARCHAR DEFAULT current_user)",
    "CREATE TABLE stamped (owner VARCHAR CHECK (owner = current_user))",
    "ALTER TABLE notes ALTER owner SET DEFAULT current_user",
    "CREATE MATERIALIZED VIEW mine AS SELECT * FROM notes WHERE owner = current_user",
    "CREATE MATERIALIZED VIEW mine AS SELECT user, id FROM notes",
)
ELSEWHERE = """
    CREATE VIEW mine AS SELECT * FROM notes WHERE owner = current_user;
    CREATE VIEW of_mine AS SELECT id FROM mine;
    CREATE MACRO me() AS (SELECT session_user);
    CREATE TABLE stamped (id INTEGER, owner VARCHAR DEFAULT current_user);
"""
VALUES = SessionValues("bob", "v", lambda: {"application_name": "app"})


@pytest.fixture
def database() -> Iterator[ivm.Database]:
    with ivm.connect() as found:
        found.execute(SCHEMA)
        yield found


def _told(database: ivm.Database, sql: str) -> str:
    def work(session: Session) -> str:
        (statement,) = st.parse(sql)
        return with_values(session, statement, VALUES).text

    return database._with_session(work)


def test_words_are_the_users_name_where_they_are_no_columns(database: ivm.Database) -> None:
    for _ in range(2):  # the second time as it is known
        for sql, wanted in WRITTEN:
            assert _told(database, sql) == (wanted or sql)
    assert _told(database, "SELECT user FROM notes") != "SELECT user FROM notes"
    database.execute("ALTER TABLE notes ADD COLUMN user VARCHAR")
    assert _told(database, "SELECT user FROM notes") == "SELECT user FROM notes"


def test_a_snapshot_decides_nothing_for_others(database: ivm.Database) -> None:
    sql = "SELECT user AS u FROM numbers"
    [statement] = st.parse(sql)
    with database.connection() as reader:
        reader.execute("BEGIN TRANSACTION READ ONLY")
        reader.execute("FROM numbers")
        database.execute("ALTER TABLE numbers ADD COLUMN n INTEGER")
        database.execute('ALTER TABLE numbers DROP COLUMN "user"')
        assert reader.run(lambda session: with_values(session, statement, VALUES)).text == sql
        assert _told(database, sql) == "SELECT 'bob' AS u FROM numbers"


def test_what_does_not_bind_decides_nothing_of_the_next_statement(
    database: ivm.Database,
) -> None:
    good = "SELECT user, max(id) FROM logs GROUP BY 1"
    assert "bob" in _told(database, good[:-1] + "2")  # an error, whatever it says
    assert _told(database, good) == good


def test_texts_in_a_statement_may_be_names(database: ivm.Database) -> None:
    """What is found of one statement says nothing of the same with another text."""
    for asked, other, own in (
        ("SELECT user AS u FROM '{}'", "notes", "logs"),
        ("SELECT user AS u FROM (SELECT unnest({{'{}': 5}}))", "x", "user"),
        ("SELECT user AS u FROM (SELECT id AS '{}' FROM notes)", "x", "user"),
    ):
        for name in (other, own, other):
            sql = asked.format(name)
            wanted = sql if name == own else sql.replace("user AS u", "'bob' AS u")
            assert _told(database, sql) == wanted


@pytest.mark.full
def test_names_that_come_of_rows_are_looked_at_each_time(
    database: ivm.Database, tmp_path: Path
) -> None:
    file = tmp_path / "some.csv"
    database.execute("CREATE TABLE pairs AS SELECT 'x' AS k, 1 AS n")

    def give(name: str) -> None:
        file.write_text(f"{name},a\n3,4\n")
        database.execute(f"UPDATE pairs SET k = '{name}'; FROM pairs").fetchall()

    for source in (f"'{file}'", f"read_csv('{file}')", "(PIVOT pairs ON k USING sum(n))"):
        asked = f"SELECT user AS u FROM {source}"
        give("x")
        assert _told(database, asked) == asked.replace("user AS u", "'bob' AS u")
        give("user")
        assert _told(database, asked) == asked


@pytest.mark.full
def test_a_word_that_only_a_value_can_stand_for(database: ivm.Database) -> None:
    change = (
        "INSERT INTO notes SELECT id, user FROM logs WHERE id < $1 "
        "ON CONFLICT (id) DO UPDATE SET owner = {} WHERE notes.owner <> {}"
    )
    asked, wanted = change.format("current_user", "user"), change.format("'bob'", "'bob'")
    assert _told(database, asked) == wanted


@pytest.mark.full
def test_what_is_written_runs(database: ivm.Database) -> None:
    for sql, wanted in WRITTEN:
        if wanted is not None and "$" not in sql:
            database.execute(wanted.replace(", id x", ""))


def test_statements_in_a_transaction_that_has_changed_names(database: ivm.Database) -> None:
    database.execute("BEGIN; CREATE TABLE fresh (user VARCHAR, id INTEGER)")
    assert _told(database, "SELECT user FROM fresh") == "SELECT user FROM fresh"
    assert _told(database, "SELECT user AS u FROM notes") == "SELECT 'bob' AS u FROM notes"
    database.execute("INSERT INTO fresh VALUES ('x', 1); COMMIT")
    assert database.execute("FROM fresh").fetchall() == [("x", 1)]


def test_what_means_the_same_for_all_is_refused(database: ivm.Database) -> None:
    for sql in REFUSED:
        word = next(w for w in ("current_user", "session_user", "user") if w in sql)
        place = f"{word} at character {sql.index(word) + 1} means whoever asks"
        with pytest.raises(UnsupportedError, match=place):
            _told(database, sql)


def test_what_was_created_elsewhere_is_refused_as_it_is_used(database: ivm.Database) -> None:
    database.execute(ELSEWHERE)
    for sql in (
        "SELECT * FROM mine",
        "SELECT id FROM of_mine",
        "SELECT me()",
        "CREATE MATERIALIZED VIEW made AS SELECT id FROM mine",
        "CREATE TABLE made AS SELECT id FROM mine",
        "INSERT INTO notes SELECT 5, me()",
        "INSERT INTO stamped (id) VALUES (1)",
    ):
        with pytest.raises(UnsupportedError, match="asks who the user is"):
            _told(database, sql)
    for sql in ("SELECT * FROM stamped", "SELECT id FROM notes", "DROP VIEW mine"):
        assert _told(database, sql) == sql


@pytest.fixture
def server(database: ivm.Database, tmp_path: Any) -> Iterator[Listening]:
    users = Users(database._engine, {})
    with listening(database, tmp_path, ServerSettings(pg="127.0.0.1:0"), users) as found:
        yield found


def _connected(server: Listening, user: str) -> psycopg.Connection[Any]:
    password = {"ann": "violet", "bob": "indigo"}[user]
    where = f"{server.dsn(user)} password={password} sslmode=disable application_name=app"
    return psycopg.connect(where, autocommit=True)


def test_each_user_over_postgresqls_protocol(server: Listening) -> None:
    with _connected(server, "ann") as ann, _connected(server, "bob") as bob:
        for client, name, own in ((ann, "ann", 2), (bob, "bob", 1), (ann, "ann", 2)):
            for prepared in (False, True):
                asked = (
                    "SELECT id, current_user, session_user FROM notes WHERE owner = current_user"
                )
                found = client.execute(asked, prepare=prepared).fetchall()
                assert found == [(own, name, name)]
            asked = "SELECT id FROM notes WHERE owner = user AND id < %s"
            assert client.execute(asked, [9], prepare=True).fetchall() == [(own,)]
            asked = "SELECT version(), current_setting('application_name') FROM notes LIMIT 1"
            assert client.execute(asked).fetchall() == [("PostgreSQL 15.0 (ivm)", "app")]
            assert client.execute("SELECT n FROM live WHERE owner = current_user").fetchall()
            assert client.execute("SELECT current_user").fetchall() == [(name,)]
        bob.execute("INSERT INTO notes VALUES (3, current_user)")
        ann.execute("INSERT INTO notes VALUES (%s, current_user)", [4])
        ann.execute("BEGIN; UPDATE notes SET owner = current_user || '!' WHERE id = 2; COMMIT")
        with bob.cursor().copy(
            "COPY (SELECT owner FROM notes WHERE owner = user) TO STDOUT"
        ) as out:
            assert b"".join(map(bytes, out)) == b"bob\nbob\n"
        found = bob.execute("SELECT id, owner FROM notes ORDER BY id").fetchall()
        assert found == [(1, "bob"), (2, "ann!"), (3, "bob"), (4, "ann")]
        bob.execute(
            "BEGIN; DECLARE c CURSOR FOR SELECT id FROM notes WHERE owner = user ORDER BY 1"
        )
        assert bob.execute("FETCH ALL FROM c").fetchall() == [(1,), (3,)]


def test_nobody_takes_the_role_of_another(server: Listening) -> None:
    """Who was told so would run statements with rights that it believes to have given up."""
    with _connected(server, "bob") as bob:
        for sql in (
            "SET role = 'ann'",
            "SET SESSION role TO ann",
            "SET session_authorization = 'ann'",
            "SELECT set_config('role', 'ann', true)",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="who has logged in"):
                bob.execute(sql.encode())
        bob.execute("SET role = none; SET role = bob; RESET role; SET session_authorization = bob")
        asked = "SELECT current_user, current_setting('session_authorization')"
        assert bob.execute(asked).fetchall() == [("bob", "bob")]


@pytest.mark.full
def test_what_is_prepared_gets_the_user_as_it_is_run(
    server: Listening, database: ivm.Database
) -> None:
    with _connected(server, "bob") as bob:
        bob.execute("PREPARE mine AS SELECT id, user FROM notes WHERE owner = user AND id < $1")
        bob.execute("PREPARE own AS UPDATE notes SET owner = current_user WHERE id = $1")
        bob.execute("PREPARE few AS SELECT current_user AS u FROM notes LIMIT $1")
        bob.execute("EXECUTE own(2)")
        assert bob.execute("EXECUTE mine(2)").fetchall() == [(1, "bob")]
        assert bob.execute("EXECUTE mine(1 + 2)").fetchall() == [(1, "bob"), (2, "bob")]
        assert bob.execute("EXECUTE few(1)").fetchall() == [("bob",)]
        assert "bob" in str(bob.execute("EXPLAIN EXECUTE mine(2)").fetchall())
        with pytest.raises(psycopg.Error, match="parameters 1"):
            bob.execute("EXECUTE mine")
        database.execute("ALTER TABLE notes ADD COLUMN user VARCHAR DEFAULT 'bob!'")
        assert bob.execute("EXECUTE few(1)").fetchall() == [("bob",)]
        assert bob.execute("EXECUTE mine(9)").fetchall() == []
        bob.execute("UPDATE notes SET owner = user WHERE id = 1")
        assert bob.execute("EXECUTE mine(9)").fetchall() == [(1, "bob!")]


def test_columns_are_described_as_they_come(server: Listening) -> None:
    async def work() -> None:
        place: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "database": "shop"}
        client = await asyncpg.connect(**place, user="bob", password="indigo", ssl=False)
        try:
            for asked, names in (
                ("SELECT current_user, user FROM notes WHERE id = $1", ["current_user", "user"]),
                ("UPDATE notes SET owner = user WHERE id = $1 RETURNING user, id", ["user", "id"]),
            ):
                statement = await client.prepare(asked)
                assert [a.name for a in statement.get_attributes()] == names
                assert [list(row.keys()) for row in await statement.fetch(1)] == [names]
        finally:
            await client.close()

    asyncio.run(work())


def test_each_user_over_http(database: ivm.Database) -> None:
    world = HttpWorld(database)
    try:
        for name, password, own in (("ann", "violet", 2), ("bob", "indigo", 1)):
            address = world.url.replace("http://", f"ivm://{name}:{password}@")
            with connect_to(address) as client:
                asked = "SELECT id, current_user FROM notes WHERE owner = user"
                assert client.execute(asked).fetchall() == [(own, name)]
                assert client.execute("SELECT current_user").fetchall() == [(name,)]
                rows = [[own + 10], [own + 20]]
                client.executemany("INSERT INTO notes VALUES (?, current_user)", rows)
                count = "SELECT count(*) FROM notes WHERE owner = ?"
                assert client.execute(count, [name]).fetchall() == [(3,)]
        with world.client(auth=("bob", "indigo")) as bob:
            bob.headers["Ivm-Session"] = bob.post("/sessions").json()["session"]
            prepared = "PREPARE own AS UPDATE notes SET owner = current_user || '!' WHERE id = 1"
            bob.post("/sql", json={"sql": prepared}).raise_for_status()
            bob.post("/sql", json={"sql": "EXECUTE own", "many": [[]]}).raise_for_status()
        asked = "SELECT owner FROM notes WHERE id = 1"
        assert database.execute(asked).fetchall() == [("bob!",)]
        database.execute("CREATE TABLE stamped (id INTEGER, owner VARCHAR DEFAULT current_user)")
        with connect_to(address) as client, pytest.raises(UnsupportedError, match="DROP DEFAULT"):
            client.insert("stamped", {"id": [1]})
    finally:
        world.close()
