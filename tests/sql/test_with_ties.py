"""WITH TIES at the end of a view's query: the rows up to the n-th and all that tie with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import SqlError, UnsupportedError
from ivm.sql.statements.own.with_ties import without_ties_clause
from tests.support.view_oracle import assert_verified

Row = tuple[Any, ...]
Key = Callable[[Row], Any]


def last(value: Any) -> tuple[bool, Any]:
    """NULLS LAST, DuckDB's default."""
    return value is None, value


def down(value: Any) -> tuple[bool, Any]:
    """DESC, NULLS LAST."""
    return value is None, value is not None and -value


# The query up to its ORDER BY, the order, how many rows, and a row's place in the order.
CASES: list[tuple[str, str, int, Key]] = [
    ("SELECT a, b FROM t", "b DESC", 3, lambda r: down(r[1])),
    ("SELECT a, b AS a2 FROM t", "a2, 1 DESC", 2, lambda r: (last(r[1]), down(r[0]))),
    ("SELECT a AS b, b AS a FROM t", "b", 3, lambda r: last(r[0])),
    ("SELECT a AS b, b AS a FROM t", "b + 0", 3, lambda r: last(r[1])),
    ("SELECT a AS from, b AS a FROM t", "a", 3, lambda r: last(r[1])),
    ("SELECT a AS having, b AS desc FROM t AS u", "u.b", 2, lambda r: last(r[1])),
    ("SELECT -a b FROM t", "b", 2, lambda r: last(r[0])),
    ('SELECT a - 5 AS "B", a FROM t', "((b)), 2", 2, lambda r: (last(r[0]), last(r[1]))),
    ("SELECT b + 0 AS x, -a AS x FROM t", "x", 2, lambda r: last(r[1])),
    ("SELECT a, -b AS a FROM t", "a", 2, lambda r: last(r[1])),
    ("SELECT *, -a AS a FROM t", "a", 2, lambda r: last(r[2])),
    ("SELECT * REPLACE (-a AS a) FROM t", "a DESC", 2, lambda r: down(r[0])),
    ("SELECT * RENAME (a AS b, b AS a) FROM t", "a", 2, lambda r: last(r[1])),
    ("FROM t SELECT a AS k, b AS k", "k", 2, lambda r: last(r[1])),
    ("(SELECT b AS k, a AS k FROM t)", "k DESC", 2, lambda r: down(r[1])),
    ("SELECT a AS k, b AS k FROM t UNION SELECT 3, 3", "k", 2, lambda r: last(r[0])),
    ("SELECT a AS c, * FROM t QUALIFY count(*) OVER () > 0", "b", 2, lambda r: last(r[2])),
    ("SELECT DISTINCT -b AS b FROM t", "-b", 2, lambda r: last(r[0])),
    ("SELECT s.a, b FROM (SELECT {'a': -a} AS s, a, b FROM t) AS q", "b + 0", 2,
     lambda r: last(r[1])),
    ("SELECT b FROM (SELECT DISTINCT ON (b) a, b FROM t ORDER BY a, b)", "-b", 2,
     lambda r: down(r[0])),
    ("SELECT a x, b y FROM t", "-x, t.b", 2, lambda r: (down(r[0]), last(r[1]))),
    ("SELECT b, sum(a) AS s FROM t GROUP BY b", "sum(a) DESC", 2, lambda r: down(r[1])),
    ("SELECT b, sum(a) s FROM t GROUP BY ALL", "s", 2, lambda r: last(r[1])),
    ("SELECT a FROM t UNION ALL SELECT b FROM t", "1 DESC NULLS LAST", 4, lambda r: down(r[0])),
    ("SELECT a FROM t UNION SELECT b FROM t", "a % 2, a DESC", 3,
     lambda r: (last(r[0] and r[0] % 2), down(r[0]))),
    ("SELECT DISTINCT t.b FROM t", "t.b", 2, lambda r: last(r[0])),
    ("SELECT DISTINCT ON (b) b, a FROM t", "b, a", 2, lambda r: (last(r[0]), last(r[1]))),
    ("SELECT * FROM t WHERE a IS DISTINCT FROM b", "b NULLS FIRST", 3,
     lambda r: (r[1] is not None, r[1])),
    ("SELECT *, a + b AS s FROM t", "s", 2, lambda r: last(r[-1])),
    ("FROM t", "b", 3, lambda r: last(r[1])),
    ("SELECT a, b, rank() OVER (ORDER BY a) AS r FROM t", "r DESC", 2, lambda r: -r[2]),
    ("WITH c AS (SELECT b, a FROM t ORDER BY a, b LIMIT 9) SELECT a, b AS z FROM c", "z, c.a", 3,
     lambda r: (last(r[1]), last(r[0]))),
    ("SELECT b, a FROM t QUALIFY count(*) OVER (PARTITION BY b) > 1", "a", 3, lambda r: last(r[1])),
]  # fmt: skip


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        yield database


def change(db: ivm.Database, random: Random) -> None:
    values = [None, 0, 1, 2, 3, 4]
    count = random.randrange(1, 9)
    db.insert("t", {name: random.choices(values, k=count) for name in ("a", "b")})
    gone = random.choice(values)
    db.execute("DELETE FROM t WHERE a IS NOT DISTINCT FROM ? AND b = 1", [gone])


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize(("head", "order", "count", "key"), CASES)
def test_the_first_rows_and_their_ties(
    db: ivm.Database, head: str, order: str, count: int, key: Key
) -> None:
    random = Random(5)
    change(db, random)
    clause = f"FETCH FIRST {count} ROWS WITH TIES"
    db.execute(f"CREATE MATERIALIZED VIEW v AS {head} ORDER BY {order} {clause}")
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1] == "indexed"
    for _ in range(8):
        change(db, random)
        # DISTINCT ON looks at the order.
        every = sorted(db.execute(f"{head} ORDER BY {order}").fetchall(), key=key)
        edge = key(every[min(count, len(every)) - 1])
        wanted = [row for row in every if key(row) <= edge]
        assert sorted(db.execute("FROM v").fetchall(), key=repr) == sorted(wanted, key=repr)
        assert_verified(db, "v")


