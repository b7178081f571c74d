"""A flush leaves in DuckDB exactly what applying every change one after the other leaves."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.storage.log.change import TableChange
from ivm.storage.values import thresholds
from ivm.storage.values.column import column_from_arrow
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, add, empty, from_arrow
from ivm.storage.warehouse.duckdb import appender
from ivm.storage.warehouse.duckdb.appender import Appenders
from ivm.storage.warehouse.duckdb.duck import describe, rows, run, table
from ivm.storage.warehouse.flush import flush
from ivm.storage.warehouse.flush.flush import NetChange, Target, apply_change, apply_changes
from ivm.storage.warehouse.net_changes import PendingTable, PendingView
from tests.support.type_values import NAMES, VALUES
from tests.tiers import examples

SCHEMA: Schema = tuple(
    (name, type_of(sql))
    for name, sql in (("a", "INTEGER"), ("b", "VARCHAR"), ("x", "DOUBLE"), ("d", "DATE"))
)
Row = tuple[Any, ...]
Duck = duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def shared() -> Iterator[Duck]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def duck() -> Iterator[Duck]:
    with duckdb.connect() as connection:
        run(connection, "SET arrow_lossless_conversion = true")
        yield connection


def batch(values: list[Row], schema: Schema = SCHEMA, sign: int = 1) -> ZSet:
    """Rows as a Z-set."""
    if not values:
        return empty([t for _, t in schema])
    columns = zip(zip(*values, strict=True), schema, strict=True)
    arrays = [column_from_arrow(pa.array(c, type.arrow), type) for c, (_, type) in columns]
    return ZSet(tuple(arrays), np.full(len(values), sign))


def content(duck: Duck) -> Counter[str]:
    return Counter(repr(row) for row in rows(duck, "FROM t"))


def expected(values: Any) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in values)


@contextlib.contextmanager
def written_by(duck: Duck, small: int) -> Iterator[Duck]:
    """Batches up to `small` rows go by the appender; big enough for updates in place are all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "APPENDED_ROWS", small)
        patch.setattr(thresholds, "UPDATED_ROWS", 0)
        yield duck


def fill(duck: Duck, values: list[Row], schema: Schema = SCHEMA) -> None:
    apply_change(duck, "t", schema, NetChange(*nothing(), batch(values)))


# -- keyed tables ----------------------------------------------------------------------------------

keys = st.integers(0, 12)
others = st.tuples(
    st.sampled_from([None, "", "x", "ä"]), st.sampled_from([None, 0.0, -0.0, 1.5]), st.none()
)
# one step: keys to delete and rows to upsert
steps = st.lists(
    st.tuples(st.sets(keys, max_size=4), st.dictionaries(keys, others, max_size=6)), max_size=5
)


@pytest.mark.parametrize("small", [0, 256])
@settings(max_examples=examples(50), deadline=None)
@given(start=st.dictionaries(keys, others, max_size=8), history=steps)
def test_keyed_table(shared: Duck, small: int, start: dict[int, Row], history: Any) -> None:
    model = dict(start)
    pending = PendingTable(SCHEMA, (0,))
    for deleted, upserted in history:
        old = [key for key in model if key in deleted or key in upserted]
        gone = batch([(key, *model[key]) for key in old])
        pending.add(gone.project((0, 2)), (0, 2), batch([(k, *v) for k, v in upserted.items()]))
        model = {k: v for k, v in model.items() if k not in deleted} | upserted
    with written_by(shared, small) as duck:
        run(duck, "CREATE OR REPLACE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, x DOUBLE, d DATE)")
        apply_change(
            duck, "t", SCHEMA, NetChange(*nothing(), batch([(k, *v) for k, v in start.items()]))
        )
        target = Target("t", SCHEMA)
        apply_changes(duck, [("t", target, pending.net())], Appenders(duck))
        assert content(duck) == expected((k, *v) for k, v in model.items())


# one step: keys to delete, rows to upsert, and keys to update with the values they get and where
updates = st.tuples(st.sets(keys), others, st.sets(st.sampled_from([1, 2])))


