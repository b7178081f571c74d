"""Arrangements agree with a dictionary and with DuckDB after any history."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.arrangement import (
    background,
    bloom,
    build,
    first_rows,
    late_run,
    merger,
    run,
    run_cursors,
    spine,
    write_buffer,
)
from ivm.storage.arrangement.arrangement import Arrangement, Layout, Matches, OrderKey
from ivm.storage.arrangement.bound import Bound
from ivm.storage.errors import InternalError, UnsupportedError
from ivm.storage.state.pickles import dump, load
from ivm.storage.values import dictionary, hashing, thresholds
from ivm.storage.values.column import DictionaryColumn, FixedColumn, column_from_arrow
from ivm.storage.values.key_codes import groupable, key_codes
from ivm.storage.values.ordering.order import orderable
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import describe, evaluate, table
from tests.support.type_values import NAMES, select_values
from tests.tiers import examples

TYPES = (type_of("BIGINT"), type_of("VARCHAR"), type_of("DOUBLE"))
GROUPABLE = [name for name in NAMES if groupable(type_of(name))]

Row = tuple[int | None, str | None, float | None]
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 0, 1, 7]),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 2.0, -1.5]),
)
BATCHES = st.lists(st.tuples(ROWS, st.sampled_from([1, 1, 1, -1, 2, -2])), min_size=1, max_size=12)
HISTORIES = st.lists(BATCHES, min_size=1, max_size=12)
KEYS = st.sampled_from([(0,), (1,), (2,), (0, 1), (2, 1), (0, 1, 2)])
ORDER_KEYS = st.builds(OrderKey, st.integers(0, 2), st.booleans(), st.booleans())


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """A tail of 8 rows, merges in the background from 24 rows on, directories from 4 probes on.

    Batches of 10 rows are sorted late. Filters from 4 keys on, of runs below 48 rows; one of 20
    rows is full.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_buffer, "TAIL_ROWS", 8)
        patch.setattr(spine, "FOREGROUND_ROWS", 24)
        patch.setattr(background, "LONG_ROWS", 100)
        patch.setattr(thresholds, "PROBES", 3)
        patch.setattr(run, "SHORT_ROWS", 48)
        patch.setattr(thresholds, "LATE_ROWS", 10)
        patch.setattr(thresholds, "HALVED_KEYS", 2)
        patch.setattr(thresholds, "FILTERED_KEYS", 4)
        patch.setattr(bloom, "_FIRST", 16)
        patch.setattr(build, "_STRETCH", 4)
        yield


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        yield connection


def zset(entries: Sequence[tuple[Row, int]]) -> ZSet:
    """The entries, the strings of every other batch as labels."""
    columns = [
        column_from_arrow(pa.array([row[i] for row, _ in entries], type.arrow), type)
        for i, type in enumerate(TYPES)
    ]
    if len(entries) % 2:
        codes = dictionary.encode(columns[1].array, force=True)  # type: ignore[union-attr]
        assert codes is not None
        columns[1] = DictionaryColumn(codes)
    return ZSet(tuple(columns), np.array([weight for _, weight in entries], np.int64))


def listed(rows: ZSet) -> list[Row]:
    arrays = [c.to_arrow(t).to_pylist() for c, t in zip(rows.columns, TYPES, strict=True)]
    return list(zip(*arrays, strict=True))


def exact(row: Row) -> str:
    """Equal for rows with the same representation only."""
    return repr(row)


def grouped(row: Row, key: Sequence[int]) -> str:
    """Equal for rows whose keys SQL groups together."""
    return repr([row[i] for i in key]).replace("-0.0", "0.0")


def net(matches: Matches) -> dict[tuple[int, str], int]:
    total: Counter[tuple[int, str]] = Counter()
    probes, weights = matches.probe.tolist(), matches.rows.weights.tolist()
    for probe, row, weight in zip(probes, listed(matches.rows), weights, strict=True):
        total[probe, exact(row)] += weight
    return {key: weight for key, weight in total.items() if weight}


class Model:
    """The same Z-set as a dictionary."""

    def __init__(self, key: Sequence[int]) -> None:
        self.key = key
        self.weights: Counter[str] = Counter()
        self.rows: dict[str, Row] = {}

    def append(self, entries: Sequence[tuple[Row, int]]) -> None:
        for row, weight in entries:
            self.weights[exact(row)] += weight
            self.rows[exact(row)] = row

    def lookup(self, probes: Sequence[Row]) -> dict[tuple[int, str], int]:
        return {
            (i, name): weight
            for i, probe in enumerate(probes)
            for name, weight in self.weights.items()
            if weight and grouped(self.rows[name], self.key) == grouped(probe, self.key)
        }


def probe(key: Sequence[int], rows: Sequence[Row]) -> list[Any]:
    columns = zset([(row, 1) for row in rows]).columns
    return [columns[i] for i in key]


def check_lookups(store: Arrangement, model: Model, probes: Sequence[Row]) -> None:
    keys = probe(model.key, probes)
    want = model.lookup(probes)
    assert net(store.lookup(keys)) == want
    assert net(store.lookup(keys, key_codes(keys, store.layout.key_types))) == want
    live = store.lookup_live(keys)
    assert (live.rows.weights > 0).all()
    assert net(live) == {key: weight for key, weight in want.items() if weight > 0}


