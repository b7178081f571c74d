"""The statement that decodes JSON lines as events of a table.

Contract: the statement never fails on a line. Each line is parsed once; a line in whose row a value
is NULL is parsed again, to know whether the value is null, was not sent, or does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.table_info import TableInfo

LINES = "_ivm_lines"
"""The relation of the lines: `number BIGINT, raw VARCHAR`."""
TRUNCATE = 3
"""The operation of a line that empties the table; `Events` has none for it."""
IGNORED = -1
"""The operation of a line that is no change."""
UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for a value that has not changed and was not sent."""

_MOST_MICROS = 250_000_000_000_000_000  # some 7 900 years from 1970, which every type of time has
_UNREADABLE = (
    "BIT",
    "BIGNUM",
    "VARIANT",
    "BLOB",
)  # of which DuckDB reads none from JSON, or wrongly


@dataclass(frozen=True)
class Envelope:
    """Where a line has the parts of an event.

    Attributes:
        after: the keys that lead to the row; () if the line itself is the row.
        before: the keys that lead to the row before an update or of a delete, None if the format
            has none; a value that is missing there is that of `after`.
        operation: the keys that lead to the operation, None if every line is an insert.
        operations: INSERT, UPDATE, DELETE, TRUNCATE or IGNORED by its name in the format.
        digits: of numbers in columns of times: the digits behind the second, e.g. 6.
    """

    after: tuple[str, ...]
    before: tuple[str, ...] | None
    operation: tuple[str, ...] | None
    operations: Mapping[str, int]
    digits: int = 6


def json_path(keys: Sequence[str]) -> str:
    """Keys as a literal of DuckDB's JSON paths."""
    return literal("$" + "".join(f".{json.dumps(key, ensure_ascii=False)}" for key in keys))


def statement(
    info: TableInfo, envelope: Envelope, keys: Mapping[str, str], *, placeholders: bool
) -> str:
    """A query over `LINES`.

    Args:
        info: the table.
        envelope: of the format.
        keys: the spelling of the rows' keys in these lines by their folded names.
        placeholders: `UNAVAILABLE` is in a line.

    Returns:
        SQL; its columns are `number`, `op`, `refused` (the reason or NULL), of each column i of the
        table the value `c<i>`, whether it was not sent `u<i>`, and the value before the change
        `o<i>` where the format has one and the column is needed to find the row.
    """
    return _Statement(info, envelope, keys, placeholders).text()