@pytest.mark.full
@pytest.mark.parametrize("small", [0, 256])
@settings(max_examples=examples(80), deadline=None)
@given(
    start=st.dictionaries(keys, others, max_size=8),
    history=st.lists(st.one_of(steps, updates), max_size=6),
    indexed=st.sets(st.sampled_from([1, 2])),
)
def test_columns_that_updates_keep_are_not_written(
    shared: Duck, small: int, start: dict[int, Row], history: Any, indexed: set[int]
) -> None:
    model = dict(start)
    pending = PendingTable(SCHEMA, (0,))
    for step in history:
        if isinstance(step, tuple):
            wanted, values, sets = step
            old = [key for key in model if key in wanted]
            new = {key: _set(model[key], values, sets) for key in old}
            pending.collect(_update(model, new, {i for i in range(4) if i not in sets}), 1)
            model |= new
        for deleted, upserted in step if isinstance(step, list) else []:
            old = [key for key in model if key in deleted or key in upserted]
            gone = batch([(key, *model[key]) for key in old])
            pending.add(gone, (0, 1, 2, 3), batch([(k, *v) for k, v in upserted.items()]))
            model = {k: v for k, v in model.items() if k not in deleted} | upserted
    with written_by(shared, small) as duck:
        run(duck, "CREATE OR REPLACE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, x DOUBLE, d DATE)")
        for position in indexed:
            run(duck, f"CREATE INDEX i{position} ON t ({SCHEMA[position][0]})")
        fill(duck, [(k, *v) for k, v in start.items()])
        target = Target("t", SCHEMA, exchanged=frozenset(indexed))
        apply_changes(duck, [("t", target, pending.net())], Appenders(duck))
        assert content(duck) == expected((k, *v) for k, v in model.items())


def _set(row: Row, values: Row, sets: set[int]) -> Row:
    return tuple(values[i - 1] if i in sets else value for i, value in enumerate(row, 1))


def _update(model: dict[int, Row], new: dict[int, Row], kept: set[int]) -> TableChange:
    """An update whose kept columns are one object in the old and the new rows."""
    old = batch([(key, *model[key]) for key in new])
    after = batch([(key, *row) for key, row in new.items()])
    columns = [old.columns[i] if i in kept else after.columns[i] for i in range(4)]
    return TableChange("t", old, (0, 1, 2, 3), ZSet(tuple(columns), after.weights))


@pytest.mark.parametrize("count", [1, 3, 300])
def test_a_table_with_an_index_is_updated_in_place(duck: Duck, count: int) -> None:
    """A row that stays in its place keeps its row id."""
    run(duck, "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, x DOUBLE, d DATE)")
    run(duck, "CREATE INDEX i ON t (b)")
    start: dict[int, Row] = dict.fromkeys(range(500), ("x", 1.5, None))
    fill(duck, [(k, *v) for k, v in start.items()])
    places = rows(duck, "SELECT a, rowid FROM t ORDER BY a")
    target = Target("t", SCHEMA, exchanged=frozenset({1}))
    for kept, row, stays in [
        ({0, 1, 3}, ("x", 2.5, None), True),
        ({0, 3}, ("y", 3.0, None), False),
    ]:
        pending = PendingTable(SCHEMA, (0,))
        new: dict[int, Row] = dict.fromkeys(range(count), row)
        pending.collect(_update(start, new, kept), 1)
        with written_by(duck, 256):
            apply_changes(duck, [("t", target, pending.net())], Appenders(duck))
        start |= new
        assert content(duck) == expected((k, *v) for k, v in start.items())
        assert (rows(duck, "SELECT a, rowid FROM t ORDER BY a") == places) is stays


@pytest.mark.parametrize("columns", ["a INTEGER PRIMARY KEY, b", "a INTEGER, b"])
def test_rows_of_the_running_transaction(duck: Duck, columns: str) -> None:
    """A row may be updated and deleted in the transaction that has brought it."""
    run(duck, f"CREATE TABLE t ({columns} VARCHAR, x DOUBLE, d DATE)")
    states: list[list[Row]] = [
        [(i, "x", 1.5, None) for i in range(6)],
        [(i, "y", 2.5, None) for i in range(4)],
        [(i, "z", float(i + 3), None) for i in range(1, 3)],
    ]
    run(duck, "BEGIN")
    fill(duck, states[0])
    for before, after in itertools.pairwise(states):
        pending = PendingTable(SCHEMA, (0,))
        pending.add(batch(before), (0, 1, 2, 3), batch(after))
        apply_changes(duck, [("t", Target("t", SCHEMA), pending.net())], Appenders(duck))
        assert content(duck) == expected(after)
    run(duck, "COMMIT")
    assert content(duck) == expected(states[-1])


def nothing(schema: Schema = SCHEMA) -> tuple[ZSet, tuple[int, ...], bool]:
    return empty([schema[0][1]]), (0,), True


