"""UNPIVOT with names for its columns: which NULLs drop a row follows from the names."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest

from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.plan_oracle import assert_means
from tests.support.plans import bound

_NAMES = ["v", "w", "n", "k", "m", "x", "y", "V", "X"]


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    """A table with a row for each choice of columns that are NULL."""
    with duckdb.connect() as connection:
        values = ", ".join(
            f"CASE WHEN (i >> {place}) & 1 = 1 THEN 10 * i + {place} END AS {name}"
            for place, name in enumerate("kmab")
        )
        connection.execute(f"CREATE TABLE t AS SELECT {values} FROM range(16) AS s(i)")
        yield connection


def _query(random: Random) -> str:
    rest = random.choice([[], ["k"], ["k", "m"], ["m", "k"]])
    wide = random.random() < 0.5
    values, places = ("(v, w)", "(a, b), (b, a) AS y") if wide else ("v", "a AS x, b")
    names = random.choices(_NAMES, k=random.randint(1, len(rest) + 2 + wide))
    nulls = "INCLUDE NULLS " if random.random() < 0.1 else ""
    source = f"(SELECT {', '.join([*rest, 'a', 'b'])} FROM t)"
    return f"FROM {source} UNPIVOT {nulls}({values} FOR n IN ({places})) AS p({', '.join(names)})"


@pytest.mark.cases(3)
@pytest.mark.parametrize("seed", range(60))
def test_nulls_are_dropped_as_duckdb_does(cursor: Cursor, seed: int) -> None:
    query = _query(Random(seed))
    assert_means(cursor, bound(query, cursor), query)
