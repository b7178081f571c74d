"""The events of an engine's batch in columns.

A batch crosses from Java as a few long texts, however many events it has: Java joins them by
itself, through method handles that are its own functions. The texts are taken apart by DuckDB.

Contract: JSON that Kafka Connect writes has no line break in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.connect_schema import encodings, upstream_columns
from ivm.cdc.formats.json_statement import LINES
from ivm.cdc.formats.json_values import Encoding
from ivm.cdc.formats.line_reader import READERS
from ivm.cdc.sources.debezium.engine import Given
from ivm.cdc.sources.debezium.jvm import java
from ivm.cdc.sources.source import Upstream
from ivm.storage.values.column import Mask

_BEFORE, _AFTER = '{"payload":', "}"
_TELLS = ("op", "source.snapshot", "source.ts_ms", "status")
_NAMES = ("source.db", "source.schema", "source.table")  # what sends a message has no table's name
_PATHS = ", ".join(f"'$.payload.{name}'" for name in (*_TELLS, *_NAMES))
_BEGIN, _END = 1, 2
_NOT_TOLD = -2  # instead of the number of a key
_QUERY = f"""
    SELECT (e[1] = 'r' AND e[2] NOT IN ('false', 'incremental'))::INTEGER AS copied,
        (e[1] = 't')::INTEGER AS keyless,
        TRY_CAST(e[3] AS BIGINT) AS ts,
        CASE WHEN e[1] IS NULL AND e[4] = 'BEGIN' THEN {_BEGIN}::INTEGER
            WHEN e[1] IS NULL AND e[4] = 'END' THEN {_END} ELSE 0 END AS mark,
        CASE WHEN e[1] IS NOT NULL AND e[7] != '' THEN
            coalesce(e[5], '') || chr(1) || coalesce(e[6], '') || chr(1) || e[7] END AS name
    FROM (SELECT system.main.json_extract_string(raw, [{_PATHS}]) AS e FROM {LINES})