SPELLED = [
    ("SELECT a FROM t ORDER BY b FETCH NEXT ROW WITH TIES", "(ORDER BY b) <= 1"),
    ("SELECT a FROM t ORDER BY b limit 7 with ties", "(ORDER BY b) <= 7"),
    ('SELECT a AS "X y" FROM t -- why\n ORDER BY "X y" LIMIT 2 WITH TIES', "(ORDER BY #1) <= 2"),
    ("SELECT a AS x, t.b y FROM t ORDER BY y, c LIMIT 2 WITH TIES", "(ORDER BY (t.b), c) <= 2"),
    ("SELECT x: a FROM t ORDER BY x LIMIT 2 WITH TIES", "(ORDER BY #1) <= 2"),
]


@pytest.mark.parametrize(("query", "end"), SPELLED)
def test_it_is_said_in_duckdbs_sql(query: str, end: str) -> None:
    assert without_ties_clause(query, 0)[0].endswith(f" QUALIFY rank() OVER {end}")


def test_other_queries_stay_as_they_are() -> None:
    for query in ("SELECT a FROM t ORDER BY b LIMIT 3", "SELECT 'with ties'", "SELECT 1 AS ties"):
        assert without_ties_clause(query, 0) == (query, 0)


REFUSED = [
    ("SELECT a FROM t LIMIT 2 WITH TIES", SqlError, "needs an ORDER BY"),
    ("SELECT a FROM t ORDER BY a OFFSET 1 ROW FETCH FIRST ROW WITH TIES", UnsupportedError,
     "OFFSET .* BETWEEN"),
    ("SELECT a FROM t ORDER BY a FETCH FIRST 10 PERCENT ROWS WITH TIES", UnsupportedError,
     "no whole number"),
    ("SELECT a FROM t ORDER BY a LIMIT (SELECT 1) WITH TIES", UnsupportedError, "no whole number"),
    ("SELECT a FROM t ORDER BY ALL LIMIT 2 WITH TIES", UnsupportedError, "name the columns"),
    ("SELECT * FROM t ORDER BY a + b, 1 LIMIT 2 WITH TIES", UnsupportedError, "name the column"),
    ("SELECT * FROM (FROM t ORDER BY a LIMIT 2 WITH TIES)", SqlError, "QUALIFY rank"),
    ("SELECT a FROM t ORDER BY 'a' LIMIT 2 WITH TIES", SqlError, "'a' orders nothing"),
    ("SELECT a FROM t ORDER BY true, -1 LIMIT 2 WITH TIES", SqlError, "true orders nothing"),
    ("SELECT a FROM t ORDER BY #1 LIMIT 2 WITH TIES", UnsupportedError, "the number alone"),
    ("SELECT -b AS b FROM t QUALIFY true ORDER BY b + 0 LIMIT 2 WITH TIES", UnsupportedError,
     "name the column"),
    ("SELECT -a AS k, b AS k FROM t ORDER BY -k LIMIT 2 WITH TIES", UnsupportedError,
     "name the column"),
    ("FROM t SELECT -b AS b ORDER BY b + 0 LIMIT 2 WITH TIES", UnsupportedError, "name the column"),
    ("SELECT DISTINCT -b AS b FROM t ORDER BY b + 0 LIMIT 2 WITH TIES", UnsupportedError,
     "name the column"),
    ("SELECT b + 0 AS k, * RENAME (a AS k) FROM t ORDER BY k LIMIT 2 WITH TIES", UnsupportedError,
     "name the column"),
    ('SELECT -a AS a, "A" FROM t ORDER BY a LIMIT 2 WITH TIES', UnsupportedError, "not tell"),
    ("FROM t SELECT t.*, b AS a ORDER BY a LIMIT 2 WITH TIES", UnsupportedError, "name the column"),
    ("FROM t SELECT b AS x ORDER BY a LIMIT 2 WITH TIES", UnsupportedError, "name the column"),
    ("SELECT a AS b, * REPLACE (b AS b) FROM t ORDER BY b LIMIT 2 WITH TIES", UnsupportedError,
     "name the column"),
    ("SELECT unnest({'a': a, 'k': b}), b AS a FROM t ORDER BY a LIMIT 1 WITH TIES",
     UnsupportedError, "does not tell the names"),
    ("SELECT ORDER BY 1 LIMIT 1 WITH TIES", SqlError, "without selection list"),
    ("SELECT DISTINCT ON b FROM t ORDER BY b LIMIT 1 WITH TIES", SqlError, "syntax error"),
    ("SELECT -COLUMNS('b') FROM t ORDER BY b LIMIT 2 WITH TIES", UnsupportedError,
     "does not tell the names"),
    ("SELECT nope FROM t ORDER BY 1 LIMIT 2 WITH TIES", SqlError, "nope"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "kind", "says"), REFUSED)
def test_what_is_refused(db: ivm.Database, query: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_an_error_stands_where_the_user_wrote(db: ivm.Database) -> None:
    script = "CREATE MATERIALIZED VIEW v AS SELECT a, nope FROM t ORDER BY 1 LIMIT 2 WITH TIES"
    with pytest.raises(SqlError) as caught:
        db.execute(script)
    assert caught.value.position == script.index("nope")
