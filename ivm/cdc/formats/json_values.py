"""SQL that reads one JSON value as a column's value.

Law: a value is read in the one way that its format allows, or refused: the expressions are NULL
where a value does not fit its column, and where it may mean two things. A string such as "1234" is
a number or base64, which is how Debezium writes decimals by default; a number in a column of times
counts fractions of a second that only the settings of the upstream tell.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ivm.storage.identifiers import literal
from ivm.storage.values.types import MOST_DIGITS, ColumnType, type_of
from ivm.storage.warehouse.duckdb.carried import only_carried, why_unfit

_MICROS = -9_223_372_022_400_000_000, (1 << 63) - 2  # from 1970, of the timestamps there are
_MOST_MICROS_IN_NANOS = 9_200_000_000_000_000  # of those that 64 bits can count
_DAYS = -2_500_000, (1 << 31) - 2  # those before are what Debezium makes of infinite dates
# Where only the user tells the unit of numbers: those that count a finer one lie beyond.
_LIKELY_MICROS = -250_000_000_000_000_000, 250_000_000_000_000_000
_LIKELY_DAYS = _DAYS[0], 3_000_000
_DAY = 86_400_000_000 - 1
_INFINITE: dict[int | None, dict[str, str]] = {  # as Debezium writes those of PostgreSQL
    3: {"9223372036825200": "infinity", "-9223372036832400": "-infinity"},
    6: {"9223372036825200000": "infinity", "-9223372036832400000": "-infinity"},
    None: {"+294247-01-10T04:00:25.2Z": "infinity", "-290308-12-21T19:59:27.6Z": "-infinity"},
}
"""By the digits of a second's fraction; of None in texts."""
_WHOLE = r"(-?\d+"
_DURATION = (
    rf"P{_WHOLE}Y)?{_WHOLE}M)?{_WHOLE}W)?{_WHOLE}D)?(T{_WHOLE}H)?{_WHOLE}M)?{_WHOLE}(\.\d+)?S)?)?"
)
_UNREADABLE = ("BIT", "BIGNUM", "VARIANT", "BLOB")  # not as DuckDB's from_json reads them
MOST_SCALE = 1 << 17
"""Digits behind the point, or zeros before it: no database has more."""
_HUGEINT_HEX = 32
_MOST_HEX = 4_096  # of numbers of which each bit is added up, for 0.1 s
_DOUBLE_DIGITS = 15  # of a number of any exponent, which a DOUBLE holds
_UTC = {"DATE": "", "TIME WITH TIME ZONE": "+00"}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # as Kafka Connect writes them in JSON
_NESTED = ("LIST", "STRUCT", "MAP", "UNION")


@dataclass(frozen=True)
class Encoding:
    """How a format writes numbers and times.

    Attributes:
        digits: of the fraction of a second, in numbers that are times; None if that is not known.
        base64: strings in columns of numbers and bits are base64, of the unscaled number in two's
            complement, big-endian (true), or their texts (false); None if they may be either.
        scale: of the unscaled number; that of the column, if None.
        is_number: the values are known to be numbers, also in columns of texts.
        json_texts: strings in columns of JSON are texts of JSON values, not these values.
        durations: the digits in numbers that are INTERVALs, if they are others.
        counts_times: a schema tells what numbers that are times count, so that they are no others.
    """

    digits: int | None = None
    base64: bool | None = False
    scale: int | None = None
    is_number: bool = False
    json_texts: bool = False
    durations: int | None = None
    counts_times: bool = False

    def digits_of(self, type: ColumnType) -> int | None:
        """The digits of the fraction of a second in numbers of a type of times."""
        return self.digits if self.durations is None or not type.is_interval else self.durations


PLAIN = Encoding()
"""Numbers are numbers or their texts, and times are texts."""


def wire_type(type: ColumnType, encoding: Encoding) -> str:
    """The type that `from_json` gives the value for `value`."""
    if type.base in _NESTED or _is_coded(type, encoding):
        return "JSON"  # which tells strings from numbers
    if _is_time(type) or _is_unreadable(type):
        return "VARCHAR"
    return type.sql


def value(given: str, type: ColumnType, encoding: Encoding, typed: str) -> str:
    """SQL of the value, NULL where it is null or refused.

    Args:
        given: SQL of the value as `wire_type`. As JSON, a number with a point has lost what a
            DOUBLE does not hold.
        type: of the column.
        encoding: of the format.
        typed: SQL of the value read from the line as the column's type, NULL where a part of it
            does not fit; it is slow.
    """
    return only_carried(_value(given, type, encoding, typed), type.sql)


