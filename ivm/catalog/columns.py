"""Compares the columns of a view with those that it had, or those of the table that holds it.

Law: they are the same if names, up to their case, types and order are.
"""

from __future__ import annotations

from ivm.catalog.catalog import Catalog, View
from ivm.storage.errors import EvaluationError
from ivm.storage.identifiers import fold
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duck import Cursor, describe


def same_columns(before: Schema, after: Schema) -> bool:
    """Returns whether columns are the same."""
    return _folded(before) == _folded(after)


def same_names(before: Schema, after: Schema) -> bool:
    """Returns whether columns have the same names, in any order."""
    return dict(_folded(before)).keys() == dict(_folded(after)).keys()


def difference(before: Schema, after: Schema) -> str:
    """What is other in columns, in words."""
    old, new = dict(_folded(before)), dict(_folded(after))
    names = {fold(name): name for name, _ in (*before, *after)}
    parts = [f"a new column {names[name]!r}" for name in new if name not in old]
    parts += [f"no column {names[name]!r}" for name in old if name not in new]
    both = [(name, type) for name, type in new.items() if name in old and old[name] != type]
    parts += [f"{names[name]!r} as {type.sql}" for name, type in both]
    return ", ".join(parts) or "its columns in another order"


def other_columns(cursor: Cursor, catalog: Catalog, view: View) -> str | None:
    """Why a view does not fit the table that holds it, in words; None if it does."""
    held = describe(cursor, f"FROM {catalog.qualified[view.name]}")
    if same_columns(held, view.schema):
        return None
    return (
        f"its query gives {difference(held, view.schema)}, unlike the table that holds it; CREATE "
        "OR REPLACE MATERIALIZED VIEW makes it anew"
    )


def demand_own_columns(cursor: Cursor, catalog: Catalog, view: View) -> None:
    """Raises EvaluationError if the table that holds a view has other columns than its query."""
    why = other_columns(cursor, catalog, view)
    if why is not None:
        raise EvaluationError(f"the view {view.name!r} cannot be filled: {why}")


def _folded(schema: Schema) -> Schema:
    return tuple([(fold(name), type) for name, type in schema])
