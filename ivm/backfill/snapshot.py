"""One epoch of the tables for Spark: exported from a pinned snapshot, beside everything else."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import CatalogVersion
from ivm.engine.engine import Engine
from ivm.spark_backfill.files.exports import export
from ivm.spark_backfill.files.lake import export_lake
from ivm.spark_backfill.files.relations import Exported
from ivm.sql.plan.nodes import Plan, Scan
from ivm.sql.plan.walks import nodes
from ivm.storage.warehouse.duckdb.duck import Cursor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def pinned(engine: Engine, hold: str | None = None) -> Iterator[tuple[Cursor, int]]:
    """A cursor that sees all tables and views as of one epoch, and that epoch.

    Args:
        engine: of the database.
        hold: for whom the log is to keep the records of later epochs.
    """
    with contextlib.closing(engine.warehouse.cursor()) as cursor:
        with engine.warehouse.write_lock:
            engine.tables.flush()
            engine.warehouse.pin(cursor)
            epoch = engine.warehouse.base_epoch
            if hold is not None and engine.warehouse.log is not None:
                engine.warehouse.log.hold(hold, epoch)
        yield cursor, epoch


def export_scanned(
    engine: Engine,
    version: CatalogVersion,
    cursor: Cursor,
    plans: Sequence[Plan],
    to: Path,
    check: Callable[[], None],
) -> None:
    """Exports what the plans scan, as the cursor sees it, each relation in a folder of its own.

    The version of the catalog is that of the plans. Of tables that stay in files only what changed
    since is written, where the workers can read the files themselves.
    """
    names = BindingCatalog(version)
    demand_files(engine, version, plans)
    for relation, columns in scanned(plans).items():
        check()
        name, folder = names.canonical(relation), to / _folder(relation)
        schema, info = version.relation_schema(name), version.tables.get(name)
        history = None if info is None else info.history
        key = () if info is None else info.key_columns
        if history and export_lake(cursor, history, schema, key, columns, folder):
            continue
        listed = [(i, schema[i][0]) for i in sorted(columns)]
        export(cursor, relation, listed, schema, folder)


def demand_files(engine: Engine, version: CatalogVersion, plans: Sequence[Plan]) -> None:
    """Checks that the files of the tables that the plans scan are those that were pinned.

    Raises:
        UnavailableError: a file has changed, or is gone.
    """
    names = BindingCatalog(version)
    engine.tables.demand_histories(names.canonical(relation) for relation in scanned(plans))


def exported(spark: SparkSession, plans: Sequence[Plan], folder: Path) -> Exported:
    """The relations that `export_scanned` has exported."""
    return Exported(spark, {name: folder / _folder(name) for name in scanned(plans)})


def scanned(plans: Sequence[Plan]) -> dict[str, set[int]]:
    """The relations that the plans scan, and the positions of their columns."""
    found: dict[str, set[int]] = {}
    for scan in [node for plan in plans for node in nodes(plan)]:
        if isinstance(scan, Scan):
            found.setdefault(scan.relation, set()).update(scan.columns)
    return found


def _folder(relation: str) -> str:
    """A name for the folder of an exported relation, which is short however long its name is."""
    return hashlib.sha256(relation.encode()).hexdigest()[:16]