@pytest.mark.full
@given(HISTORIES, KEYS, st.lists(ROWS, min_size=1, max_size=30), st.sampled_from([1, 2, 2**64]))
@settings(max_examples=examples(150), deadline=None)
def test_lookup_after_any_history(
    history: list[list[tuple[Row, int]]], key: tuple[int, ...], probes: list[Row], hashes: int
) -> None:
    """Also when all hashes are equal, or one of two."""
    with pytest.MonkeyPatch.context() as patch:
        whole = hashing.hash_rows
        if hashes < 2**64:
            patch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % hashes)
        store, model = Arrangement.empty(Layout(TYPES, key)), Model(key)
        for i, entries in enumerate(history):
            store = store.append(zset(entries))
            model.append(entries)
            check_lookups(store, model, probes[i : i + 1])
        check_lookups(store, model, probes)
        built = Arrangement.build(Layout(TYPES, key), [zset(entries) for entries in history])
        check_lookups(built, model, probes)


@pytest.mark.full
@given(HISTORIES, HISTORIES, st.sampled_from([(0,), (1,), (1, 0)]), st.lists(ROWS, min_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_a_column_of_nulls_comes_later(
    narrow: list[list[tuple[Row, int]]],
    wide: list[list[tuple[Row, int]]],
    key: tuple[int, ...],
    probes: list[Row],
) -> None:
    store, model = Arrangement.empty(Layout(TYPES[:2], key)), Model(key)
    for entries in narrow:
        batch = zset(entries)
        store = store.append(ZSet(batch.columns[:2], batch.weights))
        model.append([((*row[:2], None), weight) for row, weight in entries])
    old, store = store, store.with_nulls(TYPES[2:])
    check_lookups(store, model, probes)
    for entries in wide:
        store = store.append(zset(entries))
        model.append(entries)
        check_lookups(store, model, probes)
    assert len(old.lookup(probe(key, probes)).rows.columns) == 2


NUMBERS = st.sampled_from([0.0, -0.0, float("nan"), 1.5, 2.5, 3.5])
TEXTS = st.sampled_from([None, "a", "b"])
STEPS = st.lists(
    st.lists(st.tuples(NUMBERS, st.booleans(), TEXTS), min_size=1, max_size=14), max_size=14
)


@pytest.mark.full
@given(
    STEPS,
    st.sampled_from([(2,), (1, 2), (0,)]),
    st.integers(1, 6),
    st.booleans(),
    st.lists(st.booleans(), min_size=1, max_size=7),
)
@settings(max_examples=examples(300), deadline=None)
def test_latest_row_of_unique_keys(
    steps: list[list[tuple[float, bool, str | None]]],
    key: tuple[int, ...],
    probes: int,
    meet: bool,
    told: list[bool],
) -> None:
    """Rows come, change and go by key, also several times in a batch and back to old values.

    Where hashes `meet`, there are two of them for all keys. What a row was before is `told` of some
    updates only.
    """
    search_codes = Layout.search_codes

    def codes(layout: Layout, keys: Any, known: Any = None) -> Any:
        found = search_codes(layout, keys, known)
        return found if layout.exact or not meet else found % 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "search_codes", codes)
        check_latest(steps, key, probes, itertools.cycle(told))


_PLACES = [0.0, 1.5, 9.0, float("nan"), 3.5, 2.5, -0.0]


def keyed_row(number: float, text: str | None, key: tuple[int, ...]) -> Row:
    """A row whose key is told by a number, and its other column by a text."""
    if key == (0,):
        return ([repr(place) for place in _PLACES].index(repr(number)), text, number)
    return (len(text or ""), "k", number)


def check_latest(
    steps: list[list[tuple[float, bool, str | None]]],
    key: tuple[int, ...],
    probes: int,
    told: Iterator[bool],
) -> None:
    store = Arrangement.empty(Layout(TYPES, key, unique=True))
    rows: dict[str, Row] = {}
    asked = [keyed_row(number, "", key) for number in _PLACES[:probes]]
    for step in steps:
        entries: list[tuple[Row, int]] = []
        for number, comes, text in step:
            row = keyed_row(number, text, key)
            name = grouped(row, key)
            if name in rows:
                old = rows.pop(name)
                if not comes or next(told):
                    entries.append((old, -1))
            if comes:
                rows[name] = row
                entries.append((row, 1))
        if entries:
            store = store.append(zset(entries))
        found = store.latest(probe(key, asked))
        want = {
            (i, exact(rows[grouped(p, key)])): 1
            for i, p in enumerate(asked)
            if grouped(p, key) in rows
        }
        assert net(found) == want
        assert found.rows.weights.tolist() == [1] * len(want)
        if key == (0,):
            check_between(store, list(rows.values()))


def check_between(store: Arrangement, rows: Sequence[Row]) -> None:
    (low,), (high,) = probe((0,), [(1, None, None)]), probe((0,), [(3, None, None)])
    found = store.between(low, high, 1000)
    assert found is not None
    want = Counter(exact(row) for row in rows if row[0] is not None and 1 <= row[0] <= 3)
    assert Counter(map(exact, listed(found))) == want
    assert found.weights.tolist() == [1] * len(found)


def test_rows_between_bounds_are_counted_not_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were updated again and again are few, whatever has not been merged yet."""
    monkeypatch.setattr(spine, "schedule", merger.Merge)
    store = Arrangement.empty(Layout(TYPES, (0,), unique=True))
    for step in range(9):
        store = store.append(zset([((i, "x", float(step)), 1) for i in range(20)]))
    assert store.row_count == 9 * 20
    found = store.between(None, None, 20)
    assert found is not None
    assert sorted(listed(found)) == [(i, "x", 8.0) for i in range(20)]
    assert store.between(None, None, 19) is None
    others = store.append(zset([((i, "y", 9.0), 1) for i in range(0, 20, 2)]))
    found = others.between(None, None, 20)
    assert found is not None
    assert sorted(row[1] for row in listed(found)) == ["x"] * 10 + ["y"] * 10  # type: ignore[type-var]


def test_most_keys_are_kept_from_short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup of keys of the long run alone asks the short ones for almost none of them."""
    monkeypatch.setattr(spine, "schedule", merger.Merge)
    monkeypatch.setattr(thresholds, "LATE_ROWS", run.SHORT_ROWS)
    rows: list[tuple[Row, int]] = [((i, None, None), 1) for i in range(300)]
    store = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)])
    for i in range(4):
        store = store.append(zset([((10 * j + i, "new", None), 1) for j in range(30)]))
    assert len(store.runs) == 5
    asked: list[int] = []
    whole = run.Run.find_ranges

    def watched(self: run.Run, probes: Any) -> Any:
        asked.append(len(probes))
        return whole(self, probes)

    monkeypatch.setattr(run.Run, "find_ranges", watched)
    keys = probe((0,), [(10 * j + 7, None, None) for j in range(30)])
    assert len(store.lookup(keys).probe) == 30
    assert sum(asked) < 30 + 4 * 15