def _value(given: str, type: ColumnType, encoding: Encoding, typed: str) -> str:
    if type.sql == "JSON" and encoding.json_texts:
        parsed = f"TRY_CAST(system.main.json_extract_string({given}, '$') AS JSON)"
        return f"CASE system.main.json_type({given}) WHEN 'VARCHAR' THEN {parsed} ELSE {given} END"
    wire = wire_type(type, encoding)
    if wire == type.sql:
        return given
    if type.base in _NESTED:
        return _nested(given, type, encoding, typed)
    if _is_coded(type, encoding):
        return _number(given, type, encoding, typed)
    if type.sql == "BIT" and encoding.base64 is not False:  # only a single bit is not in base64
        return f"CASE {given} WHEN 'true' THEN BIT '1' WHEN 'false' THEN BIT '0' END"
    if type.sql == "BLOB":
        return f"TRY(system.main.from_base64({given}))"
    if _is_time(type):
        return _time(given, type, encoding)
    return f"TRY_CAST({given} AS {type.sql})"


def hint(raw: str, type: ColumnType, encoding: Encoding) -> str:
    """SQL of what to add to the message that a value is refused, or NULL.

    Args:
        raw: SQL of the JSON value as a string.
        type: of the column.
        encoding: of the format.
    """
    cases: list[str] = []
    if _is_time(type) and type.sql not in _UTC and encoding.digits_of(type) is None:
        told = "' (a number of what? times=''ms'', ''us'' or ''ns'' says it)'"
        cases.append(f"WHEN TRY_CAST({raw} AS BIGINT) IS NOT NULL THEN {told}")
    if _is_number(type) and encoding.base64 is None:
        told = "' (text, or base64? decimals=''text'' or ''base64'' says it)'"
        cases.append(f"WHEN {_is_base64(_unquoted(raw))} THEN {told}")
    if type.is_interval:  # that DuckDB has, but we have not
        told = literal(f" ({why_unfit(type.sql)})")
        cases.append(f"WHEN TRY_CAST({_unquoted(raw)} AS INTERVAL) IS NOT NULL THEN {told}")
    return f"CASE {' '.join(cases)} END" if cases else "NULL"


def _is_number(type: ColumnType) -> bool:
    return type.is_integer or type.is_float or type.is_decimal


def _is_coded(type: ColumnType, encoding: Encoding) -> bool:
    """Returns whether values are numbers that may be in base64."""
    number = _is_number(type) or (encoding.is_number and type.sql == "VARCHAR")
    return number and encoding.base64 is not False


def _is_time(type: ColumnType) -> bool:
    return type.is_date_or_timestamp or type.base.startswith("TIME") or type.is_interval


def _unquoted(json: str) -> str:
    """SQL of the content of a JSON string; NULL for any other value."""
    quoted = f"system.main.starts_with({json}, '\"')"
    return f"CASE WHEN {quoted} THEN system.main.json_extract_string({json}, '$') END"


def _nested(given: str, type: ColumnType, encoding: Encoding, typed: str) -> str:
    """A list or another nested value, refused where a value in it is."""
    coded, unreadable = _is_coded_inside(type, encoding), _is_unreadable(type)
    found = typed if _is_readable(type, encoding) else "NULL"
    if found == "NULL" and type.base == "LIST":
        found = _list(given, type, _element(type), encoding)
    json = f"CAST({given} AS VARCHAR)"
    if unreadable:  # a text is that of the whole value, as DuckDB writes it
        text = f"TRY(CAST({_unquoted(json)} AS {type.sql}))"
        return f"CASE system.main.json_type({given}) WHEN 'VARCHAR' THEN {text} ELSE {found} END"
    if coded:  # but there is no base64 in it
        numbers = f"NOT system.main.regexp_matches({json}, '[\"{{]')"
        return f"CASE WHEN {numbers} THEN {typed} ELSE {found} END"
    return found


def _is_readable(type: ColumnType, encoding: Encoding) -> bool:
    """Returns whether DuckDB alone reads a value as the format means it."""
    if type.base == "LIST":
        return _is_readable(_element(type), encoding)
    if type.base in _NESTED:
        return not (_is_coded_inside(type, encoding) or _is_unreadable(type))
    return value("part", type, encoding, "NULL") == "part"


def _is_coded_inside(type: ColumnType, encoding: Encoding) -> bool:
    return encoding.base64 is not False and "DECIMAL" in type.sql


def _is_unreadable(type: ColumnType) -> bool:
    return any(name in type.sql for name in _UNREADABLE)


def _element(type: ColumnType) -> ColumnType:
    return type_of(type.sql.rsplit("[", 1)[0])


