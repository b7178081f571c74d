"""Views that no longer fit, since another program has altered their tables or what they read.

Law: a view has the columns of the table that holds it, by which its rows and the deltas that sinks
have to get are read. Where its query gives others, or fails to bind, it is broken, until another
program has altered that back: then all views are filled anew anyway.
"""

from __future__ import annotations

from ivm.catalog.broken_views import FOREIGN, is_foreign, spelled
from ivm.catalog.catalog import Catalog, View
from ivm.catalog.columns import difference, same_columns
from ivm.storage.errors import CorruptionError
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, describe
from ivm.storage.warehouse.system_tables import StoredView


def fit_columns(cursor: Cursor, catalog: Catalog, view: View) -> None:
    """Gives a view the columns of its table, and breaks it if its query gives others.

    Args:
        cursor: sees the table.
        catalog: knows it.
        view: with the columns that its query gives; it may have been broken before.

    Raises:
        CorruptionError: the table is gone.
    """
    given, view.schema = view.schema, _held(cursor, catalog, view.name)
    if not same_columns(view.schema, given):
        found = f"gives {difference(view.schema, given)}, unlike the table that holds it"
        view.broken = _reason(view.name, found)
    elif is_foreign(view.broken):
        view.broken = None


def unbound_view(cursor: Cursor, catalog: Catalog, stored: StoredView, error: Exception) -> View:
    """A view whose query fails to bind: it is broken, and reads nothing.

    Args:
        cursor: sees the view's table.
        catalog: knows it.
        stored: the view's record.
        error: of its query.

    Raises:
        CorruptionError: the table is gone.
    """
    held = _held(cursor, catalog, stored.name)
    broken = _reason(stored.name, f"fails ({error})")
    return View(stored.name, stored.query, held, frozenset(), described=held, broken=broken)


def _held(cursor: Cursor, catalog: Catalog, name: str) -> Schema:
    """The columns of the table that holds a view."""
    table = catalog.qualified.get(name)
    if table is None:
        raise CorruptionError(
            f"the table that holds materialized view {name!r} is gone; another program has dropped "
            "or renamed it: restore it, or remove the view from _ivm.views"
        )
    return describe(cursor, f"FROM {table}")


def _reason(name: str, found: str) -> str:
    return (
        f"{FOREIGN}: its query {found}. CREATE OR REPLACE MATERIALIZED VIEW {spelled(name)} makes "
        "it anew"
    )