"""

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Shape:
    """The schema with which events come.

    Attributes:
        text: of the schema, as JSON.
        upstream: what it tells of the table.
        encodings: of its columns.
    """

    text: str
    upstream: Upstream
    encodings: Mapping[str, Encoding]


class TableName(NamedTuple):
    """A table upstream; the database or the schema is "" where the connector tells none."""

    database: str
    schema: str
    table: str


@dataclass(frozen=True)
class Events:
    """Events in order, all of one batch of the engine.

    Attributes:
        given: the batch.
        first: the number in it of the first of these events.
        lines: large strings, `{"payload":…}`.
        tables: int32[n], their numbers, see `Known`; -1 for what is no change of a table.
        shapes: int32[n], the numbers of the schemas, see `Known`.
        copied: bool[n], whether it is a row of the first copy.
        ends: bool[n], whether no transaction is open after it.
        newest: when the newest change was made, in milliseconds; 0 if it is not known.
    """

    given: Given
    first: int
    lines: pa.Array
    tables: Ints
    shapes: Ints
    copied: Mask
    ends: Mask
    newest: int

    def __len__(self) -> int:
        return len(self.lines)

    def cut(self, begin: int, end: int) -> Events:
        """Some of the events."""
        run = slice(begin, end)
        return replace(
            self,
            first=self.first + begin,
            lines=self.lines[run],
            tables=self.tables[run],
            shapes=self.shapes[run],
            copied=self.copied[run],
            ends=self.ends[run],
        )


class Known:
    """The tables and the schemas of an engine's events so far.

    Attributes:
        tables: by their numbers.
    """

    def __init__(self) -> None:
        self.tables: list[TableName] = []
        self._values, self._keys = java("java.util.ArrayList")(), java("java.util.ArrayList")()
        self._known: dict[tuple[int, int], int] = {}
        self._shapes: list[Shape] = []
        record = _handles().record
        self._functions = [
            _function(_text_of(_then(_then(record, schema), _index_in(known))))
            for schema, known in (
                (_handles().value_schema, self._values),
                (_handles().key_schema, self._keys),
            )
        ]

    def shape(self, number: int) -> Shape:
        """A schema by its number."""
        return self._shapes[number]

    def number(self, name: TableName) -> int:
        """The number of a table."""
        if name not in self.tables:
            self.tables.append(name)
        return self.tables.index(name)

    def shapes(self, given: Given, keyless: Mask) -> Ints:
        """The numbers of the schemas of a batch's events.

        Args:
            given: the batch.
            keyless: of each event, whether it has no key though its table may have one.
        """
        while True:
            values, keys = (_numbers(given, function) for function in self._functions)
            new = ((values < 0) | (keys < 0)).nonzero()[0]
            if not len(new):
                break
            record = given.events.get(int(new[0])).sourceRecord()
            for known, schema in (
                (self._values, record.valueSchema()),
                (self._keys, record.keySchema()),
            ):
                if known.indexOf(schema) < 0:
                    known.add(schema)
        keys = np.where(keyless, _NOT_TOLD, keys)
        pairs, places = np.unique(np.stack([values, keys]), axis=1, return_inverse=True)
        found = [self._number(int(value), int(key)) for value, key in pairs.T]
        return np.array(found, np.int32)[places.reshape(-1)]

    def _number(self, value: int, key: int) -> int:
        if (value, key) not in self._known:
            self._known[value, key] = len(self._shapes)
            told = None if key == _NOT_TOLD else _columns(self._keys.get(key))
            self._shapes.append(_shape(self._values.get(value), told))
        return self._known[value, key]


def events_of(given: Given, known: Known, is_open: bool) -> Events:
    """The events of a batch.

    Args:
        given: the batch.
        known: of the engine; gets what is new.
        is_open: whether a transaction is open before the first event.
    """
    lines = _lines(given)
    with READERS.lend() as reader:
        told = reader.table(_QUERY, lines, None)
    names = told["name"].combine_chunks().dictionary_encode()
    numbers = [known.number(TableName(*name.split("\1"))) for name in names.dictionary.to_pylist()]
    places = names.indices.fill_null(len(numbers)).to_numpy()
    return Events(
        *(given, 0, lines),
        np.array([*numbers, -1], np.int32)[places],
        known.shapes(given, _mask(told["keyless"])),
        _mask(told["copied"]),
        _ends(told["mark"].to_numpy(), is_open),
        told["ts"].fill_null(0).to_numpy().max(initial=0),
    )


def _mask(flags: pa.ChunkedArray) -> Mask:
    found: Mask = flags.fill_null(0).to_numpy() == 1
    return found


def _ends(marks: Ints, is_open: bool) -> Mask:
    """Of each event, whether no transaction is open after it, by the last mark before."""
    numbers = np.arange(len(marks))
    last = np.maximum.accumulate(np.where(marks != 0, numbers, -1))
    found: Mask = np.where(last >= 0, marks[last], _BEGIN if is_open else _END) == _END
    return found


def _shape(value: Any, key: tuple[str, ...] | None) -> Shape:
    """What a schema of Connect tells; that of what is no change of a table has no columns."""
    if value is None:
        return Shape("null", Upstream(()), {})
    text = str(_converter().asJsonSchema(value).toString())
    upstream = Upstream(upstream_columns(text, "after"), key)
    return Shape(text, upstream, encodings([text], "after"))


def _columns(key: Any) -> tuple[str, ...]:
    """The columns of a key; a table without one has events without keys."""
    return () if key is None else tuple([str(field.name()) for field in key.fields()])


def with_schema(lines: pa.Array, shape: Shape) -> pa.Array:
    """Lines with their schema."""
    return pc.utf8_replace_slice(lines, 0, 1, f'{{"schema":{shape.text},')


# -- in Java ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Handles:
    """Methods of Java as its own functions.

    Attributes:
        value: of an event.
        record: of an event.
        value_schema: of a record.
        key_schema: of a record.
    """

    value: Any
    record: Any
    value_schema: Any
    key_schema: Any


@cache
def _handles() -> _Handles:
    event, record = (
        java("io.debezium.embedded.EmbeddedEngineChangeEvent"),
        java("org.apache.kafka.connect.source.SourceRecord"),
    )
    schema, thing = java("org.apache.kafka.connect.data.Schema"), java("java.lang.Object")
    return _Handles(
        _method(event, "value", thing),
        _method(event, "sourceRecord", record),
        _method(record, "valueSchema", schema),
        _method(record, "keySchema", schema),
    )


@cache
def _converter() -> Any:
    converter = java("org.apache.kafka.connect.json.JsonConverter")()
    converter.configure(java("java.util.Map").of("schemas.enable", "false"), False)
    return converter


def _method(of: Any, name: str, returns: Any, *takes: Any) -> Any:
    type = java("java.lang.invoke.MethodType").methodType(returns, list(takes))
    return java("java.lang.invoke.MethodHandles").publicLookup().findVirtual(of, name, type)


def _then(first: Any, second: Any) -> Any:
    generic = java("java.lang.invoke.MethodType").genericMethodType(1)
    return java("java.lang.invoke.MethodHandles").filterReturnValue(
        first.asType(generic), second.asType(generic)
    )


def _index_in(known: Any) -> Any:
    number = java("java.lang.Integer").TYPE
    return _method(java("java.util.ArrayList"), "indexOf", number, java("java.lang.Object")).bindTo(
        known
    )


def _text_of(handle: Any) -> Any:
    text, thing = java("java.lang.String"), java("java.lang.Object")
    type = java("java.lang.invoke.MethodType").methodType(text, thing)
    lookup = java("java.lang.invoke.MethodHandles").publicLookup()
    return _then(handle, lookup.findStatic(text, "valueOf", type))


def _function(handle: Any) -> Any:
    generic = java("java.lang.invoke.MethodType").genericMethodType(1)
    proxies = java("java.lang.invoke.MethodHandleProxies")
    return proxies.asInterfaceInstance(java("java.util.function.Function"), handle.asType(generic))


@cache
def _value() -> Any:
    return _function(_text_of(_handles().value))


def _joined(given: Given, function: Any, between: str, before: str = "", after: str = "") -> bytes:
    collector = java("java.util.stream.Collectors").joining(between, before, after)
    return bytes(given.events.stream().map(function).collect(collector).getBytes("UTF-8"))


def _lines(given: Given) -> pa.Array:
    text = _joined(given, _value(), f"{_AFTER}\n{_BEFORE}", _BEFORE, _AFTER).decode()
    return pa.array(text.split("\n"), pa.large_string())


def _numbers(given: Given, function: Any) -> Ints:
    return np.fromstring(_joined(given, function, " "), np.int32, sep=" ")
