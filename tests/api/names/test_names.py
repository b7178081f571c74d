"""Names mean what they mean to DuckDB: a grid of spellings, statements and surroundings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import IvmError
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER, some

pytestmark = pytest.mark.full(smoke=2)

TABLES = ["t", '"a.b"', '"Q""x"', '"Ä"', '"ä"', "s.t", "a.b", "s1.s2.t", "s1.t", '"s.s".t']
"""Tables of the database, each of them under a view."""

SETUP = [
    'CREATE SCHEMA s; CREATE SCHEMA a; CREATE SCHEMA s1; CREATE SCHEMA s1.s2; CREATE SCHEMA "s.s"',
    *[f"CREATE TABLE {name} (id INT PRIMARY KEY, w VARCHAR)" for name in TABLES],
]

SURROUNDINGS: dict[str, tuple[list[str], list[str]]] = {
    "alone": ([], []),
    "temp": (
        [
            "CREATE TEMP TABLE t (id INT PRIMARY KEY, w VARCHAR)",
            'CREATE TEMP TABLE "Ä" (id INT PRIMARY KEY, w VARCHAR)',
            "CREATE TEMP VIEW \"a.b\" AS SELECT 9 AS id, 'view' AS w",
        ],
        ["temp.t", 'temp.main."Ä"'],
    ),
    "attached": (
        [
            "ATTACH '{folder}/arch.duckdb' AS arch",
            "CREATE TABLE arch.t (id INT PRIMARY KEY, w VARCHAR)",
            "CREATE SCHEMA arch.s",
            "CREATE TABLE arch.s.t (id INT PRIMARY KEY, w VARCHAR)",
            "ATTACH '{folder}/s1.duckdb' AS s1",
            "CREATE SCHEMA s1.s2",
            "CREATE TABLE s1.s2.t (id INT PRIMARY KEY, w VARCHAR)",
        ],
        ["arch.main.t", "arch.s.t", "s1.s2.t"],
    ),
    "schemas": (
        [
            "CREATE SCHEMA shop",
            "CREATE TABLE shop.shop.t (id INT PRIMARY KEY, w VARCHAR)",
            "CREATE SCHEMA shop.temp",
            "CREATE TABLE shop.temp.t (id INT PRIMARY KEY, w VARCHAR)",
            "CREATE SCHEMA shop.main.x",
            "CREATE TABLE shop.main.x.t (id INT PRIMARY KEY, w VARCHAR)",
            "CREATE SCHEMA shop.shop.main",
            "CREATE TABLE shop.shop.main.t (id INT PRIMARY KEY, w VARCHAR)",
        ],
        ["shop.shop.t", "shop.temp.t", "shop.main.x.t", "shop.shop.main.t"],
    ),
}
"""What else there is, and the tables in it."""

SPELLINGS = [
    *["t", "T", '"T"', "main.t", "MAIN.T", "shop.t", "shop.main.t", 'Shop."MAIN".T'],
    *['"a.b"', 'main."a.b"', '"A.B"', "a.b", "shop.a.b", '"a"."b"', 'shop.main."a.b"'],
    *['"Q""x"', 'main."q""X"', '"Ä"', '"ä"', 'main."Ä"', "S.t", "shop.s.t", '"s.s".t'],
    *["s1.s2.t", "shop.s1.s2.t", "S1.S2.T", "s2.t", "s1.t", "shop.s1.t", '"s1.s2".t'],
    *["temp.t", "temp.main.t", "TEMP.main.T", "arch.t", "arch.main.t", "arch.s.t", "ARCH.T"],
    *["shop.shop.t", "shop.temp.t", "main.x.t", "shop.main.x.t", "shop.shop.main.t"],
    *["memory.t", "system.t", "nope.t", "shop.nope.t", "main.main.t", "nope.main.t", "x.t"],
]
CHANGES = [
    "INSERT INTO {name} VALUES ({id}, 'values')",
    "INSERT INTO {name} (W, ID) SELECT 'select', {id} + 1",
    "UPDATE {name} SET w = 'one' WHERE id = {id}",
    "DELETE FROM {name} WHERE id = {id}",
    "UPDATE {name} SET w = 'from' FROM range({id}, {id} + 5) r(i) WHERE id = i",
    "MERGE INTO {name} USING (SELECT {id} + 2 AS k) ON id = k WHEN NOT MATCHED THEN INSERT VALUES"
    " (k, 'merge')",
    "COPY {name} FROM '{folder}/rows.csv'",
    "INSERT OR REPLACE INTO {name} VALUES ({id} + 2, 'replace')",
    "TRUNCATE {name}",
    "INSERT INTO {name} VALUES ({id}, 'kept')",
]


class Pair:
    """The same statements on a plain DuckDB and on ours."""

    def __init__(self, folder: Path, surroundings: str) -> None:
        (folder / "plain").mkdir()
        (folder / "ours").mkdir()
        (folder / "rows.csv").write_text("id,w\n-7,csv\n")
        self.folder = folder
        self.plain = duckdb.connect(str(folder / "plain" / "shop.duckdb"))
        self.ours = ivm.connect(folder / "ours" / "shop.duckdb", durability="interval")
        more, others = SURROUNDINGS[surroundings]
        for sql in SETUP:
            self.both(sql)
        for i, name in enumerate(TABLES):
            self.ours.execute(f"CREATE MATERIALIZED VIEW v{i} AS SELECT * FROM {name}")
        for sql in more:
            self.both(sql)
        own = [
            f"shop.{name}" if "." in name.replace('"a.b"', "") else f"shop.main.{name}"
            for name in TABLES
        ]
        self.tables = [*own, *others]

    def both(self, sql: str, **values: Any) -> bool:
        """Run a statement on both sides; whether they did it."""
        failed = []
        for side, run in (("plain", self.plain.execute), ("ours", self.ours.execute)):
            try:
                run(sql.format(folder=self.folder / side, **values)).fetchall()
            except (duckdb.Error, IvmError) as error:
                failed.append(f"{side}: {error}")
        assert len(failed) != 1, (sql, values, failed)
        return not failed

    def compare(self, *context: Any) -> None:
        parts = [f"SELECT {i} AS i, id, w FROM {name}" for i, name in enumerate(self.tables)]
        query = " UNION ALL ".join(parts)
        wanted, views = sorted(self.plain.execute(query).fetchall()), range(len(TABLES))
        assert sorted(self.ours.execute(query).fetchall()) == wanted, context
        held = " UNION ALL ".join(f"SELECT {i} AS i, id, w FROM v{i}" for i in views)
        kept = sorted(self.ours.execute(held).fetchall())
        assert kept == [row for row in wanted if row[0] in views], context


@pytest.fixture(params=list(SURROUNDINGS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, request.param)
    yield made
    made.plain.close()
    made.ours.close()


def test_changes_touch_the_table_that_duckdb_means(pair: Pair) -> None:
    for i, name in enumerate(some(SPELLINGS, 6)):
        tried = CHANGES if TIER == "fuzz" else [CHANGES[0], CHANGES[i % len(CHANGES)]]
        done = [pair.both(change, name=name, id=10 * i + k) for k, change in enumerate(tried)]
        if any(done):
            pair.compare(name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v AS V FROM {}",
        "SELECT v, v AS V, id AS Id FROM {} WHERE v > 0",
        "SELECT name AS Name, NAME AS n, V FROM {} ORDER BY id",
        'SELECT name AS "NAME", v AS "my V" FROM {}',
        "SELECT * RENAME (v AS V) FROM {}",
        "SELECT v AS V FROM (SELECT v, id AS V2 FROM {}) -- V",
        "WITH c AS (SELECT v AS V, id FROM {}) SELECT v, V, Id FROM c",
        "SELECT max(V) AS v, name AS NAME FROM {} GROUP BY ALL",
    ],
)
def test_capitals_of_aliases_are_kept(query: str) -> None:
    """In views, and in answers from memory; DuckDB's DESCRIBE does not tell them."""
    setup = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER, name VARCHAR);" + (
        "INSERT INTO t VALUES (1, 2, 'a'), (2, 3, 'b')"
    )
    with ivm.connect() as db, contextlib.closing(duckdb.connect()) as peer:
        for each in (db, peer):
            each.execute(setup)
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT id, v, name FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW mine AS {query.format('t')}")
        peer.execute(f"CREATE TABLE mine AS {query.format('t')}")
        peer.execute("CREATE VIEW w AS FROM t")
        for asked in (query.format("t"), query.format("w"), "FROM mine"):
            wanted = [name for name, *_ in peer.execute(asked).description]
            for _ in range(3):  # later ones are answered from memory
                assert db.execute(asked).columns == wanted, asked
        db.execute("INSERT INTO t VALUES (3, 4, 'c')")
        assert_verified(db)
