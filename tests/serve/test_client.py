"""The client: the same calls as of an open database, answered the same."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ivm
from ivm.client import RemoteDatabase
from ivm.client import connect as connect_to
from ivm.client.feed import RemoteFeed
from ivm.errors import (
    AccessError,
    ConstraintError,
    EvaluationError,
    InputError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)
from ivm.serve.http import changes
from tests.serve.http_world import HttpWorld
from tests.support import ROOT

pytestmark = pytest.mark.full(smoke=6)

SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(9, 2));
    CREATE MATERIALIZED VIEW revenue AS
        SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region;
    INSERT INTO orders VALUES (1, 'EU', 9.50), (2, 'US', 5);
"""


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute(SCHEMA + "CREATE USER ann PASSWORD 'p@ss:w/rd' ROLE read")
    found = HttpWorld(database)
    yield found
    found.close()


@pytest.fixture
def db(world: HttpWorld) -> Iterator[RemoteDatabase]:
    with connect_to(world.url.replace("http", "ivm")) as found:
        yield found


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM orders ORDER BY id",
        "SELECT sum(id) AS s, 170141183460469231731687303715884105727 AS h FROM orders",
        "SELECT NULL AS n, [1, 2] AS l, {'a': 1} AS s, MAP {'k': 1} AS m, '12:00'::TIME AS t",
        "SELECT uuid '00000000-0000-0000-0000-000000000001' AS u, 'x'::BLOB AS b, '101'::BIT AS c",
        "SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS z, INTERVAL 1 MONTH AS i, 1.5::DOUBLE AS f",
        "SELECT 'a'::ENUM('a', 'b') AS e, 1 AS a WHERE false",
        "UPDATE orders SET amount = 1 WHERE id = 1",
        "UPDATE orders SET amount = 1 WHERE id = 1 RETURNING id, amount",
        "CREATE TABLE z (a INTEGER)",
        "SHOW MATERIALIZED VIEWS",
    ],
)
def test_results_are_those_of_an_open_database(db: RemoteDatabase, query: str) -> None:
    with ivm.connect() as here:
        here.execute(SCHEMA)
        expected, found = here.execute(query), db.execute(query)
        assert (found.kind, found.columns, found.rowcount) == (
            expected.kind,
            expected.columns,
            expected.rowcount,
        )
        assert found.types == expected.types
        assert str(found.fetchall()) == str(expected.fetchall())
        again = here.execute(query) if expected.kind == "rows" and "UPDATE" not in query else None
        if again is not None:
            assert db.execute(query).arrow().equals(again.arrow())


def test_parameters(db: RemoteDatabase) -> None:
    assert db.execute("SELECT ? + 1 AS a, ? AS b", [1, None]).fetchall() == [(2, None)]
    found = db.execute("SELECT id FROM orders WHERE amount = $a", {"a": Decimal("9.50")})
    assert found.fetchall() == [(1,)]
    rows = [(10, "EU", Decimal("1.25")), (11, None, 2)]
    assert db.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows).rowcount == 2
    assert db.executemany("DELETE FROM orders WHERE id = $id", {"id": [10, 11]}).rowcount == 2
    relation = db.sql("FROM revenue")
    assert relation is not None
    assert len(relation) == 2


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("HUGEINT", 2**100),
        ("VARCHAR", timedelta(days=1, seconds=5)),
        ("INTERVAL", timedelta(days=-2, microseconds=7)),
        ("DOUBLE", np.float32(0.1)),
        ("TIMESTAMP", pd.NaT),
        ("TIMESTAMP", np.datetime64("2024-01-02T03:04:05")),
        ("INTEGER[]", np.array([1, 2])),
        ("UUID", UUID(int=7)),
        ("DATE", np.datetime64("2024-01-02")),
    ],
)
def test_values_mean_what_they_mean_to_an_open_database(
    db: RemoteDatabase, type: str, value: Any
) -> None:
    """Bug: some were sent as Python prints them, others could not be sent at all."""
    found = []
    with ivm.connect() as here:
        for database in (here, db):
            database.execute(f"CREATE TABLE t (v {type})")
            database.execute("INSERT INTO t VALUES (?)", [value])
            database.insert("t", [{"v": value}])
            rows = database.execute("SELECT v::VARCHAR FROM t")
            assert rows is not None
            found.append(rows.fetchall())
    assert found[0] == found[1]


@pytest.mark.parametrize("value", [bytearray(b"x"), memoryview(b"x"), {1}, object()])
def test_values_that_cannot_travel(db: RemoteDatabase, value: Any) -> None:
    """Bug: of bytes that can change, their Python text was stored."""
    with pytest.raises(InputError, match="over HTTP"):
        db.execute("SELECT ?", [value])
    with pytest.raises(InputError, match="over HTTP"):
        db.insert("orders", [{"id": object()}])