def test_what_a_long_run_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter never heard of its rows, also when merges leave few of them in a short one."""
    monkeypatch.setattr(bloom, "_FIRST", 1 << 12)
    rows: list[tuple[Row, int]] = [((2 * i, None, None), 1) for i in range(60)]
    new: list[tuple[Row, int]] = [((14 * i + 1, None, None), 1) for i in range(9)]
    store = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)])
    gone = zset(rows[:50]).negate()
    for part in (zset(new), gone.slice(0, 25), gone.slice(25, 50), zset(new), zset(new)):
        store = store.append(part)
        for merge in store._spine.merges:
            merge.result()
    assert len(store.runs) > 1
    assert max(len(run) for run in store.runs) < 48
    assert len(store.lookup(probe((0,), [row for row, _ in rows])).probe) == 10


def first_by_model(
    model: Model,
    order: Sequence[OrderKey],
    probes: Sequence[Row],
    k: int,
    duck: Any,
    *,
    backwards: bool,
    beyond: Callable[[int, Row], bool] = lambda probe, row: True,
) -> list[tuple[int, str, int]]:
    """First live rows as DuckDB orders them; rows that DuckDB holds equal by their bits."""
    entries = [(i, model.rows[n], w) for (i, n), w in model.lookup(probes).items() if w > 0]
    entries = [entry for entry in entries if beyond(*entry[:2])]
    if not entries:
        return []
    batch = zset([(row, 1) for _, row, _ in entries])
    names = ("a", "b", "c")
    terms = [
        f"{names[o.column]} {'DESC' if o.descending else 'ASC'} "
        f"NULLS {'FIRST' if o.nulls_first else 'LAST'}"
        for o in order
    ]
    terms += [f"{name} ASC NULLS LAST" for name in names] + ["signbit(c) DESC"]
    sql = (
        f"SELECT row_number() OVER (ORDER BY {', '.join(terms)}) AS r FROM "
        "(SELECT *, row_number() OVER () AS n FROM lent_rows) ORDER BY n"
    )
    schema = tuple(zip(names, TYPES, strict=True))
    ranks = evaluate(duck, sql, {"lent_rows": (batch, schema)}, (("r", TYPES[0]),)).columns[0]
    numbers = ranks.values.tolist()  # type: ignore[union-attr]
    ordered = sorted(
        zip(entries, numbers, strict=True), key=lambda e: (e[0][0], -e[1] if backwards else e[1])
    )
    result, left = [], dict.fromkeys(range(len(probes)), k)
    for (i, row, weight), _ in ordered:
        if left[i] > 0:
            result.append((i, exact(row), min(weight, left[i])))
            left[i] -= weight
    return result


@pytest.mark.full
@given(
    HISTORIES,
    KEYS,
    st.lists(ORDER_KEYS, min_size=1, max_size=3),
    st.lists(ROWS, min_size=1, max_size=6),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([1, 2**64]),
    st.sampled_from([0, 64]),
)
@settings(max_examples=examples(100), deadline=None)
def test_first_after_any_history(
    duck: duckdb.DuckDBPyConnection,
    history: list[list[tuple[Row, int]]],
    key: tuple[int, ...],
    order: list[OrderKey],
    probes: list[Row],
    k: int,
    hashes: int,
    unrecorded: int,
) -> None:
    """Each version is read, so what one leaves on record as cancelled is used by the next ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_rows, "CANCELLED_ROWS", unrecorded)
        whole = hashing.hash_rows
        if hashes == 1:
            patch.setattr(hashing, "hash_rows", lambda *given: whole(*given) % 1)
        store = Arrangement.empty(Layout(TYPES, key, tuple(order)))
        model = Model(key)
        for entries in history:
            store = store.append(zset(entries))
            model.append(entries)
            store.first(probe(key, probes), k)
            store.first(probe(key, probes), k, backwards=True)
        check_lookups(store, model, probes)
        for backwards in (False, True):
            found = store.first(probe(key, probes), k, backwards=backwards)
            names = [exact(row) for row in listed(found.rows)]
            got = list(zip(found.probe.tolist(), names, found.rows.weights.tolist(), strict=True))
            assert got == first_by_model(model, order, probes, k, duck, backwards=backwards)