class _Statement:
    def __init__(
        self, info: TableInfo, envelope: Envelope, keys: Mapping[str, str], placeholders: bool
    ) -> None:
        self._envelope = envelope
        self._placeholders = placeholders
        self._types = [type for _, type in info.schema]
        self._keys = {
            i: keys[fold(name)] for i, (name, _) in enumerate(info.schema) if fold(name) in keys
        }
        self._key = info.primary_key
        found_by = info.primary_key or range(len(info.schema))
        self._old = [i for i in found_by if i in self._keys] if envelope.before else []

    def text(self) -> str:
        """The whole statement."""
        read = f"CASE WHEN system.main.json_valid(raw) THEN {self._read(self._spec())} END"
        typed = [f"number, raw, e IS NULL AS broken, {self._operation()} AS op"]
        typed += [f"{self._value(self._envelope.after, i)} AS a{i}" for i in self._keys]
        typed += [f"{self._value(self._envelope.before or (), i)} AS b{i}" for i in self._old]
        parts = [f"number, op, {self._refused()} AS refused"]
        for i in range(len(self._types)):
            parts += [f"{self._column(i)} AS c{i}", f"{self._unsent(i)} AS u{i}"]
        parts += [f"{self._before(i)} AS o{i}" for i in self._old]
        return (
            f"WITH parsed AS (SELECT number, raw, {read} AS e FROM {LINES}),"
            f" typed AS (SELECT {', '.join(typed)} FROM parsed),"
            f" seen AS (SELECT *, {self._seen()} FROM typed)"
            f" SELECT {', '.join(parts)} FROM seen ORDER BY number"
        )

    def _seen(self) -> str:
        """The rows as maps of JSON, where a value is NULL: `m`, and `w` of the row before."""
        after = f"CASE WHEN op IN (0, 1) AND ({_some_null('a', self._keys)}) THEN "
        after += self._map(self._envelope.after) + " END AS m"
        if self._key or not self._old:
            return after
        before = f"CASE WHEN op = 1 AND ({_some_null('b', self._old)}) THEN "
        return f"{after}, {before}{self._map(self._envelope.before or ())} END AS w"

    def _map(self, path: Sequence[str]) -> str:
        return _fields(f"({self._read(_nested(path, 'MAP(VARCHAR, JSON)'))})", path)

    def _read(self, spec: object) -> str:
        return f"system.main.from_json(raw, {literal(json.dumps(spec, ensure_ascii=False))})"

    def _spec(self) -> object:
        """The shape of a line, as `from_json` takes it."""
        row = {key: _wire(self._types[i]) for i, key in self._keys.items()}
        spec: Any = _nested(self._envelope.after, row or "JSON")
        if self._envelope.before:
            old = {self._keys[i]: row[self._keys[i]] for i in self._old}
            spec = _merged(spec, _nested(self._envelope.before, old or "JSON"))
        if self._envelope.operation:
            spec = _merged(spec, _nested(self._envelope.operation, "VARCHAR"))
        return spec

    def _operation(self) -> str:
        if self._envelope.operation is None:
            code = "CASE WHEN e IS NULL THEN NULL ELSE 0 END"
        else:
            cases = [f"WHEN {literal(n)} THEN {c}" for n, c in self._envelope.operations.items()]
            code = f"CASE {_fields('e', self._envelope.operation)} {' '.join(cases)} END"
        short = "system.main.strlen(raw) < 16 AND system.main.trim(raw) IN ('', 'null')"
        blank = f"raw IS NULL OR ({short})"
        return f"CAST(CASE WHEN {blank} THEN {IGNORED} ELSE {code} END AS TINYINT)"

    def _value(self, path: Sequence[str], i: int) -> str:
        given = _fields("e", (*path, self._keys[i]))
        return _typed(given, self._types[i], self._envelope.digits)

    def _column(self, i: int) -> str:
        if i not in self._keys:
            return f"CAST(NULL AS {self._types[i].sql})"
        deleted = f"CASE WHEN op = 2 THEN coalesce(b{i}, a{i}) ELSE a{i} END"
        return deleted if i in self._old else f"a{i}"

    def _before(self, i: int) -> str:
        """The value before an update; one that is missing there has not changed."""
        if self._key:  # of which no value is NULL
            return f"CASE WHEN op = 1 THEN coalesce(b{i}, a{i}) ELSE a{i} END"
        was_null = f"coalesce(system.main.map_contains(w, {literal(self._keys[i])}), FALSE)"
        return f"CASE WHEN op = 1 AND ({was_null} OR b{i} IS NOT NULL) THEN b{i} ELSE a{i} END"

    def _unsent(self, i: int) -> str:
        if i not in self._keys:
            return "op IN (0, 1)"
        sent = f"system.main.map_contains(m, {literal(self._keys[i])})"
        unsent = f"(a{i} IS NULL AND op IN (0, 1) AND NOT {sent})"
        return f"({unsent} OR {self._unavailable(i)})" if self._placeholders else unsent

    def _unavailable(self, i: int) -> str:
        raw = f"CAST(m[{literal(self._keys[i])}] AS VARCHAR)"
        found = f"(a{i} IS NULL AND coalesce(system.main.contains({raw}, '{UNAVAILABLE}'), FALSE))"
        if not self._types[i].is_string:
            return found
        return f"({found} OR coalesce(a{i} = '{UNAVAILABLE}', FALSE))"

    def _refused(self) -> str:
        envelope = self._envelope
        cases = ["op = -1 THEN NULL", "broken THEN 'it is not JSON'"]
        if envelope.operation:
            at = ".".join(envelope.operation)
            cases.append(f"op IS NULL THEN 'its operation ({at}) is unknown or missing'")
        where = ".".join(envelope.after) or "line"
        cases.append(
            f"op IN (0, 1) AND m IS NULL AND {self._all_null()} THEN 'it has no row ({where})'"
        )
        if self._key:
            lacking = " OR ".join(f"{self._column(i)} IS NULL" for i in self._key)
            cases.append(f"op = 2 AND ({lacking}) THEN 'the key of the deleted row is missing'")
        wrong = ", ".join(["'; '", *[self._wrong(i) for i in self._keys], "NULL"])
        listed = f"system.main.nullif(system.main.concat_ws({wrong}), '')"
        return f"CASE {' '.join(f'WHEN {c}' for c in cases)} WHEN m IS NOT NULL THEN {listed} END"

    def _all_null(self) -> str:
        return " AND ".join(f"a{i} IS NULL" for i in self._keys) or "TRUE"

    def _wrong(self, i: int) -> str:
        """A sentence where the value does not fit its column, else NULL."""
        raw = f"CAST(m[{literal(self._keys[i])}] AS VARCHAR)"
        wrong = f"a{i} IS NULL AND {raw} IS NOT NULL"
        if self._placeholders:
            wrong += f" AND NOT {self._unavailable(i)}"
        head = literal(f"{self._keys[i]} is no {self._types[i].sql}: ")
        return f"CASE WHEN {wrong} THEN {head} || system.main.left({raw}, 80) END"


