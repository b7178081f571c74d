"""The statement that decodes JSON lines as events of a table.

Contract: the statement never fails on a line. Each line is parsed once; a line in whose row a value
is NULL is parsed again, to know whether the value is null, was not sent, or does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ivm.cdc.formats.json_values import PLAIN, Encoding, hint, value, wire_type
from ivm.storage.identifiers import fold, literal, quote
from ivm.storage.warehouse.table_info import TableInfo

LINES = "_ivm_lines"
"""The relation of the lines: `number BIGINT, raw VARCHAR`."""
TRUNCATE = 3
"""The operation of a line that empties the table; `Events` has none for it."""
IGNORED = -1
"""The operation of a line that is no change."""
UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for a value that has not changed and was not sent."""


@dataclass(frozen=True)
class Envelope:
    """Where a line has the parts of an event.

    Attributes:
        after: the keys that lead to the row; () if the line itself is the row.
        before: the keys that lead to the row before an update or of a delete, None if the format
            has none; a value that is missing there is that of `after`.
        operation: the keys that lead to the operation, None if every line is an insert.
        operations: INSERT, UPDATE, DELETE, TRUNCATE or IGNORED by its name in the format.
        encoding: of the values, where the line has no schema.
        schema: the keys that lead to Kafka Connect's schema of the line, None if it has none.
        version: the name of the version column, whose value before a delete is read too.
    """

    after: tuple[str, ...]
    before: tuple[str, ...] | None
    operation: tuple[str, ...] | None
    operations: Mapping[str, int]
    encoding: Encoding = PLAIN
    schema: tuple[str, ...] | None = None
    version: str = ""


def json_path(keys: Sequence[str]) -> str:
    """Keys as a literal of DuckDB's JSON paths."""
    return literal("$" + "".join(f".{json.dumps(key, ensure_ascii=False)}" for key in keys))


@dataclass(frozen=True)
class Survey:
    """What the lines of a batch have in common.

    Attributes:
        keys: the spelling of the columns' keys by their folded names.
        placeholders: `UNAVAILABLE` is in a line.
        encodings: by the folded names of columns, of those of which the lines' schema tells.
    """

    keys: Mapping[str, str]
    placeholders: bool
    encodings: Mapping[str, Encoding]


def statement(info: TableInfo, envelope: Envelope, survey: Survey) -> str:
    """A query over `LINES`.

    Args:
        info: the table.
        envelope: of the format.
        survey: of these lines.

    Returns:
        SQL; its columns are `number`, `op`, `refused` (the reason or NULL), of each column i of the
        table the value `c<i>`, whether it was not sent `u<i>`, and the value before the change
        `o<i>` where the format has one and the column is needed to find the row.
    """
    return _Statement(info, envelope, survey).text()


