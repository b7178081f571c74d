"""What roles do to others, and what becomes of a login when its user changes, at both doors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import psycopg
import pytest

import ivm
from ivm.serve.http import feeds
from ivm.serve.settings import ServerSettings
from tests.serve.http_world import HttpWorld
from tests.serve.in_process import Listening, listening

MAKE = """
    CREATE TABLE t (a INTEGER PRIMARY KEY);
    CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t;
    CREATE USER ann PASSWORD 'x' ROLE read; CREATE USER bob PASSWORD 'x' ROLE write
"""


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute(MAKE)
    found = HttpWorld(database, trust="")
    yield found
    found.close()


@pytest.fixture
def door(world: HttpWorld, tmp_path: Path) -> Iterator[Listening]:
    settings = ServerSettings(pg="127.0.0.1:0")
    with listening(world.database, tmp_path, settings, world.users) as found:
        yield found


def of(world: HttpWorld, name: str) -> httpx.Client:
    return world.client(auth=(name, "x"))


def connected(door: Listening, name: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(f"{door.dsn(name)} password=x", autocommit=True)


def test_a_readers_transaction_holds_up_no_writer(world: HttpWorld, door: Listening) -> None:
    with of(world, "ann") as ann, connected(door, "ann") as asking:
        held = {"Ivm-Session": ann.post("/sessions").json()["session"]}
        for sql in ("BEGIN", "FROM v", "PREPARE p AS FROM v", "EXECUTE p"):
            assert ann.post("/sql", content=sql, headers=held).status_code == 200
        for sql in ("BEGIN ISOLATION LEVEL SERIALIZABLE", "PREPARE p AS FROM v", "EXECUTE p"):
            asking.execute(sql.encode())
        world.database.insert("t", {"a": [1]})  # another thread's lock would block it for good
        assert ann.post("/sql", content="FROM v", headers=held).json()["rows"] == [[1]]
        assert asking.execute("FROM v").fetchone() == (0,)  # it sees one epoch
        asking.execute("COMMIT")
        assert asking.execute("FROM v").fetchone() == (1,)
        assert ann.post("/sql", content="COMMIT", headers=held).status_code == 200


@pytest.mark.full
def test_a_login_ends_with_its_user(world: HttpWorld, door: Listening) -> None:
    database = world.database
    with connected(door, "bob") as bob, connected(door, "ann") as ann:
        bob.execute("INSERT INTO t VALUES (1)")
        database.execute("ALTER USER bob ROLE read")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="log in again"):
            bob.execute("INSERT INTO t VALUES (2)")
        database.execute("DROP USER ann")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="dropped"):
            ann.execute("FROM t")


@pytest.mark.full
def test_a_user_who_is_made_anew_is_another_one(world: HttpWorld, door: Listening) -> None:
    with connected(door, "ann") as ann:
        ann.execute("FROM t")
        world.database.execute("DROP USER ann; CREATE USER ann PASSWORD 'y' ROLE read")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="log in again"):
            ann.execute("FROM t")


@pytest.mark.full
def test_a_new_password_ends_logins_by_the_old_one(world: HttpWorld, door: Listening) -> None:
    with connected(door, "ann") as ann, of(world, "bob") as bob:
        held = {"Ivm-Session": bob.post("/sessions").json()["session"]}
        assert bob.post("/sql", content="FROM t", headers=held).status_code == 200
        world.database.execute("ALTER USER ann PASSWORD 'y'; ALTER USER bob PASSWORD 'y'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="password changed"):
            ann.execute("FROM t")
        bob.auth = httpx.BasicAuth("bob", "y")
        assert bob.post("/sql", content="FROM t", headers=held).status_code == 404
        assert bob.post("/sql", content="FROM t").status_code == 200


def test_a_dropped_user_reads_no_cursor_and_no_catalog(world: HttpWorld, door: Listening) -> None:
    world.database.insert("t", {"a": [1]})
    with connected(door, "ann") as ann:
        ann.execute("BEGIN; DECLARE held CURSOR WITH HOLD FOR FROM t; COMMIT")
        world.database.execute("DROP USER ann")
        for sql in ("FETCH ALL FROM held", "SELECT 1 FROM pg_class", "SHOW TimeZone", "BEGIN"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ann.execute(sql.encode())


@pytest.mark.full
def test_a_dropped_user_reads_no_portal_on(world: HttpWorld, door: Listening) -> None:
    async def work() -> None:
        place = {"host": "127.0.0.1", "port": door.port, "database": "shop"}
        ann = await asyncpg.connect(**place, user="ann", password="x")
        try:
            await ann.execute("BEGIN")
            held = await ann.cursor("SELECT range FROM range(9)")
            assert len(await held.fetch(2)) == 2
            world.database.execute("DROP USER ann")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await held.fetch(2)
        finally:
            ann.terminate()

    asyncio.run(work())


@pytest.mark.full
def test_keys_of_requests_are_each_users_own(world: HttpWorld) -> None:
    world.database.execute("CREATE USER cid PASSWORD 'x' ROLE write")
    for name, row in (("bob", 1), ("cid", 2)):
        with of(world, name) as client:
            answer = client.post("/tables/t", json=[{"a": row}], headers={"Idempotency-Key": "1"})
            assert answer.status_code == 200
            assert not answer.json()["repeated"]


def test_a_busy_feed_of_a_dropped_user_ends(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "BEAT", 0.3)
    with of(world, "ann") as ann, ann.stream("GET", "/views/v/changes") as answer:
        lines = answer.iter_lines()
        assert any(line.startswith("id: ") for line in lines)
        world.database.execute("DROP USER ann")
        end, row = time.monotonic() + 20, 0
        for line in lines:
            assert time.monotonic() < end, "the feed goes on"
            world.database.insert("t", {"a": [row := row + 1]})
            if line == "event: error":
                break
        assert "wrong" in next(lines)


def test_a_long_poll_of_a_dropped_user_is_refused(world: HttpWorld) -> None:
    database = world.database
    with of(world, "ann") as ann, ann.stream("GET", "/views/v/changes?snapshot=0") as feed:
        epoch = feed.headers["ivm-epoch"]
    database.execute("CREATE USER eve PASSWORD 'x' ROLE read")
    with of(world, "eve") as eve:

        def drop() -> None:
            database.execute("DROP USER eve")
            database.insert("t", {"a": [1]})

        later = threading.Timer(0.5, drop)
        later.start()
        answer = eve.get(f"/views/v?after={epoch}&wait=20")
        later.join()
    assert answer.status_code == 403, answer.text


@pytest.mark.full
def test_a_view_is_read_while_a_transaction_that_drops_it_is_open(world: HttpWorld) -> None:
    database = world.database
    with of(world, "ann") as ann, database.connection() as admin:
        assert ann.get("/views/v").json()["rows"] == [{"n": 0}]
        admin.execute("BEGIN; DROP TABLE t CASCADE")
        for path in ("/views/v", "/views/main.V?n=0"):
            answer = ann.get(path)
            assert (answer.status_code, answer.json()["rows"]) == (200, [{"n": 0}])
        admin.execute("COMMIT")
        assert ann.get("/views/v").status_code == 404


@pytest.mark.full
def test_a_wrong_password_over_http_is_told_late_and_keeps_no_right_one_out(
    world: HttpWorld,
) -> None:
    def ask(password: str) -> tuple[int, float]:
        began = time.monotonic()
        with world.client(auth=("ann", password)) as client:
            status = client.post("/sql", content="SELECT 1").status_code
        return status, time.monotonic() - began

    assert [ask("wrong")[0] for _ in range(3)] == [401] * 3
    found: list[tuple[int, float]] = []
    guesses = [threading.Thread(target=lambda: found.append(ask("guess"))) for _ in range(8)]
    for each in guesses:
        each.start()
    status, seconds = ask("x")  # for the first time: it is not known to be right
    for each in guesses:
        each.join()
    assert status == 200
    assert {code for code, _ in found} == {401}
    assert seconds < min(took for _, took in found)
