"""A process in which one signal strikes at a random moment, and the database is used on.

Law: whoever is interrupted is told what happened to the statement. What was acknowledged is there,
at once and after a crash; what was not is not; views are right; nothing hangs.

Usage: python -m tests.torture.interrupted FOLDER SEED [SEED…]
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import duckdb

import ivm
from ivm import errors
from ivm.engine.transactions.transaction import COMMITTED
from ivm.storage.interrupts import NOTHING
from tests.torture.patient import WAY_OUT, crash

VIEWS = {
    "every": "SELECT id, x FROM t",
    "sums": "SELECT x % 3 AS g, count(*) AS n, sum(x) AS s FROM t GROUP BY 1",
    "whole": "SELECT median(x) AS m FROM t",
}
KINDS = ("interrupt", "alarm", "thread")
HANGS = 60.0
"""Seconds after which a round is taken to hang: it says where, and dies."""

Rows = dict[int, int]
Step = tuple[Rows, Callable[[], object]]
"""What the table holds after a step, and the step."""


def create(path: Path) -> ivm.Database:
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("t", [{"id": i, "x": i} for i in range(20)])
    return db


class Life:
    """Random steps of one database, one of which is interrupted."""

    def __init__(self, path: Path, random: Random) -> None:
        self.path, self.random = path, random
        self.db = create(path)
        self.before: Rows = {i: i for i in range(20)}
        self.after = self.before
        self._next = 100

    def go_on(self) -> None:
        """Steps without end."""
        while True:
            self.after, step = self.random.choice(self._steps())
            step()
            self.before = self.after

    def _steps(self) -> list[Step]:
        db, held, new = self.db, self.before, self._next
        self._next += 1
        one = min(held)
        more = {**held, new: 7}
        raised = {i: x + 1 if x % 2 == 0 else x for i, x in held.items()}
        raise_all = "UPDATE t SET x = x + 1 WHERE x % 2 = 0"
        raised_more = {i: x + 1 if x % 2 == 0 else x for i, x in more.items()}
        add = f"INSERT INTO t VALUES ({new}, 7)"
        less = {i: x for i, x in held.items() if i != one}
        return [
            (more, lambda: db.insert("t", [{"id": new, "x": 7}])),
            (more, lambda: db.insert("t", [{"id": new, "x": 7}])),
            (more, lambda: db.execute(add)),
            (more, lambda: db.execute(f"INSERT INTO t SELECT {new}, 7")),
            ({**held, one: 9}, lambda: db.execute(f"UPDATE t SET x = 9 WHERE id = {one}")),
            (raised, lambda: db.execute(raise_all)),
            (less, lambda: db.delete("t", {"id": [one]})),
            (held, lambda: db.execute("FROM t").fetchall()),
            (held, lambda: db.execute("FROM t").fetchone()),
            (held, lambda: db.execute("FROM every, sums").fetchall()),
            (held, lambda: db.execute("FROM whole").fetchall()),
            (held, db.flush),
            (held, lambda: db.execute("CHECKPOINT")),
            (held, lambda: db.execute(f"CREATE TABLE t{new} (a INTEGER)")),
            (held, lambda: db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW m AS {VIEWS['sums']}")),
            (raised_more, lambda: db.execute(f"BEGIN; {add}; {raise_all}; COMMIT")),
            (raised_more, lambda: self._statements(add, raise_all, "FROM sums")),
            (raised_more, lambda: self._block(new, raise_all)),
        ]

    def _statements(self, *texts: str) -> None:
        for text in ("BEGIN", *texts, "COMMIT"):
            self.db.execute(text)

    def _block(self, new: int, text: str) -> None:
        with self.db.transaction():
            self.db.insert("t", [{"id": new, "x": 7}])
            self.db.execute("FROM every").fetchall()
            self.db.execute(text)


def strike(kind: str, seconds: float) -> None:
    """Let one KeyboardInterrupt come to the main thread, some time from now."""
    if kind == "alarm":
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return
    main = threading.get_ident()

    def wait() -> None:
        time.sleep(seconds)
        if kind == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            cut = ctypes.py_object(KeyboardInterrupt)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), cut)

    threading.Thread(target=wait, daemon=True).start()


def possible(life: Life, error: BaseException) -> list[Rows]:
    """What the table may hold, after what its user was told."""
    notes = getattr(error, "__notes__", ())
    if life.db._engine.log.fault is not None:
        return [life.before, life.after]
    assert isinstance(error, KeyboardInterrupt), f"not KeyboardInterrupt, but {error!r}"
    if COMMITTED in notes:
        return [life.after]
    if NOTHING in notes:
        return [life.before]
    return [life.before, life.after]  # it was raised outside of the call


def read(db: ivm.Database) -> Rows:
    """The rows of the table, its views being right."""
    rows = db.execute("FROM t").fetchall()
    assert len(rows) == len(dict(rows)), f"doubled: {rows}"
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE t (id INTEGER, x INTEGER)")
        plain.executemany("INSERT INTO t VALUES (?, ?)", rows)
        for name, query in VIEWS.items():
            ours = Counter(db.execute(f"FROM {name}").fetchall())
            assert ours == Counter(plain.execute(query).fetchall()), name
    return dict(rows)


def use_on(db: ivm.Database) -> Rows:
    """The same object, as in a notebook."""
    with contextlib.suppress(errors.InputError):  # none is open
        db.execute("ROLLBACK")
    held = read(db)
    db.insert("t", [{"id": 9000, "x": 1}])
    db.execute("INSERT INTO t SELECT 9001, 2")
    db.execute("UPDATE t SET x = 5 WHERE id = 9000")
    assert read(db) == {**held, 9000: 5, 9001: 2}
    return held


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """If an error is raised, it names the way out."""
    try:
        yield
    except errors.UnavailableError as error:
        if WAY_OUT not in str(error):
            raise AssertionError(error) from error


def examine(life: Life, may: list[Rows], image: Path) -> None:
    """Go on, crash, close, open again."""
    db, last = life.db, {9000: 5, 9001: 2}
    if db._engine.log.fault is None:
        held = use_on(db)
        assert held in may, f"{held} is none of {may}"
        may = [{**held, **last}]
    else:
        with refused():
            db.execute("FROM t")
    for again in _openings(life, image):
        with again:
            found = read(again)
            assert found in may, f"after a crash or an opening: {found} is none of {may}"


def _openings(life: Life, image: Path) -> Iterator[ivm.Database]:
    yield ivm.connect(crash(life.path, image))
    with refused():
        life.db.close()
    yield ivm.connect(life.path)


def play(folder: Path, seed: int) -> None:
    """One database, one signal."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    random, kind = Random(seed), KINDS[seed % len(KINDS)]
    life = Life(folder / "x.duckdb", random)
    try:
        strike(kind, random.choice((0.02, 0.1, 0.4)) * random.random())
        life.go_on()
    except BaseException as error:
        may = possible(life, error)
        examine(life, may, folder / "image")
        print(seed, kind, "told" if len(may) == 1 else "not told", flush=True)


def main() -> None:
    for seed in sys.argv[2:]:
        folder = Path(sys.argv[1]) / seed
        folder.mkdir()
        try:
            play(folder, int(seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


if __name__ == "__main__":
    main()
