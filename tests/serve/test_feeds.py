"""Changefeeds over HTTP: a snapshot, then each epoch once; resumed, slow, many, and cut ones."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import ivm
from ivm.serve.http import changes, feeds
from ivm.serve.http.endpoint import known_user
from ivm.serve.http.formats import ARROW
from tests.serve.http_world import HttpWorld

pytestmark = pytest.mark.full(smoke=6)

PATH = "/views/revenue/changes"


@pytest.fixture
def world() -> Iterator[HttpWorld]:
    database = ivm.connect()
    database.execute("""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, region VARCHAR, amount DECIMAL(9, 2));
        CREATE MATERIALIZED VIEW revenue AS
            SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region;
        INSERT INTO orders VALUES (1, 'EU', 9.50), (2, 'US', 5);
        CREATE USER ann PASSWORD 'secret' ROLE read;
    """)
    found = HttpWorld(database)
    yield found
    found.close()


class State:
    """The rows of a view as a subscriber has them, and the epochs that it got."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        self.epochs: list[int] = []
        self.snapshots = 0
        self.epoch = 0

    def take(self, message: dict[str, Any]) -> None:
        """Takes a message of a feed."""
        if message["type"] == "snapshot":
            if message["part"] == 0:
                self.rows.clear()
                self.snapshots += 1
        else:
            self.epochs.append(message["epoch"])
        self.epoch = message["epoch"]
        for row in message["rows"]:
            weight = row.pop("_weight")
            key = json.dumps(row, sort_keys=True)
            self.rows[key] += weight
            if not self.rows[key]:
                del self.rows[key]


def stored(database: ivm.Database, view: str = "revenue") -> Counter[str]:
    """The view's rows, in the form of a subscriber's."""
    names = database.execute(f"SELECT * FROM {view}").columns
    query = f"SELECT json_object({', '.join(f'{n!r}, {n}' for n in names)}) FROM {view}"
    found = [json.loads(text) for (text,) in database.execute(query).fetchall()]
    return Counter(json.dumps(row, sort_keys=True) for row in found)


def events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """The server-sent events of a response: id, event and data."""
    found: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":") or line.startswith("retry"):
            continue
        if not line:
            if found:
                yield found.get("id", ""), found["event"], json.loads(found["data"])
            found = {}
            continue
        name, _, value = line.partition(": ")
        found[name] = value


def insert(database: ivm.Database, number: int, region: str = "EU") -> None:
    database.insert("orders", {"id": [number], "region": [region], "amount": [1]})


def test_a_snapshot_and_then_each_epoch_once(world: HttpWorld) -> None:
    state = State()
    with world.client() as client, client.stream("GET", PATH) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = events(response)
        id, kind, message = next(found)
        assert (kind, message["last"], id) == ("snapshot", True, str(world.database.epoch))
        state.take(message)
        assert state.rows == stored(world.database)
        begin = world.database.epoch
        for i in range(50):
            insert(world.database, 100 + i, f"r{i % 7}")
        while len(state.epochs) < 50:
            id, kind, message = next(found)
            assert (kind, id) == ("changes", str(message["epoch"]))
            state.take(message)
    assert state.epochs == list(range(begin + 1, begin + 51))
    assert state.rows == stored(world.database)


def test_an_epoch_is_taken_up_after_the_last_one(world: HttpWorld) -> None:
    state = State()
    with world.client() as client:
        with client.stream("GET", PATH) as response:
            state.take(next(events(response))[2])
        for i in range(10):
            insert(world.database, 100 + i)
        headers = {"Last-Event-ID": str(state.epoch)}
        with client.stream("GET", PATH, headers=headers) as response:
            found = events(response)
            while len(state.epochs) < 10:
                state.take(next(found)[2])
        assert state.snapshots == 1
        last = state.epoch
        insert(world.database, 500)
        with client.stream("GET", f"{PATH}?after={last}") as response:
            assert next(events(response))[2]["epoch"] == last + 1
        for unknown in (0, last + 1000):
            with client.stream("GET", f"{PATH}?after={unknown}") as response:
                assert next(events(response))[1] == "snapshot"
        assert client.get(f"{PATH}?after=x").status_code == 400


def test_what_is_not_kept_begins_with_a_snapshot(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "KEPT_EPOCHS", 5)
    state = State()
    with world.client() as client:
        with client.stream("GET", PATH) as response:
            state.take(next(events(response))[2])
        for i in range(50):
            insert(world.database, 100 + i)
            time.sleep(0.002)
        time.sleep(0.2)
        headers = {"Last-Event-ID": str(state.epoch)}
        with client.stream("GET", PATH, headers=headers) as response:
            _, kind, message = next(events(response))
            state.take(message)
    assert (kind, state.snapshots) == ("snapshot", 2)
    assert state.rows == stored(world.database)


