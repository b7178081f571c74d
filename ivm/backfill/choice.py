"""Who fills a new view first where its statement leaves that open.

Law: Spark is taken only where somebody has set it up for this database, it can be started, the view
can be filled on it, and the history that the view reads is large. Otherwise it is DuckDB, so that
nobody who has not asked for Spark meets a view that is not filled yet.
"""

from __future__ import annotations

import contextlib

from ivm.backfill.refuse import refuse_unfillable
from ivm.backfill.snapshot import scanned
from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duckdb.duck import rows
from ivm.storage.warehouse.tables.table_info import TableInfo

_WIDTH = 8  # bytes a value of a stored table, about


def why_spark(engine: Engine, view: View) -> str | None:
    """Why Spark is to fill a view first, in a sentence; None if DuckDB is to.

    Args:
        engine: of the database.
        view: compiled, not filled yet.
    """
    least = engine.spark_from()
    if least is None or view.plan is None:
        return None
    size = history_bytes(engine, view)
    if size < least:
        return None
    with contextlib.suppress(UnsupportedError):
        refuse_unfillable(engine, engine.catalog.version, view)
        return (
            f"Spark fills {view.name!r} first: it reads {_spelled(size)} of history, and from "
            f"{_spelled(least)} on (auto_from) commits are not to wait for that. "
            "SHOW MATERIALIZED VIEWS tells how far it is; WITH (backfill = 'duckdb') fills at once"
        )
    return None


def history_bytes(engine: Engine, view: View) -> int:
    """About how many bytes of the tables a view reads: parts of files, or values of 8 bytes."""
    assert view.plan is not None
    version, total = engine.catalog.version, 0
    names = BindingCatalog(version)
    for relation, columns in scanned([view.plan]).items():
        info = version.tables.get(names.canonical(relation))
        if info is not None:
            total += _bytes_read(engine, info, len(columns))
    return total


def _bytes_read(engine: Engine, info: TableInfo, columns: int) -> int:
    if info.history is None:
        with contextlib.closing(engine.warehouse.cursor()) as cursor:
            ((count,),) = rows(cursor, f"SELECT system.main.count(*) FROM {info.qualified}")
        return int(count) * columns * _WIDTH
    size = sum(file.size for file in info.history.files)
    return size * columns // len(info.schema) if info.history.format == "parquet" else size


def _spelled(size: int) -> str:
    power = next((n for n in (4, 3, 2) if size >= 10 ** (3 * n)), 1)
    return f"{size / 10 ** (3 * power):.3g} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
