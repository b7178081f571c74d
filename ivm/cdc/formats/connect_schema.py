"""The encodings of columns, read from the schema that Kafka Connect writes into each event.

Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html (data types),
and Kafka Connect's logical types in org.apache.kafka.connect.data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ivm.cdc.formats.json_values import Encoding
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold

_DEBEZIUM, _CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
_DIGITS = {
    **{_DEBEZIUM + name: 3 for name in ("time.Time", "time.Timestamp")},
    **{_DEBEZIUM + f"time.Micro{kind}": 6 for kind in ("Time", "Timestamp", "Duration")},
    **{_DEBEZIUM + f"time.Nano{kind}": 9 for kind in ("Time", "Timestamp", "Duration")},
    **{_CONNECT + name: 3 for name in ("Time", "Timestamp")},
}
_BASE64 = (
    *(_CONNECT + "Decimal", _DEBEZIUM + "data.VariableScaleDecimal"),
    _DEBEZIUM + "data.Bits",
)


def encodings(schemas: Iterable[str], row: str) -> dict[str, Encoding]:
    """The encodings of the columns by their folded names.

    Args:
        schemas: the different schemas of the events of a batch, as JSON.
        row: the field of the event that is the row.

    Raises:
        InputError: they encode a column differently.
    """
    known: dict[str, Encoding] = {}
    for schema in schemas:
        for field in _fields(json.loads(schema), row):
            name, encoding = fold(str(field.get("field"))), _encoding(field)
            if known.setdefault(name, encoding) != encoding:
                raise InputError(
                    f"the schema of the events changes how {field['field']!r} is written: ingest "
                    "the events before and after the change in batches of their own"
                )
    return known


def _fields(schema: Any, row: str) -> list[dict[str, Any]]:
    for field in schema.get("fields") or []:
        if field.get("field") == row:
            return list(field.get("fields") or [])
    return []


def _encoding(field: dict[str, Any]) -> Encoding:
    name, scale = field.get("name") or "", (field.get("parameters") or {}).get("scale")
    return Encoding(_DIGITS.get(name), name in _BASE64, None if scale is None else int(scale))
