"""Key codes, equality, grouping, consolidation and order agree with DuckDB, type by type."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ivm.storage.values import dictionary, hashing
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, column_from_arrow
from ivm.storage.values.consolidate import cancel, consolidate, distinct_rows, group, without_pairs
from ivm.storage.values.equality import equal_pairs, repeats_itself
from ivm.storage.values.key_codes import groupable, key_codes, row_codes, same_key, same_row
from ivm.storage.values.ordering.order import order_codes, orderable
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.duck import describe, evaluate, rows, table
from tests.support.type_values import NAMES, select_values
from tests.tiers import examples

GROUPABLE = [name for name in NAMES if groupable(type_of(name))]
ORDERABLE = [name for name in NAMES if orderable(type_of(name))]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        yield connection


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    """All hashes are 0, 1 or 2."""
    whole = hashing.hash_rows
    monkeypatch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % 3)


def load(duck: duckdb.DuckDBPyConnection, name: str, times: int = 3) -> tuple[ZSet, Any]:
    """NULL and all values of a type, several times over, in an order that is not theirs."""
    query = select_values(name)
    schema = describe(duck, query)
    batch = from_arrow(table(duck, query), schema)
    shuffled = np.random.default_rng(7).permutation(np.repeat(np.arange(len(batch)), times))
    return batch.take(shuffled), schema


def classes_by_duckdb(duck: duckdb.DuckDBPyConnection, batch: ZSet, schema: Any) -> list[int]:
    """Each row's class under GROUP BY, as the least number of a row in it."""
    sql = (
        "WITH numbered AS (SELECT v, row_number() OVER () - 1 AS n FROM lent_rows), "
        "least AS (SELECT v, min(n) AS first FROM numbered GROUP BY v) "
        "SELECT first FROM numbered a JOIN least b ON a.v IS NOT DISTINCT FROM b.v ORDER BY n"
    )
    got = evaluate(duck, sql, {"lent_rows": (batch, schema)}, (("first", type_of("BIGINT")),))
    return list(got.columns[0].values)  # type: ignore[union-attr]


def classes_by_group(columns: Sequence[Column], types: Sequence[ColumnType]) -> list[int]:
    first, inverse = group(columns, types)
    return list(first[inverse])


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("name", GROUPABLE)
def test_group_as_duckdb_groups(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name)
    want = classes_by_duckdb(duck, batch, schema)
    assert classes_by_group(batch.columns, [schema[0][1]]) == want
    few = batch.slice(0, 4)
    assert classes_by_group(few.columns, [schema[0][1]]) == classes_by_duckdb(duck, few, schema)


