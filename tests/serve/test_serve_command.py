"""The life of `ivm serve`: signals, settings, kill -9, cancels, and clients that leave."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psycopg
import pytest

import ivm
from ivm import errors
from tests.serve.serving import Served, make_shop, psql, served

pytestmark = pytest.mark.full(smoke=6)

SLOW = "SELECT count(*) FROM range(100_000) a, range(100_000) b WHERE (a.range * b.range) % 7 = 3"
SLOW_IN_CATALOG = "SELECT count(*) FROM pg_class a, range(3000000000) r(x) WHERE x % 7 = 3"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    make_shop(path)
    return path


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


@pytest.mark.full
def test_sigterm_lets_statements_finish_and_closes_the_file(path: Path) -> None:
    with served(path) as server, psycopg.connect(server.dsn(), autocommit=True) as connection:
        idle = psycopg.connect(server.dsn())
        idle.execute("INSERT INTO customers VALUES (901, 'EU', 'never committed')")
        idle.rollback()
        sql = "SELECT count(*) FROM range(20_000) a, range(20_000) b WHERE (a.range + b.range) > 5"
        thread, found = in_thread(lambda: connection.execute(sql).fetchone())
        server.wait_for("#1: login")
        time.sleep(0.3)
        assert server.end(signal.SIGTERM) == 0
        thread.join(30)
        assert isinstance(found[0], tuple)
        with pytest.raises(psycopg.OperationalError):
            idle.execute("SELECT 1")
        idle.close()
    assert not Path(f"{path}.wal").exists()
    with ivm.connect(path) as database:
        assert database.execute("SELECT count(*) FROM customers").fetchall() == [(100,)]


@pytest.mark.full
@pytest.mark.parametrize("kilobytes", [10, 10_000])
def test_who_reads_slowly_has_the_whole_answer_after_sigterm(path: Path, kilobytes: int) -> None:
    with served(path) as server, contextlib.closing(psycopg.connect(server.dsn())) as connection:
        sql = f"SELECT repeat('x', 1000) FROM range({kilobytes})"
        connection.pgconn.send_query(sql.encode())
        connection.pgconn.flush()
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping: SIGTERM")
        time.sleep(0.3)
        found = connection.pgconn.get_result()
        assert found is not None
        assert (found.ntuples, found.error_message) == (kilobytes, b"")
        assert server.process.wait(30) == 0


@pytest.mark.full
def test_a_second_signal_ends_it_at_once(path: Path) -> None:
    with served(path) as server:
        connection = psycopg.connect(server.dsn(), autocommit=True)
        thread, _ = in_thread(lambda: connection.execute(SLOW).fetchone())
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("stopping: SIGTERM")
        assert server.end(signal.SIGTERM) == -signal.SIGTERM
        thread.join(30)
        connection.close()


@pytest.mark.full
def test_what_takes_too_long_at_the_end_is_cancelled(path: Path) -> None:
    path.with_name("ivm.toml").write_text("[server]\ngrace_seconds = 0.5\n", encoding="utf-8")
    with served(path) as server:
        connection = psycopg.connect(server.dsn(), autocommit=True)
        thread, found = in_thread(lambda: connection.execute(SLOW).fetchone())
        time.sleep(0.5)
        assert server.end(signal.SIGINT) == 130
        thread.join(30)
        connection.close()
        assert isinstance(found[0], psycopg.OperationalError | psycopg.errors.QueryCanceled)


def test_sighup_reads_the_settings_anew(path: Path) -> None:
    settings = path.with_name("ivm.toml")
    settings.write_text("[server]\nconnections = 2\n", encoding="utf-8")
    with served(path) as server:
        first, second = psycopg.connect(server.dsn()), psycopg.connect(server.dsn())
        with pytest.raises(psycopg.OperationalError, match="2 connections"):
            psycopg.connect(server.dsn())
        settings.write_text("[server]\nconnections = 3\nresult_megabytes = 1\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("read anew")
        with psycopg.connect(server.dsn(), autocommit=True) as third:
            with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="more than 1 MB"):
                third.execute("SELECT repeat('x', 1000) FROM range(5000)")
            third.execute("CREATE TABLE large (v VARCHAR)")
            changed = "INSERT INTO large SELECT repeat('x', 1000) FROM range(5000) RETURNING v"
            assert len(third.execute(changed).fetchall()) == 5000  # it has happened
        settings.write_text("[server]\nconnections = 'many'\n", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("not read anew")
        first.close()
        second.close()


@pytest.mark.full
def test_every_acknowledged_row_survives_kill_9(path: Path) -> None:
    acknowledged: list[list[int]] = [[], [], []]

    def write(server: Served, worker: int) -> None:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(server.dsn(), autocommit=True) as connection,
        ):
            for i in range(100_000):
                row = 10_000 + worker * 100_000 + i
                connection.execute("INSERT INTO orders VALUES (%s, 1, 1, NULL)", [row])
                acknowledged[worker].append(row)

    with served(path) as server:
        threads = [in_thread(lambda w=w: write(server, w))[0] for w in range(3)]  # type: ignore[misc]
        time.sleep(2)
        server.end(signal.SIGKILL)
        for thread in threads:
            thread.join(30)
    with served(path) as server, psycopg.connect(server.dsn()) as connection:
        sql = "SELECT id FROM orders WHERE id >= 10000"
        found = {id for (id,) in connection.execute(sql).fetchall()}
        total = connection.execute("SELECT sum(n) FROM revenue").fetchone()
        assert total == (1000 + len(found),)
    for worker, rows in enumerate(acknowledged):
        assert len(rows) > 10
        assert found.issuperset(rows), worker


@pytest.mark.full
@pytest.mark.parametrize("slow", [SLOW, SLOW_IN_CATALOG])
def test_a_cancel_ends_the_statement_and_nothing_else(path: Path, slow: str) -> None:
    with (
        served(path) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
    ):
        thread, found = in_thread(lambda: connection.execute(slow).fetchone())
        time.sleep(0.5)
        connection.cancel_safe(timeout=20)
        thread.join(30)
        assert isinstance(found[0], psycopg.errors.QueryCanceled)
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.execute("SET statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="longer than"):
            connection.execute(slow)
        assert connection.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.full
def test_a_client_that_leaves_ends_its_statement_and_undoes_its_transaction(path: Path) -> None:
    with served(path) as server, psycopg.connect(server.dsn(), autocommit=True) as other:
        leaving = psycopg.connect(server.dsn())
        leaving.execute("INSERT INTO customers VALUES (950, 'EU', 'leaves')")
        thread, _ = in_thread(lambda: leaving.execute(SLOW).fetchone())
        time.sleep(0.5)
        with socket.socket(fileno=os.dup(leaving.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        leaving.close()
        other.execute("INSERT INTO customers VALUES (950, 'EU', 'stays')")  # the lock is free
        found = other.execute("SELECT note FROM customers WHERE id = 950").fetchall()
        assert found == [("stays",)]


@pytest.mark.full
def test_a_client_that_does_not_read_holds_up_nobody(path: Path) -> None:
    with served(path) as server:
        lazy = _raw(server)
        sql = b"SELECT repeat('x', 1000) FROM range(200000)\0"
        lazy.sendall(b"Q" + struct.pack("!i", len(sql) + 4) + sql)
        time.sleep(0.5)
        with psycopg.connect(server.dsn(), autocommit=True) as other:
            assert other.execute("INSERT INTO customers VALUES (960, 'EU', 'o')").rowcount == 1
        memory = _megabytes(server.process.pid)
        lazy.close()
        assert memory < 1500
        assert server.end() == 0


@pytest.mark.full
def test_without_trust_nobody_comes_in(path: Path) -> None:
    with served(path, options=()) as server:
        told = psql(server, "SELECT 1")
        assert "no password supplied" in told
        with pytest.raises(psycopg.OperationalError, match="unknown, or the password is wrong"):
            psycopg.connect(server.dsn(), password="guess")
        server.wait_for("login of 'ann' refused")


@pytest.mark.full
def test_tls_with_a_certificate_of_its_own(path: Path) -> None:
    options = ("--trust-loopback", "--tls", "self-made")
    with served(path, options) as server:
        with psycopg.connect(server.dsn() + " sslmode=require") as connection:
            assert connection.pgconn.ssl_in_use
            rows = connection.execute(
                "SELECT i, repeat('y', 100) FROM range(50_000) t(i)"
            ).fetchall()
            assert len(rows) == 50_000
        certificate = Path(f"{path}.tls/server.crt")
        assert os.stat(certificate.with_suffix(".key")).st_mode & 0o077 == 0
        verified = (
            f" sslmode=verify-full host=localhost hostaddr=127.0.0.1 sslrootcert={certificate}"
        )
        with psycopg.connect(server.dsn().replace("host=127.0.0.1", "") + verified) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.full
def test_what_a_served_database_makes_is_its_owners_alone(path: Path) -> None:
    fresh = path.with_name("fresh.duckdb")
    with served(fresh) as server, psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        connection.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        connection.execute(f"CREATE SINK k FROM v INTO FILES (path '{path.parent}/k.jsonl')")
        connection.execute("UPDATE t SET a = 2")
        while not path.with_name("k.jsonl").exists():
            time.sleep(0.05)
        made = [each for each in fresh.parent.rglob("*") if "fresh.duckdb" in str(each)]
        modes = {each.name: each.stat().st_mode & 0o077 for each in made if each != server.log}
        assert len(modes) > 3
        assert not any(modes.values()), modes
        assert path.with_name("k.jsonl").stat().st_mode & 0o777 == 0o666 & ~_umask() & 0o644
        assert "can read" not in server.told()
    os.chmod(fresh, 0o644)
    with served(fresh) as server:
        assert "chmod 600" in server.told()


def _umask() -> int:
    found = os.umask(0o022)
    os.umask(found)
    return found


@pytest.mark.full
def test_passwords_are_not_logged(path: Path) -> None:
    with (
        served(path) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
    ):
        for sql in (
            "SELECT 1 AS a -- PASSWORD 'geheim'",
            "CREATE USER x PASSWORD 'geheim'",
            "CREATE USER x PASSWORT 'geheim'",
            "ALTER USER x /* */ WITH PASSWRD $$geheim$$ ROLE read",
            "CREATE USER x PASSWORT geheim",
            "CREATE SECRET y (TYPE s3, SECRETT 'geheim')",
            "ATTACH 'host=nowhere passwd=geheim user=ann' AS y (TYPE postgres)",
            "SELECT 'postgres://ann:geheim@host/db'",
        ):
            with contextlib.suppress(psycopg.Error):
                connection.execute(sql)
        server.wait_for("host/db")
        assert "geheim" not in server.told()


@pytest.mark.full
def test_a_command_line_that_makes_no_sense(path: Path) -> None:
    def told(*options: str) -> str:
        command = [sys.executable, "-m", "ivm", "serve", str(path), *options]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert found.returncode == 1
        return found.stderr

    assert "say where to listen" in told()
    assert "is no address" in told("--pg", "nowhere")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "cannot be had" in told(
            "--pg", f"127.0.0.1:{taken.getsockname()[1]}", "--trust-loopback"
        )


def _raw(server: Served) -> socket.socket:
    """A connection that is logged in, as a socket."""
    client = socket.create_connection(("127.0.0.1", server.port))
    body = struct.pack("!i", 3 << 16) + b"user\0ann\0database\0shop\0\0"
    client.sendall(struct.pack("!i", len(body) + 4) + body)
    received = b""
    while not received.endswith(b"Z\0\0\0\x05I"):
        received += client.recv(65536)
    return client


def _megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.mark.full
def test_who_finds_the_file_locked_is_told_where_it_is_served(path: Path) -> None:
    options = ("--trust-loopback", "--http", "127.0.0.1:0")
    with served(path, options) as server:
        server.wait_for("listening: http")
        with pytest.raises(errors.UnavailableError) as told:
            ivm.connect(path)
    assert re.search(r"ivm\.connect\('ivm://user:password@127\.0\.0\.1:\d+'\)", str(told.value))
    other = f"import ivm; db = ivm.connect({str(path)!r}); print(); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", other], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(errors.UnavailableError, match="close the database there"):
            ivm.connect(path)  # the server was killed
        holder.communicate(b"\n")


def test_a_database_that_duckdb_has_given_up_is_served_anew(path: Path) -> None:
    """So whoever restarts the server has it back; DuckDB 2.0.1 is right in this case."""
    asof = "SELECT count(*) FROM (SELECT INTERVAL 1 DAY x) a ASOF JOIN (SELECT INTERVAL 1 DAY x) b "
    with served(path) as server, psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("INSERT INTO customers VALUES (901, 'EU', 'committed')")
        if duckdb.__version__ != "2.0.0":
            assert connection.execute(asof + "ON a.x >= b.x").fetchall() == [(1,)]
            return
        with pytest.raises(psycopg.Error, match="Of a file's commits none is lost"):
            connection.execute(asof + "ON a.x >= b.x")
        server.wait_for("DuckDB has given the database up")
        assert server.process.wait(30) == 1
        assert "\nError:" not in server.told()
    with served(path) as server, psycopg.connect(server.dsn()) as connection:
        found = connection.execute("SELECT count(*) FROM customers WHERE id = 901").fetchone()
        assert found == (1,)
