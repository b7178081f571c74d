"""A process that changes a database until it kills itself at a given point (see test_crash).

Usage: python -m tests.support.crash_child FILE MODULE CLASS METHOD before|after NTH MODE
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import ivm


def die_at(module: str, owner: str, method: str, when: str, nth: int) -> None:
    """Let the nth call of a method kill the process, before or after its work."""
    holder = getattr(importlib.import_module(module), owner)
    original: Callable[..., Any] = getattr(holder, method)
    calls = itertools.count(1)  # by any thread

    @functools.wraps(original)
    def dying(*args: Any, **kwargs: Any) -> Any:
        number = next(calls)
        if number == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if number == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(holder, method, dying)


def fast(db: ivm.Database, number: int) -> None:
    """A transaction of Python calls: three new rows, one update, one deletion."""
    with db.transaction():
        db.insert("t", [{"id": 10 * number + i, "g": i, "x": 0.1 * number} for i in range(3)])
        db.upsert("t", [{"id": 10 * (number // 2), "g": 7}])
        if number > 2:
            db.delete("t", {"id": [10 * (number - 2) + 1]})
            db.insert("t", [{"id": 10 * (number - 2) + 1, "g": None, "x": None}])


def native(db: ivm.Database, number: int) -> None:
    """A transaction of SQL that DuckDB runs."""
    db.execute(
        f"BEGIN; INSERT INTO t SELECT {10 * number} + range, range, 0.1 * {number} FROM range(3);"
        f"UPDATE t SET g = (SELECT 7) WHERE id = {10 * (number // 2)}; COMMIT"
    )


def main() -> None:
    file, module, owner, method, when, nth, mode = sys.argv[1:]
    db = ivm.connect(file)
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x DOUBLE)")
    db.execute(
        "CREATE MATERIALIZED VIEW sums AS SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW whole AS SELECT g, list(id ORDER BY id) AS l FROM t GROUP BY g"
    )
    db.execute("CREATE MATERIALIZED VIEW top AS SELECT * FROM sums WHERE n > 1")
    die_at(module, owner, method, when, int(nth))
    for number in range(1, 30):
        (native if mode == "native" else fast)(db, number)
        print(number, flush=True)
        if number % 3 == 0:
            db.execute("SELECT * FROM top").fetchall()
            db.execute("SELECT * FROM sums").fetchall()
        if number % 4 == 0:
            db.execute("SELECT * FROM t, whole").fetchall()
        if number % 5 == 0:
            db.flush()
    db.close()


if __name__ == "__main__":
    main()
