"""Every DuckDB type survives the way through columns and Z-sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from ivm.storage.errors import InternalError
from ivm.storage.values.column import (
    column_from_arrow,
    concat,
    empty_column,
    join_arrays,
    join_released,
    null_column,
)
from ivm.storage.values.types import WIDE, Schema, type_of
from ivm.storage.values.zset import ZSet, add, empty, from_arrow
from ivm.storage.warehouse.duckdb.duck import describe, registered, rows, table
from tests.support.type_values import NAMES, select_values


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        yield connection


def load(duck: duckdb.DuckDBPyConnection, name: str) -> tuple[ZSet, Schema]:
    query = select_values(name)
    schema = describe(duck, query)
    assert schema[0][1] is type_of(name)
    return from_arrow(table(duck, query), schema), schema


def texts(duck: duckdb.DuckDBPyConnection, batch: ZSet, schema: Schema) -> list[Any]:
    """Type and text of each value, once DuckDB has it back."""
    with registered(duck, {"back": (batch, schema)}):
        return rows(duck, "SELECT typeof(v), v::VARCHAR FROM back")


def expected(duck: duckdb.DuckDBPyConnection, name: str) -> list[Any]:
    return rows(duck, f"SELECT typeof(v), v::VARCHAR FROM ({select_values(name)})")


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name)
    assert texts(duck, batch, schema) == expected(duck, name)


@pytest.mark.parametrize("name", NAMES)
def test_take_slice_filter_and_concat(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name)
    want = expected(duck, name)
    count = len(batch)
    backwards = batch.take(np.arange(count)[::-1].copy())
    odd = batch.filter(np.arange(count) % 2 == 1)
    middle = batch.slice(1, count - 1)
    again = middle.take(np.array([0])) if count > 2 else middle
    whole = add([backwards, odd, middle, batch.slice(0, 0), again])
    assert texts(duck, whole, schema) == (
        want[::-1] + want[1::2] + want[1:-1] + want[1:-1][: len(again)]
    )


@pytest.mark.parametrize("name", NAMES)
def test_nulls_and_no_rows(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    type = type_of(name)
    schema = (("v", type),)
    nulls = ZSet((null_column(type, 3),), np.ones(3, np.int64))
    assert rows_are_null(duck, nulls, schema) == [(True,)] * 3
    assert texts(duck, empty((type,)), schema) == []
    batch, _ = load(duck, name)
    joined = concat([batch.columns[0], empty_column(type), null_column(type, 2)])
    assert joined.valid is not None
    assert joined.valid.tolist() == [False] + [True] * (len(batch) - 1) + [False] * 2


def rows_are_null(duck: duckdb.DuckDBPyConnection, batch: ZSet, schema: Schema) -> list[Any]:
    with registered(duck, {"back": (batch, schema)}):
        return rows(duck, "SELECT v IS NULL FROM back")


@pytest.mark.parametrize("name", NAMES)
def test_chunked_and_empty_results(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    query = select_values(name)
    schema = describe(duck, query)
    whole = table(duck, query)
    chunked = pa.concat_tables([whole, whole.slice(0, 0), whole.slice(1)])
    want = expected(duck, name)
    assert texts(duck, from_arrow(chunked, schema), schema) == want + want[1:]
    none = table(duck, f"FROM ({query}) LIMIT 0")
    assert len(from_arrow(none, schema)) == 0
    assert (
        len(column_from_arrow(pa.chunked_array([], none.schema.field(0).type), schema[0][1])) == 0
    )


@pytest.mark.parametrize("name", [name for name in NAMES if type_of(name).dtype is not None])
def test_values_under_null_are_zero_bits(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, _ = load(duck, name)
    values = batch.columns[0].values  # type: ignore[union-attr]
    assert values[:1].tobytes() == bytes(values.dtype.itemsize)


def test_an_array_of_another_width_is_refused() -> None:
    with pytest.raises(InternalError, match="int32 was taken for a column of BIGINT"):
        column_from_arrow(pa.array([1], pa.int32()), type_of("BIGINT"))


def test_slices_of_masks_and_bits() -> None:
    """NULLs and packed booleans at every offset."""
    values = [None, True, False, True, None, False, True, True, None, False, True, None]
    for start in range(12):
        for stop in range(start, 13):
            array = pa.array(values, pa.bool_()).slice(start, stop - start)
            column = column_from_arrow(array, type_of("BOOLEAN"))
            assert column.to_arrow(type_of("BOOLEAN")).to_pylist() == values[start:stop]


def test_long_columns_are_joined() -> None:
    """Also where only some have NULLs."""
    type = type_of("BIGINT")
    numbers = column_from_arrow(pa.array(range(70_000)), type)
    joined = concat([numbers, null_column(type, 2), numbers.slice(5, 8)])
    assert joined.to_arrow(type).to_pylist() == [*range(70_000), None, None, 5, 6, 7]


@pytest.mark.parametrize("count", [3, 70_000])
def test_values_of_16_bytes_are_joined(count: int) -> None:
    """Also those that do not lie side by side in memory."""
    values = np.empty(2 * count, WIDE)
    values["lo"], values["hi"] = np.arange(2 * count), -np.arange(2 * count)
    repeated = np.broadcast_to(values[1], (2,))
    arrays = [values[::2], repeated, values[:0], values[1:3]]
    expected = [*values[::2].tolist(), *[(1, -1)] * 2, (1, -1), (2, -2)]
    joined = join_arrays(arrays)
    assert joined.tolist() == expected
    joined[0] = values[1]  # it is writable, and its own
    assert values[0].tolist() == (0, 0)
    assert join_released(list(arrays)).tolist() == expected


def test_types_are_equal_by_name() -> None:
    assert type_of("INTEGER") == type_of("INTEGER")
    assert type_of("INTEGER") != type_of("BIGINT")
    assert type_of("DECIMAL(18,2)").scale == 2
    assert type_of("NULL") == type_of('"NULL"') != type_of("INTEGER")
