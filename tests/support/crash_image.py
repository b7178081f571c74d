"""A small database, copies of it as a crash would leave it, and whether one is right.

Law: a copy of file, write-ahead log and side folder, taken while no call is under way, is what
kill −9 would leave: all three write by the system's calls alone, at once.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import ivm
from ivm.storage.warehouse.opening.side_folder import side_folder
from ivm.storage.warehouse.opening.wal_witness import kept_log, wal_of

VIEWS = {
    "sums": "SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g",
    "pairs": "SELECT t.id, u.a FROM t JOIN u ON t.g = u.a",
    "seen": "SELECT a FROM u WHERE a >= 0",
    "above": "SELECT max(n) AS n FROM sums",
    "recomputed": "SELECT current_user AS who, id FROM t",
}


def create(path: Path) -> ivm.Database:
    """A new database with a keyed and a keyless table and views of all kinds."""
    db = ivm.connect(path)
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
    db.execute("CREATE TABLE u (a INTEGER)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def change(db: ivm.Database, number: int) -> None:
    """Two commits: rows come, one changes, one goes; all know the number."""
    first = 10 * number
    with db.transaction():
        db.insert("t", [{"id": first + i, "g": i, "x": number} for i in range(4)])
        db.execute("UPDATE t SET x = x + 100 WHERE id = ?", [first + 1])
        db.delete("t", {"id": [first + 2]})
    db.execute("INSERT INTO u VALUES (?), (?)", [number % 4, number % 4])


def expected(numbers: range) -> tuple[Counter[Any], Counter[Any]]:
    """What t and u hold after these changes."""
    t = Counter(
        (10 * n + i, i, n + (100 if i == 1 else 0)) for n in numbers for i in range(4) if i != 2
    )
    return t, Counter((n % 4,) for n in numbers for _ in range(2))


def check(db: ivm.Database, numbers: range) -> None:
    """The tables hold these changes, and each view what DuckDB answers to its text."""
    right(db)
    t, u = expected(numbers)
    assert contents(db, "t") == t
    assert contents(db, "u") == u


def right(db: ivm.Database) -> None:
    """Each view holds what DuckDB answers to its text."""
    for name, query in VIEWS.items():  # views first: they are read while ahead of the tables
        found = contents(db, name)
        assert found == Counter(db.execute(query).fetchall()), name


def contents(db: ivm.Database, relation: str) -> Counter[Any]:
    return Counter(db.execute(f"FROM {relation}").fetchall())


def image(path: Path, to: Path, *, wal: bool = True, folder: bool = True) -> Path:
    """Copy a database to a new place, as it is on disk now."""
    shutil.copyfile(path, to)
    if wal and wal_of(path).exists():
        shutil.copyfile(wal_of(path), wal_of(to))
    if folder and side_folder(path).exists():
        shutil.copytree(side_folder(path), side_folder(to))
        _link_again(path, to)
    return to


def _link_again(path: Path, to: Path) -> None:
    """One file that has two names has two in the copy."""
    names = [wal_of(path), kept_log(side_folder(path))]
    copies = [wal_of(to), kept_log(side_folder(to))]
    if all(name.exists() for name in (*names, *copies)) and names[0].samefile(names[1]):
        copies[1].unlink()
        copies[1].hardlink_to(copies[0])
