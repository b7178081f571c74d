"""Random sessions on a database of ours and on plain DuckDB: the same answers, the same content.

Two sessions take turns; while one has a transaction open the other one only reads. What ours keeps
as materialized views are plain views there. A statement that we refuse, saying so, is left out.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import duckdb

import ivm
from ivm.errors import IvmError, UnavailableError, UnsupportedError
from ivm.storage.identifiers import quote
from ivm.storage.warehouse.duckdb.duck import rows
from tests.support.crash_image import image
from tests.torture.statement_maker import AWAY, HOME, Maker

_MATERIALIZED = re.compile(r"\bMATERIALIZED VIEW\b")
_ONE_DATABASE = "single attached database"
_ANSWERED = ("SELECT", "EXECUTE", "INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "TRUNCATE", "WITH")
"""What gives rows, or how many were changed."""
_WAIT = 120
_INDEXES = f"SELECT index_name FROM duckdb_indexes() WHERE database_name = '{HOME}'"

Rows = Counter[str]


class Session:
    """One user's connection to ours, in a thread of its own, and its twin in plain DuckDB."""

    def __init__(self, db: ivm.Database, plain: duckdb.DuckDBPyConnection) -> None:
        self._db = db
        self._thread = ThreadPoolExecutor(1)
        self.plain = plain.cursor()
        self.open = False

    def ours(self, sql: str) -> Rows:
        """The rows of ours; its error is raised."""
        return self._thread.submit(self._run, sql).result(_WAIT)

    def _run(self, sql: str) -> Rows:
        return Counter(map(repr, self._db.execute(sql).fetchall()))

    def theirs(self, sql: str, *, taken: bool = False) -> Rows:
        """The rows of plain DuckDB; its error is raised.

        Args:
            sql: the statement.
            taken: whether ours took it, which alters tables that have indexes.
        """
        indexes = rows(self.plain, _INDEXES) if taken and sql.startswith("ALTER TABLE") else []
        for (name,) in indexes:
            rows(self.plain, f"DROP INDEX {name}")
        found = Counter(map(repr, rows(self.plain, _MATERIALIZED.sub("VIEW", sql))))
        for name, text in self._thread.submit(self._texts).result(_WAIT) if indexes else ():
            if (name,) in indexes:
                rows(self.plain, text)
        return found

    def _texts(self) -> list[tuple[str, str]]:
        found = self._db.execute("SELECT index_name, sql FROM duckdb_indexes()").fetchall()
        return [(str(name), str(text)) for name, text in found]

    def close(self) -> None:
        self._thread.submit(lambda: None).result(_WAIT)
        self._thread.shutdown()
        self.plain.close()


