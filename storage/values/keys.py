"""Everything about the identity of rows and keys: the names other layers import from here.

Law: SQL's grouping equality (`same_key`, `key_codes`, `group`) is coarser than the exact equality
of Z-set rows (`same_row`, `row_codes`, `consolidate`); the order (`order_codes`) is DuckDB's.
"""

from __future__ import annotations

from ivm.storage.values.consolidate import all_distinct, cancel, consolidate, group
from ivm.storage.values.group_numbers import Groups
from ivm.storage.values.key_codes import (
    KeyCodes,
    groupable,
    key_codes,
    row_codes,
    same_key,
    same_row,
)
from ivm.storage.values.order import order_codes, orderable

__all__ = [
    "Groups",
    "KeyCodes",
    "all_distinct",
    "cancel",
    "consolidate",
    "group",
    "groupable",
    "key_codes",
    "order_codes",
    "orderable",
    "row_codes",
    "same_key",
    "same_row",
]