BOUNDS = st.tuples(st.sampled_from([0, 1, 7]), st.sampled_from(["", "a", "b"]),
                   st.sampled_from([0.0, -0.0, float("nan"), 2.0, -1.5]))  # fmt: skip


@given(
    HISTORIES,
    KEYS,
    st.lists(ORDER_KEYS, min_size=1, max_size=3),
    st.lists(st.tuples(ROWS, BOUNDS), min_size=1, max_size=6),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([0, 2**64]),
    st.sampled_from([[0, 1, 2], [2], [1, 0]]),
)
@settings(max_examples=examples(150), deadline=None)
def test_first_from_a_bound_on(
    duck: duckdb.DuckDBPyConnection,
    history: list[list[tuple[Row, int]]],
    key: tuple[int, ...],
    order: list[OrderKey],
    probes: list[tuple[Row, Row]],
    k: int,
    strict: bool,
    few: int,
    wanted: list[int],
) -> None:
    order[0] = replace(order[0], descending=False, nulls_first=False)
    column, rows = order[0].column, [row for row, _ in probes]
    bound = Bound(zset([(row, 1) for _, row in probes]).columns[column], strict)
    model, store = Model(key), Arrangement.empty(Layout(TYPES, key, tuple(order)))
    for entries in history:
        store = store.append(zset(entries))
        model.append(entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "FIRST_KEYS", few)
        for backwards in (False, True):
            read = partial(store.first, probe(key, rows), k, bound=bound, backwards=backwards)
            found = read()
            names = [exact(row) for row in listed(found.rows)]
            got = list(zip(found.probe.tolist(), names, found.rows.weights.tolist(), strict=True))
            less = partial(_is_read, probes, column, strict, backwards)
            want = first_by_model(model, order, rows, k, duck, backwards=backwards, beyond=less)
            assert got == want
            some = read(wanted=wanted).rows
            assert shown(some, wanted) == shown(found.rows.project(wanted), wanted)


def shown(rows: ZSet, positions: Sequence[int]) -> list[str]:
    """Rows of some columns."""
    given = zip(rows.columns, [TYPES[i] for i in positions], strict=True)
    return [repr(column.to_arrow(type).to_pylist()) for column, type in given]


def _is_read(
    probes: Sequence[tuple[Row, Row]], column: int, strict: bool, backwards: bool, i: int, row: Row
) -> bool:
    """Whether a row is at or beyond a probe's bound; NaN is greater than all numbers."""
    value, bound = row[column], probes[i][1][column]
    if value is None:
        return False
    mine, other = [(v != v, 0 if v != v else v) for v in (value, bound)]
    mine, other = (other, mine) if backwards else (mine, other)
    return bool(mine > other) if strict else bool(mine >= other)


@pytest.mark.parametrize("name", GROUPABLE)
def test_every_type_as_key_and_value(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    """Alone and beside a string; appended, built, retracted."""
    query = select_values(name, numbered=True)
    schema = describe(duck, query)
    batch = from_arrow(table(duck, query), schema)
    types = tuple([type for _, type in schema])
    join = (
        "SELECT p.n AS p, s.n AS s "
        "FROM lent_rows p JOIN lent_rows s ON p.v IS NOT DISTINCT FROM s.v"
    )
    pairs = (("p", TYPES[0]), ("s", TYPES[0]))
    found = evaluate(duck, join, {"lent_rows": (batch, schema)}, pairs)
    want = sorted(zip(*[c.values.tolist() for c in found.columns], strict=True))  # type: ignore[union-attr]
    for key in ((1,), (1, 0)):
        store = Arrangement.empty(Layout(types, key))
        one, rest = batch.slice(0, 1), batch.slice(1, len(batch))
        for part in (one, batch, one.negate(), rest):
            store = store.append(part)
        expected = want if key == (1,) else [(i, i) for i in range(len(batch))]
        found_pairs = pairs_of(store.lookup([batch.columns[i] for i in key]))
        assert found_pairs == [(p, s, 1 + (s > 0)) for p, s in expected]
        store = store.append(add([batch, rest]).negate())
        assert pairs_of(store.lookup([batch.columns[i] for i in key])) == []


@pytest.mark.parametrize("name", [name for name in NAMES if orderable(type_of(name))])
@pytest.mark.parametrize("descending", [False, True])
def test_every_type_in_order(duck: duckdb.DuckDBPyConnection, name: str, descending: bool) -> None:
    """Rows that arrive in any order, in runs that are merged, come back as DuckDB sorts them."""
    query = select_values(name, numbered=True)
    schema = describe(duck, query)
    batch = from_arrow(table(duck, query), schema)
    types = (*[type for _, type in schema], TYPES[0])
    key = FixedColumn(np.zeros(len(batch), np.int64))
    keyed = ZSet((*batch.columns, key), batch.weights)
    store = Arrangement.empty(Layout(types, (2,), (OrderKey(1, descending, descending),)))
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(batch))
        store = store.append(keyed.take(order))
    found = store.first([key.slice(0, 1)], 10**6)
    sql = f"SELECT n FROM lent_rows ORDER BY v {'DESC NULLS FIRST' if descending else ''}, n"
    want = evaluate(duck, sql, {"lent_rows": (batch, schema)}, (("n", TYPES[0]),))
    assert numbers(found.rows) == numbers(want)
    assert found.rows.weights.tolist() == [6] * len(batch)
    for backwards, rows in ((False, numbers(want)), (True, numbers(want)[::-1])):
        read = store.first([key.slice(0, 1)], 7, backwards=backwards)
        assert numbers(read.rows) == rows[:2]
        assert read.rows.weights.tolist() == [6, 1]