@pytest.mark.parametrize(
    "rows",
    [
        {"id": [20, 21], "amount": [Decimal("1.10"), None]},
        [{"id": 20, "amount": 1.1}, {"id": 21, "amount": None}],
        pd.DataFrame({"id": [20, 21], "region": ["a", "b"]}),
        pa.table({"id": [20, 21]}),
        pa.record_batch({"id": [20, 21]}),
    ],
)
def test_rows_in(db: RemoteDatabase, rows: Any) -> None:
    assert db.insert("orders", rows) == 2
    assert db.upsert("orders", rows) == 2
    assert db.delete("orders", {"id": [20, 21]}) == 2
    with pytest.raises(ConstraintError):
        db.delete("orders", {"id": [20]})


def _delete_and_fail(db: RemoteDatabase) -> None:
    db.execute("DELETE FROM orders WHERE id = 1")
    db.insert("orders", {"id": [2]})


def test_a_transaction_is_one_epoch(db: RemoteDatabase, world: HttpWorld) -> None:
    before = db.epoch
    with db.transaction():
        assert db.in_transaction
        db.insert("orders", {"id": [30]})
        db.execute("UPDATE orders SET region = 'EU' WHERE id = 30")
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (3,)
        assert world.database.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    assert db.epoch == before + 1
    assert not db.in_transaction
    with pytest.raises(ConstraintError), db.transaction():
        _delete_and_fail(db)
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    db.begin().execute("SET TimeZone = 'Asia/Tokyo'")
    assert db.execute("SELECT current_setting('TimeZone')").fetchone() == ("Asia/Tokyo",)
    db.rollback()
    assert world.pool.size == 0 or not db.in_transaction


def test_a_transaction_that_does_not_begin_leaves_nothing(
    db: RemoteDatabase, world: HttpWorld
) -> None:
    """Bug: its session stayed, and what came after a minute without a call was refused."""
    world.pool.settings = dataclasses.replace(world.pool.settings, statement_seconds=0.2)
    with world.database.transaction(), pytest.raises(UnavailableError, match="took longer"):
        db.begin()
    assert not db.in_transaction
    assert world.pool.size == 0
    db.begin()
    with pytest.raises(InputError, match="open already"):
        db.begin()
    with pytest.raises(UnavailableError, match="rolled back"):
        db.execute("SELECT 1")
    db.rollback()


def test_a_statement_that_is_no_sql_ends_the_transaction(db: RemoteDatabase) -> None:
    """Bug: the client refused it without a word to the server, and the rest was committed."""
    db.begin()
    db.execute("DELETE FROM orders")
    with pytest.raises(SqlError, match="SELEC"):
        db.execute("SELEC 1")
    with pytest.raises(UnavailableError, match="rolled back"):
        db.commit()
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.execute("SELECT ?", [b"x"]),
        lambda db: db.execute("SELECT ?", "text"),
        lambda db: db.executemany("INSERT INTO orders VALUES (?)", [[b"x"]]),
        lambda db: db.insert("orders", {"id": [object()]}),
        lambda db: db.insert("..", {"id": [1]}),
    ],
)
def test_a_value_that_cannot_be_sent_ends_the_transaction(
    db: RemoteDatabase, call: Callable[[RemoteDatabase], object]
) -> None:
    """Bug: the client refused it without a word to the server, and the rest was committed."""
    db.begin()
    db.execute("DELETE FROM orders")
    with pytest.raises(InputError) as refused:
        call(db)
    with pytest.raises(UnavailableError, match="rolled back") as raised:
        db.commit()
    assert str(refused.value)[:20] in str(raised.value)
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]


def test_what_a_session_keeps_needs_a_transaction(db: RemoteDatabase) -> None:
    for sql in ("SET TimeZone = 'UTC'", "PREPARE p AS SELECT 1", "CREATE TEMP TABLE x (a INTEGER)"):
        with pytest.raises(UnsupportedError, match="transaction"):
            db.execute(sql)
    with pytest.raises(UnsupportedError, match="create_function"):
        db.create_function(None)


def test_errors_are_those_of_an_open_database(db: RemoteDatabase) -> None:
    with pytest.raises(SqlError) as caught:
        db.execute("SELECT colour FROM orders")
    assert caught.value.position == 7
    with pytest.raises(ConstraintError):
        db.insert("orders", {"id": [1]})
    with pytest.raises(EvaluationError):
        db.execute("SELECT CAST('x' AS INTEGER)")
    with pytest.raises(SqlError):
        db.subscribe("nowhere")
    with pytest.raises(InputError):
        db.execute(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [5, None, "", ".."])
