"""Views whose columns another program has altered, or those of what they read.

Law: a view has the columns of the table that holds it, by which its rows and the deltas that sinks
have to get are read. Where its query gives others, it is broken, until another program has altered
them back: then all views are filled anew anyway.
"""

from __future__ import annotations

from ivm.catalog.broken_views import FOREIGN, is_foreign, spelled
from ivm.catalog.catalog import Catalog, View
from ivm.catalog.columns import difference, same_columns
from ivm.storage.errors import CorruptionError
from ivm.storage.warehouse.duck import Cursor, describe


def fit_columns(cursor: Cursor, catalog: Catalog, view: View) -> None:
    """Gives a view that another program may have altered the columns of its table, and breaks it if
    its query gives others.

    Args:
        cursor: sees the table.
        catalog: knows it.
        view: with the columns that its query gives; it may have been broken before.

    Raises:
        CorruptionError: the table is gone.
    """
    held = catalog.qualified.get(view.name)
    if held is None:
        raise CorruptionError(
            f"the table that holds materialized view {view.name!r} is gone; another program has "
            "dropped or renamed it: restore it, or remove the view from _ivm.views"
        )
    given, view.schema = view.schema, describe(cursor, f"FROM {held}")
    if not same_columns(view.schema, given):
        view.broken = (
            f"{FOREIGN}: its query gives {difference(view.schema, given)}, unlike the table that "
            f"holds it. CREATE OR REPLACE MATERIALIZED VIEW {spelled(view.name)} makes it anew"
        )
    elif is_foreign(view.broken):
        view.broken = None