def numbers(rows: ZSet) -> list[int]:
    return list(rows.columns[0].values)  # type: ignore[union-attr]


def test_versions_are_read_while_newer_ones_grow() -> None:
    """Readers of a version see it unchanged beside a writer that appends to it."""
    rows: list[tuple[Row, int]] = [((i % 5, str(i), None), 1) for i in range(5)]
    store = Arrangement.empty(Layout(TYPES, (0,))).append(zset(rows))
    keys = probe((0,), [(i, None, None) for i in range(5)])
    version, want, stop = store, net(store.lookup(keys)), threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            got = net(version.lookup(keys))
            if got != want:
                wrong.append(got)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(300):
        store = store.append(zset([((i % 5, f"new {i}", float(i)), 1)]))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def pairs_of(matches: Matches) -> list[tuple[int, int, int]]:
    total: Counter[tuple[int, int]] = Counter()
    numbers = matches.rows.columns[0].values  # type: ignore[union-attr]
    for pair in zip(matches.probe.tolist(), numbers.tolist(), matches.rows.weights, strict=True):
        total[pair[:2]] += int(pair[2])
    return sorted((p, s, weight) for (p, s), weight in total.items() if weight)


@given(HISTORIES, KEYS, st.lists(ROWS, min_size=1, max_size=5))
@settings(max_examples=examples(50), deadline=None)
def test_old_versions_stay_readable(
    history: list[list[tuple[Row, int]]], key: tuple[int, ...], probes: list[Row]
) -> None:
    """Two branches grow from every version; each shows what it showed when it was new."""
    versions: list[tuple[Arrangement, dict[tuple[int, str], int]]] = []
    store, model = Arrangement.empty(Layout(TYPES, key)), Model(key)
    keys = probe(key, probes)
    for entries in history:
        branch = store.append(zset([(row, 5) for row, _ in entries]))
        versions.append((branch, net(branch.lookup(keys))))
        store = store.append(zset(entries))
        model.append(entries)
        versions.append((store, model.lookup(probes)))
    for version, want in versions:
        assert net(version.lookup(keys)) == want


@pytest.mark.full
@pytest.mark.parametrize("order", [(), (OrderKey(2, True, False),)])
@pytest.mark.parametrize("late", [False, True])
def test_merges_change_nothing_that_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, order: tuple[OrderKey, ...], late: bool
) -> None:
    """Whether merges end at once or long after, results are the same and runs are bounded."""
    gate = threading.Event()
    whole = build.merge_runs

    def held(layout: Layout, runs: Sequence[run.Run], *, oldest: bool) -> run.Run:
        gate.wait(0.002)
        return whole(layout, runs, oldest=oldest)

    monkeypatch.setattr(merger, "merge_runs", held if late else whole)
    rng = np.random.default_rng(3)
    values = [None, 0.0, -0.0, 1.0, float("nan")]
    store, model = Arrangement.empty(Layout(TYPES, (0,), order)), Model((0,))
    for _ in range(120):
        entries = [
            ((int(rng.integers(20)), "x" * int(rng.integers(3)), values[rng.integers(5)]), int(w))
            for w in rng.choice([1, 1, -1], int(rng.integers(1, 30)))
        ]
        store = store.append(zset(entries))
        model.append(entries)
        assert len(store.runs) <= spine.MOST_RUNS
    gate.set()
    probes: list[Row] = [(i, None, None) for i in range(20)]
    check_lookups(store, model, probes)
    store = store.append(zset([((99, None, None), 1)]))
    check_lookups(store, model, probes)


def test_a_directory_of_a_long_run_is_made_when_it_has_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "SHORT_ROWS", 0)
    monkeypatch.setattr(run, "_PAID", 1)
    rows: list[tuple[Row, int]] = [((i // 2, None, None), 1) for i in range(600)]
    store = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)])
    (only,) = store.runs
    wanted = probe((0,), [row for row, _ in rows[:260]])
    for made in (False, False, True, True):
        assert len(store.lookup(wanted).probe) == 2 * 260
        assert only.searched == made


def test_a_directory_of_a_very_long_run_is_made_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SHORT_ROWS", 0)
    monkeypatch.setattr(run, "_PAID", 1)
    monkeypatch.setattr(run, "ASIDE_ROWS", 500)
    jobs = list[Any]()
    monkeypatch.setattr(run, "do_aside", lambda job, rows, *, urgent: jobs.append(job))
    rows: list[tuple[Row, int]] = [((i // 2, None, None), 1) for i in range(600)]
    store = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)])
    (only,) = store.runs
    wanted = probe((0,), [row for row, _ in rows[:260]])
    for made in (0, 0, 1, 1):
        assert len(store.lookup(wanted).probe) == 2 * 260
        assert len(jobs) == made
        assert not only.searched
    monkeypatch.undo()
    background.do_aside(jobs[0], 600, urgent=True)
    deadline = time.monotonic() + 20
    while not only.searched and time.monotonic() < deadline:
        time.sleep(0.001)
    assert only.searched
    assert len(store.lookup(wanted).probe) == 2 * 260


def test_a_merged_run_is_ready_for_many_keys() -> None:
    """The spine makes its directory where lookups had made those of its parts."""
    rows: list[tuple[Row, int]] = [((i, None, None), 1) for i in range(40)]
    for probes, ready in ((rows, True), (rows[:1], False)):
        store = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)])
        store.lookup(probe((0,), [row for row, _ in probes]))
        (merge,) = store.append(zset(rows))._spine.merges
        assert merge.result().searched == ready


