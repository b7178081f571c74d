"""The order of lists, maps, structs and arrays: ranks, cells and comparisons, against DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import duckdb
import numpy as np
import pytest

import ivm
from ivm.storage.values.column import Column
from ivm.storage.values.ordering.compare_rows import compare_rows
from ivm.storage.values.ordering.order import OrderTerm, orderable, term_codes
from ivm.storage.values.ordering.sort_keys import all_cells, ordered
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run, table
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER

LEAVES = {
    "INTEGER": ["1", "-3", "0"],
    "UBIGINT": ["18446744073709551615", "1"],
    "VARCHAR": ["'a'", "'ä'", "''", "'A'", "'ab'"],
    "BOOLEAN": ["true", "false"],
    "DECIMAL(9,2)": ["1.50", "-2.00"],
    "DATE": ["DATE '2024-01-01'", "DATE '0044-03-15 (BC)'", "DATE 'infinity'"],
    "TIMESTAMPTZ": ["TIMESTAMPTZ '2024-01-01 01:00+00'", "TIMESTAMPTZ '-infinity'"],
    "TIMESTAMP_NS": ["'2024-01-01 00:00:00.123456789'", "'1960-01-01'"],
    "JSON": ["'1'", "'[2]'"],
    "BLOB": ["'a'", r"'\xFF'"],
    "DOUBLE": ["0.0", "-0.0", "'nan'", "'-inf'", "1.5"],
    "FLOAT": ["0.5", "-0.0", "0.0", "'nan'"],
}
TYPES = [f"{leaf}[]" for leaf in LEAVES] + [
    "INTEGER[][]", "INTEGER[2]", "VARCHAR[2][]", "MAP(VARCHAR, INTEGER)",
    "STRUCT(a INTEGER, b VARCHAR)", "STRUCT(a DOUBLE, b INTEGER[])[]",
    "STRUCT(a INTEGER[], b MAP(VARCHAR, DATE))",
]  # fmt: skip


def literal(random: Random, sql: str) -> str:
    """A random value of a type, often NULL."""
    if random.random() < 0.2:
        return "NULL"
    if sql.endswith("[2]"):
        return f"[{literal(random, sql[:-3])}, {literal(random, sql[:-3])}]::{sql}"
    if sql.endswith("[]"):
        elements = [literal(random, sql[:-2]) for _ in range(random.choice([0, 1, 1, 2, 3]))]
        return f"[{', '.join(elements)}]::{sql}"
    if sql.startswith("STRUCT"):
        first, second = sql[len("STRUCT(a ") : -1].split(", b ")
        return f"{{'a': {literal(random, first)}, 'b': {literal(random, second)}}}::{sql}"
    if sql.startswith("MAP"):
        value = sql[len("MAP(VARCHAR, ") : -1]
        keys = random.sample(["'a'", "'b'", "'c'"], random.choice([0, 1, 2]))
        return f"MAP {{{', '.join(f'{k}: {literal(random, value)}' for k in keys)}}}::{sql}"
    return f"{random.choice(LEAVES[sql])}::{sql}"


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        yield connection


def filled(cursor: Cursor, sql: str, count: int = 60) -> tuple[Column, ColumnType]:
    """A table `registered` of random values, and them as a column."""
    random = Random(sql)
    values = ", ".join(f"({i}, {literal(random, sql)})" for i in range(count))
    run(cursor, f"CREATE OR REPLACE TABLE lent(i INTEGER, v {sql})")
    run(cursor, f"INSERT INTO lent VALUES {values}")
    schema = (("i", type_of("INTEGER")), ("v", type_of(sql)))
    return from_arrow(table(cursor, "FROM lent ORDER BY i"), schema).columns[1], schema[1][1]


@pytest.mark.parametrize("sql", TYPES)
def test_ranks_are_duckdbs(cursor: Cursor, sql: str) -> None:
    column, type = filled(cursor, sql)
    assert orderable(type)
    for descending, nulls_first in product([False, True], repeat=2):
        order = f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
        query = f"SELECT dense_rank() OVER (ORDER BY v {order}) FROM lent ORDER BY i"
        codes = term_codes(column, OrderTerm(0, type, descending, nulls_first))
        found = np.unique(codes, return_inverse=True)[1] + 1
        assert found.tolist() == [rank for (rank,) in rows(cursor, query)]


@pytest.mark.parametrize("sql", TYPES)
def test_cells_and_comparisons_are_in_the_order_of_the_ranks(cursor: Cursor, sql: str) -> None:
    column, type = filled(cursor, sql)
    some = column.valid if column.valid is not None else np.ones(len(column), np.bool_)
    column = column.take(np.flatnonzero(some))
    a, b = [pair.ravel() for pair in np.indices((len(column), len(column)))]
    for descending, bits in product([False, True], repeat=2):
        if bits and not ("DOUBLE" in sql or "FLOAT" in sql):
            continue
        term = OrderTerm(0, type, descending, False, bits)
        codes, cells = term_codes(column, term), [ordered(c, term) for c in all_cells(column, term)]
        wanted = np.sign(codes[a] - codes[b])
        assert compare_rows([column], a, [column], b, [term]).tolist() == wanted.tolist()
        by_cells = [
            (cells[y] < cells[x]) - (cells[x] < cells[y]) for x, y in zip(a, b, strict=True)
        ]
        assert by_cells == wanted.tolist()


VIEWS = [
    "SELECT * FROM t ORDER BY g, id DESC LIMIT 3",
    "SELECT id, l, s FROM t ORDER BY l DESC, s NULLS FIRST, id LIMIT 4",
    "SELECT g, max(s) AS a, min(l) AS b, first(m ORDER BY id) AS c, arg_max(s, id) AS d FROM t"
    " GROUP BY g",
    "SELECT DISTINCT ON (g) g, l, m FROM t ORDER BY g, l DESC, id",
    "SELECT id, rank() OVER (PARTITION BY g ORDER BY s) AS r FROM t",
    "SELECT id, lag(l) OVER (ORDER BY id) AS p, max(l) OVER (ORDER BY id ROWS 2 PRECEDING) AS q"
    " FROM t",
    "SELECT any_value(m ORDER BY id) AS m, mode(l ORDER BY l) AS l, max(s) AS s FROM t",
    "SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.l < b.l",
]


def test_views_over_nested_columns_are_indexed_and_right() -> None:
    random = Random(5)
    columns = ["INTEGER[]", "STRUCT(a DOUBLE, b INTEGER[])", "MAP(VARCHAR, INTEGER)"]
    with ivm.connect() as db:
        named = ", ".join(f"{n} {sql}" for n, sql in zip("lsm", columns, strict=True))
        db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, {named})")
        for i, query in enumerate(VIEWS):
            db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        assert {view.strategy for view in db.views()} <= {"indexed", "group recompute"}
        for step in range(2 if TIER == "quick" else 6):
            for i in range(12 * step, 12 * step + 12):
                values = ", ".join(literal(random, sql) for sql in columns)
                db.execute(
                    f"INSERT INTO t VALUES ({i}, {random.choice([0, 1, 2, 'NULL'])}, {values})"
                )
            db.execute(f"DELETE FROM t WHERE id % 5 = {step} OR {step} > 3")
            db.execute("UPDATE t SET l = [id], m = NULL WHERE id % 7 = ?", [step])
            assert_verified(db)
