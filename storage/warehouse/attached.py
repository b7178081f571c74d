"""Checkpoints of the databases that a user has attached, when they are detached or closed.

Contract: the file of an attached database holds all its commits after DETACH and at the end. DuckDB
checkpoints there by itself unless automatic checkpoints are off, as they are here for our own file,
which holds for all databases; one without a write-ahead log would lose its rows:
DuckDB's fault `attached_without_log`.
"""

from __future__ import annotations

import contextlib

import duckdb

from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run

_ATTACHED = """
SELECT database_name FROM system.main.duckdb_databases()
WHERE NOT internal AND NOT readonly AND type = 'duckdb' AND path IS NOT NULL
"""


def checkpoint_attached(cursor: Cursor, own: str, only: str | None = None) -> None:
    """Checkpoints the databases that are attached beside our own.

    Args:
        cursor: with no transaction open.
        own: the name of our database.
        only: the folded name of the one that is meant; None for all.
    """
    for (name,) in rows(cursor, _ATTACHED):
        if name != own and (only is None or fold(name) == only):
            # If others still use it, or the disk is full, its commits stay in its write-ahead log.
            with contextlib.suppress(duckdb.Error):
                run(cursor, f"CHECKPOINT {quote(name)}")
