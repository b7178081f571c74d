"""Random work beside an attached database that has relations of the same names, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import IvmError
from tests.tiers import examples, seeds

pytestmark = pytest.mark.full(smoke=1)

ATTACH = "ATTACH '{folder}/arch.duckdb' AS arch"
SETUP = [
    "CREATE TABLE t(c0 INT, c1 INT)",
    "CREATE TABLE k(c0 INT PRIMARY KEY, c1 INT)",
    "INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO k VALUES (1, 1)",
    "CREATE MATERIALIZED VIEW v1 AS SELECT c0, count(*) AS c1 FROM t GROUP BY c0",
    "CREATE MATERIALIZED VIEW v2 AS SELECT c0, mad(c1)::INT AS c1 FROM t GROUP BY ROLLUP (c0)",
    "CREATE MATERIALIZED VIEW v3 AS SELECT 1 AS c0, mad(c1)::INT AS c1 FROM t",
    "CREATE MATERIALIZED VIEW v4 AS SELECT v3.c1 AS c0, k.c1 FROM v3, k",
    ATTACH,
    "CREATE TABLE arch.t(c0 INT, c1 INT); CREATE TABLE arch.k(c0 INT PRIMARY KEY, c1 INT)",
    "CREATE TABLE arch.v1(c0 INT, c1 INT)",
]
WRITTEN = ['"arch".t', "arch.k", "arch.v1", "t", "k", "main.t", "arch.main.t", "w.t"]
READ = ["v1", "v2", "v3", "v4", "t", "k", "arch.t", "arch.v1", "arch.main.k", "w.v1", "main.v3"]
CHANGES = [
    "INSERT INTO {into} VALUES ({n}, {m})",
    "INSERT INTO {into} VALUES ({n}, {m}), ({n} + 1, {m})",
    "INSERT INTO {into} SELECT c0, c1 FROM {of}",
    "INSERT INTO {into} SELECT {n} + row_number() OVER (ORDER BY c0, c1), c1 FROM {of}",
    "UPDATE {into} SET c1 = c1 + 1 WHERE c0 = {m}",
    "UPDATE {into} SET c1 = o.m FROM (SELECT c0 AS g, max(c1) AS m FROM {of} GROUP BY c0) o"
    " WHERE c0 = g",
    "DELETE FROM {into} WHERE c0 = {m}",
    "DELETE FROM {into} WHERE c0 IN (SELECT c0 FROM {of})",
    "INSERT INTO {into} VALUES ('x', 1)",
    "MERGE INTO {into} USING (SELECT {m} AS a, {n} AS b) ON c0 = a"
    " WHEN MATCHED THEN UPDATE SET c1 = b WHEN NOT MATCHED THEN INSERT VALUES (a, b)",
    "CREATE OR REPLACE TABLE arch.t AS SELECT c0, c1 FROM {of}",
    "CREATE OR REPLACE TABLE spare AS SELECT c0, c1 FROM {of}",
]
ALL = ["t", "k", "v1", "v2", "v3", "v4", "arch.t", "arch.k", "arch.v1"]


class Pair:
    """Ours and plain DuckDB, each with its files."""

    def __init__(self, folder: Path) -> None:
        self.folders = {side: folder / side for side in ("ours", "plain")}
        for place in self.folders.values():
            place.mkdir()
        self.done: list[str] = []
        self.connect()
        for sql in SETUP:
            assert self.both(sql)

    def connect(self) -> None:
        self.ours = ivm.connect(self.folders["ours"] / "w.duckdb")
        self.plain = duckdb.connect(str(self.folders["plain"] / "w.duckdb"))

    def both(self, sql: str) -> bool:
        """Run it on both sides; whether they did it."""
        errors: dict[str, Exception] = {}
        for side, run in (("ours", self.ours.execute), ("plain", self.plain.execute)):
            text = sql.format(folder=self.folders[side])
            if side == "plain":
                text = text.replace("MATERIALIZED VIEW", "VIEW")
            try:
                run(text).fetchall()
            except (duckdb.Error, IvmError) as error:
                errors[side] = error
        if "single attached database" in str(errors.get("plain")):
            return False  # a change of no rows has not written to the database here
        assert len(errors) != 1, (self.done[-30:], sql, {k: str(v) for k, v in errors.items()})
        return not errors

    def compare(self, told: object) -> None:
        for name in ALL:
            query = f"SELECT c0, c1 FROM {name}"
            found, expected = (Counter(db.execute(query).fetchall()) for db in self.sides)
            assert found == expected, (told, name, found - expected, expected - found)

    @property
    def sides(self) -> tuple[ivm.Database, duckdb.DuckDBPyConnection]:
        return self.ours, self.plain

    def reopen(self) -> None:
        self.close()
        self.connect()
        assert self.both(ATTACH)

    def close(self) -> None:
        self.ours.close()
        self.plain.close()


@pytest.mark.parametrize("seed", seeds(examples(4)))
def test_random_work_beside_an_attached_database(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    pair = Pair(tmp_path)
    done = pair.done
    for n in range(10, 400, 10):
        kind = choice.random()
        if kind < 0.05:
            pair.reopen()
        one = choice.choice([*WRITTEN, "arch.t"])
        inside = kind > 0.5
        if inside:
            assert pair.both("BEGIN")
            done.append("BEGIN")
        end = choice.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        for _ in range(choice.randint(1, 4)):
            into = one if choice.random() < 0.8 else choice.choice(WRITTEN)
            values = {"n": n, "m": choice.randint(1, 5), "into": into, "of": choice.choice(READ)}
            text = choice.choice([*CHANGES, "SELECT c0, c1 FROM {of}"]).format(**values)
            done.append(text)
            if not pair.both(text):
                end = "ROLLBACK"
                break
        if inside:
            done.append(end)
            pair.both(end)
        pair.compare(done[-6:])
    pair.close()