def _some_null(prefix: str, columns: Iterable[int]) -> str:
    return " OR ".join([f"{prefix}{i} IS NULL" for i in columns]) or "TRUE"


def _nested(keys: Sequence[str], inner: object) -> Any:
    for key in reversed(keys):
        inner = {key: inner}
    return inner


def _merged(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return one
    both = {key: _merged(one[key], other[key]) for key in one if key in other}
    return {**other, **one, **both}


def _fields(base: str, keys: Sequence[str]) -> str:
    return ".".join([base, *[quote(key) for key in keys]])


def _wire(type: ColumnType) -> str:
    """The type as which a value is read before it is converted by `_typed`."""
    if _is_time(type) or any(name in type.sql for name in _UNREADABLE):
        return "VARCHAR"
    return type.sql


def _is_time(type: ColumnType) -> bool:
    return type.is_date_or_timestamp or type.base.startswith("TIME") or type.is_interval


def _typed(given: str, type: ColumnType, digits: int) -> str:
    """The value of a column, NULL where it does not fit."""
    if type.sql == "BLOB":
        return f"TRY(system.main.from_base64({given}))"
    if _wire(type) == type.sql:
        return given
    if not _is_time(type):
        return f"TRY_CAST({given} AS {type.sql})"
    number = f"TRY_CAST({given} AS BIGINT)"
    text = f"TRY_CAST({given} AS {type.sql})"
    return f"CASE WHEN {number} IS NULL THEN {text} ELSE {_counted(number, type, digits)} END"


def _counted(number: str, type: ColumnType, digits: int) -> str:
    """A time given as a number of days, or of fractions of a second; NULL where it is too great."""
    if type.sql == "DATE":
        made = f"DATE '1970-01-01' + CAST({number} AS INTEGER)"
        return f"CASE WHEN {number} BETWEEN -2000000 AND 3000000 THEN {made} END"
    if digits <= 6:
        factor = 10 ** (6 - digits)
        micros, limit = f"{number} * {factor}", _MOST_MICROS // factor
    else:
        factor = 10 ** (digits - 6)
        micros, limit = f"{number} // {factor}", _MOST_MICROS * factor
    if type.is_interval:
        made = f"system.main.to_microseconds({micros})"
    elif type.sql == "TIMESTAMP WITH TIME ZONE":
        made = f"system.main.timezone('UTC', system.main.make_timestamp({micros}))"
    else:
        made = f"CAST(system.main.make_timestamp({micros}) AS {type.sql})"
    return f"CASE WHEN {number} BETWEEN {-limit} AND {limit} THEN {made} END"