def test_names_that_are_none(db: RemoteDatabase, name: Any) -> None:
    """Bug: they gave a TypeError, or another page of the server."""
    with pytest.raises(InputError, match="named by text"):
        db.insert(name, {"id": [1]})
    with pytest.raises(InputError, match="named by text"):
        db.subscribe(name)


def test_users(world: HttpWorld) -> None:
    host = world.url.removeprefix("http://")
    with connect_to(f"ivm://ann:p%40ss%3Aw%2Frd@{host}") as ann:
        assert ann.execute("SELECT count(*) FROM revenue").fetchone() == (2,)
        with pytest.raises(AccessError):
            ann.insert("orders", {"id": [9]})
    ((_, token),) = world.database.execute("CREATE TOKEN t FOR USER ann").fetchall()
    with connect_to(f"ivm://{host}", token=token) as ann, pytest.raises(AccessError):
        ann.execute("DELETE FROM orders")
    with connect_to(f"ivm://ann:wrong@{host}") as wrong, pytest.raises(AccessError):
        wrong.execute("SELECT 1")


def test_tls_with_a_certificate_of_the_servers_own() -> None:
    world = HttpWorld(ivm.connect(), tls="self-made")
    url = f"ivms://localhost:{world.listener.port}"
    with connect_to(url, verify=str(world.folder / "server.crt")) as db:
        assert db.execute("SELECT 1 AS a").fetchall() == [(1,)]
    with connect_to(url) as db, pytest.raises(UnavailableError, match="certificate"):
        db.execute("SELECT 1")
    with connect_to(url.replace("ivms", "ivm")) as db, pytest.raises(UnavailableError):
        db.execute("SELECT 1")
    world.close()


def test_a_url_that_is_none_shows_no_password() -> None:
    with pytest.raises(InputError) as caught:
        ivm.connect("ivm://ann:geheim@/nowhere")
    assert "geheim" not in str(caught.value)


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"ivm://127.0.0.1:{held.getsockname()[1]}"
    with ivm.connect(url) as db, pytest.raises(UnavailableError, match="does not answer"):
        db.execute("SELECT 1")


def test_tls_where_there_is_none_is_said_at_once(world: HttpWorld) -> None:
    db, row = connect_to(world.url.replace("http", "ivms")), {"id": [9], "region": ["EU"]}
    with db, pytest.raises(UnavailableError, match="use ivm://"):
        db.insert("orders", row)  # not sent again
    with pytest.raises(InputError):
        connect_to("ivm://host:port")


def test_a_client_that_is_closed(db: RemoteDatabase) -> None:
    feed = db.subscribe("revenue")
    db.close()
    with pytest.raises(UnavailableError, match="closed"):
        db.execute("SELECT 1")
    assert feed.poll(timeout=0.1) is None
    feed.close()


def test_a_transaction_that_the_server_has_lost(db: RemoteDatabase, world: HttpWorld) -> None:
    held = world.listener._served.held

    def work() -> None:
        with db.transaction():
            db.execute("INSERT INTO orders VALUES (7, 'EU', 1)")
            held.close_all()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        work()
    db.begin()
    held.close_all()
    with pytest.raises(UnavailableError, match="rolled back"):
        db.execute("INSERT INTO orders VALUES (7, 'EU', 1)")
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (2,)


_FORKED = """
import multiprocessing, sys
import ivm

def ask(numbers):
    return [db.execute("SELECT ?::INT", [n]).fetchone()[0] for n in numbers] == list(numbers)

def child(queue, first):
    queue.put((ask(range(first, first + 50)), db.in_transaction))

with ivm.connect(sys.argv[1]) as db:
    db.begin()
    forks = multiprocessing.get_context("fork")
    queue = forks.Queue()
    children = [forks.Process(target=child, args=(queue, 1000 * i)) for i in (1, 2)]
    for each in children:
        each.start()
    assert ask(range(50)) and db.in_transaction
    assert [queue.get(timeout=60) for _ in children] == [(True, False)] * 2
    db.rollback()
"""


@pytest.mark.full
def test_forks_have_connections_of_their_own(world: HttpWorld) -> None:
    asked = [sys.executable, "-c", _FORKED, world.url.replace("http", "ivm")]
    subprocess.run(asked, check=True, timeout=120, cwd=ROOT)