class _Statement:
    def __init__(self, info: TableInfo, envelope: Envelope, survey: Survey) -> None:
        self._envelope = envelope
        self._placeholders = survey.placeholders
        names = [fold(name) for name, _ in info.schema]
        self._types = [type for _, type in info.schema]
        self._encodings = [survey.encodings.get(name, envelope.encoding) for name in names]
        found = {i: survey.keys[name] for i, name in enumerate(names) if name in survey.keys}
        # In the row itself, the key of the operation is no column's.
        self._keys = {i: k for i, k in found.items() if (*envelope.after, k) != envelope.operation}
        self._key = info.primary_key
        found_by = info.primary_key or tuple(range(len(info.schema)))
        if fold(envelope.version) in names:
            found_by = tuple(dict.fromkeys((*found_by, names.index(fold(envelope.version)))))
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
        after = f"CASE WHEN op IN (0, 1, 2) AND ({_some_null('a', self._keys)}) THEN "
        after += self._map(self._envelope.after) + " END AS m"
        if not self._envelope.before:
            return f"{after}, NULL::MAP(VARCHAR, JSON) AS w"
        before = f"CASE WHEN op IN (1, 2) AND ({_some_null('b', self._old)}) THEN "
        return f"{after}, {before}{self._map(self._envelope.before)} END AS w"

    def _map(self, path: Sequence[str]) -> str:
        return _fields(f"({self._read(_nested(path, 'MAP(VARCHAR, JSON)'))})", path)

    def _read(self, spec: object) -> str:
        return f"system.main.from_json(raw, {literal(json.dumps(spec, ensure_ascii=False))})"

    def _spec(self) -> object:
        """The shape of a line, as `from_json` takes it."""
        row = {key: wire_type(self._types[i], self._encodings[i]) for i, key in self._keys.items()}
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
        return value(given, self._types[i], self._encodings[i])

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
        unsent = f"coalesce(a{i} IS NULL AND op IN (0, 1) AND NOT {sent}, FALSE)"
        return f"({unsent} OR {self._unavailable(i)})" if self._placeholders else unsent

    def _unavailable(self, i: int) -> str:
        raw = f"CAST(m[{literal(self._keys[i])}] AS VARCHAR)"
        found = f"(a{i} IS NULL AND coalesce(system.main.contains({raw}, '{UNAVAILABLE}'), FALSE))"
        if not self._types[i].is_string:
            return found
        return f"({found} OR coalesce(a{i} = '{UNAVAILABLE}', FALSE))"

    def _refused(self) -> str:
        after, operation = ".".join(self._envelope.after), ".".join(self._envelope.operation or ())
        no_row = f"op IN (0, 1) AND m IS NULL AND {_all_null('a', self._keys)}"
        reasons = [
            "op = -1 THEN NULL",
            "broken THEN 'it is not JSON'",
            f"op IS NULL THEN 'its operation ({operation}) is unknown or missing'",
            f"{no_row} THEN 'it has no row ({after or 'line'})'",
            f"{self._lacks_old()}",
            f"op IN (0, 1) AND m IS NOT NULL THEN {self._misfits()}",
        ]
        return f"CASE {' '.join(f'WHEN {reason}' for reason in reasons)} END"

    def _misfits(self) -> str:
        """The values that do not fit their columns, else NULL."""
        each = ", ".join(["'; '", *[self._misfit(i) for i in self._keys], "NULL"])
        return f"system.main.nullif(system.main.concat_ws({each}), '')"

    def _lacks_old(self) -> str:
        """Where a line does not tell which row it changes."""
        if self._key:
            lacking = " OR ".join(f"{self._column(i)} IS NULL" for i in self._key)
            return f"op = 2 AND ({lacking}) THEN 'the key of the deleted row is missing'"
        none = f"w IS NULL AND {_all_null('b', self._old)}"
        neither = f"{none} AND m IS NULL AND {_all_null('a', self._keys)}"
        lacking = f"(op = 1 AND {none}) OR (op = 2 AND {neither})"
        return f"{lacking} THEN 'the row before is missing, and the table has no key'"

    def _misfit(self, i: int) -> str:
        raw = f"CAST(m[{literal(self._keys[i])}] AS VARCHAR)"
        wrong = f"a{i} IS NULL AND {raw} IS NOT NULL"
        if self._placeholders:
            wrong += f" AND NOT {self._unavailable(i)}"
        head = literal(f"{self._keys[i]} is no {self._types[i].sql}: ")
        tail = hint(raw, self._types[i], self._encodings[i])
        said = f"{head} || system.main.left({raw}, 80) || coalesce({tail}, '')"
        return f"CASE WHEN {wrong} THEN {said} END"


def _some_null(prefix: str, columns: Iterable[int]) -> str:
    return " OR ".join([f"{prefix}{i} IS NULL" for i in columns]) or "TRUE"


def _all_null(prefix: str, columns: Iterable[int]) -> str:
    return " AND ".join([f"{prefix}{i} IS NULL" for i in columns]) or "TRUE"


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
