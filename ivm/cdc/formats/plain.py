"""Rows as JSON objects, with the operation in one of their keys or without."""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import Envelope

APPENDS = Envelope((), None, None, {})
"""Each line is a new row."""

OPERATIONS = {
    **dict.fromkeys(("insert", "INSERT", "I", "i", "c", "r"), INSERT),
    **dict.fromkeys(("update", "UPDATE", "upsert", "UPSERT", "U", "u"), UPDATE),
    **dict.fromkeys(("delete", "DELETE", "D", "d"), DELETE),
}
"""By the names that they have in rows."""

CHANGES = Envelope((), None, ("op",), OPERATIONS)
"""Rows with their operation."""

DELETED = "__deleted"
UPSERTS = Envelope((), None, (DELETED,), {"true": DELETE, "false": UPDATE}, missing=UPDATE)
"""Rows that replace those with their keys, or say that they are deleted."""
