"""Random ALTERs between random changes, with openings and crashes, against plain DuckDB."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ivm
from ivm.engine.tables import key_indexes
from tests.support.crash_image import image
from tests.support.view_oracle import assert_verified
from tests.tiers import examples, seeds
from tests.torture.ddl_twins import Twins

pytestmark = pytest.mark.full(smoke=1)

VIEWS = [
    "linear", "grouped", "joined", "keyed", "ranked", "recomputed", "over_recomputed",
    "through_view", "over_grouped", "of_schema",
]  # fmt: skip
TYPES = ["INTEGER", "VARCHAR", "DECIMAL(8,2)", "TIMESTAMP", "INTEGER DEFAULT 7", "INTEGER[]"]
DML = [
    "INSERT INTO t(id, a, b) VALUES (20, 1, 7), (21, 1, 7), (22, 9, -2)",
    "INSERT INTO t(id, a, b) VALUES (30, 2, 8)",
    "UPDATE t SET b = b + 1 WHERE a = 1",
    "DELETE FROM t WHERE a = 0",
    "INSERT OR REPLACE INTO k(id, v) VALUES (9, 3)",
    "UPDATE k SET v = v + 1 WHERE id = 2",
    "UPDATE k SET v = 6 WHERE id = 3",
    "DELETE FROM k WHERE id = 9",
    "INSERT INTO k(id, v) VALUES (2, 5), (11, 6) ON CONFLICT DO UPDATE SET v = excluded.v",
    "INSERT INTO s1.u(a, b) VALUES (1, 5)",
    "DELETE FROM s1.u WHERE b = 5",
]


class Altered(Twins):
    """Twins whose tables are altered at random."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path, VIEWS)
        self.choice = random.Random(seed)
        self._names = (f"n{i}" for i in itertools.count())

    def alter(self) -> str:
        """A statement; it may be refused, by both or by us for a view's sake."""
        choice = self.choice
        table = choice.choice(["t", "t", "k", "s1.u"])
        columns = [
            row[0] for row in self.plain.execute(f"DESCRIBE {table}").fetchall() if row[0] != "id"
        ]
        column, new = choice.choice(columns), next(self._names)
        alter = f"ALTER TABLE {table}"
        return choice.choice(
            [
                f"{alter} ADD COLUMN {new} {choice.choice(TYPES)}",
                f"{alter} ADD COLUMN {new} {choice.choice(TYPES)}",
                f"{alter} DROP COLUMN {column}",
                f"{alter} RENAME COLUMN {column} TO {new}",
                f"{alter} ALTER {column} TYPE VARCHAR",
                f"{alter} ALTER {column} TYPE INTEGER USING length({column}::VARCHAR)",
                f"{alter} ALTER {column} SET DEFAULT NULL",
                f"COMMENT ON COLUMN {table}.{column} IS '{new}'",
                f"CREATE INDEX {new} ON k (id)",
            ]
        )

    def fill(self) -> str:
        """A change of some column, old or added."""
        table = self.choice.choice(["t", "k"])
        columns = self.plain.execute(f"DESCRIBE {table}").fetchall()
        name = self.choice.choice([row[0] for row in columns if row[1] != "INTEGER[]"][1:])
        return f"UPDATE {table} SET {name} = '5' WHERE id = {self.choice.choice([1, 2, 11])}"

    def ingest(self) -> None:
        """An event with some of the columns, which leaves the others as they are."""
        key, value = self.choice.choice([1, 2, 3, 50]), self.choice.randint(0, 9)
        self.ours.ingest("k", [json.dumps({"op": "u", "after": {"id": key, "v": value}})])
        self.plain.execute(
            f"INSERT INTO k(id, v) VALUES ({key}, {value}) ON CONFLICT DO UPDATE SET v = excluded.v"
        )

    def turn(self) -> None:
        """One transaction of changes and ALTERs in any order."""
        makers: list[Callable[[], str]] = [self.alter, self.fill, lambda: self.choice.choice(DML)]
        weights = self.choice.choice([(1, 1, 1), (1, 0, 0), (0, 1, 2)])
        count = self.choice.randint(1, 4)
        statements = [make() for make in self.choice.choices(makers, weights, k=count)]
        self.transaction(statements, self.choice.choice(["COMMIT", "COMMIT", "ROLLBACK"]))

    def crash(self, to: Path) -> None:
        """What kill −9 would leave now is right."""
        with ivm.connect(image(self.path, to)) as left:
            for table in self.ours.tables():
                expected = Counter(map(str, self.plain.execute(f"FROM {table.name}").fetchall()))
                found = Counter(map(str, left.execute(f"FROM {table.name}").fetchall()))
                assert found == expected, table.name
            assert_verified(left)


@pytest.mark.full
@pytest.mark.parametrize("seed", seeds(examples(8)))
def test_views_follow(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(key_indexes, "LARGE", 0)
    twins = Altered(tmp_path / "twins.duckdb", seed)
    for number in range(12):
        twins.turn()
        if twins.choice.random() < 0.5:
            twins.ingest()
        twins.compare((seed, number))
        if twins.choice.random() < 0.15:
            twins.crash(tmp_path / f"crashed{number}.duckdb")
        if twins.choice.random() < 0.15:
            twins.reopen()
            twins.compare((seed, number, "opened"))
    assert_verified(twins.ours)
    twins.close()
