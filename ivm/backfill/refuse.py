"""Which views Spark cannot fill: told when they are created, before any job starts."""

from __future__ import annotations

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import CatalogVersion, View
from ivm.engine.engine import Engine
from ivm.spark_backfill.refusals import refuse_unsayable
from ivm.sql.plan.nodes import Scan
from ivm.sql.plan.walks import nodes
from ivm.storage.errors import UnsupportedError

_WAYS = {
    "filled": "let DuckDB fill it (backfill = 'duckdb')",
    "verified": "leave USING SPARK out, and DuckDB computes it",
}


def refuse_unfillable(
    engine: Engine, version: CatalogVersion, view: View, done: str = "filled"
) -> None:
    """Refuses a view that Spark cannot compute.

    Args:
        engine: of the database.
        version: of the catalog, by which the view is bound.
        view: the view.
        done: what is wanted of Spark.

    Raises:
        UnsupportedError: names the reason and the way out.
    """
    if engine.warehouse.log is None:
        what = f"the view {view.name!r} cannot be {done} on Spark"
        raise UnsupportedError(f"{what}: the database has no file in which to keep what is done")
    refuse_uncomputable(version, view, done)


def refuse_uncomputable(version: CatalogVersion, view: View, done: str = "filled") -> None:
    """Refuses a view whose rows Spark cannot compute, wherever its tables are; see above."""
    way = _WAYS[done]
    what = f"the view {view.name!r} cannot be {done} on Spark"
    if view.plan is None:
        raise UnsupportedError(f"{what}: it is recomputed whole ({view.reason}); {way}")
    lower = [version.views[name] for name in version.at_or_below(view.reads)]
    if any(each.tick is not None for each in (view, *lower)):
        raise UnsupportedError(f"{what}: it reads the time, which goes on meanwhile; {way}")
    if any(each.stays for each in (view, *lower)):
        raise UnsupportedError(f"{what}: its rows, or those below it, come once and stay; {way}")
    names = BindingCatalog(version)
    for node in nodes(view.plan):
        if isinstance(node, Scan) and names.canonical(node.relation) in version.views:
            raise UnsupportedError(
                f"{what}: it reads {names.canonical(node.relation)!r}, which is recomputed; {way}"
            )
    refuse_unsayable(view.plan)
