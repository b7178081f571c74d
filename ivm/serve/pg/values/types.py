"""DuckDB's types as PostgreSQL's: the OIDs that clients know, and DuckDB's types of parameters.

Lists of values are arrays; whatever else is nested travels as json, and a type that PostgreSQL does
not have as text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, OID, JSON = 16, 17, 19, 20, 21, 23, 25, 26, 114
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266
VARBIT, NUMERIC, UUID, JSONB, CHAR = 1562, 1700, 2950, 3802, 18

SIZES = {
    **{BOOL: 1, INT2: 2, INT4: 4, INT8: 8, FLOAT4: 4, FLOAT8: 8, OID: 4, CHAR: 1, NAME: 64},
    **{DATE: 4, TIME: 8, TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16, TIMETZ: 12, UUID: 16},
}
"""The bytes of types of fixed size; others have -1."""

ARRAYS = {
    **{BOOL: 1000, BYTEA: 1001, INT8: 1016, INT2: 1005, INT4: 1007, TEXT: 1009, JSON: 199},
    **{FLOAT4: 1021, FLOAT8: 1022, DATE: 1182, TIME: 1183, TIMESTAMP: 1115, TIMESTAMPTZ: 1185},
    **{INTERVAL: 1187, TIMETZ: 1270, VARBIT: 1563, NUMERIC: 1231, UUID: 2951, OID: 1028},
    **{NAME: 1003, VARCHAR: 1015, BPCHAR: 1014, JSONB: 3807, CHAR: 1002},
}
ELEMENTS = {array: element for element, array in ARRAYS.items()}

_OIDS = {
    "BOOLEAN": BOOL,
    "TINYINT": INT2,
    "UTINYINT": INT2,
    "SMALLINT": INT2,
    "USMALLINT": INT4,
    "INTEGER": INT4,
    "UINTEGER": INT8,
    "BIGINT": INT8,
    "UBIGINT": NUMERIC,
    "HUGEINT": NUMERIC,
    "UHUGEINT": NUMERIC,
    "BIGNUM": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "BLOB": BYTEA,
    "DATE": DATE,
    "TIME": TIME,
    "TIME_NS": TIME,
    "TIME WITH TIME ZONE": TIMETZ,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL,
    "UUID": UUID,
    "JSON": JSON,
    "BIT": VARBIT,
    "OID": OID,  # of the catalog alone
}
_DUCKDB = {
    BOOL: "BOOLEAN",
    BYTEA: "BLOB",
    INT8: "BIGINT",
    INT2: "SMALLINT",
    INT4: "INTEGER",
    OID: "BIGINT",
    FLOAT4: "FLOAT",
    FLOAT8: "DOUBLE",
    DATE: "DATE",
    TIME: "TIME",
    TIMETZ: "TIME WITH TIME ZONE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    INTERVAL: "INTERVAL",
    UUID: "UUID",
    JSON: "JSON",
    JSONB: "JSON",
    NUMERIC: "DECIMAL(38, 10)",
    VARBIT: "BIT",
}
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_LIST = re.compile(r"\[\d*\]$")


class PgType(NamedTuple):
    """A type as clients are told of it; `modifier` is -1 without one."""

    oid: int
    size: int = -1
    modifier: int = -1


def pg_type(duckdb: str) -> PgType:
    """PostgreSQL's type for the values of one of DuckDB's."""
    decimal = _DECIMAL.fullmatch(duckdb)
    if decimal is not None:
        return PgType(NUMERIC, -1, (int(decimal[1]) << 16 | int(decimal[2])) + 4)
    oid = _OIDS.get(duckdb)
    if oid is None:
        oid = _nested(duckdb)
    return PgType(oid, SIZES.get(oid, -1))


def element_of(duckdb: str) -> str | None:
    """The type of a list's values, if it is a list of values that are not nested; else None."""
    found = _LIST.search(duckdb)
    if found is None:
        return None
    element = duckdb[: found.start()]
    return element if not _is_nested(element) else None


def is_json(duckdb: str) -> bool:
    """Returns whether values of a type travel as json, made of them."""
    return _is_nested(duckdb) and element_of(duckdb) is None


def duckdb_type(oid: int) -> str | None:
    """DuckDB's type for a parameter of a type; None for texts and types that it does not have."""
    if oid in ELEMENTS:
        element = duckdb_type(ELEMENTS[oid])
        return f"{element or 'VARCHAR'}[]"
    return _DUCKDB.get(oid)


def _nested(duckdb: str) -> int:
    element = element_of(duckdb)
    if element is not None:
        return ARRAYS.get(pg_type(element).oid, JSON)
    return JSON if _is_nested(duckdb) else TEXT


def _is_nested(duckdb: str) -> bool:
    return duckdb.startswith(("STRUCT(", "MAP(", "UNION(")) or _LIST.search(duckdb) is not None