def test_cancelled_rows_are_given_back() -> None:
    """After everything is retracted and merged, nothing is left."""
    entries: list[tuple[Row, int]] = [((i, str(i), float(i)), 1) for i in range(500)]
    store = Arrangement.build(Layout(TYPES, (0,)), [zset(entries)])
    assert store.row_count == 500
    store = store.append(zset(entries[:100]).negate()).append(zset(entries[100:]).negate())
    assert store.row_count <= 1000
    for _ in range(50):
        for merge in store._spine.merges:
            merge.result()
        for weight in (1, -1):
            store = store.append(zset([((1000, None, None), weight)]))
    assert store.row_count < 100
    assert store.nbytes < 10_000


@given(st.lists(BATCHES, min_size=2, max_size=4), st.sampled_from([(0,), (1,), (2, 1)]))
@settings(max_examples=examples(100), deadline=None)
def test_a_merge_is_the_sum(batches: list[list[tuple[Row, int]]], key: tuple[int, ...]) -> None:
    layout = Layout(TYPES, key)
    runs = [build.build_run(layout, zset(batch)) for batch in batches]
    merged = build.merge_runs(layout, runs)
    total: Counter[str] = Counter()
    for row, weight in [entry for batch in batches for entry in batch]:
        total[exact(row)] += weight
    found: Counter[str] = Counter()
    whole = merged.slice(0, len(merged))
    for row, weight in zip(listed(whole), whole.weights.tolist(), strict=True):
        found[exact(row)] += weight
    assert {r: w for r, w in found.items() if w} == {r: w for r, w in total.items() if w}
    assert (merged.codes[1:] >= merged.codes[:-1]).all()


