"""The sessions of clients: limits, cancelling, and the end of a statement's time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pytest

import ivm
from ivm.dispatch import execute
from ivm.serve.access import NoUsers, trusted
from ivm.serve.pool import SessionPool
from ivm.serve.served_session import CancelledError, ServedSession
from ivm.serve.settings import ServerSettings
from ivm.serve.statement_log import told
from ivm.serve.threads import Threads
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError

Begun: TypeAlias = tuple[threading.Thread, list[object]]

# Some 10 s of DuckDB's, and no time at all to plan.
SLOW = "SELECT count(*) FROM range(100_000) a, range(100_000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture
def pool() -> Iterator[SessionPool]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        pool = SessionPool(database, NoUsers(), ServerSettings(connections=3))
        yield pool
        pool.close()


def opened(pool: SessionPool) -> ServedSession:
    return pool.open(pool.reserve(), trusted("ann"), "test")


def test_a_client_that_leaves_during_its_login_leaves_no_session(
    pool: SessionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = pool.database.connection()
    monkeypatch.setattr(pool.database, "connection", lambda: connection)
    number = pool.reserve()
    pool.release(number)  # by the event loop, while a thread opens the session
    with pytest.raises(ConnectionResetError):
        pool.open(number, trusted("ann"), "test")
    assert connection.closed


def begun(session: ServedSession, work: Callable[[Session], object]) -> Begun:
    found: list[object] = []

    def run() -> None:
        try:
            found.append(session.run(work))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def ended(started: Begun) -> Any:
    """What a call returns; the server's threads are never the main one."""
    thread, found = started
    thread.join(20)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def in_thread(session: ServedSession, sql: str) -> Begun:
    return begun(session, lambda s: execute(s, sql).fetchall())


def run(session: ServedSession, sql: str) -> Any:
    return ended(in_thread(session, sql))


def until_busy(session: ServedSession) -> None:
    end = time.monotonic() + 10
    while not session.busy:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_client_too_many_is_refused_and_comes_in_once_another_has_left(pool: SessionPool) -> None:
    first, *_ = [opened(pool) for _ in range(3)]
    with pytest.raises(UnavailableError, match="3 connections"):
        pool.reserve()
    pool.release(first.number)
    assert run(opened(pool), "SELECT 1") == [(1,)]


def test_a_statement_is_cancelled_by_its_secret_alone(pool: SessionPool) -> None:
    session = opened(pool)
    thread, found = in_thread(session, SLOW)
    until_busy(session)
    pool.cancel(session.number, session.secret ^ 1)
    pool.look()
    assert session.busy
    pool.cancel(session.number, session.secret)
    while thread.is_alive():
        pool.look()
        thread.join(0.02)
    assert isinstance(found[0], CancelledError)
    assert run(session, "SELECT 2") == [(2,)]


def test_a_statement_that_takes_too_long_is_cancelled(pool: SessionPool) -> None:
    session = opened(pool)
    session.seconds = 0.2
    thread, found = in_thread(session, SLOW)
    while thread.is_alive():
        pool.look()
        thread.join(0.02)
    assert "longer than 0.2 s" in str(found[0])


@pytest.mark.full
def test_a_writer_that_waits_for_the_lock_is_cancelled(pool: SessionPool) -> None:
    holder, waiter = opened(pool), opened(pool)
    run(holder, "BEGIN; INSERT INTO t VALUES (1)")
    thread, found = in_thread(waiter, "INSERT INTO t VALUES (2)")
    until_busy(waiter)
    waiter.cancel("enough")
    thread.join(10)
    assert isinstance(found[0], CancelledError)
    run(holder, "COMMIT")
    assert run(waiter, "FROM t") == [(1,)]


def test_a_cancel_after_the_commit_hides_nothing(pool: SessionPool) -> None:
    """The client is told that its row is there, though the cancel came while the call ended."""
    session = opened(pool)

    def work(s: Any) -> int:
        rows = execute(s, "INSERT INTO t VALUES (5)").rowcount
        session.cancel("too late")
        return rows

    assert ended(begun(session, work)) == 1
    assert run(session, "FROM t") == [(5,)]


def test_a_cancel_before_a_commit_undoes_the_statement(pool: SessionPool) -> None:
    session = opened(pool)

    def work(s: Any) -> None:
        session.cancel("in time")
        execute(s, "INSERT INTO t VALUES (6)")

    with pytest.raises(CancelledError, match="in time"):
        ended(begun(session, work))
    assert run(session, "FROM t") == []