def test_a_key_that_comes_and_goes_is_not_touched() -> None:
    pending = PendingTable(SCHEMA, (0,))
    row = batch([(1, "x", 1.0, None)])
    pending.add(row.slice(0, 0), (0, 1, 2, 3), row)
    pending.add(row, (0, 1, 2, 3), row.slice(0, 0))
    assert len(pending.net()) == 0


def test_replaced_rows_stand_first_and_pair_up() -> None:
    pending = PendingTable(SCHEMA, (0,))
    old = batch([(i, "x", 1.0, None) for i in (5, 1, 3)])
    pending.add(old, (0, 1, 2, 3), batch([(i, "y", 1.0, None) for i in (9, 3, 1)]))
    net = pending.net()
    assert net.replaced == 2
    keys = [part.columns[0].to_arrow(SCHEMA[0][1]).to_pylist() for part in (net.delete, net.insert)]
    assert set(zip(keys[0][:2], keys[1][:2], strict=True)) == {(1, 1), (3, 3)}


# -- keyless tables and views ----------------------------------------------------------------------

some_rows = st.tuples(
    st.sampled_from([None, 1, 2]), st.sampled_from([None, "x"]), st.sampled_from([None, 0.0, -0.0]),
    st.none(),
)  # fmt: skip


@pytest.mark.parametrize("first", ["a", "rowid"])  # such a column hides DuckDB's own
@pytest.mark.parametrize("small", [0, 256])
@settings(max_examples=examples(50), deadline=None)
@given(data=st.data())
def test_keyless_table(shared: Duck, small: int, first: str, data: st.DataObject) -> None:
    schema = ((first, SCHEMA[0][1]), *SCHEMA[1:])
    start = data.draw(st.lists(some_rows, max_size=12))
    model = Counter(map(repr, start))
    live = list(start)
    pending, deltas = PendingTable(SCHEMA, ()), PendingView(SCHEMA)
    for _ in range(data.draw(st.integers(0, 4))):
        out = data.draw(st.lists(st.sampled_from(live), max_size=4)) if live else []
        out = [row for row in out if takes(live, row)]
        new = data.draw(st.lists(some_rows, max_size=4))
        live += new
        model = Counter(map(repr, live))
        pending.add(batch(out), (0, 1, 2, 3), batch(new))
        deltas.add(add([batch(new), batch(out, sign=-1)]))
    for net in (pending.net(), deltas.net()):
        with written_by(shared, small) as duck:
            run(duck, f"CREATE OR REPLACE TABLE t ({first} INTEGER, b VARCHAR, x DOUBLE, d DATE)")
            fill(duck, start, schema)
            apply_change(duck, "t", schema, net)
            assert content(duck) == model


def takes(live: list[Row], row: Row) -> bool:
    """Take one row with this very representation out of the list."""
    found = next((i for i, other in enumerate(live) if repr(other) == repr(row)), None)
    if found is not None:
        del live[found]
    return found is not None


@pytest.mark.parametrize("key", [(), (0,), (0, 1), (1, 2)])
@pytest.mark.parametrize("small", [0, 256])
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_view_with_unique_columns(
    shared: Duck, small: int, key: tuple[int, ...], data: st.DataObject
) -> None:
    def unique(found: list[Row]) -> dict[Row, Row]:
        return {tuple(row[i] for i in key): row for row in found}

    states = [unique(data.draw(st.lists(some_rows, max_size=6))) for _ in range(4)]
    pending = PendingView(SCHEMA, key)
    for before, after in itertools.pairwise(states):
        delta = [batch(list(before.values()), sign=-1), batch(list(after.values()))]
        pending.add(add(delta))
    with written_by(shared, small) as duck:
        run(duck, "CREATE OR REPLACE TABLE t (a INTEGER, b VARCHAR, x DOUBLE, d DATE)")
        fill(duck, list(states[0].values()))
        apply_changes(duck, [("t", Target("t", SCHEMA), pending.net())], Appenders(duck))
        assert content(duck) == expected(states[-1].values())


