"""Compares scalar kernels with DuckDB, bit for bit, and finds the rows that differ.

Law: for every batch, kernel and DuckDB give equal bits and NULLs, or both fail. A batch on which
DuckDB fails is split into its rows, so that an overflow hides no other difference.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import strategies as st

from ivm.delta_ops.operator import Kernel
from ivm.sql.parse.query import parse_query
from ivm.sql.scalar.compile import compile_predicate, compile_scalar, explain_missing
from ivm.sql.scalar.operands import constants
from ivm.sql.scalar.operands.kernel import BIGINT
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import WIDE, ColumnType, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb import duck


@functools.cache
def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(":memory:", config={"threads": 1})
    con.execute("SET arrow_lossless_conversion = true")
    return con


def make_column(values: Sequence[Any], type: ColumnType) -> Column:
    """A column of Python values (None = NULL; DECIMALs unscaled, times as integers)."""
    if type.dtype is None:
        return ArrowColumn(pa.array(values, type.arrow))
    valid = np.array([v is not None for v in values], np.bool_)
    plain = [0 if v is None else v for v in values]
    if type.dtype == WIDE:
        numbers = np.array([(v & (2**64 - 1), v >> 64) for v in plain], WIDE)
    else:
        numbers = np.array(plain, type.dtype)
    return FixedColumn(numbers, None if valid.all() else valid)


@functools.cache
def compiled(text: str, types: tuple[str, ...]) -> tuple[Kernel, ColumnType]:
    """The kernel of `text` (it must be on the list) and its output type."""
    inputs = tuple(type_of(t) for t in types)
    output = output_type(text, types)
    (tree,) = parse_query(f"SELECT {text}", connection()).expressions
    kernel = compile_scalar(tree, inputs, output)
    assert kernel is not None, explain_missing(tree, inputs)
    return kernel, output


@functools.cache
def output_type(text: str, types: tuple[str, ...]) -> ColumnType:
    ((_, output),) = duck.describe(connection(), f"SELECT {text} AS v FROM ({_no_rows(types)})")
    return output


def oracle(text: str, columns: Sequence[Column], types: tuple[str, ...]) -> Column | None:
    """DuckDB's column for `text`, or None if it fails."""
    schema = tuple((f"c{i}", type_of(t)) for i, t in enumerate(types))
    output = output_type(text, types)
    batch = ZSet(tuple(columns), np.zeros(len(columns[0]), np.int64))
    try:
        result = duck.evaluate(
            connection(), f"SELECT {text} AS v FROM b", {"b": (batch, schema)}, (("v", output),)
        )
    except duckdb.Error:
        return None
    return result.columns[0]


def check(text: str, types: Sequence[str], *values: Sequence[Any]) -> None:
    """Assert that the kernel of `text` equals DuckDB on `values` (one list a column)."""
    names = tuple(types)
    columns = [make_column(v, type_of(t)) for v, t in zip(values, names, strict=True)]
    check_columns(text, names, columns)


def check_all(texts: Sequence[str], types: Sequence[str], *values: Sequence[Any]) -> None:
    """`check` for several texts on the same values, with one DuckDB statement where none fails."""
    names = tuple(types)
    inputs = tuple(type_of(t) for t in names)
    columns = [make_column(v, t) for v, t in zip(values, inputs, strict=True)]
    batch = ZSet(tuple(columns), np.zeros(len(columns[0]), np.int64))
    schema = tuple((f"c{i}", t) for i, t in enumerate(inputs))
    select = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    output = duck.describe(connection(), f"SELECT {select} FROM ({_no_rows(names)})")
    try:
        query = f"SELECT {select} FROM b"
        expected = duck.evaluate(connection(), query, {"b": (batch, schema)}, output).columns
    except duckdb.Error:
        for text in texts:
            check_columns(text, names, columns)
        return
    for text, (_, type), column in zip(texts, output, expected, strict=True):
        actual = compiled(text, names)[0](columns, len(batch))
        assert same_bits(actual, column, type), _difference(text, columns, actual, column)


def extreme_pairs(types: Sequence[str]) -> list[tuple[Any, ...]]:
    """Every combination of the extreme values of the types, a tuple a column."""
    return list(zip(*itertools.product(*(extremes(t) for t in types)), strict=True))


def _no_rows(types: tuple[str, ...]) -> str:
    return "SELECT " + ", ".join(f"NULL::{t} AS c{i}" for i, t in enumerate(types))