@pytest.mark.parametrize("name", GROUPABLE)
@pytest.mark.usefixtures("colliding")
def test_group_survives_collisions(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name)
    want = classes_by_duckdb(duck, batch, schema)
    both = [schema[0][1], schema[0][1]]
    assert classes_by_group((*batch.columns, *batch.columns), both) == want


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", GROUPABLE)
def test_same_key_and_codes_follow_the_classes(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name, 1)
    types = [schema[0][1]]
    want = np.array(classes_by_duckdb(duck, batch, schema))
    a, b = (index.ravel() for index in np.indices((len(batch), len(batch))))
    equal = same_key(batch.columns, a, batch.columns, b, types)
    assert equal.tolist() == (want[a] == want[b]).tolist()
    codes = key_codes(batch.columns, types)
    assert (codes.codes[a] == codes.codes[b])[equal].all()
    if codes.exact:  # NULL alone shares a code with another value
        assert codes.null is not None
        known = ~codes.null[a] & ~codes.null[b]
        assert (equal == (codes.codes[a] == codes.codes[b]))[known].all()
    assert (codes.null is not None) == (batch.columns[0].valid is not None)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_the_same_by_their_exact_form(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    """What DuckDB prints differently is another row; so is −0.0 in a list."""
    query = f"SELECT n, v, v::VARCHAR FROM ({select_values(name, numbered=True)})"
    texts = [text for _, _, text in rows(duck, query)]
    batch, schema = load(duck, name, 1)
    batch = from_arrow(table(duck, select_values(name)), schema)
    types = [schema[0][1]]
    a, b = (index.ravel() for index in np.indices((len(batch), len(batch))))
    equal = same_row(batch.columns, a, batch.columns, b, types)
    differ = np.array([texts[i] != texts[j] for i, j in zip(a, b, strict=True)])
    assert not (equal & differ).any()
    assert equal[a == b].all()
    codes = row_codes(batch.columns, types)
    assert (codes[a] == codes[b])[equal].all()


@pytest.mark.parametrize("name", NAMES)
def test_many_rows_are_numbered_by_their_exact_form(
    duck: duckdb.DuckDBPyConnection, name: str
) -> None:
    batch, schema = load(duck, name, 70)
    types = [schema[0][1]]
    for columns in (batch.columns, batch.dictionary_encoded().columns):
        first, inverse = distinct_rows(columns, types)
        assert same_row(columns, first[inverse], columns, np.arange(len(batch)), types).all()
        a, b = (index.ravel() for index in np.triu_indices(len(first), 1))
        assert not same_row(columns, first[a], columns, first[b], types).any()


@pytest.mark.parametrize("name", NAMES)
def test_hashes_do_not_depend_on_the_batch(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    batch, schema = load(duck, name, 60)
    types = [schema[0][1], schema[0][1]]
    for grouping in (True, False):
        whole = hashing.hash_rows(batch.columns * 2, types, grouping)
        for start, stop in ((0, 1), (1, 3), (2, 50), (3, len(batch))):
            part = batch.slice(start, stop)
            assert hashing.hash_rows(part.columns * 2, types, grouping).tolist() == (
                whole[start:stop].tolist()
            )


@pytest.mark.full
def test_hashes_are_the_same_in_every_process() -> None:
    script = (
        "import numpy, pyarrow; from ivm.storage.values import hashing; "
        "from ivm.storage.values.column import *; from ivm.storage.values.types import type_of; "
        "t = pyarrow.array(['', 'a', 'long ' * 50, None] * 30, pyarrow.large_string()); "
        "print(hashing.hash_rows([ArrowColumn(t)], [type_of('VARCHAR')], True)[:4].tolist())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


@pytest.mark.full
def test_hashes_scatter(duck: duckdb.DuckDBPyConnection) -> None:
    """No two of 300 000 different rows collide; low and high bits are both used."""
    query = "SELECT i, i::VARCHAR || 'x' AS s, [i, i + 1] AS l FROM range(300000) t(i)"
    schema = describe(duck, query)
    batch = from_arrow(table(duck, query), schema)
    for i, (_, type) in enumerate(schema):
        codes = hashing.hash_rows(batch.columns[i : i + 1], [type], True)
        assert len(np.unique(codes)) == len(codes)
        assert np.bincount(codes & 15).min() > 0.9 * len(codes) / 16
        assert np.bincount((codes >> 60) + 8).min() > 0.9 * len(codes) / 16


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", ORDERABLE)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_order_as_duckdb_orders(
    duck: duckdb.DuckDBPyConnection, name: str, descending: bool, nulls_first: bool
) -> None:
    batch, schema = load(duck, name)
    sql = (
        f"SELECT dense_rank() OVER (ORDER BY v {'DESC' if descending else 'ASC'} NULLS "
        f"{'FIRST' if nulls_first else 'LAST'}) AS r FROM "
        "(SELECT v, row_number() OVER () AS n FROM lent_rows) ORDER BY n"
    )
    want = evaluate(duck, sql, {"lent_rows": (batch, schema)}, (("r", type_of("BIGINT")),))
    codes = order_codes(batch.columns[0], schema[0][1], descending, nulls_first)
    _, ranks = np.unique(codes, return_inverse=True)
    assert (ranks + 1).tolist() == want.columns[0].values.tolist()  # type: ignore[union-attr]


def test_some_nested_types_cannot_be_ordered_nor_variants_grouped() -> None:
    assert orderable(type_of("STRUCT(a INTEGER[], b MAP(VARCHAR, DOUBLE))[2]"))
    assert not orderable(type_of("UUID[]"))
    assert not orderable(type_of("STRUCT(a INTERVAL)"))
    assert not orderable(type_of("BIT"))
    assert not groupable(type_of("VARIANT"))
    assert not groupable(type_of("STRUCT(a VARIANT[])"))
    assert groupable(type_of("MAP(VARCHAR, DOUBLE[])"))


Row = tuple[int | None, str | None, float | None]
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1, -1]),
    st.sampled_from([None, "", "a", "b", "a" * 80]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 2.0]),
)
TYPES = (type_of("BIGINT"), type_of("VARCHAR"), type_of("DOUBLE"))


def zset(entries: Sequence[tuple[Row, int]]) -> ZSet:
    columns = [
        column_from_arrow(pa.array([row[i] for row, _ in entries], type.arrow), type)
        for i, type in enumerate(TYPES)
    ]
    return ZSet(tuple(columns), np.array([weight for _, weight in entries], np.int64))


def counted(batch: ZSet) -> Counter[str]:
    """The Z-set as a function (repr tells 0.0 from −0.0), entry by entry."""
    arrays = [c.to_arrow(t).to_pylist() for c, t in zip(batch.columns, TYPES, strict=True)]
    total: Counter[str] = Counter()
    for row, weight in zip(zip(*arrays, strict=True), batch.weights.tolist(), strict=True):
        total[repr(row)] += weight
    return total


ENTRIES = st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=40)


def check_consolidate(entries: Sequence[tuple[Row, int]]) -> None:
    batch = zset(entries)
    result = consolidate(batch, TYPES)
    assert counted(result) == Counter({k: v for k, v in counted(batch).items() if v})
    assert len(counted(result)) == len(result)
    assert (result.weights != 0).all()


@given(ENTRIES)
@settings(deadline=None)
def test_consolidate_is_the_same_function(entries: list[tuple[Row, int]]) -> None:
    check_consolidate(entries)


