"""A real PostgreSQL server for tests, in a folder of its own, with logical replication.

The programs are those that Debian installs (the newest version), else those of PyPI's `pgserver`.
PostgreSQL refuses to run as root, so root runs them as the user `postgres`, or as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection  # noqa: N812 (psycopg2's name)

from tests.support.server_process import free_ports

_SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",  # the tests stop the server, not the machine
    "listen_addresses": "127.0.0.1",
    "max_wal_senders": "20",
    "max_replication_slots": "40",
    "max_connections": "60",
    "wal_sender_timeout": "60s",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_min_messages": "warning",
}
_numbers = count()


class Server:
    """A PostgreSQL server.

    Attributes:
        folder: of the data and the log.
        port: on 127.0.0.1.
    """

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        [self.port] = free_ports(1)
        self._owner = _owner()
        if self._owner is not None:
            folder.chmod(0o755)
        self._programs = _programs(folder, self._owner)
        data = folder / "data"
        data.mkdir()
        if self._owner is not None:
            os.chown(data, self._owner, -1)
        self._run("initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8")
        lines = {**_SETTINGS, "port": str(self.port), "unix_socket_directories": str(data)}
        text = "".join(
            f"{name} = '{value}'\n" for name, value in {**lines, **(settings or {})}.items()
        )
        with (data / "postgresql.conf").open("a") as file:
            file.write(text)
        self.start()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        self._run("pg_ctl", "start", "--wait", "--log", str(self.folder / "data" / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stops the server: `fast` ends its sessions, `immediate` is as if it had crashed."""
        self._run("pg_ctl", "stop", "--wait", "--mode", mode)

    def keep(self) -> None:
        """Keeps a copy of the disk, as a volume's snapshot is one."""
        self.stop()
        data = self.folder / "data"
        subprocess.run(["cp", "-a", data, self.folder / "kept"], check=True)
        self.start()

    def put_back(self) -> None:
        """Puts the disk back to what `keep` has kept."""
        self.stop()
        shutil.rmtree(self.folder / "data")
        (self.folder / "kept").rename(self.folder / "data")
        self.start()

    def dsn(self, database: str = "postgres") -> str:
        """Where a database is, for libpq."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname='{database}'"

    def database(self, name: str) -> Database:
        """Makes a database."""
        Database(self, "postgres").execute(f'CREATE DATABASE "{name}"')
        return Database(self, name)

    @contextmanager
    def fresh(self) -> Iterator[Database]:
        """A database of a new name, which is dropped at the end."""
        database = self.database(f"Shop {next(_numbers)}")
        yield database
        database.drop()

    def program(self, name: str) -> str:
        """The path of one of PostgreSQL's programs."""
        return str(self._programs / name)

    def _run(self, program: str, *arguments: str) -> None:
        data = self.folder / "data"
        done = subprocess.run(
            [str(self._programs / program), "-D", str(data), *arguments],
            user=self._owner,
            cwd=data,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            log = data / "log"
            said = log.read_text()[-2000:] if log.exists() else (done.stdout or b"").decode()
            raise RuntimeError(f"PostgreSQL's {program} has failed: {said}")


@dataclass(frozen=True)
class Database:
    """A database of a server."""

    server: Server
    name: str

    @property
    def dsn(self) -> str:
        """Where it is, for libpq."""
        return self.server.dsn(self.name)

    def connect(self) -> Connection:
        """A connection in which each statement is a transaction."""
        connection = psycopg2.connect(self.dsn)
        connection.autocommit = True
        return connection

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs scripts, each a transaction; returns the rows of the last statement."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def pgbench(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts pgbench."""
        where = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", "postgres"]
        return subprocess.Popen(
            [self.server.program("pgbench"), *where, *arguments, self.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def drop(self) -> None:
        """Drops its slots and the database."""
        mine = f"FROM pg_replication_slots WHERE database = '{self.name}'"
        others = Database(self.server, "postgres")
        while others.execute(f"SELECT pg_terminate_backend(active_pid) {mine} AND active"):
            time.sleep(0.02)
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
        others.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')


@contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[Server]:
    """A server that is stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ivm_postgres_"))
    try:
        server = Server(folder, settings)
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


def _owner() -> int | None:
    """The user that runs the server, if it is not the one of this process."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _programs(folder: Path, owner: int | None) -> Path:
    """The folder of the programs, readable for the user that runs them.

    Raises:
        RuntimeError: there are none.
    """
    debian = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(debian, key=lambda path: int(path.parent.parent.name))
    if newest:
        return newest[-1].parent
    spec = importlib.util.find_spec("pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "the tests of PostgreSQL sources need a server: install Debian's package `postgresql`, "
            "or PyPI's `pgserver` (Python 3.9 to 3.12)"
        )
    site = Path(spec.origin).parent.parent
    if owner is not None:  # who may not enter root's folders
        for part in ("pgserver/pginstall", "pgserver.libs"):
            if (site / part).exists():  # the libraries are apart on Linux alone
                shutil.copytree(site / part, folder / part)
        site = folder
    return site / "pgserver/pginstall/bin"
