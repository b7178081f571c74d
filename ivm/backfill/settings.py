"""Where the Spark session of first fills comes from: given, or started by the settings of a file.

The file is `ivm.toml` beside the database, else in the working folder:

    [spark]
    master = "local[4]"              # or spark://host:7077; or remote = "sc://host" (Spark Connect)
    packages = ["group:name:version"]
    auto_from = "64g"                # the history from which backfill = 'auto' is Spark
    [spark.config]
    "spark.driver.memory" = "4g"
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ivm.engine.base.settings_file import section
from ivm.spark_backfill.session import bytes_of, can_start, prepared, start
from ivm.storage.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO_FROM = "64g"
"""DuckDB reads some 4 s for a GB of files, so from there commits would wait for minutes."""
_KNOWN = ("master", "remote", "packages", "config", "auto_from")

Given: TypeAlias = "SparkSession | Mapping[str, str] | None"
"""A session, or Spark's settings by name, or nothing."""


class SparkSettings:
    """Gives the session of one database's fills; safe for any number of threads.

    Args:
        database: the path of its file.
        given: by the caller of `connect`; settings come before those of the file.

    Raises:
        InputError: neither a session nor settings.
    """

    def __init__(self, database: str, given: Given) -> None:
        self._database = database
        self._starting = threading.Lock()
        self.use(given)

    def use(self, given: Given) -> None:
        """Takes another session, or other settings, from here on."""
        if not (given is None or isinstance(given, Mapping) or hasattr(given, "conf")):
            raise InputError(
                "spark is a SparkSession, or a dict of Spark's settings such as "
                f"{{'spark.master': 'local[4]'}}, not {given!r}"
            )
        self._given = given

    def session(self) -> SparkSession:
        """The session, started if none was given.

        Raises:
            UnavailableError: Spark cannot be started here.
            InputError: the file is not as described above.
        """
        with self._starting:
            if self._given is None or isinstance(self._given, Mapping):
                return start({**read_options(self._database), **_named(self._given)})
            return prepared(self._given)

    def auto_from(self) -> int | None:
        """The bytes of history from which a view is filled by Spark if nobody says by whom.

        None if nobody has set Spark up for this database, or it is not installed here.

        Raises:
            InputError: the file is not as described above.
        """
        found = _table(self._database)
        options = {**read_options(self._database), **_named(self._given)}
        if (self._given is None and found is None) or not can_start(options):
            return None
        return bytes_of(str((found or {}).get("auto_from", AUTO_FROM)))


def _named(given: Given) -> dict[str, str]:
    return dict(given) if isinstance(given, Mapping) else {}


def read_options(database: str) -> dict[str, str]:
    """Spark's settings from the file; none if there is no file.

    Raises:
        InputError: it cannot be read, is no TOML, or has unknown keys.
    """
    found = _table(database) or {}
    options = {f"spark.{key}": str(found[key]) for key in ("master", "remote") if key in found}
    if found.get("packages"):
        options["spark.jars.packages"] = ",".join(found["packages"])
    return options | {name: str(value) for name, value in found.get("config", {}).items()}


def _table(database: str) -> dict[str, Any] | None:
    """What the file says under [spark]; None if there is no file, or it says nothing."""
    return section(database, "spark", _KNOWN)
