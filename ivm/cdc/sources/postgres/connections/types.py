"""PostgreSQL's types as DuckDB's, and the SQL that reads PostgreSQL's texts as their values.

Law: a value is equal to PostgreSQL's, or its text is refused. Where DuckDB has no equal type, the
column holds PostgreSQL's text: ranges, enums, composites, network addresses, geometry, money, types
of extensions; and NUMERIC without a precision or beyond 38 digits, which no DECIMAL holds whole.

The texts are those of sessions with `SESSION_SETTINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ivm.storage.identifiers import literal

SESSION_SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
    "row_security": "off",  # a query that would leave out rows is refused
    # What a role or a database may have set would cut long copies, and the wait for a snapshot.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}

TYPES_QUERY = """
    SELECT t.oid::bigint, t.typname, n.nspname, t.typtype::text, t.typdelim::text,
        t.typbasetype::bigint, t.typtypmod,
        CASE WHEN e.typarray = t.oid THEN t.typelem::bigint ELSE 0 END
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
        LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
"""
"""The rows of which `PostgresType` are made."""


@dataclass(frozen=True)
class PostgresType:
    """A row of pg_type.

    Attributes:
        oid: of the type.
        name: e.g. `int4`.
        schema: of the type.
        kind: `b`ase, `c`omposite, `d`omain, `e`num, `r`ange, `m`ultirange, `p`seudo.
        delimiter: between the elements of arrays of the type.
        base: oid of the type under a domain, else 0.
        modifier: of that type.
        element: oid of the elements of an array, else 0.
    """

    oid: int
    name: str
    schema: str
    kind: str
    delimiter: str
    base: int
    modifier: int
    element: int


@dataclass(frozen=True)
class Reading:
    """How values of a type are read.

    Attributes:
        type: DuckDB's, as SQL.
        value: SQL of the value from SQL of the text; NULL where the text does not fit.
        binary: PostgreSQL's type in whose form the values are copied, see `binary`; "" if as texts.
    """

    type: str
    value: Callable[[str], str]
    binary: str = ""


def reading(types: Mapping[int, PostgresType], oid: int, modifier: int) -> Reading:
    """How the values of a column are read.

    Args:
        types: of the database, by oid.
        oid: of the column's type.
        modifier: of the column's type, -1 if it has none.
    """
    found, modifier = without_domains(types, oid, modifier)
    if found is None or (found.schema != "pg_catalog" and not found.element):
        return TEXT
    if found.element:
        return _array(types, found, modifier)
    if found.name == "numeric":
        return _numeric(modifier)
    return _READINGS.get(found.name, TEXT)


def without_domains(
    types: Mapping[int, PostgresType], oid: int, modifier: int
) -> tuple[PostgresType | None, int]:
    """The type under a domain and its modifier; another type itself, None if it is not known."""
    found = types.get(oid)
    while found is not None and found.kind == "d":
        modifier = found.modifier if modifier < 0 else modifier
        found = types.get(found.base)
    return found, modifier


def _cast(type: str, binary: str = "") -> Reading:
    return Reading(type, lambda text: f"TRY_CAST({text} AS {type})", binary)


def _dated(type: str, binary: str) -> Reading:
    """Dates before our era: `0044-03-15 12:00:00 BC` is `0044-03-15 (BC) 12:00:00` to DuckDB."""

    def value(text: str) -> str:
        ancient = f"system.main.regexp_replace({text}, '^([0-9-]+)(.*) BC$', '\\1 (BC)\\2')"
        given = f"CASE WHEN system.main.suffix({text}, 'BC') THEN {ancient} ELSE {text} END"
        return f"TRY_CAST({given} AS {type})"

    return Reading(type, value, binary)


def _interval(text: str) -> str:
    return f"TRY_CAST(system.main.replace({text}, '+', '') AS INTERVAL)"


def _blob(text: str) -> str:
    hex = f"CASE WHEN system.main.prefix({text}, '\\x') THEN {text}[3:] END"
    return f"TRY(system.main.unhex({hex}))"


def _bit(text: str) -> str:
    """DuckDB reads an empty text as the one bit 0."""
    return f"TRY_CAST(system.main.nullif({text}, '') AS BIT)"


def _numeric(modifier: int) -> Reading:
    if modifier < 0:
        return NUMBER_TEXT
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    if scale > 1000:  # eleven bits in two's complement
        scale -= 2048
    digits = max(precision - min(scale, 0), scale)
    return _cast(f"DECIMAL({digits},{max(scale, 0)})", "numeric") if digits <= 38 else NUMBER_TEXT


def _array(types: Mapping[int, PostgresType], array: PostgresType, modifier: int) -> Reading:
    """Arrays of one dimension from their texts, `{1,NULL,"a b"}`."""
    element = reading(types, array.element, modifier)
    known = types.get(array.element)
    if known is None or known.delimiter != "," or element.type.endswith("[]"):
        return TEXT

    def value(text: str) -> str:
        token = literal(r'"(?:[^"\\]|\\.)*"|[^,{}"]+')
        tokens = f"system.main.regexp_extract_all({text}, {token}, 0, 's')"
        quoted = "system.main.regexp_replace(_e[2:-2], '\\\\(.)', '\\1', 'gs')"
        item = f"CASE WHEN system.main.prefix(_e, '\"') THEN {quoted} ELSE _e END"
        null = "system.main.upper(_e) = 'NULL'"
        each = f"CASE WHEN NOT {null} THEN {element.value(f'({item})')} END"
        made = f"system.main.list_transform({tokens}, lambda _e: {each})"
        misfit = f"NOT {null} AND {element.value(f'({item})')} IS NULL"
        misfits = f"system.main.list_transform({tokens}, lambda _e: {misfit})"
        flat = f"system.main.prefix({text}, '{{') AND NOT system.main.prefix({text}, '{{{{')"
        fits = f"NOT coalesce(system.main.list_bool_or({misfits}), FALSE)"
        return f"CASE WHEN {flat} AND {fits} THEN {made} END"

    return Reading(f"{element.type}[]", value)


TEXT = Reading("VARCHAR", lambda text: text)
NUMBER_TEXT = Reading("VARCHAR", lambda text: text, "numeric")
_SAME_TEXT = Reading("VARCHAR", lambda text: text, "text")

_READINGS = {
    "text": _SAME_TEXT,
    "varchar": _SAME_TEXT,
    "bool": _cast("BOOLEAN", "bool"),
    "int2": _cast("SMALLINT", "int2"),
    "int4": _cast("INTEGER", "int4"),
    "int8": _cast("BIGINT", "int8"),
    "oid": _cast("UINTEGER"),
    "xid": _cast("UINTEGER"),
    "cid": _cast("UINTEGER"),
    "xid8": _cast("UBIGINT"),
    "float4": _cast("FLOAT", "float4"),
    "float8": _cast("DOUBLE", "float8"),
    "bytea": Reading("BLOB", _blob, "bytea"),
    "date": _dated("DATE", "date"),
    "timestamp": _dated("TIMESTAMP", "timestamp"),
    "timestamptz": _dated("TIMESTAMP WITH TIME ZONE", "timestamptz"),
    "time": _cast("TIME", "time"),
    "timetz": _cast("TIME WITH TIME ZONE"),
    "interval": Reading("INTERVAL", _interval),
    "uuid": _cast("UUID"),
    "json": _cast("JSON"),
    "jsonb": _cast("JSON"),
    "bit": Reading("BIT", _bit),
    "varbit": Reading("BIT", _bit),
}
