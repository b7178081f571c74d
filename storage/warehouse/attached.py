"""Other databases that a user has attached are brought into their own files when they are let go.

Law: DuckDB does so at DETACH and at its end, unless it was told not to checkpoint our own file by
itself, which holds for all of them: then it must be told to. One without a WAL loses all otherwise.
"""

from __future__ import annotations

import contextlib

import duckdb

from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.duck import Cursor, rows, run

_ATTACHED = """
SELECT database_name FROM system.main.duckdb_databases()
WHERE NOT internal AND NOT readonly AND type = 'duckdb' AND path IS NOT NULL
"""


def checkpoint_attached(cursor: Cursor, own: str, only: str | None = None) -> None:
    """Checkpoint what is attached beside our own database.

    Args:
        cursor: with no transaction open.
        own: the name of our database.
        only: the folded name of the one that is meant; None for all.
    """
    for (name,) in rows(cursor, _ATTACHED):
        if name != own and (only is None or fold(name) == only):
            # Where others still use it, or the disk is full, its WAL keeps what it holds.
            with contextlib.suppress(duckdb.Error):
                run(cursor, f"CHECKPOINT {quote(name)}")
