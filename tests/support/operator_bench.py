"""Random Z-set streams through one operator, compared with its own SQL in DuckDB at every step."""

from __future__ import annotations

import functools
import math
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.operator import Operator
from ivm.delta_ops.state_checkpoint import CLASSES, identities, restore, states
from ivm.storage.state.state_file import StateFile, write
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, empty, from_arrow
from ivm.storage.warehouse.duckdb import duck

Row = tuple[str, ...]
"""One SQL literal per column."""

VALUES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false", "NULL"],
    "INTEGER": ["1", "2", "-3", "2147483647", "NULL", "0"],
    "BIGINT": ["1", "2", "3", "9223372036854775807", "-9223372036854775808", "NULL"],
    "UBIGINT": ["0", "1", "18446744073709551615", "NULL"],
    "HUGEINT": ["0", "-1", "170141183460469231731687303715884105", "NULL"],
    "DECIMAL(9,2)": ["1.10", "-2.25", "0.01", "NULL"],
    "DECIMAL(18,2)": ["1.10", "-2.25", "9999999999999999.99", "NULL"],
    "DECIMAL(38,4)": ["1.1000", "-2.25", "9999999999999999999999.9999", "NULL"],
    "DOUBLE": ["0.5", "-2.25", "3", "1e10", "NULL", "0.0"],
    "FLOAT": ["0.5", "-2.25", "1024", "NULL"],
    "VARCHAR": ["'a'", "'b'", "'A'", "''", "'a longer piece of text'", "NULL"],
    "DATE": ["DATE '2024-02-29'", "DATE '1969-12-31'", "NULL"],
    "TIMESTAMP": ["TIMESTAMP '2024-02-29 01:02:03'", "TIMESTAMP '1969-12-31'", "NULL"],
    "INTERVAL": ["'1 month'", "'31 days'", "'-1 day'", "'36 hours'", "'00:00:01'", "NULL"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "NULL"],
    "BIGINT[]": ["[1, 2]", "[1, NULL]", "[]", "NULL"],
}


class Duck:
    """One in-memory DuckDB for all tests of a module."""

    _lock = threading.Lock()
    _shared: duckdb.DuckDBPyConnection | None = None

    @classmethod
    def cursor(cls) -> duckdb.DuckDBPyConnection:
        with cls._lock:
            if cls._shared is None:
                cls._shared = duckdb.connect(":memory:")
                cls._shared.execute("SET arrow_lossless_conversion = true")
            return cls._shared.cursor()


def types_of(*names: str) -> tuple[ColumnType, ...]:
    return tuple(type_of(n) for n in names)


@functools.cache
def _literals(type: ColumnType, literals: tuple[str, ...]) -> Column:
    cursor = Duck.cursor()
    sql = " UNION ALL ".join(f"SELECT ({v})::{type.sql}" for v in literals)
    column = from_arrow(duck.table(cursor, sql), (("v", type),)).columns[0]
    cursor.close()
    return column


def _column(type: ColumnType, literals: tuple[str, ...]) -> Column:
    known = VALUES.get(type.sql, [])
    if not set(literals) <= set(known):
        return _literals(type, literals)
    places = np.array([known.index(v) for v in literals], np.int64)
    return _literals(type, tuple(known)).take(places)


def zset(types: Sequence[ColumnType], rows: Sequence[tuple[Row, int]]) -> ZSet:
    """Rows of SQL literals with weights."""
    if not rows:
        return empty(types)
    columns = zip(*[row for row, _ in rows], strict=True)
    pairs = zip(types, columns, strict=True)
    return ZSet(tuple([_column(t, c) for t, c in pairs]), np.array([w for _, w in rows], np.int64))


def literal_rows(types: Sequence[ColumnType]) -> st.SearchStrategy[Row]:
    return st.tuples(*[st.sampled_from(VALUES[t.sql]) for t in types])


