"""Encodings and types of columns, read from the schema that Kafka Connect writes into each event.

Law: the type of a column holds every value that its schema allows, as `json_values` reads it. What
has no type of its own is kept as text: ENUMs, whose labels the schema does not tell apart if they
have commas, and numbers without a fixed scale or of more than 38 digits. Structs and maps are JSON,
and bits a BLOB with the lowest byte first.

Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html (data types),
and Kafka Connect's logical types in org.apache.kafka.connect.data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ivm.cdc.formats.events import UnlikeLinesError
from ivm.cdc.formats.json_values import Encoding
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.storage.identifiers import fold
from ivm.storage.values.types import MOST_DIGITS

_DEBEZIUM, _CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
_DIGITS = {
    **{_DEBEZIUM + name: 3 for name in ("time.Time", "time.Timestamp")},
    **{_DEBEZIUM + f"time.Micro{kind}": 6 for kind in ("Time", "Timestamp", "Duration")},
    **{_DEBEZIUM + f"time.Nano{kind}": 9 for kind in ("Time", "Timestamp", "Duration")},
    **{_CONNECT + name: 3 for name in ("Time", "Timestamp")},
}
_BASE64 = (_CONNECT + "Decimal", _DEBEZIUM + "data.VariableScaleDecimal")
_BITS = _DEBEZIUM + "data.Bits"  # in base64 too, but the lowest byte is the first one
_JSON = _DEBEZIUM + "data.Json"
_PLAIN = {
    **{"int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT"},
    **{"float": "FLOAT", "float32": "FLOAT", "double": "DOUBLE", "float64": "DOUBLE"},
    **{"boolean": "BOOLEAN", "string": "VARCHAR", "bytes": "BLOB"},
}
_LOGICAL = {
    **{_CONNECT + "Date": "DATE", _CONNECT + "Time": "TIME", _CONNECT + "Timestamp": "TIMESTAMP"},
    **{_DEBEZIUM + f"time.{name}": "DATE" for name in ("Date", "IsoDate")},
    **{_DEBEZIUM + f"time.{name}": "TIME" for name in ("Time", "MicroTime", "IsoTime")},
    **{_DEBEZIUM + f"time.{n}Timestamp": "TIMESTAMP" for n in ("", "Micro", "Iso")},
    _DEBEZIUM + "time.NanoTime": "TIME_NS",
    _DEBEZIUM + "time.NanoTimestamp": "TIMESTAMP_NS",
    _DEBEZIUM + "time.ZonedTime": "TIME WITH TIME ZONE",
    _DEBEZIUM + "time.ZonedTimestamp": "TIMESTAMP WITH TIME ZONE",
    **{_DEBEZIUM + f"time.{kind}Duration": "INTERVAL" for kind in ("Micro", "Nano")},
    **{_JSON: "JSON", _DEBEZIUM + "data.Uuid": "UUID"},
    _DEBEZIUM + "data.VariableScaleDecimal": "VARCHAR",
}


def upstream_columns(schema: str, row: str) -> tuple[UpstreamColumn, ...]:
    """The columns of the upstream table, as far as the schema of an event tells of them.

    Args:
        schema: of an event, as JSON.
        row: the field of the event that is the row.
    """
    return tuple(
        [
            UpstreamColumn(str(field.get("field")), _type(field), field.get("optional") is True)
            for field in _fields(json.loads(schema), row)
        ]
    )


def _type(field: dict[str, Any]) -> str:
    """SQL of the DuckDB type of a field."""
    name, kind = field.get("name") or "", field.get("type")
    if name == _CONNECT + "Decimal":
        return _decimal(field.get("parameters") or {})
    if name in _LOGICAL:
        return _LOGICAL[name]
    if kind == "array":
        return f"{_type(field.get('items') or {})}[]"
    return _PLAIN.get(str(kind), "JSON")


def _decimal(parameters: dict[str, Any]) -> str:
    """A DECIMAL of the scale and the digits that are told; of as many as can be, if none are."""
    scale = int(parameters.get("scale", 0))
    digits = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    return f"DECIMAL({digits},{scale})" if 0 <= scale <= digits <= MOST_DIGITS else "VARCHAR"


def encodings(schemas: Iterable[str], row: str) -> dict[str, Encoding]:
    """The encodings of the columns by their folded names.

    Args:
        schemas: the different schemas of the events of a batch, as JSON.
        row: the field of the event that is the row.

    Raises:
        UnlikeLinesError: they encode a column differently.
    """
    known: dict[str, Encoding] = {}
    for schema in schemas:
        for field in _fields(json.loads(schema), row):
            name, encoding = fold(str(field.get("field"))), _encoding(field)
            if known.setdefault(name, encoding) != encoding:
                raise UnlikeLinesError(f"its schema has {field['field']!r} in two encodings")
    return known


def _fields(schema: Any, row: str) -> list[dict[str, Any]]:
    for field in schema.get("fields") or []:
        if field.get("field") == row:
            return list(field.get("fields") or [])
    return []


def _encoding(field: dict[str, Any]) -> Encoding:
    if field.get("type") == "array":
        field = field.get("items") or {}
    name, scale = field.get("name") or "", (field.get("parameters") or {}).get("scale")
    return Encoding(
        _DIGITS.get(name),
        None if name == _BITS else name in _BASE64,
        None if scale is None else int(scale),
        is_number=name in _BASE64,
        json_texts=name == _JSON,
    )
