"""Statements that wait for the writers' turn while another session changes what they name.

Law: what waited does what plain DuckDB does when it comes after the other session's commit, or
raises a clear error. Each statement has a table of its own, so that all of them can wait at once
and it does not matter in which order they then come.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import ConstraintError, InputError, IvmError
from tests.support.crash_image import image
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER

pytestmark = pytest.mark.full(smoke=1)

ROWS = "(1, 1, 1, 1), (2, 2, NULL, 2), (3, 3, 1, 3)"
SHARED = [
    "CREATE MACRO m(x) AS x + 1",
    "CREATE TABLE other(id INT, a INT, b INT, c INT)",
    "CREATE VIEW p AS SELECT id + 10 AS id, a, b, c FROM other",
    "CREATE MATERIALIZED VIEW kept AS SELECT b, m(count(*)) AS n FROM p GROUP BY b",
]
TABLE = ["CREATE TABLE {t}(id INT{key}, a INT, b INT, c INT)", f"INSERT INTO {{t}} VALUES {ROWS}"]
VIEWS = ["SELECT id, b FROM {t} WHERE b > 0", "SELECT b, count(*) AS n FROM {t} GROUP BY b"]

DDL = {
    "unique index": ["CREATE UNIQUE INDEX u_{t} ON {t}(a)"],
    "wider type": ["ALTER TABLE {t} ALTER a TYPE BIGINT"],
    "other type": ["ALTER TABLE {t} ALTER a TYPE VARCHAR"],
    "other values": ["ALTER TABLE {t} ALTER b TYPE INT USING b + 10"],
    "add column": ["ALTER TABLE {t} ADD COLUMN z INT DEFAULT 7"],
    "drop column": ["ALTER TABLE {t} DROP COLUMN c"],
    "rename column": ["ALTER TABLE {t} RENAME COLUMN a TO a2"],
    "not null": ["ALTER TABLE {t} ALTER a SET NOT NULL"],
    "default": ["ALTER TABLE {t} ALTER c SET DEFAULT 5"],
    "primary key": ["ALTER TABLE {t} ADD PRIMARY KEY (id)"],
    "check": ["CREATE OR REPLACE TABLE {t}(id INT, a INT CHECK (a > 100), b INT, c INT)"],
    "generated": ["CREATE OR REPLACE TABLE {t}(id INT, a INT, b INT, c INT AS (a + b))"],
    "equal table": [
        "CREATE OR REPLACE TABLE {t}(id INT{key}, a INT, b INT, c INT)",
        "INSERT INTO {t} VALUES (2, 7, 7, 7), (8, 8, 8, 8)",
    ],
    "other order": ["CREATE OR REPLACE TABLE {t}(b INT, c VARCHAR, a INT, id INT{key})"],
    "dropped and made": [
        "DROP TABLE {t} CASCADE",
        "CREATE TABLE {t}(a INT, id INT{key})",
        "INSERT INTO {t} VALUES (5, 2)",
    ],
    "dropped": ["DROP TABLE {t} CASCADE"],
    "a view in its place": ["DROP TABLE {t} CASCADE", "CREATE VIEW {t} AS FROM other"],
    "a materialized view in its place": [
        "DROP TABLE {t} CASCADE",
        "CREATE MATERIALIZED VIEW {t} AS FROM other",
    ],
    "renamed": [
        "DROP MATERIALIZED VIEW v_{t}",
        "ALTER TABLE {t} RENAME TO r_{t}",
        "CREATE TABLE {t}(id BIGINT, b DOUBLE)",
    ],
    "macro": ["CREATE OR REPLACE MACRO m(x) AS x + 100"],
    "plain view": ["CREATE OR REPLACE VIEW p AS SELECT id + 30 AS id, a, b, c FROM other"],
    "drop view": ["DROP MATERIALIZED VIEW v_{t}"],
    "replace view": ["CREATE OR REPLACE MATERIALIZED VIEW v_{t} AS SELECT b + 1 AS b FROM {t}"],
    "create view": ["CREATE MATERIALIZED VIEW w_{t} AS SELECT sum(b) AS s FROM {t}"],
}
"""What the other session does to every statement's table; {key} is PRIMARY KEY or nothing."""