def test_ctrl_c_in_a_query_ends_it_and_its_transaction(
    db: RemoteDatabase, world: HttpWorld
) -> None:
    many = "range(1000000)"
    later = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))

    def work() -> None:
        with db.transaction():
            db.execute("DELETE FROM orders")
            later.start()
            db.execute(f"SELECT count(*) FROM {many} a(x), {many} b(y) WHERE x * y % 7 = 3")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_a_changefeed(db: RemoteDatabase, world: HttpWorld) -> None:
    with db.subscribe("revenue") as feed, world.database.subscribe("revenue") as here:
        assert feed.poll(timeout=0.05) is None
        for i in range(20):
            db.insert("orders", {"id": [100 + i], "region": ["EU"], "amount": [1]})
        for _ in range(20):
            epoch, delta = feed.poll(timeout=10) or (0, None)
            expected = here.poll(timeout=10)
            assert expected is not None
            assert delta is not None
            assert epoch == expected[0]
            key = lambda row: str(row)  # noqa: E731
            assert sorted(delta.to_pylist(), key=key) == sorted(expected[1].to_pylist(), key=key)
    assert feed.ended


def test_a_changefeed_with_a_snapshot_ends_with_its_view(
    db: RemoteDatabase, world: HttpWorld
) -> None:
    with db.subscribe("revenue", snapshot=True) as feed:
        _, rows = next(feed)
        assert sorted(row["region"] for row in rows.to_pylist()) == ["EU", "US"]
        world.database.execute("DROP MATERIALIZED VIEW revenue")
        assert feed.poll(timeout=10) is None
        assert feed.ended


def test_a_changefeed_that_is_cut_goes_on(db: RemoteDatabase, world: HttpWorld) -> None:
    settings = world.pool.settings
    with db.subscribe("revenue", snapshot=True) as feed:
        assert feed.poll(timeout=10) is not None
        world.pool.settings = dataclasses.replace(settings, subscribers=0)
        world.listener._served.hub.close()
        assert feed.poll(timeout=0.5) is None  # the server refuses it for now
        world.pool.settings = settings
        end = time.monotonic() + 20
        while not world.listener._served.hub.size and time.monotonic() < end:
            time.sleep(0.05)
        world.database.insert("orders", {"id": [3], "region": ["EU"], "amount": [1]})
        found = feed.poll(timeout=10)
        assert found is not None
        assert sorted(found[1]["n"].to_pylist()) == [1, 2]


def test_of_a_snapshot_that_is_cut_nothing_is_twice(db: RemoteDatabase, world: HttpWorld) -> None:
    with db.subscribe("revenue", snapshot=True) as feed:
        first = feed.poll(timeout=10)
        assert first is not None
        following = feed._following
        following._epoch, following._held = None, [first[1]]  # as if the last part had not come
        world.listener._served.hub.close()
        again = feed.poll(timeout=10)
        assert again is not None
        assert len(again[1]) == len(first[1])


def test_a_changefeed_never_goes_on_behind_a_gap(
    db: RemoteDatabase, world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: a snapshot whose head alone had come made a feed go on behind the epoch of that head."""
    settings, hub, body = world.pool.settings, world.listener._served.hub, changes._body

    async def cut(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(changes, "_body", body)
        raise ConnectionError

    with db.subscribe("revenue") as feed:
        world.pool.settings = dataclasses.replace(settings, subscribers=0)  # it is away for now
        hub.close()
        for i in (3, 4):
            db.insert("orders", {"id": [i], "region": ["EU"], "amount": [1]})
        hub._feeds.clear()
        monkeypatch.setattr(changes, "_body", cut)
        world.pool.settings = settings
        end = time.monotonic() + 20
        while changes._body is cut and time.monotonic() < end:
            time.sleep(0.05)
        db.insert("orders", {"id": [5], "region": ["EU"], "amount": [1]})
        with pytest.raises(UnavailableError, match="has not kept all epochs"):
            feed.poll(timeout=20)
        assert feed.ended


@pytest.mark.parametrize("leave", [RemoteFeed.close, id], ids=["closed", "forgotten"])
def test_a_changefeed_leaves_at_once(
    db: RemoteDatabase, world: HttpWorld, leave: Callable[[RemoteFeed], object]
) -> None:
    """Bugs: its thread and its connection stayed until the view changed again, or for ever."""
    hub = world.listener._served.hub
    feed = db.subscribe("revenue")
    assert hub.size == 1
    leave(feed)
    del feed
    end = time.monotonic() + 20
    while hub.size and time.monotonic() < end:
        time.sleep(0.05)
    assert hub.size == 0


def test_a_changefeed_of_a_server_that_does_not_answer() -> None:
    with (
        connect_to("ivm://127.0.0.1:9") as db,
        pytest.raises(UnavailableError, match="does not answer"),
    ):
        db.subscribe("revenue")


@pytest.mark.full
def test_many_threads_use_one_client(db: RemoteDatabase) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(10):
                db.insert("orders", {"id": [1000 + 100 * number + i]})
                with db.transaction():
                    db.execute("SELECT 1")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (52,)
