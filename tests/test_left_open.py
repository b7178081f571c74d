"""What a query fixes of its answer is the same in whatever order the rows of its tables stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.left_open import Part, fixed_parts, is_whole, text_leaves_open
from ivm.sql.plan import Plan
from ivm.sql.rewrite import rewrite
from ivm.sql.serialized import syntax_tree
from ivm.storage.duck import Cursor, rows
from tests.plan_corpus import QUERIES, build
from tests.view_oracle import multiset
from tests.window_corpus import OPEN

ORDERS = 4
OTHERS = [
    "SELECT g, list(v), string_agg(name, '-'), first(v), max(v) FROM u JOIN w ON k = k2 GROUP BY g",
    "SELECT g, list(k ORDER BY v DESC), list(k ORDER BY k), arg_max(k, v) FROM t GROUP BY g",
    "SELECT unnest(list(k)) FROM t WHERE v > 1 GROUP BY g",
    "SELECT x, len(x) FROM (SELECT list(k) AS x FROM t GROUP BY g)",
    "SELECT DISTINCT ON (g) g, v FROM t ORDER BY g, v DESC",
    "SELECT DISTINCT ON (g) g, k FROM t ORDER BY v",
    "SELECT k, v FROM t ORDER BY v LIMIT 5",
    "SELECT count(*) FROM (SELECT k FROM t ORDER BY v LIMIT 5) WHERE k > 1",
    "SELECT k, v FROM t ORDER BY v LIMIT 20 %",
    "SELECT k FROM (FROM t ORDER BY v LIMIT 9) INTERSECT SELECT k FROM u",
    "SELECT k FROM (SELECT k FROM t ORDER BY v LIMIT 9) UNION ALL SELECT k FROM u",
    "SELECT a.v, b.name FROM (SELECT k, v FROM t ORDER BY v LIMIT 9) a JOIN u b USING (v)",
    "SELECT v FROM u WHERE v IN (SELECT v FROM t ORDER BY v LIMIT 9)",
    "SELECT v, r FROM (SELECT v, k, row_number() OVER (ORDER BY v) AS r FROM t) WHERE r < 9",
    "SELECT t.k, name FROM t ASOF JOIN u ON t.v >= u.v",
]


@pytest.fixture(scope="module")
def cursors() -> Iterator[list[Cursor]]:
    """Databases with the same rows, in different orders."""
    found = []
    for seed in range(ORDERS):
        cursor = duckdb.connect()
        build(cursor, seed=3)
        for table in ("t", "u", "w"):
            order = f"hash(rowid + {seed})" if seed else "rowid"
            cursor.execute(f"CREATE TEMP TABLE was AS FROM {table} ORDER BY {order}")
            cursor.execute(f"DELETE FROM {table}; INSERT INTO {table} FROM was; DROP TABLE was")
        found.append(cursor)
    yield found
    for cursor in found:
        cursor.close()


def planned(query: str, cursor: Cursor) -> Plan:
    return rewrite(bind(query, DuckCatalog(cursor), cursor))


def of_part(query: str, part: Part, cursor: Cursor) -> Counter[object]:
    return multiset(
        (
            *(row[i] for i in sorted(part.exact)),
            *(sorted(row[i] or (), key=repr) for i in sorted(part.shuffled)),
        )
        for row in rows(cursor, query)
    )


SOME = [q for group in QUERIES.values() for q in group][::9]


@pytest.mark.parametrize("query", [*SOME, *OPEN, *OTHERS])
def test_what_is_fixed_is_the_same_in_every_order(cursors: list[Cursor], query: str) -> None:
    for part in fixed_parts(planned(query, cursors[0])):
        first, *others = (of_part(query, part, cursor) for cursor in cursors)
        assert all(first == other for other in others), part


FIXED = [
    ("SELECT k, v FROM t ORDER BY v LIMIT 5", [Part(frozenset([1]))]),
    ("SELECT k FROM t LIMIT 5", [Part(frozenset())]),
    ("SELECT k FROM (SELECT k FROM t LIMIT 5) WHERE k > 1", []),
    ("SELECT g, list(k) FROM t GROUP BY g", [Part(frozenset([0]), frozenset([1]))]),
    ("SELECT g, first(k), sum(k) FROM t GROUP BY g", [Part(frozenset([0, 2]))]),
    ("SELECT g, v, row_number() OVER (ORDER BY g) FROM t",
     [Part(frozenset([0, 1])), Part(frozenset([0, 2]))]),
    ("SELECT g, list(DISTINCT g) OVER (ORDER BY g ROWS 5 PRECEDING) FROM t",
     [Part(frozenset([0]))]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "parts"), FIXED)
def test_the_parts(cursors: list[Cursor], query: str, parts: list[Part]) -> None:
    assert set(fixed_parts(planned(query, cursors[0]))) == set(parts)


def test_joins_do_not_multiply_the_parts_without_end(cursors: list[Cursor]) -> None:
    numbered = "(SELECT k, g, row_number() OVER (ORDER BY k) AS r FROM t)"
    joins = " ".join(f"JOIN {numbered} AS q{i} USING (k)" for i in range(8))
    parts = fixed_parts(planned(f"FROM {numbered} AS q {joins}", cursors[0]))
    assert len(parts) == 16
    assert all(0 in part.exact for part in parts)


WHOLE = [
    "SELECT k, v FROM t ORDER BY v, k LIMIT 5",
    "SELECT g, list(k ORDER BY k), list(DISTINCT v ORDER BY v) FROM t GROUP BY g",
    "SELECT list(name ORDER BY id DESC), first(name ORDER BY id) FROM keyed",
    "SELECT id, row_number() OVER (ORDER BY name, id) FROM keyed",
    "SELECT id, sum(id) OVER (PARTITION BY name ORDER BY id ROWS 2 PRECEDING) FROM keyed",
    "SELECT name FROM keyed ORDER BY id LIMIT 2",
    "SELECT DISTINCT ON (name) id FROM keyed ORDER BY id",
    "SELECT unnest(list(k)) FROM t",
]


@pytest.mark.parametrize("query", WHOLE)
def test_orders_that_leave_nothing_open(cursors: list[Cursor], query: str) -> None:
    cursors[0].execute("CREATE TABLE IF NOT EXISTS keyed (id INTEGER PRIMARY KEY, name VARCHAR)")
    plan = planned(query, cursors[0])
    assert any(is_whole(part, plan) for part in fixed_parts(plan))


@pytest.mark.parametrize(
    ("query", "leaves_open"),
    [
        ("SELECT sum(v), rank() OVER (ORDER BY k) FROM t", False),
        ("SELECT * FROM t LIMIT 3", True),
        ("SELECT * FROM t LIMIT 3 %", True),
        ("SELECT DISTINCT k FROM t", False),
        ("SELECT DISTINCT ON (k) k, v FROM t", True),
        ("SELECT (SELECT array_agg(k) FROM u) FROM t", True),
        ("SELECT row_number() OVER () FROM t", True),
        ("SELECT a.k FROM t a ASOF JOIN u b ON a.v >= b.v", True),
        ("SELECT * FROM plain", True),
        ("PIVOT t ON k USING sum(v)", True),  # DuckDB does not tell
    ],
)
def test_texts(cursors: list[Cursor], query: str, leaves_open: bool) -> None:
    tree = syntax_tree(query, cursors[0])
    assert text_leaves_open(tree, ["plain"]) == leaves_open