def test_a_new_subscriber_gets_the_rows_of_now(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of some time ago, with the epochs since then one by one."""
    monkeypatch.setattr(feeds, "SHARED_SECONDS", 0.0)
    with world.client() as client:
        for i in range(3):
            with client.stream("GET", PATH) as response:
                _, kind, message = next(events(response))
            assert (kind, message["epoch"]) == ("snapshot", world.database.epoch)
            insert(world.database, 100 + i)


def test_a_large_snapshot_comes_in_parts(world: HttpWorld) -> None:
    world.database.execute("""
        CREATE TABLE many AS SELECT range AS a FROM range(50_000);
        CREATE MATERIALIZED VIEW all_of AS SELECT a FROM many
    """)
    state, ids = State(), []
    with (
        world.client() as client,
        client.stream("GET", "/views/all_of/changes") as response,
    ):
        for id, _, message in events(response):
            state.take(message)
            ids.append(id)
            if message["last"]:
                break
    assert ids == ["", "", str(state.epoch)]
    assert len(state.rows) == 50_000


def test_an_empty_view_has_an_empty_snapshot(world: HttpWorld) -> None:
    world.database.execute("CREATE MATERIALIZED VIEW none AS FROM orders WHERE id < 0")
    with world.client() as client, client.stream("GET", "/views/none/changes") as response:
        _, kind, message = next(events(response))
    assert (kind, message["rows"], message["last"]) == ("snapshot", [], True)


def test_websockets_get_the_same(world: HttpWorld) -> None:
    url = world.url.replace("http", "ws") + PATH
    state = State()
    with connect(url) as socket:
        state.take(json.loads(socket.recv(timeout=10)))
        insert(world.database, 100)
        insert(world.database, 101)
        while len(state.epochs) < 2:
            state.take(json.loads(socket.recv(timeout=10)))
    assert state.rows == stored(world.database)
    with connect(f"{url}?after={state.epoch - 1}") as socket:
        assert json.loads(socket.recv(timeout=10))["epoch"] == state.epoch
    for path, given, status in (
        (PATH, {"additional_headers": {"Authorization": "Bearer x"}}, 401),
        (PATH, {"origin": "http://evil.org"}, 403),
        ("/views/nowhere/changes", {}, 404),
    ):
        with pytest.raises(InvalidStatus) as refused:
            connect(world.url.replace("http", "ws") + path, **given)
        assert refused.value.response.status_code == status


def test_arrow_gets_the_same(world: HttpWorld) -> None:
    with (
        world.client() as client,
        client.stream("GET", PATH, headers={"Accept": ARROW}) as response,
    ):
        reader = pa.ipc.open_stream(_Bytes(response.iter_raw()))
        batch, about = reader.read_next_batch_with_custom_metadata()
        assert (about[b"type"], batch.num_rows) == (b"snapshot", 2)
        insert(world.database, 100)
        batch, about = reader.read_next_batch_with_custom_metadata()
        assert about[b"epoch"] == str(world.database.epoch).encode()
        assert sorted(batch.column("_weight").to_pylist()) == [-1, 1]


def test_a_view_above_a_recomputed_one_adds_up(world: HttpWorld) -> None:
    """Bug: an epoch came twice, each time with the rows that the commit has changed last."""
    world.database.execute("""
        CREATE MATERIALIZED VIEW low AS SELECT approx_count_distinct(id) AS n FROM orders;
        CREATE MATERIALIZED VIEW top AS SELECT id, n FROM orders, low;
    """)
    state = State()
    with world.client() as client, client.stream("GET", "/views/top/changes") as response:
        found = events(response)
        state.take(next(found)[2])
        for i in range(100, 105):
            insert(world.database, i)
            state.take(next(found)[2])
        assert state.rows == stored(world.database, "top")
        assert state.epochs == list(range(world.database.epoch - 4, world.database.epoch + 1))


@pytest.mark.parametrize("value", ["5", "'x'", "NULL"])
def test_unions_come_as_they_are(world: HttpWorld, value: str) -> None:
    """Bug: a view with a UNION could be neither read nor followed."""
    world.database.execute(f"""
        CREATE TABLE t (u UNION(a INTEGER, b VARCHAR));
        INSERT INTO t VALUES ({value});
        CREATE MATERIALIZED VIEW either AS SELECT u, [u] AS l FROM t;
    """)
    with world.client() as client:
        assert client.get("/views/either").status_code == 200
        with client.stream("GET", "/views/either/changes") as response:
            [row] = next(events(response))[2]["rows"]
            assert row.pop("_weight") == 1
            assert client.get("/views/either").json()["rows"] == [row]
        none = client.get("/views/either?limit=0", headers={"Accept": ARROW})
        assert pa.ipc.open_stream(none.content).read_all().num_rows == 0


def test_a_view_with_a_column_of_messages_is_read_and_not_followed(world: HttpWorld) -> None:
    """Bug: it was not read either, and each request left a subscription that gathered changes."""
    world.database.execute('CREATE MATERIALIZED VIEW odd AS SELECT id AS "_weight" FROM orders')
    with world.client() as client:
        assert client.get("/views/odd").json()["rows"] == [{"_weight": 1}, {"_weight": 2}]
        for _ in range(2):
            assert "another name" in client.get("/views/odd/changes").json()["what"]
    assert len(world.database._engine.feeds._by_view["odd"]) == 1


class _Bytes:
    """A file of what comes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left, self.closed = chunks, b"", False

    def read(self, size: int) -> bytes:
        """Exactly so many bytes, as long as there are."""
        while len(self._left) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            self._left += chunk
        found, self._left = self._left[:size], self._left[size:]
        return found

    def close(self) -> None:
        """Nothing is to be closed."""


def test_a_feed_ends_with_its_view(world: HttpWorld) -> None:
    world.database.execute("CREATE MATERIALIZED VIEW gone AS SELECT id FROM orders")
    with world.client() as client, client.stream("GET", "/views/gone/changes") as response:
        found = events(response)
        next(found)
        world.database.execute("DROP MATERIALIZED VIEW gone")
        assert next(found)[1] == "end"
        assert next(found, None) is None
    with world.client() as client:
        assert client.get("/views/gone/changes").status_code == 404
        world.database.execute("CREATE MATERIALIZED VIEW gone AS SELECT id + 1 AS id FROM orders")
        with client.stream("GET", "/views/gone/changes") as response:
            assert len(next(events(response))[2]["rows"]) == 2


def test_what_comes_while_a_user_is_looked_up_is_sent_before_the_end(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: the end was looked at before what had come meanwhile, which was left out."""

    async def slowly(*given: Any) -> Any:
        monkeypatch.setattr(changes, "known_user", known_user)
        [view_feed] = world.listener._served.hub
        await asyncio.to_thread(insert, world.database, 3)
        await asyncio.to_thread(world.database.execute, "DROP MATERIALIZED VIEW revenue")
        while not view_feed.ended:
            await asyncio.sleep(0.01)
        return await known_user(*given)

    monkeypatch.setattr(feeds, "BEAT", 0)
    monkeypatch.setattr(changes, "known_user", slowly)
    with world.client() as client, client.stream("GET", PATH) as response:
        assert [kind for _, kind, _ in events(response)] == ["snapshot", "changes", "end"]


def test_epochs_that_a_snapshot_has_hold_up_no_others(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: a batch of such epochs alone was taken for nothing, and the next was waited for."""
    held: list[Any] = []
    come = feeds.ViewFeed._come
    monkeypatch.setattr(feeds.Subscriber.chunks, "__defaults__", (1,))
    monkeypatch.setattr(feeds.ViewFeed, "_come", lambda feed, items: held.extend(items))
    with world.client() as client, client.stream("GET", f"{PATH}?snapshot=0"):
        for i in (3, 4, 5):
            insert(world.database, i)
        with client.stream("GET", PATH) as response:
            found = events(response)
            assert next(found)[1] == "snapshot"
            while len(held) < 3:
                time.sleep(0.01)
            monkeypatch.setattr(feeds.ViewFeed, "_come", come)
            [view_feed] = world.listener._served.hub
            come(view_feed, held)
            insert(world.database, 6)
            assert next(found)[2]["epoch"] == world.database.epoch


def test_a_replaced_view_is_another_at_once(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds.ViewFeed, "_come", lambda feed, items: None)  # it has not come
    with world.client() as client:
        tag = client.get("/views/revenue").headers["etag"]
        world.database.execute("""
            CREATE OR REPLACE MATERIALIZED VIEW revenue AS SELECT max(id) AS newest FROM orders
        """)
        answer = client.get("/views/revenue", headers={"If-None-Match": tag})
        assert answer.json()["rows"] == [{"newest": 2}]
        with client.stream("GET", PATH, headers={"Last-Event-ID": tag.strip('"')}) as response:
            assert next(events(response))[2]["rows"] == [{"_weight": 1, "newest": 2}]


def test_who_wants_no_snapshot_gets_none_though_commits_go_on(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug: of a commit while the feed was opened a snapshot told, and a client's feed ended."""
    real = feeds.ViewFeed.__init__

    def after_a_commit(feed: feeds.ViewFeed, *given: Any) -> None:
        insert(world.database, 100)
        real(feed, *given)

    monkeypatch.setattr(feeds.ViewFeed, "__init__", after_a_commit)
    with (
        world.client() as client,
        client.stream("GET", PATH, params={"snapshot": "0"}) as response,
    ):
        assert response.headers["ivm-epoch"] == str(world.database.epoch)
        insert(world.database, 101)
        assert next(events(response))[:2] == (str(world.database.epoch), "changes")


@pytest.mark.full
def test_many_subscribers_get_each_epoch_once(world: HttpWorld) -> None:
    count, epochs = 200, 100
    begin = world.database.epoch

    async def follow(client: httpx.AsyncClient, ready: asyncio.Semaphore) -> State:
        state = State()
        async with client.stream("GET", PATH) as response:
            kind, told = "", False
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    state.take(json.loads(value))
                    if not told:
                        told = True
                        ready.release()
                    if kind == "changes" and state.epoch == begin + epochs:
                        return state
        return state

    def write() -> None:
        for i in range(epochs):
            insert(world.database, 1000 + i, f"r{i % 5}")

    async def all_of_them() -> list[State]:
        limits = httpx.Limits(max_connections=count)
        ready = asyncio.Semaphore(0)
        async with httpx.AsyncClient(base_url=world.url, limits=limits, timeout=60) as client:
            tasks = [asyncio.create_task(follow(client, ready)) for _ in range(count)]
            for _ in range(count):
                await ready.acquire()
            writer = threading.Thread(target=write)
            writer.start()
            found = await asyncio.wait_for(asyncio.gather(*tasks), 100)
            writer.join()
            return list(found)

    rows = None
    for state in asyncio.run(all_of_them()):
        rows = rows or stored(world.database)
        assert state.epochs == list(range(begin + 1, begin + epochs + 1))
        assert state.rows == rows


@pytest.mark.full
def test_a_slow_subscriber_is_cut_off_alone(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feeds, "KEPT_EPOCHS", 50)
    world.database.execute("""
        CREATE TABLE wide (id INTEGER PRIMARY KEY, text VARCHAR);
        CREATE MATERIALIZED VIEW texts AS SELECT * FROM wide;
    """)
    slow = socket.create_connection(("127.0.0.1", world.listener.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(b"GET /views/texts/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    state = State()
    with world.client() as client, client.stream("GET", "/views/texts/changes") as response:
        found = events(response)
        state.take(next(found)[2])
        begin, count = world.database.epoch, 400

        def write() -> None:
            for i in range(count):
                world.database.insert("wide", {"id": [i], "text": ["x" * 50_000]})
                time.sleep(0.005)

        writer = threading.Thread(target=write)
        writer.start()
        while len(state.epochs) < count:
            state.take(next(found)[2])
        writer.join()
    assert state.epochs == list(range(begin + 1, begin + count + 1))
    assert len(state.rows) == count
    end = time.monotonic() + 10
    while world.listener._served.hub.size and time.monotonic() < end:
        time.sleep(0.05)
    assert "was read too slowly" in caplog.text
    assert world.listener._served.hub.size == 0
    slow.close()


def test_more_subscribers_than_allowed_are_told(world: HttpWorld) -> None:
    world.pool.settings = type(world.pool.settings)(
        **{**vars(world.pool.settings), "subscribers": 1}
    )
    with world.client() as client, client.stream("GET", PATH) as response:
        found = events(response)
        next(found)
        with world.client() as second:
            answer = second.get(PATH)
        assert answer.status_code == 503
        assert "subscribers" in answer.json()["what"]


def test_a_user_who_is_dropped_is_cut_off(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "BEAT", 0.2)
    with (
        world.client(auth=("ann", "secret")) as client,
        client.stream("GET", PATH) as response,
    ):
        found = events(response)
        next(found)
        world.database.execute("DROP USER ann")
        _, kind, data = next(found)
        assert (kind, data["error"]) == ("error", "access")


def test_a_token_that_is_dropped_is_cut_off(
    world: HttpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "BEAT", 0.2)
    ((_, token),) = world.database.execute("CREATE TOKEN t FOR USER ann").fetchall()
    headers = {"Authorization": f"Bearer {token}"}
    with world.client(headers=headers) as client, client.stream("GET", PATH) as response:
        found = events(response)
        next(found)
        world.database.execute("DROP TOKEN t")
        assert next(found)[1] == "error"


def test_the_server_ends_with_feeds_open(world: HttpWorld) -> None:
    url = world.url.replace("http", "ws") + PATH
    with world.client() as client, client.stream("GET", PATH) as response, connect(url) as socket:
        found = events(response)
        next(found)
        socket.recv(timeout=10)
        closing = threading.Thread(target=world.close)
        closing.start()
        assert next(found, None) is None
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
        closing.join(20)
        assert not closing.is_alive()
