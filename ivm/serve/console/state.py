"""What the console shows of the database: relations, sources, sinks, first fills and troubles.

Law: a user is told of the relations that the role may read; of sources and sinks only admins are.
A look costs no more than the counts of rows, which all consoles share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ivm.access.roles import ADMIN, Grant
from ivm.backfill.run_fills import progress_of, progress_text
from ivm.cdc.run_sources import list_sources
from ivm.cdc.sinks.run_sinks import list_sinks
from ivm.database import Database
from ivm.listings import TableListing, ViewInfo
from ivm.serve.console.watermarks import final_of, watermark_of
from ivm.serve.row_counts import RowCounts
from ivm.session.session import Session
from ivm.storage.errors import AccessError, IvmError
from ivm.storage.identifiers import canonical_name
from ivm.storage.warehouse.duckdb.duck import rows

_PLAIN_VIEWS = """
SELECT schema_name, table_name, list((column_name, data_type) ORDER BY column_index)
FROM system.main.duckdb_columns()
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = system.main.current_database()
  AND table_oid IN (SELECT view_oid FROM system.main.duckdb_views()
                    WHERE database_name = system.main.current_database())
GROUP BY schema_name, table_name ORDER BY ALL
"""


class ConsoleState:
    """Tells of one database; any thread calls it.

    Args:
        database: open.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine = database._engine
        self._counts = RowCounts(self._engine)

    def told(self, session: Session, grant: Grant) -> dict[str, Any]:
        """What a user is told, as JSON has it; columns are pairs of `name` and `type`."""
        database, is_admin = self._database, grant.role == ADMIN
        views, tables = database.views(), database.tables()
        unfilled = database.unfilled_views()
        counts, troubles = self._counted(views, tables)
        relations = [
            *(self._view(view, counts, view.name in unfilled) for view in views),
            *(self._table(table, counts) for table in tables),
            *_plain_views(session),
        ]
        return {
            "epoch": database.epoch,
            "maintenance_seconds": self._engine.maintenance.circuit.nanoseconds / 1e9,
            "relations": [each for each in relations if _may_read(grant, each["name"])],
            "sources": [vars(each) for each in list_sources(session)] if is_admin else None,
            "sinks": [vars(each) for each in list_sinks(session)] if is_admin else None,
            "fills": [each for each in self._fills(unfilled) if _may_read(grant, each["view"])],
            "troubles": [*troubles, *self._engine.warehouse.troubles.told()] if is_admin else [],
        }

    def _counted(
        self, views: Iterable[ViewInfo], tables: Iterable[TableListing]
    ) -> tuple[dict[str, int], list[str]]:
        """The rows of the relations that can be counted, and why they are not up to date."""
        outdated = self._engine.recomputed.is_outdated
        names = [view.name for view in views if not view.broken and not outdated([view.name])]
        names += [table.name for table in tables if not table.in_files]
        try:
            return self._counts.of(names), []
        except IvmError as error:
            return self._counts.last, [str(error)]

    def _view(self, view: ViewInfo, counts: dict[str, int], filling: bool) -> dict[str, Any]:
        progress = progress_of(self._engine, view.name)
        stale = self._engine.recomputed.is_outdated([view.name])
        fresh = "filling" if filling else "broken" if view.broken else "stale" if stale else "live"
        return {
            "name": view.name,
            "kind": "materialized view",
            "sql": view.sql,
            "columns": _columns(view.columns),
            "rows": counts.get(view.name) if fresh == "live" else None,
            "strategy": view.strategy,
            "reads": list(view.reads),
            **self._known(view),
            "freshness": fresh,
            "reason": view.broken or view.reason,
            "filled": progress.fraction if filling and progress is not None else None,
        }

    def _known(self, view: ViewInfo) -> dict[str, Any]:
        """What its listing lacks: the key of its rows, if there is one, and what is final."""
        stored = self._engine.catalog.version.committed_views.get(view.name)
        if stored is None:
            return {"key": [], "final": None}
        return {
            "key": [view.columns[i][0] for i in stored.key or ()],
            "final": final_of(self._engine, stored),
        }

    def _table(self, table: TableListing, counts: dict[str, int]) -> dict[str, Any]:
        return {
            "name": table.name,
            "kind": "table in files" if table.in_files else "table",
            "columns": _columns(table.columns),
            "rows": counts.get(table.name),
            "primary_key": list(table.primary_key),
            "watermark": watermark_of(self._engine, table.name),
        }

    def _fills(self, unfilled: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in unfilled:
            progress, text = progress_of(self._engine, name), progress_text(self._engine, name)
            phase = "not running" if progress is None else progress.phase
            done = 0.0 if progress is None else progress.fraction
            yield {"view": name, "phase": phase, "fraction": done, "text": text or ""}


def _plain_views(session: Session) -> Iterator[dict[str, Any]]:
    for schema, name, columns in rows(session.cursor, _PLAIN_VIEWS):
        yield {
            "name": canonical_name((schema, name)),
            "kind": "view",
            "columns": _columns(columns),
            "rows": None,
            "primary_key": [],
            "watermark": None,
        }


def _columns(columns: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "type": type} for name, type in columns]


def _may_read(grant: Grant, name: str) -> bool:
    try:
        grant.demand_relation(name)
    except AccessError:
        return False
    return True