def check_cancel(entries: Sequence[tuple[Row, int]]) -> None:
    """No row keeps both signs; labels or not, fixed columns or none."""
    batch = zset(entries)
    codes = dictionary.encode(batch.columns[1].array, force=True) if entries else None  # type: ignore[union-attr]
    forms = [batch.columns[1]] if codes is None else [batch.columns[1], DictionaryColumn(codes)]
    for text in forms:
        columns = (batch.columns[0], text, batch.columns[2])
        result = cancel(ZSet(columns, batch.weights), TYPES)
        assert +counted(result) == +counted(batch)
        assert -counted(result) == -counted(batch)
        plus, minus = result.filter(result.weights > 0), result.filter(result.weights < 0)
        assert not counted(plus).keys() & counted(minus).keys()
    alone = ZSet((batch.columns[1],), batch.weights)
    result = consolidate(cancel(alone, TYPES[1:2]), TYPES[1:2])
    assert len(result) == len(consolidate(alone, TYPES[1:2]))


@given(ENTRIES)
@settings(max_examples=examples(50), deadline=None)
def test_cancel_is_the_same_function(entries: list[tuple[Row, int]]) -> None:
    check_cancel(entries)


@given(ENTRIES)
@settings(max_examples=examples(50), deadline=None)
def test_consolidate_survives_collisions(entries: list[tuple[Row, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = hashing.hash_rows
        patch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % 2)
        check_consolidate(entries)
        check_cancel(entries)


@given(ENTRIES)
@settings(deadline=None, max_examples=examples(50))
def test_labels_are_their_strings(entries: list[tuple[Row, int]]) -> None:
    """Strings held as label numbers hash, group, consolidate and compare as the strings do."""
    plain = zset(entries)
    strings = plain.columns[1]
    assert isinstance(strings, ArrowColumn)
    codes = dictionary.encode(strings.array, force=True)
    assume(codes is not None)  # some strings are too long for a label
    assert codes is not None
    held = DictionaryColumn(codes)
    batch = ZSet((plain.columns[0], held, plain.columns[2]), plain.weights)
    assert held.to_arrow(TYPES[1]).equals(strings.array)
    assert row_codes(batch.columns, TYPES).tolist() == row_codes(plain.columns, TYPES).tolist()
    assert counted(consolidate(batch, TYPES)) == counted(consolidate(plain, TYPES))
    assert classes_by_group([held], TYPES[1:2]) == classes_by_group([strings], TYPES[1:2])
    every = np.arange(len(batch))
    assert same_row([held], every, [strings], every, TYPES[1:2]).all()
    ranks = [order_codes(column, TYPES[1], True, False) for column in (held, strings)]
    assert ranks[0].tolist() == ranks[1].tolist()


UPDATES = st.lists(
    st.tuples(ROWS, ROWS, st.sampled_from([1, 1, 2, 0, -1]), st.booleans()), max_size=20
)


@given(UPDATES, ENTRIES)
@settings(max_examples=examples(100), deadline=None)
def test_pairs_cancel(updates: list[tuple[Row, Row, int, bool]], more: list[Any]) -> None:
    """Row i and row n + i go where they are the same with opposite weights, and no others."""
    old = [(row, -weight) for row, _, weight, _ in updates]
    new = [(row if same else other, weight) for row, other, weight, same in updates]
    batch, n = zset([*old, *new, *more]), len(updates)
    result = without_pairs(batch, TYPES, n)
    assert counted(consolidate(result, TYPES)) == counted(consolidate(batch, TYPES))
    equal = [repr(a[0]) == repr(b[0]) for a, b in zip(old, new, strict=True)]
    if n:
        assert len(result) == len(batch) - 2 * sum(equal)
        halves = [[c.slice(i, i + n) for c in batch.columns] for i in (0, n)]
        assert equal_pairs(halves[0], halves[1], TYPES).tolist() == equal
        both = [c.slice(0, 2 * n) for c in batch.columns]
        assert repeats_itself(both, TYPES) == all(equal)


def test_pairs_without_columns() -> None:
    assert without_pairs(ZSet((), np.array([-1, 1])), (), 1).weights.tolist() == []


def test_an_odd_number_of_rows_does_not_repeat() -> None:
    assert not repeats_itself(zset([((0, "a", 1.0), 1)] * 3).columns, TYPES)
    assert not repeats_itself(zset([]).columns, TYPES)


def test_consolidate_without_columns() -> None:
    assert consolidate(ZSet((), np.array([2, -1])), ()).weights.tolist() == [1]
    assert consolidate(ZSet((), np.array([1, -1])), ()).weights.tolist() == []
    assert consolidate(ZSet((), np.array([0])), ()).weights.tolist() == []


@given(st.lists(ROWS, max_size=40))
@settings(deadline=None)
def test_group_numbers_first_occurrences(given_rows: list[Row]) -> None:
    """Dense, and each group's first row leads it."""
    columns = zset([(row, 1) for row in given_rows]).columns
    first, inverse = group(columns, TYPES)
    assert sorted(set(inverse.tolist())) == list(range(len(first)))
    seen: dict[str, int] = {}
    for i, row in enumerate(given_rows):
        key = repr(row).replace("-0.0", "0.0")
        assert first[inverse[i]] == seen.setdefault(key, i)
