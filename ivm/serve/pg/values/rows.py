"""The rows of a result as messages, few ones value by value, many ones in columns.

Invariant: rows are read from the result as they are sent, so a large result is never in memory as a
whole, unless its session needs the cursor for another statement.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import closing

import duckdb
import pyarrow as pa

from ivm.engine.feeds.plain_arrow import plain
from ivm.serve.batches import Batches
from ivm.serve.pg.values.columns import Wanted, data_rows, one_buffer
from ivm.serve.pg.values.types import pg_type
from ivm.serve.pg.values.values import Encoder, encoder
from ivm.serve.pg.wire.codec import data_row
from ivm.serve.pg.wire.errors import other_columns
from ivm.session.results.held_rows import lossless
from ivm.session.results.result import Result, Row
from ivm.session.results.state_result import StateResult
from ivm.storage.identifiers import quote
from ivm.storage.values.types import importable

_FEW = 50


def as_told(result: Result, columns: Sequence[tuple[str, str]]) -> Result:
    """The result in the types that the client was told before.

    DuckDB gives some columns the types of the parameters' values, which nobody knew then. What is
    the same type for the client stays as it is: a decimal keeps its digits.

    Raises:
        PgError: the columns are others by now.
    """
    if len(columns) != len(result.types):
        raise other_columns()
    types = [
        found if pg_type(found).oid == pg_type(told).oid else told
        for (_, told), found in zip(columns, result.types, strict=True)
    ]
    if types == result.types:
        return result  # names are the values of parameters, too
    table = result.held()
    if table is None:
        raise other_columns()
    with closing(lossless()) as connection:
        names = [f"c{i}" for i in range(len(types))]
        connection.register("given", importable(table.rename_columns(names)))
        cells = ", ".join(
            f"CAST(c{i} AS {type}) AS {quote(name)}"
            for i, ((name, _), type) in enumerate(zip(columns, types, strict=True))
        )
        try:
            relation = connection.sql(f"SELECT {cells} FROM given")
            return Result.of_table(relation.to_arrow_table(), types)
        except duckdb.Error as error:
            raise other_columns() from error


class Rows:
    """The rows of one result.

    Args:
        result: of kind "rows".
        formats: of its columns, 1 for binary; one for all, or none for text.
        zone: the session's time zone.

    Attributes:
        wanted: the columns.
    """

    def __init__(self, result: Result, formats: Sequence[int], zone: str) -> None:
        self._result = result
        self._batches = Batches(result)
        self._zone = zone
        self.wanted, self._encoders = _plan(tuple(result.types), tuple(formats))
        self._left: list[bytes] = []
        self._columns: pa.Array | None = None
        self._read_all = False

    @property
    def is_in_memory(self) -> bool:
        """Whether reading them takes no time that is worth to be cancelled."""
        return isinstance(self._result, StateResult)

    @property
    def ended(self) -> bool:
        """Whether it is known that there are no more."""
        return self._read_all and not self._left and self._columns is None

    def next(self, most: int | None) -> tuple[bytes, int]:
        """The messages of some rows, at most that many of them, and their count; 0 at the end."""
        if self._columns is None and not self._left and not self._read_all:
            self._read()
        if self._left:
            taken = self._left if most is None else self._left[:most]
            self._left = self._left[len(taken) :]
            return b"".join(taken), len(taken)
        if self._columns is None:
            return b"", 0
        columns = self._columns
        count = len(columns) if most is None else min(most, len(columns))
        self._columns = columns[count:] if count < len(columns) else None
        return one_buffer(columns[:count]), count

    def _read(self) -> None:
        """Reads the next rows: the first few as Python values, if all of them can be encoded so."""
        encoders, self._encoders = self._encoders, None
        if encoders is not None and not self._result.in_batches:
            rows = self._result.fetchmany(_FEW)
            self._left, self._read_all = _encoded(rows, encoders), len(rows) < _FEW
            return
        table = self._batches.next()
        if table is None:
            self._read_all = True
        elif encoders is not None and (few := _few(table)) is not None:
            self._left = _encoded(few, encoders)
        else:
            self._columns = data_rows(table, self.wanted, self._zone)


def _encoded(rows: Sequence[Row], encoders: Sequence[Encoder]) -> list[bytes]:
    return [
        data_row(
            [
                None if value is None else encode(value)
                for value, encode in zip(row, encoders, strict=True)
            ]
        )
        for row in rows
    ]


def _few(table: pa.Table) -> list[Row] | None:
    """The rows of a lossless table, as DuckDB's, if they are few and of types that tell them."""
    if len(table) > _FEW:
        return None
    found = plain(table)
    if not all(map(_is_plain, found.schema.types)):
        return None
    return list(zip(*[column.to_pylist() for column in found.columns], strict=True))


_PLAIN = (
    pa.types.is_integer,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_decimal128,
    pa.types.is_string,
    pa.types.is_large_string,
)
"""What the types are whose values Arrow gives to Python as DuckDB does."""


def _is_plain(type: pa.DataType) -> bool:
    return any(is_one(type) for is_one in _PLAIN)


@functools.lru_cache(maxsize=1024)
def _plan(
    types: tuple[str, ...], formats: tuple[int, ...]
) -> tuple[tuple[Wanted, ...], tuple[Encoder, ...] | None]:
    """The columns, and what encodes their values one by one; None if there is no such thing."""
    binary = formats_of(formats, len(types))
    wanted = tuple([Wanted(t, b) for t, b in zip(types, binary, strict=True)])
    found = [encoder(column.type, binary=column.binary) for column in wanted]
    encoders = None if None in found else tuple([each for each in found if each is not None])
    return wanted, encoders


def formats_of(formats: Sequence[int], count: int) -> list[bool]:
    """Which of the columns are binary: one format for each, or for all, or none for text."""
    if len(formats) == count:
        return [format == 1 for format in formats]
    return [bool(formats) and formats[0] == 1] * count
