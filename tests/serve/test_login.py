"""Logins by SCRAM-SHA-256: right and wrong passwords, unknown users, and what comes before."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from scramp import ScramMechanism

import ivm
from ivm.access.verifiers import verifier_of
from ivm.serve.access import AccessError, User, Verifier
from ivm.serve.failed_logins import FailedLogins
from ivm.serve.settings import ServerSettings
from ivm.serve.users import Users
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnavailableError
from tests.serve.in_process import Listening, listening, startup


class OneUser:
    """A gate with the user ann, whose password is `geheim`, and who may only read."""

    def __init__(self) -> None:
        info = ScramMechanism("SCRAM-SHA-256").make_auth_info("geheim", iteration_count=4096)
        salt, stored, server, iterations = info
        self._verifier = Verifier(salt, iterations, stored, server)
        self.failures = FailedLogins(first=0.01, most=0.05, spacing=0)

    def verifier(self, name: str) -> Verifier | None:
        return self._verifier if name == "ann" else None

    def user(self, name: str) -> User | None:
        return User("ann", "read") if name == "ann" else None

    def demand_unchanged(self, user: User) -> None:
        pass

    def demand(self, user: User, statement: st.Statement, session: Session) -> None:
        if user.role == "read" and not isinstance(statement, st.Query):
            raise AccessError(f"{user.name} may only read")

    def allowing(
        self, user: User, statement: st.Statement, session: Session
    ) -> contextlib.AbstractContextManager[None]:
        self.demand(user, statement, session)
        return contextlib.nullcontext()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listening]:
    folder = tmp_path_factory.mktemp("login")
    settings = ServerSettings(pg="127.0.0.1:0", tls="self-made")
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER)")
        with listening(database, Path(folder), settings, OneUser()) as found:
            yield found


def test_the_right_password(server: Listening) -> None:
    for mode in ("disable", "require"):
        with psycopg.connect(f"{server.dsn()} password=geheim sslmode={mode}") as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)

    async def work() -> object:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user="ann", password="geheim", database="x"
        )
        try:
            return await connection.fetchval("SELECT 1")
        finally:
            await connection.close()

    assert asyncio.run(work()) == 1


@pytest.mark.parametrize(("user", "password"), [("ann", "falsch"), ("bob", "geheim"), ("ann", "")])
def test_wrong_passwords_and_unknown_users_look_alike(
    server: Listening, user: str, password: str
) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect(f"{server.dsn(user)} password='{password}'")
    told = str(raised.value)
    assert f"the user '{user}' is unknown, or the password is wrong" in told or "no pass" in told


def test_a_role_is_asked_for_each_statement(server: Listening) -> None:
    with psycopg.connect(f"{server.dsn()} password=geheim", autocommit=True) as connection:
        for sql in ("INSERT INTO t VALUES (1)", "COPY t FROM STDIN", "DROP TABLE t"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql) if "COPY" not in sql else _copy(connection)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def _copy(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        copy.write_row((1,))


def test_statements_before_the_login_are_not_run(server: Listening) -> None:
    with server.raw() as client:
        sql = b"SELECT 1\0"
        client.sendall(b"Q" + struct.pack("!i", len(sql) + 4) + sql)
        received = _all(client)
    assert b"before the login" in received
    assert b"T\0" not in received.split(b"E\0")[0]


def test_what_is_no_startup_message(server: Listening) -> None:
    for data in (
        b"\0\0\0\0",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
        struct.pack("!ii", 8, 2 << 16),
        startup()[:-3] + b"\xff\xfe\0",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            _all(client)  # it ends
    with psycopg.connect(f"{server.dsn()} password=geheim") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_newer_minor_version_and_its_options_are_declined(server: Listening) -> None:
    """As libpq asks for 3.2, and for versions that do not exist, to see that servers decline."""
    for minor, options in ((2, ""), (9999, "_pq_.command_tag\0on\0"), (0, "_pq_.x\0y\0")):
        body = struct.pack("!i", (3 << 16) + minor) + f"user\0ann\0{options}\0".encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(struct.pack("!i", len(body) + 4) + body)
            received = client.recv(1000)
        names = options.split("\0")[:1] if options else []
        told = struct.pack("!ii", 3 << 16, len(names)) + b"".join(f"{n}\0".encode() for n in names)
        assert received.startswith(b"v" + struct.pack("!i", len(told) + 4) + told)


def test_bytes_behind_the_wish_for_encryption_are_refused(server: Listening) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(struct.pack("!ii", 8, 80877103) + startup())
        assert b"before the encryption" in _all(client)


def _all(client: socket.socket) -> bytes:
    received = b""
    while data := client.recv(65536):
        received += data
    return received


# -- failed logins ------------------------------------------------------------------------------


def test_each_failure_is_told_later_than_the_one_before() -> None:
    now = 100.0
    failures = FailedLogins(first=1, most=5, clock=lambda: now)
    assert [failures.failed("h", name) for name in ("ann", "Ann", "ann", "ann", "ann")] == [
        *(1, 2, 4, 5, 5)
    ]
    assert failures.failed("h", "bob") == failures.failed("i", "ann") == 1
    assert failures.wait("h", "ann") == 0  # a right one is not held up
    now += 1000
    assert failures.failed("h", "ann") == 1


def test_guesses_have_a_rate_however_many_are_made_at_once() -> None:
    now = 100.0
    failures = FailedLogins(first=1, most=2, spacing=0.5, clock=lambda: now)
    failures.failed("h", "ann")
    waits = [failures.wait("h", "ann") for _ in range(8)]
    assert waits == [0, 0, 0, 0, 0.5, 1, 1.5, 2]
    with pytest.raises(UnavailableError, match="logins of 'ann' from h"):
        failures.wait("h", "ann")
    assert failures.wait("h", "bob") == failures.wait("i", "ann") == 0
    failures.succeeded("h", "ann")  # it was no guess
    assert failures.wait("h", "ann") == 2
    now += 1000
    assert failures.wait("h", "ann") == 0


@pytest.mark.full
def test_wrong_passwords_are_told_late_and_right_ones_are_let_in_meanwhile(
    server: Listening, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.listener.gate, "failures", FailedLogins(first=1, most=1, spacing=0))
    for name in ("ann", "eve"):  # the one exists, the other does not
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError, match="the password is wrong"):
                psycopg.connect(f"{server.dsn(name)} password=falsch")
        assert time.monotonic() - began > 2
        assert f"failed logins of '{name}' from 127.0.0.1: 2;" in caplog.text
    told: list[float] = []

    def guess() -> None:
        with pytest.raises(psycopg.OperationalError, match="the password is wrong"):
            psycopg.connect(f"{server.dsn()} password=falsch")
        told.append(time.monotonic())

    guesses = [threading.Thread(target=guess) for _ in range(20)]
    for each in guesses:
        each.start()
    with psycopg.connect(f"{server.dsn()} password=geheim") as ann:
        assert ann.execute("SELECT 1").fetchone() == (1,)
    let_in = time.monotonic()
    for each in guesses:
        each.join()
    assert let_in < max(told)


def test_what_a_user_has_begun_is_not_committed_once_the_user_is_gone(tmp_path: Path) -> None:
    named = {"eve": {"verifier": str(verifier_of("x")), "role": "write"}}
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER)")
        users = Users(database._engine, named)
        settings = ServerSettings(pg="127.0.0.1:0")
        with (
            listening(database, tmp_path, settings, users) as server,
            psycopg.connect(f"{server.dsn('eve')} password=x sslmode=disable") as eve,
        ):
            eve.execute("INSERT INTO t VALUES (1)")
            users.apply({})  # as SIGHUP does: no lock is waited for
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                eve.commit()
            eve.rollback()
        assert database.execute("FROM t").fetchall() == []
