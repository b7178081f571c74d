"""What a query fixes of its answer is the same in whatever order the rows of its tables stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from ivm.sql.bind.bind import bind
from ivm.sql.plan.fixed_columns import FixedPart, Parts, fixed_parts, fixes_all
from ivm.sql.plan.nodes import Plan
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.resolve.fixed_columns import text_parts
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from tests.corpus.plan_corpus import QUERIES, build
from tests.corpus.window_corpus import OPEN
from tests.support.view_oracle import multiset

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


def of_part(query: str, part: FixedPart, cursor: Cursor) -> Counter[object]:
    return multiset(
        (
            *(row[i] for i in sorted(part.exact)),
            *(sorted(row[i] or (), key=repr) for i in sorted(part.shuffled)),
        )
        for row in rows(cursor, query)
    )


SOME = [q for group in QUERIES.values() for q in group][::9]


@pytest.mark.cases(6)
@pytest.mark.parametrize("query", [*SOME, *OPEN, *OTHERS])
def test_what_is_fixed_is_the_same_in_every_order(cursors: list[Cursor], query: str) -> None:
    for part in fixed_parts(planned(query, cursors[0])):
        first, *others = (of_part(query, part, cursor) for cursor in cursors)
        assert all(first == other for other in others), part


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("query", [*SOME, *OPEN, *OTHERS])
def test_what_a_text_fixes_is_the_same_in_every_order(cursors: list[Cursor], query: str) -> None:
    parts = text_parts(query, cursors[0])
    count = len(cursors[0].sql(query).columns)
    for part in (FixedPart(frozenset(range(count))),) if parts is None else parts:
        first, *others = (of_part(query, part, cursor) for cursor in cursors)
        assert all(first == other for other in others), part


FIXED = [
    ("SELECT k, v FROM t ORDER BY v LIMIT 5", [FixedPart(frozenset([1]))]),
    ("SELECT k FROM t LIMIT 5", [FixedPart(frozenset())]),
    ("SELECT k FROM (SELECT k FROM t LIMIT 5) WHERE k > 1", []),
    ("SELECT g, list(k) FROM t GROUP BY g", [FixedPart(frozenset([0]), frozenset([1]))]),
    ("SELECT g, first(k), sum(k) FROM t GROUP BY g", [FixedPart(frozenset([0, 2]))]),
    ("SELECT g, v, row_number() OVER (ORDER BY g) FROM t",
     [FixedPart(frozenset([0, 1])), FixedPart(frozenset([0, 2]))]),
    ("SELECT g, list(DISTINCT g) OVER (ORDER BY g ROWS 5 PRECEDING) FROM t",
     [FixedPart(frozenset([0]))]),
]  # fmt: skip


@pytest.mark.parametrize(("query", "parts"), FIXED)
def test_the_parts(cursors: list[Cursor], query: str, parts: list[FixedPart]) -> None:
    assert set(fixed_parts(planned(query, cursors[0]))) == set(parts)


@pytest.mark.full
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
    assert any(fixes_all(part, plan) for part in fixed_parts(plan))


WHOLE_TEXTS = [
    "SELECT sum(v), rank() OVER (ORDER BY k) FROM t",
    "SELECT DISTINCT k FROM t",
    "SELECT typed(k), geomean(v) FROM t GROUP BY ALL",
    "SELECT typed(n) FROM lower_one UNION SELECT n FROM above(1)",
    "SELECT sum(k) OVER (PARTITION BY g), count(*) OVER (ORDER BY v GROUPS 2 PRECEDING) FROM t",
    "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a WHERE x < 5) FROM a",
    "PIVOT t ON k IN (1, 2) USING sum(v)",
]
OPEN_VALUES = [
    "SELECT * FROM t LIMIT 3",
    "SELECT * FROM t LIMIT 3 %",
    "FROM t OFFSET 3",
    "FROM t FETCH FIRST 3 ROWS ONLY",
    "SELECT (SELECT array_agg(k) FROM u) FROM t",
    "SELECT ARRAY(SELECT k FROM u) FROM t",
    "SELECT row_number() OVER () FROM t",
    "SELECT sum(k) OVER w FROM t WINDOW w AS (ORDER BY v ROWS 2 PRECEDING)",
    "SELECT sum(k) OVER (ORDER BY v GROUPS 2 PRECEDING EXCLUDE TIES) FROM t",
    "SELECT nested(k) FROM t",
    "SELECT json_group_array(k), mode(k) FROM t",
    "SELECT *, rowid FROM t",
    "SELECT list(k) AS L, len(l) AS m, m + 1 FROM t",
]
OPEN_BESIDE = [
    "SELECT typed(k), rowid, v FROM t",
    "SELECT g, list(k) AS l, sum(v) FROM t GROUP BY ALL HAVING count(*) > 1 ORDER BY l",
    "SELECT k, (SELECT first(v) FROM u), (SELECT sum(v) FROM u) FROM t",
    "SELECT typed(v), lag(k) OVER (ORDER BY v) AS l, rank() OVER (ORDER BY v), l + 1 FROM t",
]
OPEN_ROWS = [
    "SELECT DISTINCT list(k) FROM t GROUP BY g",
    "SELECT unnest(list(k)) FROM t GROUP BY g",
    "SELECT k FROM (SELECT k FROM t LIMIT 3) WHERE k > 1",
    "SELECT a.k FROM t a ASOF JOIN u b ON a.v >= b.v",
    "FROM chosen",
    "SELECT g, list(k) AS l FROM t GROUP BY g HAVING l[1] > 2",
    "SELECT k, row_number() OVER (ORDER BY v) AS r FROM t QUALIFY r < k",
    "SELECT k, (SELECT first(v) FROM u) AS x FROM t WHERE X > 1",
    "SELECT k FROM t LIMIT (SELECT first(v) FROM u)",
    "FROM any_of(2)",
    "SELECT k FROM t UNION SELECT any_value(k) FROM t GROUP BY g",
    "WITH RECURSIVE a(x, y) USING KEY (x) AS (SELECT 1, 2 UNION SELECT x, y FROM a) FROM a",
    "PIVOT t ON k IN (1, 2) USING first(v)",
    "PIVOT t ON k USING sum(v)",  # DuckDB does not tell
]


@pytest.mark.cases(8)
@pytest.mark.parametrize(
    ("query", "parts"),
    [
        *((query, None) for query in WHOLE_TEXTS),
        *((query, (FixedPart(frozenset()),)) for query in OPEN_VALUES),
        *((query, (FixedPart(frozenset([0, 2])),)) for query in OPEN_BESIDE),
        *((query, ()) for query in OPEN_ROWS),
    ],
)
def test_texts(query: str, parts: Parts | None) -> None:
    with duckdb.connect() as cursor:
        build(cursor, seed=3)
        cursor.execute("CREATE MACRO typed(a INTEGER) AS a + 1")
        cursor.execute("CREATE MACRO gathered(a) AS list(a)")
        cursor.execute("CREATE MACRO nested(a) AS len(gathered(a)) + typed(1)")
        cursor.execute("CREATE VIEW lower_one AS SELECT g, count(*) AS n FROM t GROUP BY g")
        cursor.execute("CREATE MACRO above(a) AS TABLE SELECT n FROM lower_one WHERE n > a")
        cursor.execute("CREATE MACRO any_of(a) AS TABLE FROM t LIMIT a")
        cursor.execute("CREATE VIEW taken AS FROM t LIMIT 3")
        cursor.execute("CREATE VIEW chosen AS SELECT k FROM taken")
        assert text_parts(query, cursor) == parts