def _list(given: str, type: ColumnType, element: ColumnType, encoding: Encoding) -> str:
    """A list whose elements DuckDB alone does not read."""
    parts = f"TRY(system.main.from_json_strict({given}, '\"JSON[]\"'))"
    is_json = wire_type(element, encoding) == "JSON"
    part = "part" if is_json else "system.main.json_extract_string(part, '$')"
    typed = f"TRY(system.main.from_json_strict(part, {literal(json.dumps(element.sql))}))"
    there = "system.main.json_type(part) <> 'NULL'"
    read = f"CASE WHEN {there} THEN {value(part, element, encoding, typed)} END"
    bad = f"{there} AND ({read}) IS NULL"
    all_fit = f"system.main.len(system.main.list_filter({parts}, lambda part: {bad})) = 0"
    made = f"system.main.list_transform({parts}, lambda part: {read})"
    return f"CASE WHEN {all_fit} THEN TRY_CAST({made} AS {type.sql}) END"


def _is_base64(text: str) -> str:
    """SQL of whether a string can be base64, as "1234", "1E+3" and "none" can."""
    return f"(system.main.strlen({text}) > 0 AND TRY(system.main.from_base64({text})) IS NOT NULL)"


def _number(given: str, type: ColumnType, encoding: Encoding, typed: str) -> str:
    """A number, a string, or an object of a scale and base64 (Debezium's VariableScaleDecimal)."""
    json = f"CAST({given} AS VARCHAR)"
    text, blob = _unquoted(json), f"TRY(system.main.from_base64({_unquoted(json)}))"
    scale = type.scale if encoding.scale is None else encoding.scale
    string = _scaled(blob, f"({scale})", type)  # of a scale below 0 the minus would be a comment's
    if type.is_float:  # upstream floats are not in base64, as which "Infinity" can be read
        found = f"CAST({text} AS {type.sql})"
        string = f"CASE WHEN {text} IN {_NOT_FINITE} THEN {found} ELSE {string} END"
    if encoding.base64 is None:
        string = f"CASE WHEN NOT {_is_base64(text)} THEN TRY_CAST({text} AS {type.sql}) END"
    is_short = not type.is_decimal or type.precision <= _DOUBLE_DIGITS
    number = f"TRY_CAST({json} AS {type.sql})" if is_short else typed
    if type.sql == "VARCHAR":  # which DuckDB reads as a DOUBLE, too
        number = f"CASE WHEN system.main.strlen({json}) <= {_DOUBLE_DIGITS} THEN {json} END"
    inner = f"TRY(system.main.from_base64(system.main.json_extract_string({json}, '$.value')))"
    own = f"TRY_CAST(system.main.json_extract_string({json}, '$.scale') AS INTEGER)"
    return (
        f"CASE system.main.left({json}, 1) WHEN '\"' THEN {string}"
        f" WHEN '{{' THEN CASE WHEN {own} BETWEEN {-MOST_SCALE} AND {MOST_SCALE} THEN "
        f"{_scaled(inner, own, type)} END"
        f" WHEN 't' THEN CAST(1 AS {type.sql}) WHEN 'f' THEN CAST(0 AS {type.sql})"
        f" ELSE {number} END"
    )


def _scaled(blob: str, scale: str, type: ColumnType) -> str:
    """A number from its unscaled two's complement, big-endian; NULL where it does not fit."""
    hex = f"system.main.hex({blob})"
    complement = f"system.main.translate({hex}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    negative = f"{hex} >= '8'"
    bits = f"CASE WHEN {negative} THEN {complement} ELSE {hex} END"
    size = f"TRY_CAST('0x' || {bits} AS HUGEINT)"
    text = f"CAST(CASE WHEN {negative} THEN -1 - {size} ELSE {size} END AS VARCHAR)"
    shown = _with_point(f"system.main.ltrim({text}, '-')", negative, scale)
    if not type.is_integer and (not type.is_decimal or type.precision == MOST_DIGITS):
        length = f"system.main.strlen({hex})"
        made = f"lambda digits: {_with_point('digits', negative, scale)}"
        long = f"system.main.list_transform([{_digits(bits, negative)}], {made})[1]"
        shown = (
            f"CASE WHEN {length} <= {_HUGEINT_HEX} THEN {shown} WHEN {length} <= {_MOST_HEX}"
            f" THEN {long} END"
        )
    return f"TRY_CAST({shown} AS {type.sql})"


def _with_point(digits: str, negative: str, scale: str) -> str:
    """A number's text, from the digits of its unscaled absolute value."""
    length = f"system.main.greatest(system.main.strlen({digits}), {scale} + 1)::INTEGER"
    padded = f"system.main.lpad({digits}, {length}, '0')"
    return (
        f"CASE WHEN {negative} THEN '-' ELSE '' END || CASE WHEN {scale} > 0 THEN "
        f"system.main.left({padded}, -{scale}) || '.' || system.main.right({padded}, {scale}) "
        f"ELSE {padded} || system.main.repeat('0', -{scale}) END"
    )


