"""Maxwell's JSON events. https://maxwells-daemon.io/dataformat/"""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import IGNORED, Envelope

_STATEMENTS = "create", "alter", "drop"
_OPERATIONS = {
    **{"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE, "delete": DELETE},
    **{"bootstrap-start": IGNORED, "bootstrap-complete": IGNORED},
    **{f"{of}-{what}": IGNORED for of in ("table", "database") for what in _STATEMENTS},
}

MAXWELL = Envelope(
    ("data",),
    ("old",),
    ("type",),
    _OPERATIONS,
    origin=(("database",), ("table",)),
    transaction=(("xid",), ("ts",)),
    whole_inserts=True,
    old_is_partial=True,
)
"""A row's old values are only those that have changed; the others are in `data`.

With `output_nulls=false` there are no NULLs in either.
"""
