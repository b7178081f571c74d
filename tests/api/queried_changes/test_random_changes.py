"""Random changes beside plain DuckDB: the same counts, rows, refusals, tables and views."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_sql.random_tables import KINDS
from tests.random_sql.typed_change import INDEXED, KEYS, TypedChange, create, rows
from tests.support.duckdb_twin import Twin
from tests.support.stream_rows import SETTINGS
from tests.tiers import examples

MACROS = "CREATE MACRO twice(x) AS x * 2; CREATE MACRO shout(x) AS upper(x) || '!'"
ZONES = ["UTC", "UTC", "Asia/Tokyo", "America/New_York"]
_STEPS = 25


class World:
    """A table of random columns and views on it, in ours and in plain DuckDB.

    Args:
        random: decides everything.
        path: of our file.
    """

    def __init__(self, random: Random, path: Path) -> None:
        self._random = random
        self._open = False
        names = {f"c{n}": random.choice(KINDS) for n in range(random.randint(2, 5))}
        columns = {"k": random.choice(KEYS), "l": random.choice(["INTEGER", "VARCHAR"]), **names}
        key = random.choice([*[("k",)] * 6, ("k", "l"), ("k", "l"), ()])
        self._zone = f"SET TimeZone = '{random.choice(ZONES)}'"
        setup = [SETTINGS, MACROS, self._zone, create("t", columns, key)]
        indexed = [name for name, kind in names.items() if kind in INDEXED]
        if indexed and random.random() < 0.4:
            setup.append(f"CREATE INDEX by_c ON t ({random.choice(indexed)})")
        if random.random() < 0.7:
            how = "OR REPLACE " if key else ""
            setup.append(f"INSERT {how}INTO t VALUES {rows(random, columns, 1)}")
        self._twin = Twin("; ".join(setup), _views(random, list(columns)), path=path)
        self._changes = TypedChange(random, "t", columns, key)

    def run(self) -> None:
        """Runs statements, in transactions or alone, and compares now and then."""
        for _ in range(_STEPS):
            self._step()
            if self._random.random() < 0.2:
                self._twin.check()
        self._end("COMMIT")
        self._twin.check()
        self._twin.db.close()
        self._twin.duck.close()

    def _step(self) -> None:
        chance = self._random.random()
        if chance < 0.1:
            if self._open:
                self._end(self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            else:
                self._open = self._twin.run("BEGIN")
        elif chance < 0.13 and not self._open:
            self._twin.reopen()
            self._twin.db.execute(self._zone)
        elif not self._twin.run(*self._changes.statement()):
            self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        if self._open:
            self._twin.run(how)
            self._open = False


def _views(random: Random, names: list[str]) -> str:
    a, b, c = (random.choice(names) for _ in "abc")
    return f"""
        CREATE MATERIALIZED VIEW grouped AS
            SELECT {a}, count(*) AS n, count({b}) AS b, max({c}) AS c FROM t GROUP BY {a};
        CREATE MATERIALIZED VIEW joined AS
            SELECT x.{b}, y.{c} FROM t x LEFT JOIN t y ON x.{a} = y.{a} AND x.k <> y.k;
        CREATE MATERIALIZED VIEW kept AS SELECT * FROM t WHERE {c} IS NOT NULL
    """


@settings(max_examples=examples(48), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_statement_does_what_it_does_in_duckdb(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        World(Random(seed), Path(folder) / "t.duckdb").run()