def check_columns(text: str, types: tuple[str, ...], columns: Sequence[Column]) -> None:
    count = len(columns[0])
    kernel, output = compiled(text, types)
    expected = oracle(text, columns, types)
    if expected is None and count > 1:
        _check_apart(text, types, columns)
        return
    if expected is None:
        _check_fails(text, types, columns)
        return
    actual = kernel(columns, count)
    assert same_bits(actual, expected, output), _difference(text, columns, actual, expected)


def _check_apart(text: str, types: tuple[str, ...], columns: Sequence[Column]) -> None:
    """Compares in one batch the rows that DuckDB can compute, and some of the others singly."""
    tried = oracle(f"TRY({text})", columns, types)
    good = np.zeros(len(columns[0]), np.bool_)
    if tried is not None:  # a few errors pass through TRY
        good = np.ones(len(tried), np.bool_) if tried.valid is None else tried.valid
    if good.any():
        check_columns(text, types, [c.filter(good) for c in columns])
    rest = np.flatnonzero(~good)
    for row in rest[:: max(1, len(rest) // 12)]:
        check_columns(text, types, [c.slice(row, row + 1) for c in columns])


def _check_fails(text: str, types: tuple[str, ...], columns: Sequence[Column]) -> None:
    kernel, _ = compiled(text, types)
    try:
        actual = kernel(columns, 1)
    except EvaluationError:
        return
    raise AssertionError(f"DuckDB fails, kernel: {_rows(columns)} -> {_show(actual, 0)}")


def _rows(columns: Sequence[Column]) -> list[str]:
    return [_show(c, 0) for c in columns]


def same_bits(a: Column, b: Column, type: ColumnType) -> bool:
    if isinstance(a, ArrowColumn) or isinstance(b, ArrowColumn):
        return _same_strings(a, b)
    assert a.values.dtype == type.dtype
    every = np.ones(len(b), np.bool_)
    valid_a = every if a.valid is None else a.valid
    valid_b = every if b.valid is None else b.valid
    return a.values.tobytes() == b.values.tobytes() and bool((valid_a == valid_b).all())


def _same_strings(a: Column, b: Column) -> bool:
    assert isinstance(a, ArrowColumn)
    assert isinstance(b, ArrowColumn)
    a.array.validate(full=True)
    if a.array.type != b.array.type:
        return False
    if a.array.equals(b.array):
        return True
    # To Arrow a NaN is not equal to itself.
    return pa.types.is_nested(a.array.type) and repr(a.array.to_pylist()) == repr(
        b.array.to_pylist()
    )


def _difference(text: str, columns: Sequence[Column], actual: Column, expected: Column) -> str:
    rows = [
        f"{_rows([c.slice(i, i + 1) for c in columns])}: "
        f"kernel {_show(actual, i)} duckdb {_show(expected, i)}"
        for i in range(len(expected))
        if _show(actual, i) != _show(expected, i)
    ]
    return f"{text}\n" + "\n".join(rows[:10])


def _show(column: Column, i: int) -> str:
    if isinstance(column, ArrowColumn):
        return repr(column.array[i].as_py())
    known = column.valid is None or bool(column.valid[i])
    return f"{column.values[i]} bits {column.values[i : i + 1].tobytes().hex()} valid {known}"


def check_pairs(text: str, types: Sequence[str]) -> None:
    """`check` on every combination of the extreme values of one or two columns."""
    check(text, types, *extreme_pairs(types))


def decided(text: str, types: Sequence[str], *values: Sequence[Any]) -> None:
    """`check`, and the kernel must decide the batch without DuckDB."""
    names = tuple(types)
    columns = [make_column(v, type_of(t)) for v, t in zip(values, names, strict=True)]
    kernel, _ = compiled(text, names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants.Fallback, "column", _refuse)
        kernel(columns, len(columns[0]))
    check_columns(text, names, columns)


def _refuse(*_: object) -> Column:
    raise AssertionError("the batch went to DuckDB")


def check_predicate(text: str, types: Sequence[str], *values: Sequence[Any]) -> None:
    """The mask of a predicate marks the rows that DuckDB's WHERE keeps."""
    names = tuple(type_of(t) for t in types)
    columns = [make_column(v, t) for v, t in zip(values, names, strict=True)]
    predicate = compile_predicate(sqlglot.parse_one(text, dialect="duckdb"), names)
    assert predicate is not None
    count = len(columns[0])
    schema = (("i", BIGINT), *((f"c{i}", t) for i, t in enumerate(names)))
    batch = ZSet((FixedColumn(np.arange(count)), *columns), np.zeros(count, np.int64))
    query = f"SELECT i FROM b WHERE {text} ORDER BY i"
    result = duck.evaluate(connection(), query, {"b": (batch, schema)}, (("i", BIGINT),))
    (rows,) = result.columns
    assert isinstance(rows, FixedColumn)
    assert np.flatnonzero(predicate(columns, count)).tolist() == rows.values.tolist()


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, -7.3, 1e-300, 5e-324, 1e15, 1e17]
_FLOATS += [9007199254740993.0, -9.3e18, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
_SECOND = 1_000_000


def extremes(type_name: str) -> list[Any]:
    """The values at the edges of a type, some plain ones, and NULL."""
    type = type_of(type_name)
    if type.is_integer:
        return [*_integers(type_name), None]
    if type.is_decimal:
        top = 10**type.precision - 1
        ones = 10**type.scale
        near = [sign * (2**53 + step) for sign in (1, -1) for step in (-1, 0, 1, 3, 2**56, 2**70)]
        some = [*near, 0, 1, -1, ones, -ones, ones * 7 // 2, top, -top, top // 10, 5, -15, 149]
        return [*(v for v in some if -top <= v <= top), None]
    if type_name == "DOUBLE":
        return [*_FLOATS, None]
    if type_name == "FLOAT":
        return [*(x for x in _FLOATS if not 3.4e38 < abs(x) < math.inf), 16777217.0, None]
    if type_name == "BOOLEAN":
        return [True, False, None]
    return _times(type_name)


def _integers(name: str) -> list[int]:
    if name.startswith("U"):
        top = 2 ** _BITS[name[1:]] - 1
        return [0, 1, 2, 3, 10, 100, top // 3, top // 2, top // 2 + 1, top - 1, top]
    top = 2 ** (_BITS[name] - 1) - 1
    small = [0, 1, -1, 2, -2, 3, -7, 10, 100, -100]
    return [*small, top // 3, top // 2, -top // 2, top - 1, top, -top, -top - 1]


def _times(name: str) -> list[Any]:
    if name == "DATE":
        days = [0, 1, -1, 18262, 18321, 11016, -719162, -719163, -719528, 2932896, 2932897]
        return [*days, 106751990, 106751991, -106751991, 2**31 - 1, 1 - 2**31, 2**31 - 2, None]
    if name == "TIMESTAMP":
        near = [0, 1, -1, _SECOND, -_SECOND, 86400 * _SECOND, 1583020799999999, 951782400000000]
        far = [
            2**63 - 2,
            -9223372022400000000,
            2**63 - 1,
            1 - 2**63,
            -62135596800000001,
            253402300800000000,
        ]
        return [*near, *far, 1600000000123456, None]
    assert name == "VARCHAR"
    plain = [
        "",
        "a",
        "A",
        "abc",
        "ABC",
        "aBc%",
        "a_c",
        " a b ",
        "ab\nc",
        "\t",
        "100",
        "-5",
        "%",
        "_",
    ]
    odd = [
        "é",
        "É",
        "e\u0301",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "ǅ",
        "ﬁ",
        "Σας",
        "日本語",
        "👨‍👩‍👧",
        "a\u0000b",
        "\x7f",
    ]
    return [*plain, *odd, None]


def values(type_name: str) -> st.SearchStrategy[Any]:
    """Values of a type: extremes, any value, NULL."""
    return st.sampled_from(extremes(type_name)) | _any_value(type_name)


def _any_value(name: str) -> st.SearchStrategy[Any]:
    type = type_of(name)
    if type.is_integer:
        edges = [v for v in extremes(name) if v is not None]
        return _of_any_size(min(edges), max(edges))
    if type.is_decimal:
        return _of_any_size(1 - 10**type.precision, 10**type.precision - 1)
    if type.is_float:
        return st.floats(width=64 if name == "DOUBLE" else 32)
    if name == "VARCHAR":
        return st.text(max_size=8)
    return st.sampled_from(extremes(name))


def _of_any_size(least: int, most: int) -> st.SearchStrategy[int]:
    """Integers of which small ones are as likely as large ones."""
    sizes = st.integers(0, most.bit_length())
    return sizes.flatmap(lambda bits: st.integers(max(least, -(2**bits)), min(most, 2**bits)))


def column_lists(draw: st.DrawFn, types: Sequence[str], most: int = 8) -> list[list[Any]]:
    """One list of values a column, all of one length."""
    count = draw(st.integers(1, most))
    return [draw(st.lists(values(t), min_size=count, max_size=count)) for t in types]


def from_arrow(array: pa.Array, type_name: str) -> Column:
    return column_from_arrow(array, type_of(type_name))
