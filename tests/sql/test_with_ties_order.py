"""WITH TIES over rows that no key leaves tied: then it is LIMIT, which DuckDB itself answers."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

import ivm
from ivm.errors import SqlError, UnsupportedError
from tests.tiers import seeds

NAMES = ("a", "b", "c", "A", "k")
QUERIES = 40


def rows(random: Random) -> list[tuple[int, int, int]]:
    """Rows whose columns, sums and differences are all distinct."""
    columns = [[at * scale for at in random.sample(range(1, 10), 7)] for scale in (1, 10, 100)]
    return list(zip(*columns, strict=True))


def expression(random: Random) -> str:
    name = random.choice(["a", "b", "c", "t.a", "t.b", '"C"'])
    return random.choice([name, name, name, f"-{name}", f"({name})", f"{name} + 0", f"{name} * 7"])


def item(random: Random) -> str:
    """One of a select list: most are columns, many of them under the name of another."""
    alias = random.choice(NAMES)
    stars = ("*", "t.*", f"* REPLACE (-a AS a, c AS {alias})", f"* RENAME (a AS {alias})",
             "* EXCLUDE (b)", "COLUMNS('[ab]')")  # fmt: skip
    if random.random() < 0.2:
        return random.choice(stars)
    written = expression(random)
    return random.choice(
        [written, f"{written} AS {alias}", f"{written} {alias}", f"{alias}: {written}"]
    )


def head(random: Random) -> str:
    """A query over `t`, up to its ORDER BY."""
    listed = ", ".join(item(random) for _ in range(random.randint(1, 3)))
    beside = ", ".join(random.choices("abc", k=listed.count(", ") + 1))
    return random.choice(
        [
            *(f"SELECT {listed} FROM t", f"SELECT {listed} FROM t WHERE a <> 3"),
            *(f"FROM t SELECT {listed}", "FROM t", f"SELECT DISTINCT {listed} FROM t"),
            f"SELECT {listed} FROM t QUALIFY row_number() OVER (ORDER BY b) <= 5",
            f"SELECT {listed} FROM t GROUP BY ALL",
            f"SELECT {listed} FROM (SELECT -a AS a, c AS b, b AS c FROM t) AS t",
            f"SELECT {listed} FROM t UNION SELECT {beside} FROM far",
            f"WITH t AS (SELECT c AS a, a AS b, -b AS c FROM main.t) SELECT {listed} FROM t",
        ]
    )


def key(random: Random) -> str:
    named = random.choice([*NAMES, "t.a", "t.b", "a + c", "-k", "-b", "1", "2", "(a)", "b - A"])
    return named + random.choice(["", " DESC", " NULLS FIRST"])


@pytest.mark.parametrize("seed", seeds(20))
def test_without_ties_it_is_limit(seed: int) -> None:
    random = Random(seed)
    compared = 0
    with duckdb.connect() as oracle, ivm.connect() as db:
        for each in (oracle, db):
            each.execute("CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
            each.execute("CREATE VIEW far AS SELECT COLUMNS(*) + 10000 FROM t")
        for _ in range(QUERIES):
            given = rows(random)
            for each in (oracle, db):
                each.execute("DELETE FROM t")
                each.executemany("INSERT INTO t VALUES (?, ?, ?)", given)
            keys = ", ".join(key(random) for _ in range(random.randint(1, 2)))
            query = f"{head(random)} ORDER BY {keys} LIMIT {random.randint(1, 6)}"
            try:
                db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query} WITH TIES")
            except (SqlError, UnsupportedError):  # not sure, or no query to DuckDB either
                continue
            try:
                wanted = oracle.execute(query).fetchall()
            except duckdb.BinderException:  # beside GROUP BY ALL it knows fewer keys
                continue
            found = db.execute("FROM v").fetchall()
            assert sorted(found) == sorted(wanted), f"{query} WITH TIES"
            compared += 1
    assert compared >= QUERIES // 5