class Stream:
    """Both databases, and what has been said to them.

    Args:
        seed: of all that is drawn.
        folder: for both.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = Random(seed)
        self._folder = folder
        self.told: list[str] = []
        self.refused: list[str] = []
        for side in ("ours", "plain"):
            (folder / side).mkdir()
        self._images = 0
        self._open(folder / "ours" / f"{HOME}.duckdb")
        for statement in (f"CREATE TABLE {AWAY}.t (c0 INTEGER, c1 VARCHAR)",
                          "CREATE TABLE t (c0 INTEGER PRIMARY KEY, c1 INTEGER, c2 VARCHAR)",
                          "INSERT INTO t VALUES (1, 2, 'a'), (2, NULL, 'b')",
                          "CREATE MACRO m(x) AS x + 1"):  # fmt: skip
            self._say(self._sessions[0], statement)

    def _open(self, path: Path) -> None:
        self._path = path
        self._db = ivm.connect(path)
        self._plain = duckdb.connect(self._folder / "plain" / f"{HOME}.duckdb")
        self._sessions = [Session(self._db, self._plain) for _ in range(2)]
        self._watcher = Session(self._db, self._plain)  # makes nothing temporary
        away = self._folder
        self._sessions[0].ours(f"ATTACH IF NOT EXISTS '{path.parent}/{AWAY}.duckdb' AS {AWAY}")
        self._sessions[0].theirs(f"ATTACH '{away}/plain/{AWAY}.duckdb' AS {AWAY}")

    def run(self, steps: int) -> None:
        """That many statements, then a restart and a last look."""
        for _ in range(steps):
            self._step()
        self._end_transactions()
        self._restart()
        self._look()

    def _step(self) -> None:
        busy = [s for s in self._sessions if s.open]
        session = (
            busy[0] if busy and self._random.random() < 0.8 else self._random.choice(self._sessions)
        )
        maker = Maker(self._random, session.plain)
        drawn = self._random.random()
        if busy and session is not busy[0]:
            self._say(session, maker.query())
        elif session.open:
            ends = {0: "COMMIT", 1: "COMMIT", 2: "ROLLBACK"}
            end = ends.get(self._random.randrange(14))
            self._say(session, end or maker.statement())
        elif drawn < 0.1:
            self._say(session, self._random.choice(["BEGIN", "BEGIN TRANSACTION"]))
        elif drawn < 0.12:
            self._restart()
        else:
            self._say(session, maker.statement())
        if not any(s.open for s in self._sessions) and self._random.random() < 0.4:
            self._look()

    def _say(self, session: Session, sql: str) -> None:
        self.told.append(f"{self._sessions.index(session)}: {sql}")
        try:
            found: Rows | IvmError = session.ours(sql)
        except IvmError as error:
            found = error
        if isinstance(found, IvmError) and self._is_refusal(found):
            self.refused.append(f"{sql}: {found}")
            self._end(session, "ROLLBACK")
            return
        try:
            taken = isinstance(found, Counter)
            wanted: Rows | duckdb.Error = session.theirs(sql, taken=taken)
        except duckdb.Error as error:
            wanted = error
        self._judge(session, sql, found, wanted)

    def _is_refusal(self, error: IvmError) -> bool:
        """We cannot do it, or say for the log what DuckDB says for its file."""
        return isinstance(error, UnsupportedError) or _ONE_DATABASE in str(error)

    def _judge(
        self, session: Session, sql: str, found: Rows | IvmError, wanted: Rows | duckdb.Error
    ) -> None:
        if isinstance(found, Counter) and isinstance(wanted, Counter):
            word = sql.split()[0]
            if word in _ANSWERED:
                assert found == wanted, (found - wanted, wanted - found)
            session.open = word == "BEGIN" or (session.open and word not in ("COMMIT", "ROLLBACK"))
            return
        if isinstance(found, Counter) and _ONE_DATABASE in str(wanted):
            self._end(session, "ROLLBACK")  # an INSERT of no rows counts there as a change
            return
        assert not isinstance(found, Counter), f"ours took it, DuckDB says {wanted}"
        assert not isinstance(wanted, Counter) or sql == "COMMIT", (
            f"DuckDB took it, ours says {found!r}"
        )
        assert not isinstance(found, UnavailableError), (found, wanted)
        self._end(session, "ROLLBACK")

    def _end(self, session: Session, how: str) -> None:
        """A statement that fails ends its transaction on both sides."""
        if session.open:
            session.open = False
            for say in (session.ours, session.theirs):
                with contextlib.suppress(IvmError, duckdb.Error):  # it may be over by itself
                    say(how)

    def _end_transactions(self) -> None:
        for session in self._sessions:
            if session.open:
                self._say(session, "COMMIT")

    def _look(self) -> None:
        """All tables and views hold the same, and VERIFY says so."""
        session = self._watcher
        self.told.append("-- look")
        self._compare_tables(session)
        for name, in rows(session.plain, "SELECT view_name FROM duckdb_views() WHERE NOT internal"
                          f" AND database_name = '{HOME}' AND view_name LIKE 'v%'"):  # fmt: skip
            self._compare(session, f"SELECT * FROM {HOME}.main.{quote(name)}", name)
        verdicts = self._verified(session)
        assert [row for row in verdicts if not row[4]] == []

    def _verified(self, session: Session) -> list[tuple[Any, ...]]:
        run = lambda: self._db.execute("VERIFY MATERIALIZED VIEWS").fetchall()  # noqa: E731
        return session._thread.submit(run).result(_WAIT)

    def _compare_tables(self, session: Session) -> None:
        listed = [r for r in Maker(self._random, session.plain).tables() if r.database != "temp"]
        for d, s, name, *_ in listed:
            self._compare(session, f"SELECT * FROM {quote(d)}.{quote(s)}.{quote(name)}", name)

    def _compare(self, session: Session, sql: str, told: str) -> None:
        try:
            wanted = session.theirs(sql)
        except duckdb.Error:
            return  # a plain view whose table has changed below it; ours was filled before
        found = session.ours(sql)
        assert found == wanted, (told, found - wanted, wanted - found)

    def _restart(self) -> None:
        """Close and open, or go on with what a crash would leave."""
        crash = self._random.random() < 0.5
        self.told.append("-- crash" if crash else "-- close and open")
        path = self._path
        if crash:
            self._images += 1
            folder = self._folder / f"ours{self._images}"
            folder.mkdir()
            path = image(path, folder / path.name)
        for session in (*self._sessions, self._watcher):
            session.close()
        self._db.close()
        if crash:  # an attached file is not ours to recover: it is copied when it is closed
            for away in self._path.parent.glob(f"{AWAY}.duckdb*"):
                shutil.copy(away, path.parent)
        self._plain.close()
        self._open(path)

    def close(self) -> None:
        for session in (*self._sessions, self._watcher):
            session.close()
        self._db.close()
        self._plain.close()
