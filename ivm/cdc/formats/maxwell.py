"""Maxwell's JSON events. https://maxwells-daemon.io/dataformat/"""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import IGNORED, Envelope

_OPERATIONS = {
    **{"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE, "delete": DELETE},
    **{"bootstrap-start": IGNORED, "bootstrap-complete": IGNORED},
}

MAXWELL = Envelope(("data",), ("old",), ("type",), _OPERATIONS)
"""A row's old values are only those that have changed; the others are in `data`."""
