"""Random streams through the public API: tables of every type, views over views, any change.

One stream makes tables and views, changes the tables by statements, transactions, rollbacks and
calls, closes, crashes and reopens the database, and compares every view and changefeed with plain
views of a plain DuckDB over the same tables after every epoch.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import duckdb
import pytest

import ivm
from ivm.errors import EvaluationError, IvmError
from tests.random_sql.random_tables import Changes, Table
from tests.random_sql.random_typed_select import TypedSelect
from tests.random_sql.typed_values import Columns
from tests.support.stream_rows import SETTINGS, Feed, multiset

MANY = 4000  # rows of an answer that is still worth comparing
NAMES = {"ENUM('low', 'mid', 'high')": "mood"}


def twice(x: int) -> int:
    return x * 2


def shout(x: str) -> str:
    return x.upper() + "!"


FUNCTIONS = [
    ivm.Function("twice", twice, ["BIGINT"], "BIGINT"),
    ivm.Function("shout", shout, ["VARCHAR"], "VARCHAR"),
]


TIGHT = [  # queries that fail on some rows
    "SELECT i, (i * 9)::TINYINT AS o0 FROM m", "SELECT sum(i)::TINYINT AS o0 FROM n",
    "SELECT i % 3 AS i, (count(*) * 9)::TINYINT AS o0 FROM n GROUP BY 1",
    "SELECT n.i, (SELECT p.j FROM p WHERE p.i = n.i) AS o0 FROM n",
    "SELECT e.i, (m.i * e.i)::TINYINT AS o0 FROM e JOIN m ON e.i = m.i",
    "SELECT i, (max(i * 40) OVER (PARTITION BY i % 2))::TINYINT AS o0 FROM m",
    "SELECT i, sum((i * 9)::TINYINT) OVER (ORDER BY i) AS o0 FROM m",
]  # fmt: skip


class OverError(Exception):
    """Nothing is left to compare: DuckDB fails, or a recomputed view on rows that are committed."""


class Stream:
    """A database under test, and the plain one.

    Args:
        seed: decides everything.
        folder: for the database's files.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.crashes = 0
        self.path = folder / "stream.duckdb"
        self.db = ivm.connect(self.path, functions=FUNCTIONS)
        self.twin = duckdb.connect()
        for function in FUNCTIONS:
            function.register(self.twin)
        self.tables = [
            Table("m", ("i",), self.random), Table("n", (), self.random),
            Table("e", (), self.random), Table("p", ("i", "j"), self.random),
        ]  # fmt: skip
        self.changes = Changes(self.random, self.tables)
        self.relations: dict[str, Columns] = {}
        self.views: dict[str, str] = {}
        self.feeds: dict[str, Feed] = {}
        self.log: list[str] = []

    def close(self) -> None:
        for feed in self.feeds.values():
            feed.close()
        self.db.close()
        self.twin.close()

    def both(self, sql: str) -> None:
        self.log.append(sql)
        self.twin.execute(sql)
        self.db.execute(sql)

    def run(self) -> None:
        self.make()
        self.compare()
        with contextlib.suppress(OverError):
            for _ in range(14):
                self.step()
                if self.random.random() < 0.7:
                    self.compare()
            self.compare()

    # -- making ---------------------------------------------------------------------------------

    def make(self) -> None:
        self.both(SETTINGS)
        for table in self.tables:
            self.both(table.create())
            self.relations[table.name] = dict(table.columns)
            if self.random.random() < 0.8:
                rows = ", ".join(table.row() for _ in range(self.random.randint(1, 14)))
                how = "OR IGNORE " if table.key else ""
                self.both(f"INSERT {how}INTO {table.name} VALUES {rows}")
        for _ in range(self.random.randint(3, 7)):
            self.add_view()

    def describe(self, query: str) -> Columns:
        found = self.twin.execute(f"DESCRIBE {query}").fetchall()
        return {name: NAMES.get(kind, kind) for name, kind, *_ in found}

    def query(self) -> str | None:
        """A random query that DuckDB answers."""
        for _ in range(8):
            try:
                text = TypedSelect(self.random, self.relations, self.describe).text
                (count,) = self.twin.execute(f"SELECT count(*) FROM ({text})").fetchone() or (0,)
                self.twin.execute(text).fetchall()
            except duckdb.Error:
                continue
            if count <= MANY:
                return text
        return None

    def add_view(self) -> None:
        query = self.random.choice(TIGHT) if self.random.random() < 0.15 else self.query()
        if query is None:
            return
        name = f"v{len(self.views)}"
        self.log.append(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        try:
            self.db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        except IvmError:
            with pytest.raises(duckdb.Error):
                self.twin.execute(query).fetchall()
            return
        self.twin.execute(f"CREATE VIEW {name} AS {query}")
        self.views[name] = query
        self.relations[name] = self.describe(f"FROM {name}")
        if self.random.random() < 0.4:
            self.feeds[name] = Feed(self.db, name)

    # -- changing -------------------------------------------------------------------------------

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.55:
            self.transaction([self.changes.statement()], begin=False)
        elif choice < 0.8:
            statements = [self.changes.statement() for _ in range(self.random.randint(2, 5))]
            self.transaction(statements, begin=True)
        elif choice < 0.84:
            self.reopen()
        elif choice < 0.88:
            self.crash()
        elif len(self.views) < 9:
            self.add_view()

    def transaction(self, statements: list[str], begin: bool) -> None:
        """The same on both sides; what one of them refuses, both do not have."""
        if begin:
            self.log.append("BEGIN")
            self.db.execute("BEGIN")
        self.twin.execute("BEGIN")
        for statement in statements:
            if not self.taken(statement, begin):
                return
        if begin and self.random.random() < 0.2:
            self.log.append("ROLLBACK")
            self.give_up(begin)
        else:
            self.commit("COMMIT" if begin else statements[0])

    def taken(self, statement: str, begin: bool) -> bool:
        """Whether DuckDB takes it; then so do we, if a transaction is open, else at the commit."""
        self.log.append(statement)
        try:
            self.twin.execute(statement)
        except duckdb.ConstraintException as refused:
            with pytest.raises(IvmError):
                self.db.execute(statement)
            self.log.append(f"-- {refused}")
            self.give_up(begin)
            return False
        except duckdb.Error as fault:  # of its own: deletes of a key met twice
            raise OverError from fault
        if begin:
            self.db.execute(statement)
            self.look_inside()
        return True

    def look_inside(self) -> None:
        """An open transaction's queries see its own changes, in views too."""
        if self.random.random() < 0.2:
            name = self.random.choice([t.name for t in self.tables] + list(self.views))
            self.log.append(f"FROM {name}")
            if self.failing():
                raise OverError
            self.assert_equal(name)

    def commit(self, statement: str) -> None:
        fails = self.failing()
        try:
            self.db.execute(statement)
            refused = ""
        except EvaluationError as error:
            refused = str(error)
        self.log.append(f"-- refused: {refused}; fails: {fails}" * bool(refused or fails))
        assert fails or not refused, f"refused without a reason: {refused}"
        if refused:
            self.give_up(False)
        elif fails:
            recomputed = {v.name for v in self.db.views() if v.strategy == "whole recompute"}
            assert recomputed, f"not refused, though {fails}"
            raise OverError
        else:
            self.twin.execute("COMMIT")

    def failing(self) -> str:
        for name in self.views:
            try:
                self.twin.execute(f"FROM {name}")
                while self.twin.fetchmany(MANY):  # there may be millions of rows in all
                    pass
            except duckdb.Error as error:
                return f"{name}: {error}"
        return ""

    def give_up(self, begun: bool) -> None:
        with contextlib.suppress(duckdb.Error):
            self.twin.execute("ROLLBACK")
        if begun:
            with contextlib.suppress(IvmError):
                self.db.execute("ROLLBACK")

    # -- restarting -----------------------------------------------------------------------------

    def drop_feeds(self) -> None:
        for feed in self.feeds.values():
            feed.catch_up()
            feed.close()
        self.feeds = {}

    def reopen(self) -> None:
        self.log.append("-- reopen")
        self.drop_feeds()
        self.db.close()
        self.db = ivm.connect(self.path, functions=FUNCTIONS)

    def crash(self) -> None:
        """Go on with a copy of the files as they are: what a killed process would leave."""
        self.log.append("-- crash")
        self.drop_feeds()
        self.crashes += 1
        copy = self.folder / f"crash{self.crashes}"
        copy.mkdir()
        for path in self.path.parent.glob("stream.duckdb*"):
            (shutil.copytree if path.is_dir() else shutil.copy)(path, copy / path.name)
        self.db.close()
        self.path = copy / "stream.duckdb"
        self.db = ivm.connect(self.path, functions=FUNCTIONS)

    # -- comparing ------------------------------------------------------------------------------

    def compare(self) -> None:
        for name in (*[t.name for t in self.tables], *self.views):
            self.assert_equal(name)
        for name, feed in self.feeds.items():
            feed.catch_up()
            self.assert_same(
                feed.rows, multiset(self.db.execute(f"FROM {name}").fetchall()), f"feed {name}"
            )

    def assert_equal(self, name: str) -> None:
        found, wanted = (side.execute(f"FROM {name}").fetchall() for side in (self.db, self.twin))
        self.assert_same(multiset(found), multiset(wanted), name)

    def assert_same(self, found: Counter[str], wanted: Counter[str], name: str) -> None:
        assert found == wanted, (
            f"{name}: missing {list((wanted - found).items())[:4]}, extra"
            f" {list((found - wanted).items())[:4]}"
        )


@contextlib.contextmanager
def told(stream: Stream) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(";\n".join(stream.log))
        raise


def run_stream(seed: int, folder: Path) -> Stream:
    """Run one stream; raises AssertionError with its statements where an answer differs."""
    stream = Stream(seed, folder)
    try:
        with told(stream):
            stream.run()
    finally:
        stream.close()
    return stream
