"""Columns that get facts of files and of the places of rows in them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors

ALL = "file = path, nr = row, changed = modified"
MONDAY = datetime(2026, 11, 30, 8, 30, 0, 250_000, UTC)


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute("""
            CREATE TABLE t (id INTEGER, v VARCHAR, file VARCHAR, nr BIGINT, changed TIMESTAMPTZ)
        """)
        yield opened


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def follow(db: ivm.Database, path: Path, format: str, metadata: str = ALL, into: str = "t") -> None:
    """Applies all that files have to a table."""
    files = ivm.sources.Files(path=str(path), format=format, metadata=metadata)
    db.create_source("s", files, into=into)
    db.start_sources()
    wait(db, lambda: db.sources()[0].caught_up)


def wait(db: ivm.Database, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, db.sources()
        time.sleep(0.01)


def rows(db: ivm.Database, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sql).fetchall(), key=repr)


def write(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (0, MONDAY.timestamp()))


def test_a_row_has_the_facts_of_its_line(db: ivm.Database, inbox: Path) -> None:
    write(inbox / "a.json", '{"id": 1}\n\n{"id": 2}\n')
    write(inbox / "b.json", '{"id": 3, "nr": "none"}\n')
    follow(db, inbox / "*.json", "json appends")
    assert rows(db, "FROM t") == [
        (1, None, str(inbox / "a.json"), 1, MONDAY),
        (2, None, str(inbox / "a.json"), 3, MONDAY),
        (3, None, str(inbox / "b.json"), 1, MONDAY),
    ]


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_rows_in_columns_have_them(db: ivm.Database, inbox: Path, format: str) -> None:
    path = inbox / f"a.{format}"
    with duckdb.connect() as plain:
        plain.execute(f"""
            COPY (SELECT i AS id, 'v' || i AS v, 'mine' AS nr FROM range(25000) r(i))
            TO '{path}' (FORMAT {format})
        """)
    follow(db, path, f"{format} appends")
    assert rows(db, "SELECT count(*), min(nr), max(nr), count(DISTINCT nr) FROM t") == [
        (25000, 1, 25000, 25000)
    ]
    assert rows(db, f"SELECT count(*) FROM t WHERE nr <> id + 1 OR file <> '{path}'") == [(0,)]


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_change_tells_the_facts_of_its_row(db: ivm.Database, inbox: Path, format: str) -> None:
    path = inbox / "a"
    if format == "csv":
        write(path, "op,id,v\ninsert,1,a\ninsert,2,b\nupdate,1,c\ndelete,2,\ninsert,x,\n")
    else:
        ops = [("insert", 1, "a"), ("insert", 2, "b"), ("update", 1, "c"), ("delete", 2, "")]
        lines = [f'{{"op": "{op}", "id": {id}, "v": "{v}"}}\n' for op, id, v in ops]
        write(path, "".join([*lines, '{"op": "insert", "id": "x"}\n']))
    db.execute("CREATE TABLE k (nr BIGINT, id INTEGER PRIMARY KEY, v VARCHAR)")
    follow(db, path, format, "nr = row", "k")
    assert rows(db, "FROM k") == [(3, 1, "c")]
    assert rows(db, "SELECT position FROM _ivm.dead_letters") == [(5,)]
    with path.open("a") as out:
        out.write("delete,1,\n" if format == "csv" else '{"op": "delete", "id": 1}\n')
    wait(db, lambda: rows(db, "FROM k") == [])


@pytest.mark.full
def test_files_of_tenants_have_their_path_in_the_key(db: ivm.Database, inbox: Path) -> None:
    db.execute("CREATE TABLE k (id INT, file VARCHAR, v VARCHAR, PRIMARY KEY (file, id))")
    for name in ("a", "b"):
        write(inbox / name, f'{{"op": "insert", "id": 1}}\n{{"op": "u", "id": 1, "v": "{name}"}}\n')
    follow(db, inbox / "*", "json", "file = path", "k")
    assert rows(db, "FROM k") == [(1, str(inbox / n), n) for n in ("a", "b")]
    with (inbox / "a").open("a") as out:
        out.write('{"op": "d", "id": 1}\n')
    wait(db, lambda: rows(db, "SELECT v FROM k") == [("b",)])


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_retried_row_has_the_facts_of_then(db: ivm.Database, inbox: Path, format: str) -> None:
    """The row's place alone is the key: it is told of the letter, too."""
    db.execute("CREATE TABLE k (id INT, nr BIGINT PRIMARY KEY, changed TIMESTAMP)")
    path = inbox / "a"
    write(path, "id\n1\nx\n" if format == "csv" else '{"id": 1}\n{"id": "x"}\n')
    follow(db, path, f"{format} appends", "nr = row, changed = modified", "k")
    assert rows(db, "SELECT key FROM _ivm.letter_keys") == [('["2"]',)]
    with path.open("a") as out:
        out.write("2\n" if format == "csv" else '{"id": 2}\n')
    wait(db, lambda: len(rows(db, "FROM k")) == 2)
    db.execute("ALTER TABLE k ALTER id TYPE VARCHAR")
    assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 1
    assert rows(db, "SELECT * FROM k WHERE nr < 3") == [
        ("1", 1, MONDAY.replace(tzinfo=None)),
        ("x", 2, MONDAY.replace(tzinfo=None)),
    ]


@pytest.mark.full
def test_letters_keep_their_facts_over_a_restart(tmp_path: Path) -> None:
    write(tmp_path / "a.json", '{"id": "x"}\n')
    with ivm.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (id INTEGER, changed TIMESTAMP)")
        follow(db, tmp_path / "a.json", "json appends", "changed = modified")
    os.utime(tmp_path / "a.json")
    with ivm.connect(tmp_path / "db") as db:
        db.execute("ALTER TABLE t ALTER id TYPE VARCHAR")
        assert db.execute("RETRY DEAD LETTERS FOR s").rowcount == 1
        assert rows(db, "FROM t") == [("x", MONDAY.replace(tzinfo=None))]


def test_formats_that_change_rows_need_a_key(db: ivm.Database, inbox: Path) -> None:
    for format in ("csv", "parquet", "json", "debezium"):
        with pytest.raises(errors.InputError, match="has no primary key"):
            follow(db, inbox / "*", format)
    with pytest.raises(errors.InputError, match="there are: path, row, modified"):
        follow(db, inbox / "*", "csv appends", "nr = offset")