STATEMENTS = [
    "INSERT INTO {t} VALUES (4, 1, 4, 4)",
    "INSERT INTO {t} (id, b) VALUES (5, 5)",
    "INSERT INTO {t} (a, id) VALUES (NULL, 5)",
    "INSERT INTO {t} SELECT 4, 1, 4, 4",
    "INSERT INTO {t} VALUES (4, 4, 4, 4) RETURNING *",
    "INSERT OR REPLACE INTO {t} VALUES (2, 4, 4, 4)",
    "INSERT INTO {t} (id, b) SELECT id, b FROM p",
    "UPDATE {t} SET b = 9 WHERE id = 2",
    "UPDATE {t} SET a = 9, b = NULL, c = 1 WHERE id = 2",
    "UPDATE {t} SET a = a + 1 WHERE id = 2",
    "UPDATE {t} SET b = m(b) WHERE id = 2",
    "UPDATE {t} SET b = b + 1 FROM range(3) r(i) WHERE id = i",
    "DELETE FROM {t} WHERE id = 2",
    "DELETE FROM {t} WHERE b >= 1",
    "MERGE INTO {t} USING (SELECT 2 AS k, 6 AS v) ON id = k WHEN MATCHED THEN UPDATE SET b = v",
    "COPY {t} FROM '{csv}'",
    "TRUNCATE {t}",
    "ALTER TABLE {t} ADD COLUMN y INT",
    "CREATE UNIQUE INDEX i_{t} ON {t}(c)",
    "CREATE TABLE n_{t} AS SELECT id, b FROM {t}",
    "CREATE MATERIALIZED VIEW x_{t} AS SELECT id, max(b) AS b FROM {t} GROUP BY id",
    "PREPARE p AS INSERT INTO {t} VALUES ($1, $2, 4, 4); EXECUTE p(4, 1)",
    "PREPARE p AS UPDATE {t} SET b = $2 WHERE id = $1; EXECUTE p(2, 8)",
    "BEGIN; INSERT INTO {t} VALUES (4, 4, 4, 4); DELETE FROM {t} WHERE id = 1; COMMIT",
]

Call = tuple[Callable[[ivm.Database, str], object], str]
CALLS: list[Call] = [
    (
        lambda db, t: db.insert(t, [{"id": 4, "a": 1, "b": 4}]),
        "INSERT INTO {t} (id, a, b) VALUES (4, 1, 4)",
    ),
    (
        lambda db, t: db.delete(t, {"id": [2]}),
        "DELETE FROM {t} WHERE id = 2",
    ),
    (
        lambda db, t: db.upsert(t, {"id": [2], "b": [9]}),
        "INSERT INTO {t} (id, b) VALUES (2, 9) ON CONFLICT (id) DO UPDATE SET b = excluded.b",
    ),
    (
        lambda db, t: db.apply(t, {"id": [4], "a": [4], "b": [4], "c": [4]}, [1]),
        "INSERT INTO {t} (id, a, b, c) VALUES (4, 4, 4, 4)",
    ),
]
"""Python calls of keyed tables, and the SQL that says the same."""

OTHERWISE = {
    ("add column", "c3"): InputError,  # rows with weights have every column
    ("check", "c1"): InputError,  # without a key, whole rows are deleted
    ("generated", "c1"): InputError,
    ("renamed", "c1"): InputError,
    ("other order", "c1"): ConstraintError,  # the row is not there any more
}
"""Calls that are refused where DuckDB does something or nothing, by kind and number."""