def test_sql_of_a_client_reads_no_variables_of_the_server(pool: SessionPool) -> None:
    import pyarrow as pa

    secrets = pa.table({"a": [1]})
    with pytest.raises(ivm.errors.SqlError, match="secrets"):
        run(opened(pool), "FROM secrets")
    assert len(secrets) == 1


def test_a_session_that_ends_undoes_its_transaction(pool: SessionPool) -> None:
    session = opened(pool)
    run(session, "BEGIN; INSERT INTO t VALUES (1)")
    pool.release(session.number)
    assert run(opened(pool), "INSERT INTO t VALUES (2); FROM t") == [(2,)]


def test_work_that_others_wait_for_gets_a_thread() -> None:
    """As a COMMIT that frees the writer lock for which other statements wait in their threads."""
    threads = Threads(50)
    opened_, done = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        assert opened_.wait(30)
        done.release()

    for _ in range(30):
        threads.submit(wait)
    threads.submit(opened_.set)
    for _ in range(30):
        assert done.acquire(timeout=30)
    threads.end()


def _set_after(awaited: threading.Event, then: threading.Event) -> None:
    if awaited.wait(5):
        then.set()


def test_work_is_done_beside_work_that_was_given_just_before_and_waits_for_it() -> None:
    for _ in range(30):
        threads = Threads(4)
        warm, first, second = threading.Event(), threading.Event(), threading.Event()
        threads.submit(warm.set)
        assert warm.wait(5)
        time.sleep(0.001)  # its thread has nothing to do from here on
        threads.submit(partial(_set_after, second, first))
        threads.submit(second.set)  # the thread has been woken, and has not taken the first yet
        assert first.wait(4)
        threads.end()


def test_short_work_is_done_by_few_threads() -> None:
    threads = Threads(50)
    seen: set[int] = set()
    done = threading.Semaphore(0)

    def work() -> None:
        seen.add(threading.get_ident())
        done.release()

    for _ in range(5_000):
        threads.submit(work)
    for _ in range(5_000):
        assert done.acquire(timeout=30)
    threads.end()
    assert len(seen) < 25


def test_a_fault_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads(1)
    done = threading.Event()
    threads.submit(lambda: 1 // 0)  # type: ignore[arg-type]
    threads.submit(done.set)
    assert done.wait(30)
    assert "a fault of the server" in caplog.text
    threads.end()


def test_no_line_of_the_log_has_a_password() -> None:
    for text in (
        "CREATE USER ann PASSWORD 'ge''heim' ROLE read",
        "alter user ann password = 'geheim'",
        "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'geheim')",
        "CREATE SOURCE s FROM POSTGRES (url 'postgres://ann:geheim@host/db')",
        "SELECT $1, 'a' AS \"password\", PASSWORD $$geheim$$",
        "CREATE USER ann PASSWORD /* c */ 'geheim' ROLE read",
        "ALTER USER ann PASSWORD -- c\n'geheim'",
        "CREATE USER ann PASSWORD ('geheim') ROLE read",
        "CREATE USER ann PASSWORD geheim ROLE read",
        'CREATE USER ann PASSWORD "geheim" ROLE read',
        "CREATE USER ann PASSWORD 'a' 'geheim' ROLE read",
        "CREATE USER ann IDENTIFIED BY 'geheim'",
        "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET $ी$a$b$geheim$ी$)",
        "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET\u200b'geheim')",
        "ATTACH 'postgres:host=x password=geheim user=y' AS z",
    ):
        assert "heim" not in told(text), told(text)
    assert told("SELECT  1\n -- x") == "SELECT 1 -- x"
    assert len(told("SELECT '" + "x" * 10_000 + "'")) < 500


def test_a_line_of_the_log_has_bytes_and_moves_no_cursor() -> None:
    text = "SELECT 'é 😀 \ud800 \x1b[2J \u202e \x00'"
    assert told(text) == r"SELECT 'é 😀 \ud800 \x1b[2J \u202e \x00'"
    assert told(text).encode()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pg": "nowhere"}, "no address"),
        ({"pg": "a:70000"}, "no address"),
        ({"connections": 0}, "at least 1"),
        ({"connections": True}, "an integer"),
        ({"statement_seconds": -1}, "at least 0"),
        ({"trust": "all"}, '"loopback"'),
        ({"tls": 5}, "a text"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ivm.errors.InputError, match=reason):
        ServerSettings(**settings)
