"""Labels: strings as numbers, which nothing but speed may show."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from ivm.sql.scalar.compile import compile_predicate
from ivm.storage.values import dictionary, thresholds
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    concat,
    dictionary_encoded,
)
from ivm.storage.values.types import type_of

VARCHAR = type_of("VARCHAR")
texts = st.lists(st.none() | st.sampled_from(["", "a", "b", "é", "paid"]), min_size=1, max_size=40)


def strings(values: list[str | None]) -> ArrowColumn:
    return ArrowColumn(pa.array(values, pa.large_string()))


def as_labels(values: list[str | None]) -> DictionaryColumn:
    codes = dictionary.encode(pa.array(values, pa.large_string()), force=True)
    assert codes is not None
    return DictionaryColumn(codes)


@given(texts, st.data())
def test_labels_are_gathered_as_strings_are(values: list[str | None], data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(values) - 1)))
    column = as_labels(values)
    assert column.array.to_pylist() == values
    assert column.take(np.array(places, np.int64)).array.to_pylist() == [values[i] for i in places]
    assert (column.valid is None) == (None not in values)
    assert len(column.slice(0, 1)) == 1


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=6), st.sampled_from([1, 256]))
def test_labels_and_strings_join(parts: list[tuple[list[str | None], bool]], least: int) -> None:
    columns: list[Column] = [as_labels(v) if labelled else strings(v) for v, labelled in parts]
    values = [value for part, _ in parts for value in part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "JOINED_LABELS", least)
        joined = concat(columns)
    assert joined.array.to_pylist() == values  # type: ignore[union-attr]


@pytest.mark.parametrize("sign", ["=", "<>", "<", "IS NOT DISTINCT FROM"])
@given(texts, st.sampled_from(["a", "paid", "never seen"]))
def test_labels_compare_as_strings_do(sign: str, values: list[str | None], word: str) -> None:
    condition = sqlglot.parse_one(f"c0 {sign} '{word}'", dialect="duckdb")
    predicate = compile_predicate(condition, [VARCHAR])
    assert predicate is not None
    count = len(values)
    wanted = predicate([strings(values)], count).tolist()
    assert predicate([as_labels(values)], count).tolist() == wanted


def test_only_texts_that_repeat_become_labels() -> None:
    often = strings([f"status {i % 5}" for i in range(2000)])
    seldom = strings([f"comment {i}" for i in range(2000)])
    assert isinstance(dictionary_encoded(often), DictionaryColumn)
    assert dictionary_encoded(seldom) is seldom
    assert isinstance(
        dictionary_encoded(strings(["status 3"])), DictionaryColumn
    )  # it is known by now
    assert not isinstance(dictionary_encoded(strings(["never seen before"])), DictionaryColumn)
    assert dictionary.encode(pa.array(["x" * 1000] * 2000, pa.large_string())) is None
