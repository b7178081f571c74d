"""A database under torture, and what must be true of it afterwards.

Law: what was acknowledged is there, at once and in an image of its files as a crash would leave
them; what failed is not; every view equals plain DuckDB's answer to its text. Only where the
handle itself refuses to go on may a change that failed be there or not.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb

import ivm
from ivm import errors
from tests.support.crash_image import image

VIEWS = {
    "every": "SELECT a FROM t",
    "sums": "SELECT a % 3 AS g, count(*) AS n, sum(a) AS s FROM t GROUP BY 1",
    "whole": "SELECT median(a) AS m FROM t",
}
COMMITTED = "committed"
WAY_OUT = "open it again"


def create(path: Path) -> ivm.Database:
    """A database with a table, views of each kind, one row that is flushed and one that is not."""
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (a INTEGER)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("t", {"a": [1]})
    db.execute("SELECT * FROM t, every, sums").fetchall()
    db.insert("t", {"a": [2]})
    return db


def check(db: ivm.Database, held: Counter[int], maybe: Counter[int]) -> None:
    """The table holds what it must, and the views what DuckDB says of it."""
    rows = db.execute("SELECT a FROM t").fetchall()
    found = Counter(a for (a,) in rows)
    assert not held - found, f"lost: {held - found}"
    assert not found - held - maybe, f"not acknowledged, or doubled: {found - held - maybe}"
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t (a INTEGER)")
        plain.executemany("INSERT INTO t VALUES (?)", rows)
        for name, query in VIEWS.items():
            ours = sorted(db.execute(f"FROM {name}").fetchall())
            assert ours == sorted(plain.execute(query).fetchall()), name


def crash(path: Path, folder: Path) -> Path:
    """What a crash would leave of the files, in a folder of its own."""
    folder.mkdir()
    return image(path, folder / path.name)


class Patient:
    """A database, and the rows that must (and those that may) be in its table.

    Args:
        folder: for the files and their images.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "x.duckdb"
        self.db = create(self.path)
        self.held: Counter[int] = Counter([1, 2])
        self.maybe: Counter[int] = Counter()

    def change(self, row: int | None, work: Callable[[], object]) -> BaseException | None:
        """Let `work` put a row into the table (None: it only reads), and believe what it says."""
        try:
            work()
        except BaseException as error:
            if any(COMMITTED in note for note in getattr(error, "__notes__", ())):
                self._acknowledged(row)
            elif row is not None and self.refuses(error):
                self.maybe[row] += 1
            return error
        self._acknowledged(row)
        return None

    def _acknowledged(self, row: int | None) -> None:
        if row is not None:
            self.held[row] += 1

    def refuses(self, error: BaseException) -> bool:
        """Whether the handle says that it goes on only after a new opening."""
        return self.db._engine.log.fault is not None

    def examine(self) -> None:
        """Go on, crash, close and open again; raise if anything is not as it must be."""
        with contextlib.suppress(errors.InputError):  # no transaction is open
            self.db.execute("ROLLBACK")
        for row in (97, 98):
            error = self.change(row, lambda row=row: self.db.insert("t", {"a": [row]}))  # type: ignore[misc]
            self._demand_way_out(error)
        if self.db._engine.log.fault is None:
            check(self.db, self.held, self.maybe)
        with ivm.connect(crash(self.path, self.folder / "image")) as copy:
            check(copy, self.held, self.maybe)
        try:
            self.db.close()
        except errors.UnavailableError as error:
            self._demand_way_out(error)
        with ivm.connect(self.path) as again:
            check(again, self.held, self.maybe)

    @staticmethod
    def _demand_way_out(error: BaseException | None) -> None:
        if error is not None:
            assert isinstance(error, errors.UnavailableError), repr(error)
            assert WAY_OUT in str(error), str(error)
