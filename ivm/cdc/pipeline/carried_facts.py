"""Facts of lines on their way through Spark: from its sources to its workers, and to the driver.

Law: `restored(carried(array), array.type)` equals the array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from ivm.cdc.sources.metadata import BYTES, COUNT, SMALL, TEXT, TIME, Facts, type_of

COLUMN = "facts"
"""The column of a frame that has the facts of its lines as a struct, if its source knows them."""
_CARRIERS = {
    TIME: (pa.int64(), "BIGINT"),
    COUNT: (pa.int64(), "BIGINT"),
    SMALL: (pa.int32(), "INT"),
    TEXT: (pa.string(), "STRING"),
    BYTES: (pa.binary(), "BINARY"),
}


class Carrier(Protocol):
    """A part whose lines have come with facts."""

    def carried(self, place: int) -> Sequence[pa.Array]:
        """A fact of all lines in order, by its place among those that were asked for."""


class CarriedFacts(Mapping[str, pa.Array]):
    """The facts of a part's lines by name, which are there once the lines are decoded.

    Args:
        part: of the lines.
        asked: the names of the facts.
        facts: of the kind of source.
    """

    def __init__(self, part: Carrier, asked: Sequence[str], facts: Facts) -> None:
        self._part = part
        self._types = {name: type_of(facts, name) for name in asked}

    def __getitem__(self, name: str) -> pa.Array:
        type = self._types[name]
        found = self._part.carried([*self._types].index(name))
        return pa.concat_arrays([pa.array([], type), *[restored(each, type) for each in found]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def ddl(asked: Sequence[str], facts: Facts) -> str:
    """The column as Spark's DDL, with a comma before it; empty if nothing is asked for."""
    if not asked:
        return ""
    types = [_CARRIERS[type_of(facts, name)][1] for name in asked]
    return f", {COLUMN} STRUCT<{', '.join([f'f{i}: {type}' for i, type in enumerate(types)])}>"


def struct(arrays: Sequence[pa.Array]) -> pa.StructArray:
    """The column of some facts, in the order in which they were asked for."""
    names = [f"f{i}" for i in range(len(arrays))]
    return pa.StructArray.from_arrays([carried(array) for array in arrays], names)


def carried(array: pa.Array) -> pa.Array:
    """A fact as Spark carries it."""
    return array.cast(_CARRIERS[array.type][0])


def restored(array: pa.Array, type: pa.DataType) -> pa.Array:
    """A fact that was carried."""
    return array.cast(pa.int64()).cast(TIME) if type == TIME else array.cast(type)