# -- every type ------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.cases(10)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("small", "column"), [(0, "v"), (256, "v"), (256, "RowID")])
def test_every_value_of_a_type_is_deleted_alone(
    duck: Duck, name: str, small: int, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of each value; one copy of one value is deleted; the rest stays as it is."""
    monkeypatch.setattr(thresholds, "APPENDED_ROWS", small)
    values = ("NULL", *VALUES[name])
    schema: Schema = ((column, type_of(name)),)
    run(duck, f"CREATE TABLE t ({column} {name})")
    everything = load(duck, name, values)
    apply_change(duck, "t", schema, NetChange(*nothing(schema), add([everything, everything])))
    text = f"coalesce({column}::VARCHAR, 'nothing')"
    want = Counter(v for (v,) in rows(duck, f"SELECT {text} FROM t"))
    assert len(values) * 2 == want.total()
    for i, value in enumerate(values):
        one = everything.slice(i, i + 1)
        apply_change(duck, "t", schema, NetChange(one, (0,), False, one.slice(0, 0)))
        [(gone,)] = rows(duck, f"SELECT {text} FROM (SELECT CAST({value} AS {name}) AS {column})")
        want[gone] -= 1
        assert Counter(v for (v,) in rows(duck, f"SELECT {text} FROM t")) == +want


WIDE = {
    "HUGEINT": st.integers(-(2**127), 2**127 - 1),
    "DECIMAL(38,0)": st.integers(1 - 10**38, 10**38 - 1).map(Decimal),
    "DECIMAL(38,4)": st.decimals(-(10**33), 10**33, places=4),
    "DECIMAL(38,37)": st.decimals(-9, 9, places=37),
    "DECIMAL(38,38)": st.decimals("-0.9", "0.9", places=38),
    "DECIMAL(20,7)": st.decimals(-(10**12), 10**12, places=7),
}


@pytest.mark.parametrize("name", WIDE)
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_wide_numbers_are_inserted_and_updated_exactly(shared: Duck, name: str, data: Any) -> None:
    schema: Schema = (("a", type_of("INTEGER")), ("v", type_of(name)))
    target = Target("wide", schema)
    run(shared, "SET arrow_lossless_conversion = true")
    run(shared, f"CREATE OR REPLACE TABLE wide (a INTEGER PRIMARY KEY, v {name})")
    olds, news = [data.draw(st.lists(st.none() | WIDE[name], min_size=3, max_size=3)) for _ in "ab"]
    before, after = [_loaded(shared, name, values) for values in (olds, news)]
    for count in (1, 3):  # one row by a statement, more by the appender
        run(shared, "DELETE FROM wide")
        none = before.slice(0, 0).project((0,))
        start = NetChange(none, (0,), True, before.slice(0, count))
        gone = before.slice(0, count).project((0,))
        change = NetChange(gone, (0,), True, after.slice(0, count), count)
        for step, values in ((start, olds), (change, news)):
            apply_changes(shared, [("wide", target, step)], Appenders(shared))
            found = [v for (v,) in rows(shared, "SELECT v FROM wide ORDER BY a")]
            assert found == values[:count]


def _loaded(duck: Duck, name: str, values: list[Any]) -> ZSet:
    """The values numbered, by way of their texts."""
    texts = ["NULL" if v is None else f"'{v:f}'" if name != "HUGEINT" else f"'{v}'" for v in values]
    lines = [f"SELECT {i}::INTEGER AS a, CAST({t} AS {name}) AS v" for i, t in enumerate(texts)]
    query = " UNION ALL ".join(lines)
    return from_arrow(table(duck, f"FROM ({query}) ORDER BY a"), describe(duck, query))


def load(duck: Duck, name: str, values: tuple[str, ...]) -> ZSet:
    one = [f"SELECT CAST({value} AS {name}) AS v" for value in values]
    query = " UNION ALL ".join(one)
    schema = describe(duck, query)
    assert schema[0][1] == type_of(name)
    return from_arrow(table(duck, query), schema)


# -- foreign keys, generated columns ---------------------------------------------------------------


def test_foreign_keys_and_generated_columns(duck: Duck) -> None:
    run(duck, "CREATE TABLE p (id INTEGER PRIMARY KEY, v VARCHAR, g VARCHAR AS (v || '!'))")
    run(duck, "CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id))")
    run(duck, "INSERT INTO p VALUES (1, 'a'), (2, 'b')")
    run(duck, "INSERT INTO c VALUES (10, 1), (20, 2)")
    p_schema, c_schema = describe(duck, "FROM p"), describe(duck, "FROM c")
    parent, child = PendingTable(p_schema, (0,)), PendingTable(c_schema, (0,))
    new_parents = batch([(1, "A", "A!"), (3, "c", "c!")], p_schema)
    parent.add(batch([(1, "a", "a!")], p_schema).project((0,)), (0,), new_parents)
    new_children = batch([(20, 1), (30, 3)], c_schema)
    child.add(batch([(10, 1), (20, 2)], c_schema).project((0,)), (0,), new_children)
    targets = (
        ("c", Target("c", c_schema, parents=("p",)), child.net()),
        ("p", Target("p", p_schema, frozenset({2}), referenced=True), parent.net()),
    )
    run(duck, "BEGIN")
    apply_changes(duck, targets, Appenders(duck))
    run(duck, "COMMIT")
    assert rows(duck, "FROM p ORDER BY id") == [(1, "A", "A!"), (2, "b", "b!"), (3, "c", "c!")]
    assert rows(duck, "FROM c ORDER BY id") == [(20, 1), (30, 3)]


def test_equal_values_of_another_form_are_replaced(duck: Duck) -> None:
    """DuckDB's UPDATE leaves 0.0 where -0.0 is set, and '1 month' where '30 days' is."""
    run(duck, "CREATE TABLE t (id INTEGER PRIMARY KEY, x DOUBLE, i INTERVAL)")
    run(duck, "INSERT INTO t VALUES (1, 0.0, '1 month'), (2, 0.0, '1 month')")
    schema = describe(duck, "FROM t")
    pending = PendingTable(schema, (0,))
    new = "SELECT 1::INTEGER AS id, '-0.0'::DOUBLE AS x, INTERVAL '30 days' AS i"
    added = from_arrow(table(duck, new), schema)
    pending.add(added.project((0,)), (0,), added)
    apply_changes(duck, [("t", Target("t", schema), pending.net())], Appenders(duck))
    found = rows(duck, "SELECT id, x::VARCHAR, i::VARCHAR FROM t ORDER BY id")
    assert found == [(1, "-0.0", "30 days"), (2, "0.0", "1 month")]


def test_unique_values_may_change_places(duck: Duck) -> None:
    run(duck, "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE)")
    run(duck, "INSERT INTO t VALUES (1, 10), (2, 20)")
    schema = describe(duck, "FROM t")
    pending = PendingTable(schema, (0,))
    old, new = batch([(1, 10), (2, 20)], schema), batch([(1, 20), (2, 10)], schema)
    pending.add(old, (0, 1), new)
    target = Target("t", schema, exchanged=frozenset({1}))
    apply_changes(duck, [("t", target, pending.net())], Appenders(duck))
    assert rows(duck, "FROM t ORDER BY id") == [(1, 20), (2, 10)]


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("name", [n for n in NAMES if flush.is_exact(type_of(n))])
def test_one_row_of_any_type_is_updated_and_deleted_by_its_key(duck: Duck, name: str) -> None:
    """One row goes by a statement with parameters: neither key nor value may lose a bit."""
    schema = (("k", type_of(name)), ("v", type_of(name)))
    casts = [f"CAST({value} AS {name})" for value in VALUES[name] if value != "NULL"]
    for old, new in itertools.pairwise([*casts, casts[0]]):
        duck.execute(f"CREATE OR REPLACE TABLE t (k {name}, v {name})")
        duck.execute(f"INSERT INTO t SELECT x, x FROM (SELECT DISTINCT unnest([{old}, {new}]) x)")
        others = rows(duck, f"SELECT k::VARCHAR, v::VARCHAR FROM t WHERE k <> {old}")
        sql = f"SELECT {old} AS k, {new} AS v"
        row = from_arrow(table(duck, sql), schema)
        target = Target("t", schema)
        change = NetChange(row.project((0,)), (0,), True, row, 1)
        apply_changes(duck, [("t", target, change)], Appenders(duck))
        shown = rows(duck, f"SELECT k::VARCHAR, v::VARCHAR FROM t WHERE k = {old}")
        assert shown == rows(duck, f"SELECT k::VARCHAR, v::VARCHAR FROM ({sql})")
        change = NetChange(row.project((0,)), (0,), True, empty([t for _, t in schema]))
        apply_changes(duck, [("t", target, change)], Appenders(duck))
        assert rows(duck, "SELECT k::VARCHAR, v::VARCHAR FROM t") == others


def test_a_statement_that_is_kept_parsed_follows_the_tables(
    duck: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "_MOST_PARSED", 2)
    kept = Appenders(duck)
    for number in range(3):
        duck.execute("CREATE OR REPLACE TABLE u (a INTEGER); INSERT INTO u VALUES (1)").fetchall()
        for value in (5, 7):
            kept.run("UPDATE u SET a = a + ?", [value])
            kept.run(f"UPDATE u SET a = a + {number}")
        assert duck.execute("FROM u").fetchall() == [(13 + 2 * number,)]
