"""Compares the columns that a view's query gives with those that it gave.

Law: they are the same if names, up to their case, types and order are.
"""

from __future__ import annotations

from ivm.storage.identifiers import fold
from ivm.storage.values.types import Schema


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


def _folded(schema: Schema) -> Schema:
    return tuple([(fold(name), type) for name, type in schema])
