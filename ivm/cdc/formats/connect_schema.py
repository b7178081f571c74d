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
from typing import Any, TypeVar

from ivm.cdc.formats.events import UnlikeLinesError
from ivm.cdc.formats.json_values import MOST_SCALE, Encoding
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.storage.identifiers import fold
from ivm.storage.values.types import MOST_DIGITS

T = TypeVar("T")

_DEBEZIUM, _CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
_DIGITS = {
    **{_DEBEZIUM + name: 3 for name in ("time.Time", "time.Timestamp")},
    **{_DEBEZIUM + f"time.Micro{kind}": 6 for kind in ("Time", "Timestamp", "Duration")},
    **{_DEBEZIUM + f"time.Nano{kind}": 9 for kind in ("Time", "Timestamp", "Duration")},
    **{_CONNECT + name: 3 for name in ("Time", "Timestamp")},
}
_COUNTED = frozenset([*_DIGITS, _DEBEZIUM + "time.Date", _CONNECT + "Date"])
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

    Raises:
        UnlikeLinesError: it is none of Kafka Connect's.
    """
    return tuple(
        [
            UpstreamColumn(_part(field, "field", str), _type(field), field.get("optional") is True)
            for field in _fields(schema, row)
        ]
    )


def _type(field: dict[str, Any]) -> str:
    """SQL of the DuckDB type of a field."""
    name, kind = _part(field, "name", str), field.get("type")
    if name == _CONNECT + "Decimal":
        return _decimal(field)
    if name in _LOGICAL:
        return _LOGICAL[name]
    if kind == "array":
        return f"{_type(_part(field, 'items', dict))}[]"
    return _PLAIN.get(str(kind), "JSON")


def _decimal(field: dict[str, Any]) -> str:
    """A DECIMAL of the scale and the digits that are told; of as many as can be, if none are."""
    scale = _parameter(field, "scale") or 0
    told = _parameter(field, "connect.decimal.precision")
    digits = MOST_DIGITS if told is None else told
    return f"DECIMAL({digits},{scale})" if 0 <= scale <= digits <= MOST_DIGITS else "VARCHAR"


def encodings(schemas: Iterable[str], row: str) -> dict[str, Encoding]:
    """The encodings of the columns by their folded names.

    Args:
        schemas: the different schemas of the events of a batch, as JSON.
        row: the field of the event that is the row.

    Raises:
        UnlikeLinesError: they encode a column differently, or one is none of Kafka Connect's.
    """
    known: dict[str, Encoding] = {}
    for schema in schemas:
        for field in _fields(schema, row):
            name, encoding = fold(_part(field, "field", str)), _encoding(field)
            if known.setdefault(name, encoding) != encoding:
                raise UnlikeLinesError(f"its schema has {field['field']!r} in two encodings")
    return known


def _fields(schema: str, row: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(schema)
    except (ValueError, RecursionError):
        raise _no_schema() from None
    for field in _part(found, "fields", list):
        if _part(field, "field", str) == row:
            return list(_part(field, "fields", list))
    return []


def _part(of: Any, key: str, kind: type[T]) -> T:
    """A part of a schema, empty where it has none."""
    if not isinstance(of, dict):
        raise _no_schema()
    found = of.get(key)
    if found is None:
        return kind()
    if not isinstance(found, kind):
        raise _no_schema()
    return found


def _no_schema() -> UnlikeLinesError:
    return UnlikeLinesError("its schema is none of Kafka Connect's")


def _parameter(field: dict[str, Any], name: str) -> int | None:
    """A parameter that is a number."""
    text = _part(field, "parameters", dict).get(name)
    try:
        number = None if text is None else int(str(text))
    except ValueError:
        raise _no_schema() from None
    if number is not None and abs(number) > MOST_SCALE:
        raise UnlikeLinesError(f"its schema has {field.get('field')!r} with the {name} {number}")
    return number


def _encoding(field: dict[str, Any]) -> Encoding:
    if field.get("type") == "array":
        field = _part(field, "items", dict)
    name = _part(field, "name", str)
    return Encoding(
        _DIGITS.get(name),
        None if name == _BITS else name in _BASE64,
        _parameter(field, "scale"),
        is_number=name in _BASE64,
        json_texts=name == _JSON,
        counts_times=name in _COUNTED,
    )