def _digits(hex: str, negative: str) -> str:
    """The digits of a number that is too long for HUGEINT.

    Args:
        hex: of its bytes; of their complement, if it is negative.
        negative: whether it is.
    """
    bits = f"CAST(CAST(system.main.from_hex({hex}) AS BIT) AS VARCHAR)"
    added = "lambda sum, bit: sum + sum + CAST(bit AS BIGNUM)"
    split = f"system.main.string_split({bits}, '')"
    size = f"system.main.list_reduce({split}, {added}, CAST(0 AS BIGNUM))"
    return f"CAST({size} + CAST(CASE WHEN {negative} THEN 1 ELSE 0 END AS BIGNUM) AS VARCHAR)"


def _time(given: str, type: ColumnType, encoding: Encoding) -> str:
    written = given
    if type.sql in _UTC:  # DuckDB reads no Z in them
        written = f"system.main.replace({given}, 'Z', '{_UTC[type.sql]}')"
    if type.is_date_or_timestamp:  # nor the sign that ISO 8601 demands before five digits of a year
        written = f"system.main.ltrim({written}, '+')"
    if type.is_interval:
        written = _duration(given)
    number, text = f"TRY_CAST({given} AS BIGINT)", f"TRY_CAST({written} AS {type.sql})"
    cases = [
        f"WHEN {given} = '{found}' THEN CAST('{meant}' AS {type.sql})"
        for found, meant in _special(type, encoding.digits).items()
    ]
    return (
        f"CASE {' '.join(cases)} WHEN {number} IS NULL THEN {text}"
        f" ELSE {_counted(number, type, encoding)} END"
    )


def _duration(given: str) -> str:
    """The text of an interval; ISO 8601's, such as `P1Y2M-3DT4H5M6.7S`, in DuckDB's words."""
    days, hours = [f"system.main.split_part({given}, 'T', {part})" for part in (1, 2)]
    words = f"system.main.substring({days}, 2)"
    for sign, word in {"Y": "years", "M": "months", "W": "weeks", "D": "days"}.items():
        words = f"system.main.replace({words}, '{sign}', ' {word} ')"
    for sign, word in {"H": "hours", "M": "minutes", "S": "seconds"}.items():
        hours = f"system.main.replace({hours}, '{sign}', ' {word} ')"
    is_iso = f"system.main.regexp_full_match({given}, '{_DURATION}')"
    return f"CASE WHEN {is_iso} THEN {words} || {hours} ELSE {given} END"


def _special(type: ColumnType, digits: int | None) -> dict[str, str]:
    """Texts and numbers that stand for what cannot be counted or read as others are."""
    if type.sql in ("TIME", "TIME_NS") and digits is not None:
        return {f"{86_400 * 10**digits}": "24:00:00"}
    if not type.base.startswith("TIMESTAMP"):
        return {}
    return {**_INFINITE[None], **_INFINITE.get(digits, {})}


def _counted(number: str, type: ColumnType, encoding: Encoding) -> str:
    """Days since 1970, or fractions of a second; NULL where they are too many."""
    if type.sql == "DATE":
        made = f"DATE '1970-01-01' + CAST({number} AS INTEGER)"
        first, last = _DAYS if encoding.counts_times else _LIKELY_DAYS
        return f"CASE WHEN {number} BETWEEN {first} AND {last} THEN {made} END"
    digits = encoding.digits_of(type)
    if digits is None or type.sql == "TIME WITH TIME ZONE":
        return "NULL"
    fewer = 10 ** (6 - digits) if digits < 6 else 1
    more = 10 ** (digits - 6) if digits > 6 else 1
    micros = f"{number} * {fewer} // {more}"
    low, high = _MICROS if encoding.counts_times else _LIKELY_MICROS
    if type.sql == "TIMESTAMP_NS":
        low, high = -_MOST_MICROS_IN_NANOS, _MOST_MICROS_IN_NANOS
    if type.sql in ("TIME", "TIME_NS"):
        low, high = 0, _DAY
    made = f"TRY_CAST(system.main.make_timestamp({micros}) AS {type.sql})"
    if type.is_interval:
        made = f"system.main.to_microseconds({micros})"
    elif type.sql == "TIMESTAMP WITH TIME ZONE":
        made = f"system.main.timezone('UTC', system.main.make_timestamp({micros}))"
    elif type.sql in ("TIMESTAMP_NS", "TIME_NS") and more > 1:
        made = f"CAST(system.main.make_timestamp_ns({number}) AS {type.sql})"
    elif type.sql == "TIME_NS":
        made = f"CAST(CAST(system.main.make_timestamp({micros}) AS TIME) AS TIME_NS)"
    bounds = f"{low * more // fewer} AND {high * more // fewer + more - 1}"
    return f"CASE WHEN {number} BETWEEN {bounds} THEN {made} END"
