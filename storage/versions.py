"""The version of this program, and the versions of DuckDB that it works with.

Law: what DuckDB's functions answer, how it writes syntax trees and what is in its files is known
of the releases in one range; any other version is refused before a file is looked at.
"""

from __future__ import annotations

import re
from importlib import metadata

import duckdb

from ivm.storage.errors import UnavailableError

SERIES = "2.0"
REQUIRED = "duckdb>=2.0,<2.1"
_RELEASE = re.compile(r"(\d+\.\d+)(?:\.(\d+))?(.*)")


def own_version() -> str:
    """The version of the installed distribution; a checkout on the path has none."""
    try:
        return metadata.version("ivmdb")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def demand_known_duckdb() -> None:
    """Checks that the DuckDB of this process is one that this program works with.

    Raises:
        UnavailableError: it is an older or a newer one.
    """
    found = duckdb.__version__
    if not _is_known(found):
        raise UnavailableError(
            f"ivmdb {own_version()} works with DuckDB {SERIES}.x, and this is {found}: "
            f"pip install '{REQUIRED}'. Nothing was changed."
        )


def _is_known(version: str) -> bool:
    """Returns whether a version is in the series; one that leads up to its first release is not."""
    parts = _RELEASE.fullmatch(version)
    if parts is None or parts[1] != SERIES:
        return False
    return not (parts[2] in (None, "0") and re.match(r"[.-]?(a|b|rc|dev)\d*", parts[3]))