@pytest.mark.parametrize("text", ["a", None])
def test_a_chain_of_updates_is_cancelled_without_hashes(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Of each key −oldest and +newest stay, in this order, also where a value comes back."""
    hashed: list[int] = []
    monkeypatch.setattr(build, "_sum_up", lambda *given: hashed.append(len(given[-1])))
    layout = Layout(TYPES, (0,))
    values = [1.0, 2.0, 1.0, 1.0, 3.0]
    chain = [[(k, text, v) for k in range(30)] for v in values]
    batches = [
        [*[(row, -1) for row in old], *[(row, 1) for row in new]]
        for old, new in itertools.pairwise(chain)
    ]
    runs = [build.build_run(layout, zset(batch)) for batch in batches]
    merged = build.merge_runs(layout, runs)
    assert not any(hashed)
    assert listed(merged.slice(0, 2)) == [(0, text, 1.0), (0, text, 3.0)]
    assert len(merged) == 60
    assert merged.weights is not None
    assert merged.weights.tolist() == [-1, 1] * 30


def test_plain_runs_store_nothing_twice() -> None:
    """Weights of one are not stored, and an integer key is its own code."""
    entries: list[tuple[Row, int]] = [((i, None, float(i)), 1) for i in range(100)]
    (run,) = Arrangement.build(Layout(TYPES, (0,)), [zset(entries)]).runs
    assert run.weights is None
    assert np.shares_memory(run.codes, run.columns[0].values)  # type: ignore[union-attr]


@pytest.mark.parametrize("keys", [1, 2])
def test_first_touches_only_heads(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """The best of 10 000 rows costs a row a run, not the group; one key is looked up by itself."""
    taken: list[int] = []
    entries: list[tuple[Row, int]] = [((1, None, float(i)), 1) for i in range(10_000)]
    store = Arrangement.build(Layout(TYPES, (0,), (OrderKey(2, True, False),)), [zset(entries)])
    store = store.append(zset([((1, None, float(i)), -1) for i in range(9_995, 10_000)]))
    watch_reads(monkeypatch, taken)
    found = store.first(probe((0,), [(1, None, None), (2, None, None)][:keys]), 1)
    assert listed(found.rows) == [(1, None, 9_994.0)]
    assert 0 < sum(taken) < 60


@pytest.mark.full
@pytest.mark.parametrize("stuck", [0, 3])
@pytest.mark.parametrize("backwards", [False, True])
def test_first_passes_each_cancelled_row_once(
    monkeypatch: pytest.MonkeyPatch, stuck: int, backwards: bool
) -> None:
    """A queue: rows go from the front, some stay there; a read costs what has gone since the last.

    What merges of runs make anew is read again: the logarithm of the number of changes.
    """
    taken: list[int] = []
    total, popped = 40_000, 200
    order = OrderKey(2, backwards, False)
    rows: list[tuple[Row, int]] = [((1, None, float(i)), 1) for i in range(total)]
    store = Arrangement.build(Layout(TYPES, (0,), (order,)), [zset(rows)])
    store = store.append(zset([((1, None, float(i)), -1) for i in range(stuck, total // 2)]))
    found = store.first(probe((0,), [(1, None, None)]), stuck + 1, backwards=backwards)
    assert len(found.probe) == stuck + 1
    watch_reads(monkeypatch, taken)
    for start in range(total // 2, total // 2 + 40 * popped, popped):
        gone = range(start, start + popped)
        store = store.append(zset([((1, None, float(i)), -1) for i in gone]))
        found = store.first(probe((0,), [(1, None, None)]), stuck + 1, backwards=backwards)
        want = [*range(stuck), start + popped]
        assert listed(found.rows) == [(1, None, float(i)) for i in want]
    assert sum(taken) < 40 * 20 * popped


@pytest.mark.parametrize("seed", range(examples(40)))
def test_other_threads_find_the_first_rows_of_their_snapshots(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A search in one version leaves on record what is cancelled in the runs that others have."""
    random, descending, done = Random(seed), seed % 2 == 0, threading.Event()
    monkeypatch.setattr(first_rows, "CANCELLED_ROWS", random.choice([0, 3, 64]))
    store = Arrangement.empty(Layout(TYPES, (0,), (OrderKey(2, descending, False),)))
    live, gone, wrong = list[float](), list[float](), list[object]()
    snapshots = [(store, live)]

    def check(chosen: Random) -> None:
        version, numbers = chosen.choice(snapshots)
        k, backwards = chosen.choice([1, 2, 9]), chosen.random() < 0.5
        rows = version.first(probe((0,), [(1, None, None)]), k, backwards=backwards).rows
        found = [x for *_, x in listed(rows)]
        if found != sorted(numbers, reverse=descending != backwards)[:k]:
            wrong.append((found, k, backwards))

    def read() -> None:
        mine = Random(seed)
        while not done.is_set():
            check(mine)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(30):
            count = random.choice([1, 10, 200])
            if live and random.random() < 0.6:
                ordered = sorted(live, reverse=random.random() < 0.3)
                changed, weight, live = ordered[:count], -1, ordered[count:]
                gone += changed
            else:
                random.shuffle(gone)
                new = [float(random.randrange(10**9)) for _ in range(count)]
                changed, weight = list({*gone[: count // 2], *new} - {*live}), 1
                live, gone = live + changed, gone[count // 2 :]
            store = store.append(zset([((1, None, x), weight) for x in changed]))
            if random.random() < 0.1:
                pickled, buffers = dump(store)
                store = load(pickled, [b.raw() for b in buffers], (), None)
            snapshots = [*snapshots[-5:], (store, live)]
            check(random)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong


def test_what_the_write_buffer_cancels_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a queue it holds each row that went since the last merge."""
    monkeypatch.setattr(write_buffer, "TAIL_ROWS", 256)
    rows: list[tuple[Row, int]] = [((1, None, float(i)), 1) for i in range(1000)]
    store = Arrangement.build(Layout(TYPES, (0,), (OrderKey(2, False, False),)), [zset(rows)])
    store = store.append(zset([(row, -1) for row, _ in rows[:200]]))
    taken: list[int] = []
    watch_reads(monkeypatch, taken)
    assert listed(store.first(probe((0,), [(1, None, None)]), 1).rows) == [(1, None, 200.0)]
    assert taken == [201, 401]


def test_few_cancelled_rows_of_many_keys_are_not_recorded() -> None:
    """Each search would add to the record, which would grow with the state."""
    keys = range(2 * first_rows.CANCELLED_ROWS)
    rows: list[tuple[Row, int]] = [((i, None, x), 1) for i in keys for x in (0.0, 1.0)]
    store = Arrangement.build(Layout(TYPES, (0,), (OrderKey(2, False, False),)), [zset(rows)])
    store = store.append(zset([((i, None, 0.0), -1) for i in keys]))
    found = store.first(probe((0,), [(i, None, None) for i in keys]), 1)
    assert listed(found.rows) == [(i, None, 1.0) for i in keys]
    assert [run.cancelled for run in store.runs] == [None] * len(store.runs)


def watch_reads(monkeypatch: pytest.MonkeyPatch, taken: list[int]) -> None:
    whole = run_cursors.RunCursors.__init__

    def watched(self: run_cursors.RunCursors, pieces: Any) -> None:
        whole(self, pieces)
        taken.append(len(self.probe))

    advance = first_rows._advance

    def stepped(cursors: Any, best: list[int], term: Any, step: int) -> bool:
        taken.append(len(best))
        return bool(advance(cursors, best, term, step))

    monkeypatch.setattr(run_cursors.RunCursors, "__init__", watched)
    monkeypatch.setattr(first_rows, "_advance", stepped)


def test_layouts_refuse_unordered_types() -> None:
    with pytest.raises(UnsupportedError, match=r"UUID\[\].*orderable"):
        Layout((TYPES[0], type_of("UUID[]")), (0,), (OrderKey(0, False, False),))


def test_empty_arrangement() -> None:
    for order in ((), (OrderKey(0, False, False),)):
        store = Arrangement.empty(Layout(TYPES, (0,), order))
        assert store.append(zset([])) is store
        assert store.row_count == 0
        assert len(store.lookup(probe((0,), [(1, None, None)] * 3)).probe) == 0
        assert len(store.lookup(probe((0,), [])).probe) == 0
    assert len(store.first(probe((0,), [(1, None, None)]), 3).probe) == 0
    with pytest.raises(InternalError, match="keeps no order"):
        Arrangement.empty(Layout(TYPES, (0,))).first(probe((0,), [(1, None, None)]), 3)
    assert Arrangement.build(Layout(TYPES, (0,)), []).row_count == 0


def test_a_failed_merge_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done again when it is due again."""

    def fail(*given: Any, **oldest: bool) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(merger, "merge_runs", fail)
    rows: list[tuple[Row, int]] = [((i, None, None), 1) for i in range(100)]
    store, model = Arrangement.build(Layout(TYPES, (0,)), [zset(rows)]), Model((0,))
    model.append(rows)
    for _ in range(10):
        store = store.append(zset(rows))
        model.append(rows)
    (merge,) = store._spine.merges[:1]
    with pytest.raises(MemoryError, match="no room"):
        merge.result()
    monkeypatch.undo()
    store = store.append(zset(rows))
    model.append(rows)
    check_lookups(store, model, [row for row, _ in rows[:5]])


def test_short_merges_do_not_wait_for_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    whole = build.merge_runs

    def held(layout: Layout, runs: Sequence[run.Run], *, oldest: bool) -> run.Run:
        if sum(map(len, runs)) >= background.LONG_ROWS:
            gate.wait(20)
        return whole(layout, runs, oldest=oldest)

    monkeypatch.setattr(merger, "merge_runs", held)
    layout = Layout(TYPES, (0,))
    pieces = [
        Arrangement.build(layout, [zset([((i, None, None), 1) for i in range(rows)])]).runs
        for rows in (background.LONG_ROWS, 10)
    ]
    long, short = (merger.schedule(layout, [*runs, *runs]) for runs in pieces)
    try:
        assert len(short.result()) == 20
        assert not long.done
    finally:
        gate.set()
    assert len(long.result()) == 2 * background.LONG_ROWS


def _two_and_many() -> tuple[merger.Merge, merger.Merge]:
    layout = Layout(TYPES, (0,))
    (one,) = Arrangement.build(layout, [zset([((1, None, None), 1)])]).runs
    return merger.Merge(layout, [one] * 2), merger.Merge(layout, [one] * merger.MANY)


def test_a_long_merge_waits_for_further_runs_but_not_for_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "MOST_AGE", 3600)
    (two, many), patient = _two_and_many(), background.Worker("patient", 3600)
    patient.put(two.perform, 2)
    assert not two._done.wait(0.05)
    patient.put(many.perform, merger.MANY, urgent=True)
    assert two._done.wait(20)
    assert many._done.wait(20)


def test_a_long_merge_waits_only_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MOST_AGE", 0.01)
    (two, _), patient = _two_and_many(), background.Worker("patient", 3600)
    patient.put(two.perform, 2)
    assert two._done.wait(20)
    again, _ = _two_and_many()
    monkeypatch.setattr(background, "MOST_AGE", 3600)
    patient.put(again.perform, 2)
    assert len(again.result()) == 2


def test_a_merge_that_has_not_begun_gives_way_to_one_of_more_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So runs that come one after the other are merged once, and a version that stays is right."""
    monkeypatch.setattr(spine, "schedule", merger.Merge)
    layout, model = Layout(TYPES, (0,)), Model((0,))
    store, probes = Arrangement.empty(layout), [(i, None, None) for i in range(3)]
    sizes, versions = [], []
    for i in range(merger.MANY + 2):
        batch: list[tuple[Row, int]] = [((j, "x" * i, None), 1) for j in range(40)]
        store = store.append(zset(batch))
        model.append(batch)
        sizes.append([len(merge.runs) for merge in store._spine.merges])
        versions.append((store, model.lookup(probes)))
    assert sizes == [[], *[[i] for i in range(2, merger.MANY + 1)], [merger.MANY], [merger.MANY, 2]]
    tiny = store.append(zset([((1, "y", None), 1)] * 9))
    assert [len(merge.runs) for merge in tiny._spine.merges] == [merger.MANY, 2]
    for version, want in reversed(versions):
        for merge in version._spine.merges:
            merge.result()
        version = version.append(zset([((50, None, None), 1)] * 9))
        assert len(version.runs) <= 3
        assert net(version.lookup(probe((0,), probes))) == want


def test_the_newest_rows_count_as_bytes_held() -> None:
    """Few rows are in no run yet; EXPLAIN must not call them free."""
    rows: list[tuple[Row, int]] = [((i, "text", None), 1) for i in range(5)]
    empty = Arrangement.empty(Layout(TYPES, (0,)))
    assert empty.nbytes == 0
    assert empty.append(zset(rows)).nbytes > 5 * 8


def _late(layout: Layout) -> tuple[Arrangement, Model]:
    """An arrangement whose run is not sorted yet, and its rows."""
    rows: list[tuple[Row, int]] = [((i * 7 % 12, None, None), 1 - i % 3) for i in range(12)]
    rows = [(row, weight or 5) for row, weight in rows]
    model = Model(layout.key)
    model.append(rows)
    return Arrangement.empty(layout).append(zset(rows)), model


def test_a_large_run_is_sorted_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are known before; what fails then is tried again, and loses nothing."""
    monkeypatch.setattr(background, "_long", background.Worker("patient", 3600))
    store, model = _late(Layout(TYPES, (0,)))
    (late,) = store.runs

    def fail(*given: Any) -> Any:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(late_run, "build_run", fail)
        assert store.row_count == 12
        assert store.nbytes >= 12 * 8
        late.build()  # type: ignore[attr-defined]
        with pytest.raises(MemoryError, match="no room"):
            store.lookup(probe((0,), [(1, None, None)]))
    assert not hasattr(late, "unknown")
    check_lookups(store, model, [(i, None, None) for i in range(12)])


def test_a_large_run_is_sorted_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    whole = build.build_run

    def observed(*given: Any) -> Any:
        done.set()
        return whole(*given)

    monkeypatch.setattr(late_run, "build_run", observed)
    store, _ = _late(Layout(TYPES, (0,)))
    assert done.wait(20)
    assert store.row_count == 12


def test_a_large_run_is_saved_sorted() -> None:
    store, model = _late(Layout(TYPES, (0,)))
    pickled, buffers = dump(store)
    saved = load(pickled, [b.raw() for b in buffers], (), None)
    check_lookups(saved, model, [(i, None, None) for i in range(12)])