@st.composite
def streams(
    draw: st.DrawFn, *inputs: Sequence[ColumnType], steps: int = 5, rows: int = 6
) -> list[tuple[list[tuple[Row, int]], ...]]:
    """Deltas for each input and step; no input ever has a row with negative net weight."""
    live: list[Counter[Row]] = [Counter() for _ in inputs]
    stream = []
    for _ in range(draw(st.integers(1, steps))):
        stream.append(tuple(_delta(draw, live[i], types, rows) for i, types in enumerate(inputs)))
    return stream


def _delta(
    draw: st.DrawFn, live: Counter[Row], types: Sequence[ColumnType], rows: int
) -> list[tuple[Row, int]]:
    delta: list[tuple[Row, int]] = []
    for row in draw(st.lists(literal_rows(types), max_size=rows)):
        weight = draw(st.integers(1, 3))
        live[row] += weight
        delta.append((row, weight))
    for row in sorted(live):
        if live[row] > 0 and draw(st.booleans()):
            weight = draw(st.integers(1, live[row]))
            live[row] -= weight
            delta.append((row, -weight))
    return draw(st.permutations(delta))


def order_key_sql(key: OrderKey) -> str:
    """The key in an ORDER BY of DuckDB."""
    direction = "DESC" if key.descending else "ASC"
    return f"c{key.column} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def nearest_double(exact: Fraction) -> float:
    """The double nearest to an exact number, infinite beyond the doubles."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def expand(z: ZSet) -> ZSet:
    """Every row as often as it weighs."""
    assert (z.weights >= 0).all()
    rows: Indexes = np.repeat(np.arange(len(z)), z.weights)
    return z.take(rows)


def net(z: ZSet, types: Sequence[ColumnType]) -> ZSet:
    """Consolidated by Python, for an opinion of its own; NaN equals NaN."""
    names = tuple((f"c{i}", t) for i, t in enumerate(types))
    values = [_python_values(a) for a in z.to_arrow(names).columns]
    keys = [repr(r) for r in zip(*values, strict=True)]
    keys = keys or ["()"] * len(z)
    first: dict[str, int] = {}
    totals: Counter[str] = Counter()
    for i, key in enumerate(keys):
        first.setdefault(key, i)
        totals[key] += int(z.weights[i])
    kept = [k for k in first if totals[k]]
    out = z.take(np.array([first[k] for k in kept], np.int64))
    return ZSet(out.columns, np.array([totals[k] for k in kept], np.int64))


def _python_values(column: pa.ChunkedArray) -> list[object]:
    """Dates and times as numbers: Python's own are never infinite."""
    type = column.type
    if pa.types.is_date(type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(type):
        column = column.cast(pa.int64())
    values: list[object] = column.to_pylist()
    return values


def assert_same(actual: ZSet, expected: ZSet, types: Sequence[ColumnType]) -> None:
    """Equal as multisets, by grouping equality."""
    names = tuple((f"c{i}", t) for i, t in enumerate(types))
    registered = {"a": (expand(actual), names), "b": (expand(expected), names)}
    cursor = Duck.cursor()
    with duck.registered(cursor, registered):
        apart = duck.rows(cursor, "(FROM a EXCEPT ALL FROM b) UNION ALL (FROM b EXCEPT ALL FROM a)")
    cursor.close()
    assert apart == []


@functools.cache
def _passing(types: tuple[ColumnType, ...]) -> ZSet:
    """Rows that one piece of a content adds and another takes back."""
    known = [VALUES.get(t.sql, ["NULL", "NULL"]) for t in types]
    return zset(types, [(tuple(v[place] for v in known), 1) for place in (0, 1)])


class Bench:
    """One operator in a circuit, its inputs' integrals, and its SQL over tables i0, i1, …"""

    def __init__(
        self,
        make: Callable[[Circuit, list[int]], int],
        inputs: Sequence[Sequence[ColumnType]],
        sql: str,
    ) -> None:
        self.inputs = [tuple(t) for t in inputs]
        self.sql = sql
        self._make = make
        self.integrals = [empty(t) for t in self.inputs]
        self.circuit, self.node = self._fresh()
        self.circuit.hydrate(self._fetch)
        self.types = self.circuit.node(self.node).operator.types
        self.output = add([empty(self.types), *self.circuit.contents(self.node, self._fetch)])

    def _fresh(self) -> tuple[Circuit, int]:
        circuit = Circuit()
        sources = [circuit.source(f"i{i}", t) for i, t in enumerate(self.inputs)]
        node = self._make(circuit, sources)
        circuit.output("v", node)
        return circuit, node

    @property
    def operator(self) -> Operator:
        return self.circuit.node(self.node).operator

    def _fetch(self, node: int) -> Iterator[ZSet]:
        if self.circuit.node(node).inputs:  # what a compiler would ask DuckDB for
            yield from self.circuit.contents(node, self._fetch)
            return
        z = self.integrals[node]
        half = len(z) // 2
        passing = _passing(self.inputs[node])
        yield from (add([z.slice(0, half), passing]), z.slice(half, len(z)), passing.negate())

    def step(self, deltas: Sequence[ZSet], *, rollback_first: bool = False) -> ZSet:
        """One step, compared with DuckDB's answer before and after."""
        changes = {f"i{i}": d for i, d in enumerate(deltas)}
        if rollback_first:
            self.circuit.step(changes)
            self.circuit.rollback()
        out = self.circuit.step(changes).get("v", empty(self.types))
        self.circuit.commit()
        pairs = zip(self.integrals, deltas, self.inputs, strict=True)
        self.integrals = [net(add([i, d]), t) for i, d, t in pairs]
        self.output = net(add([self.output, out]), self.types)
        return out

    def answer(self) -> ZSet:
        """DuckDB's answer over the inputs' integrals."""
        names = [tuple((f"c{k}", t) for k, t in enumerate(types)) for types in self.inputs]
        registered = {f"i{i}": (expand(z), names[i]) for i, z in enumerate(self.integrals)}
        cursor = Duck.cursor()
        out = duck.evaluate(
            cursor, self.sql, registered, tuple((f"c{i}", t) for i, t in enumerate(self.types))
        )
        cursor.close()
        return out

    def check(self) -> None:
        """The output's integral is DuckDB's answer."""
        assert_same(self.output, self.answer(), self.types)

    def check_contents(self) -> None:
        """`contents` is what the deltas add up to."""
        held = add([empty(self.types), *self.circuit.contents(self.node, self._fetch)])
        assert_same(net(held, self.types), self.output, self.types)

    def rehydrate(self) -> None:
        """Go on with a new circuit hydrated from the integrals."""
        self.circuit, self.node = self._fresh()
        self.circuit.hydrate(self._fetch)

    def reopen(self) -> None:
        """Go on with a new circuit that takes up the state of the old one from a file."""
        file = saved(self.circuit)
        self.circuit, self.node = self._fresh()
        restore(self.circuit, self.circuit.numbers, identities(self.circuit), file)
        self.circuit.hydrate(self._fetch)


def saved(circuit: Circuit) -> StateFile:
    """The state of a circuit, in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        return StateFile(path, write(path, states(circuit)), CLASSES)


def drive(bench: Bench, stream: Sequence[Sequence[Sequence[tuple[Row, int]]]]) -> None:
    """Step through the stream; roll back each second step once, rehydrate in the middle, and reopen
    after the first step and before the last one.
    """
    for number, step in enumerate(stream):
        deltas = [zset(t, rows) for t, rows in zip(bench.inputs, step, strict=True)]
        bench.step(deltas, rollback_first=number % 2 == 1)
        bench.check()
        if number in (0, len(stream) - 2):
            bench.reopen()
        if number == len(stream) // 2:
            bench.check_contents()
            bench.rehydrate()
    bench.check_contents()