class World:
    """Both databases, and a table for every statement."""

    def __init__(self, folder: Path, key: str) -> None:
        (folder / "rows.csv").write_text("4,1,4,4\n")
        self.folder, self.path, self.key = folder, folder / "w.duckdb", key
        self.ours, self.plain = ivm.connect(self.path), duckdb.connect()
        self.jobs = [(f"s{i}", text) for i, text in enumerate(STATEMENTS)]
        self.calls = [(f"c{i}", *call) for i, call in enumerate(CALLS if key else [])]
        self.tables = [*[name for name, _ in self.jobs], *[name for name, *_ in self.calls]]
        self.refused: set[str] = set()
        for sql in SHARED:
            self.both(sql)
        self.ours.execute("BEGIN")
        for name in self.tables:
            for sql in TABLE:
                self.both(sql, name)
        for i, name in enumerate(self.tables):
            self.both(f"CREATE MATERIALIZED VIEW v_{{t}} AS {VIEWS[i % 2]}", name)
        self.ours.execute("COMMIT")
        self.both("INSERT INTO other VALUES (1, 1, 1, 1)")

    def text(self, sql: str, name: str) -> str:
        return sql.format(t=name, key=self.key, csv=self.folder / "rows.csv")

    def both(self, sql: str, name: str = "") -> None:
        self.ours.execute(self.text(sql, name))
        self.plainly(sql, name)

    def plainly(self, sql: str, name: str) -> None:
        self.plain.execute(self.text(sql, name).replace("MATERIALIZED VIEW", "VIEW")).fetchall()

    def wait_beside(self, kind: str) -> None:
        """All statements wait for a transaction that does this to every table."""
        self.ours.execute("BEGIN")
        jobs = [*self._statements(), *self._python_calls()]
        waiting = [threading.Event() for _ in jobs]
        ended: list[tuple[str, IvmError | None]] = []
        here = threading.local()
        writer_lock = self.ours._engine.writer_lock
        wait = writer_lock._wait

        def noticed() -> None:
            here.waits.set()
            wait()

        def run(event: threading.Event, name: str, job: Callable[[], object]) -> None:
            here.waits, error = event, None
            try:
                job()
            except IvmError as raised:
                error = raised
            ended.append((name, error))
            event.set()

        writer_lock._wait = noticed  # type: ignore[method-assign]
        threads = [
            threading.Thread(target=run, args=(event, *job))
            for event, job in zip(waiting, jobs, strict=True)
        ]
        for thread, event in zip(threads, waiting, strict=True):
            thread.start()
            assert event.wait(60)
        assert not ended, ended  # all of them wait
        for sql in DDL[kind]:
            for name in self.tables if "{t}" in sql else [""]:
                self.both(sql, name)
        self.ours.execute("COMMIT")
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        writer_lock._wait = wait  # type: ignore[method-assign]
        self._compare_errors(kind, dict(ended))

    def _statements(self) -> Iterator[tuple[str, Callable[[], object]]]:
        for name, sql in self.jobs:
            yield name, functools.partial(self._execute, self.text(sql, name))

    def _execute(self, sql: str) -> object:
        return self.ours.execute(sql).fetchall()

    def _python_calls(self) -> Iterator[tuple[str, Callable[[], object]]]:
        for name, call, _ in self.calls:
            yield name, functools.partial(call, self.ours, name)

    def _compare_errors(self, kind: str, ended: dict[str, IvmError | None]) -> None:
        for name, sql in [*self.jobs, *[(name, sql) for name, _, sql in self.calls]]:
            error, message = ended[name], None
            try:
                self.plainly(sql, name)
            except duckdb.Error as raised:
                message = str(raised)
                if sql.startswith("BEGIN"):
                    self.plain.execute("ROLLBACK")
            told = (sql, f"ours: {error!r}", f"DuckDB: {message}")
            if (kind, name) in OTHERWISE:
                assert (type(error), message) == (OTHERWISE[kind, name], None), told
                self.refused.add(name)
            else:
                assert (error is None) == (message is None), told

    def compare(self, db: ivm.Database, when: str) -> None:
        """Every relation of ours is DuckDB's, and every view what its query says."""
        names = [table.name for table in db.tables()]
        for name in (*names, *[view.name for view in db.views()]):
            if name in self.refused or name.partition("_")[2] in self.refused:
                continue
            expected = Counter(self.plain.execute(f"FROM {name}").fetchall())
            assert Counter(db.execute(f"FROM {name}").fetchall()) == expected, (when, name)
        assert_verified(db, told=when)

    def close(self) -> None:
        self.ours.close()
        self.plain.close()


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[[str], World]]:
    made: list[World] = []

    def make(key: str) -> World:
        made.append(World(tmp_path, key))
        return made[-1]

    yield make
    for world in made:
        world.close()


KEY = " PRIMARY KEY"
CASES = [(kind, key) for kind in DDL for key in ("", KEY) if (kind, key) != ("primary key", KEY)]
_SHORT = [("unique index", ""), ("a view in its place", KEY)]


@pytest.mark.parametrize(("kind", "key"), _SHORT if TIER == "quick" else CASES)
def test_what_waited_meets_the_catalog_as_it_is(
    worlds: Callable[[str], World], kind: str, key: str
) -> None:
    world = worlds(key)
    world.wait_beside(kind)
    with ivm.connect(image(world.path, world.folder / "image.duckdb")) as copy:
        world.compare(copy, "in the image of a crash")
    world.compare(world.ours, "at once")
    world.ours.close()
    world.ours = ivm.connect(world.path)
    world.compare(world.ours, "opened again")
