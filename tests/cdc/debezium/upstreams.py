"""Databases that are followed by Debezium's connectors, alike to a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tests.support.mariadb import PASSWORD, USER, MariaDB
from tests.support.postgres import Database

VARIABLE = "IVM_TEST_PASSWORD"
"""The environment variable with the password of MariaDB's user."""


class Upstream(Protocol):
    """A database of its own for a test."""

    @property
    def connector(self) -> str:
        """Debezium's name of its connector."""

    @property
    def properties(self) -> dict[str, str]:
        """Those that say where it is, and that all of its tables are captured."""

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements, each a transaction or with its own; returns the rows of the last."""

    def stop(self) -> None:
        """Stops the server, as a crash does."""

    def start(self) -> None:
        """Starts it again."""


@dataclass(frozen=True)
class PostgresUpstream:
    """A database of PostgreSQL."""

    database: Database
    connector: str = "postgresql"

    @property
    def properties(self) -> dict[str, str]:
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.database.server.port),
            "database.user": "postgres",
            "database.dbname": self.database.name,
            "schema.include.list": ".*",
        }

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.database.execute(*statements)

    def stop(self) -> None:
        self.database.server.stop("immediate")

    def start(self) -> None:
        self.database.server.start()


@dataclass(frozen=True)
class MySqlUpstream:
    """A database of MariaDB, which says that it is MySQL."""

    server: MariaDB
    name: str
    connector: str = "mysql"

    @property
    def properties(self) -> dict[str, str]:
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": USER,
            "database.password": f"env:{VARIABLE}",
            "database.include.list": self.name,
        }

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.name)

    def stop(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


def source(upstream: Upstream, into: str = "", **more: str) -> str:
    """The statement that creates the source of a database."""
    given = {**upstream.properties, **{name.replace("_", "."): v for name, v in more.items()}}
    listed = ", ".join(f"'{name}' '{value}'" for name, value in given.items())
    name = f"shop INTO {into}" if into else "shop"
    return f"CREATE SOURCE {name} FROM DEBEZIUM (connector '{upstream.connector}', {listed})"


__all__ = ["PASSWORD", "VARIABLE", "MySqlUpstream", "PostgresUpstream", "Upstream", "source"]
