"""Statements that read pipes: named ones, and what is piped into a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import UnavailableError
from ivm.session.names.pipes import Pipes
from ivm.storage.identifiers import literal
from tests.support.duckdb_twin import Twin
from tests.tiers import some

SETUP = """
CREATE TABLE t (k INTEGER PRIMARY KEY, s VARCHAR);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
CREATE TABLE u (k INTEGER, s VARCHAR);
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s"
ROWS = "k,s\n" + "".join(f"{i},new\n" for i in range(3, 9))
MERGED = "WHEN MATCHED THEN UPDATE SET s = q.s WHEN NOT MATCHED THEN INSERT VALUES (q.k, q.s)"
PATHS = ("read_csv('{}')", "'{}'", "read_csv(['{}'])", "main.read_csv('{}', header := true)")
STATEMENTS = (
    *[f"SELECT * FROM {path}" for path in (*PATHS, '"{}"')],
    "EXPLAIN SELECT * FROM read_csv('{}')",
    "SELECT * FROM read_csv(E'{}')",
    "SELECT * FROM read_csv($q${}$q$)",
    "SELECT * FROM `{}`",
    "WITH q AS (FROM read_csv('{}')) SELECT t.*, q.s FROM t JOIN q USING (k)",
    "SELECT (SELECT max(k) FROM read_csv('{}')) AS m FROM t, '{}' r WHERE t.k = r.k",
    *[f"INSERT INTO u SELECT * FROM {path}" for path in PATHS],
    "INSERT INTO u SELECT * FROM read_csv('{}') RETURNING k",
    "INSERT OR REPLACE INTO t SELECT * FROM read_csv('{}')",
    "INSERT OR IGNORE INTO t FROM '{}'",
    "COPY u FROM '{}'",
    "COPY u (k, s) FROM '{}' (HEADER)",
    "CREATE TABLE n AS FROM read_csv('{}')",
    "UPDATE t SET s = q.s FROM read_csv('{}') q WHERE q.k = t.k",
    "UPDATE t SET s = 'x' WHERE k IN (SELECT k FROM '{}')",
    "UPDATE t SET s = (SELECT max(s) FROM read_csv('{}')) WHERE k = 1",
    "UPDATE u SET s = 'x' WHERE k IN (SELECT k FROM read_csv('{}'))",
    "DELETE FROM t USING '{}' AS q WHERE q.k = t.k",
    "DELETE FROM t WHERE k IN (SELECT k FROM read_csv('{}')) RETURNING *",
    f"MERGE INTO t USING (FROM read_csv('{{}}')) q ON q.k = t.k {MERGED}",
)
GIVEN: tuple[tuple[str, Any], ...] = (
    ("SELECT * FROM read_csv(?)", ["{}"]),
    ("SELECT ?, q.* FROM read_csv($2) q", ["{}", "{}"]),
    ("INSERT INTO u SELECT * FROM read_csv($path) WHERE k < $most", {"path": "{}", "most": 6}),
    ("INSERT INTO u SELECT * FROM read_csv(?)", [["{}"]]),
    ("UPDATE t SET s = q.s || ? FROM read_csv(?) q WHERE q.k = t.k AND q.k < ?", ["!", "{}", 5]),
)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Twin]:
    twin = Twin(SETUP, VIEW, ("t", "u"))
    yield twin
    twin.db.close()
    twin.duck.close()


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    yield
    assert list(copies.iterdir()) == []


@contextmanager
def written(path: Path, text: str = ROWS) -> Iterator[str]:
    """A pipe into which a thread writes once, as soon as somebody reads."""
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError):
            path.write_text(text)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    yield str(path)
    writing.join(10)
    assert not writing.is_alive()
    path.unlink()


def compare(both: Twin, folder: Path, sql: str, params: Any) -> None:
    """Runs it in both: on a pipe in ours, on a file of the same rows in DuckDB."""
    path, file = folder / "rows.csv", folder / "file" / "rows.csv"
    file.parent.mkdir()
    file.write_text(ROWS)

    def run(db: Any) -> Any:
        where = str(file) if db is both.duck else piped
        return db.execute(sql.replace("{}", where), put(params, where))

    with written(path) as piped:
        if sql.startswith("EXPLAIN"):
            assert run(both.db).fetchall()
        elif "$2" in sql:  # the path is a value, too
            assert len(run(both.db).fetchall()) == len(run(both.duck).fetchall()) > 0
        else:
            assert both.compare(run)
    both.check()


def put(params: Any, path: str) -> Any:
    match params:
        case str():
            return params.replace("{}", path)
        case list():
            return [put(each, path) for each in params]
        case dict():
            return {name: put(each, path) for name, each in params.items()}
    return params


@pytest.mark.full
@pytest.mark.parametrize("sql", some(STATEMENTS))
def test_a_statement_reads_all_that_the_pipe_has(both: Twin, tmp_path: Path, sql: str) -> None:
    compare(both, tmp_path, sql, None)


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), GIVEN)
def test_a_parameter_may_be_a_pipe(both: Twin, tmp_path: Path, sql: str, params: Any) -> None:
    compare(both, tmp_path, sql, params)


@pytest.mark.full
def test_statements_within_a_transaction(both: Twin, tmp_path: Path) -> None:
    both.run("BEGIN")
    compare(both, tmp_path, "INSERT OR REPLACE INTO t FROM '{}'", None)
    both.run("ROLLBACK")
    both.check()


@pytest.mark.full
def test_a_long_result_keeps_the_copy_until_it_is_read(both: Twin, tmp_path: Path) -> None:
    rows = "k\n" + "".join(f"{i}\n" for i in range(60_000))
    with written(tmp_path / "rows.csv", rows) as path:
        result = both.db.execute(f"SELECT k FROM read_csv('{path}')")
        assert result.fetchone() is not None
        assert sum(1 for _ in iter(result.fetchone, None)) == 59_999


def test_a_terminal_is_read_to_its_end(both: Twin) -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"k,s\n3,typed\n9,typed\n\x04")
    try:
        both.db.execute(f"INSERT OR REPLACE INTO t SELECT * FROM read_csv('{os.ttyname(theirs)}')")
    finally:
        os.close(ours)
        os.close(theirs)
    both.duck.execute("INSERT OR REPLACE INTO t VALUES (3, 'typed'), (9, 'typed')")
    both.check()


@pytest.mark.full
def test_what_can_be_read_again_is_not_copied(both: Twin, tmp_path: Path) -> None:
    (tmp_path / "it's").write_text("k\n1\n")
    for path, rows in (("/dev/null", 0), (str(tmp_path / "it's"), 1)):
        source = f"read_csv({literal(path)}, header := true, columns := {{k: 'INT'}})"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Pipes, "_written", None)
            assert both.db.execute(f"SELECT count(*) FROM {source}").fetchall() == [(rows,)]


@pytest.mark.full
def test_a_path_that_is_a_value_is_not_read(both: Twin, tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "rows.csv")
    both.run(f"INSERT INTO t VALUES (9, '{path}')")
    both.run("INSERT INTO u SELECT k, ? FROM t WHERE s <> ?", [str(path), str(path)])
    both.run(f"UPDATE t SET s = '{path}' WHERE k > 3")
    both.check()


@pytest.mark.full
def test_a_macro_may_read_what_it_is_given(both: Twin, tmp_path: Path) -> None:
    both.db.execute("CREATE MACRO w(p) AS TABLE FROM read_csv(p)")
    with written(tmp_path / "rows.csv", "k\n1\n") as path:
        assert both.db.execute(f"FROM w('{path}')").fetchall() == [(1,)]


def test_no_pipe_is_read_where_files_may_not_be(both: Twin, tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "rows.csv")
    both.db.execute("SET enable_external_access = false")
    with pytest.raises(ivm.IvmError, match="disabled"):
        both.db.execute(f"SELECT * FROM read_csv('{path}')")


@pytest.mark.full
def test_ctrl_c_while_nobody_writes(both: Twin, tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "rows.csv")
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        both.db.execute(f"INSERT OR REPLACE INTO t FROM '{path}'")
    assert "changed nothing" in str(caught.value.__notes__)
    both.check()


def test_a_full_disk_is_told(both: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with written(tmp_path / "rows.csv") as path:
        with pytest.raises(
            UnavailableError, match=r"rows.csv can be read only once, and could not be copied"
        ):
            both.db.execute(f"INSERT INTO u FROM '{path}'")
        assert Path(path).read_text() == ROWS
    both.check()


@pytest.mark.full
def test_what_is_piped_into_a_program(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    rows = "k,s\n" + "".join(f"{i},new{i}\n" for i in range(20_000))

    def told(sql: str, given: str) -> str:
        command = [sys.executable, "-m", "ivm", str(file), "-c", sql]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        return done.stdout

    copied = f"{SETUP} {VIEW}; DELETE FROM t; COPY u FROM '/dev/stdin'; SELECT count(*) FROM u"
    assert "20000" in told(copied, rows)
    inserted = "INSERT INTO t SELECT * FROM read_csv('/dev/stdin'); SELECT sum(n) FROM v"
    assert "20000" in told(inserted, rows)
    assert "20000" in told("SELECT count(*) FROM read_csv('/dev/stdin')", rows)
    updated = "UPDATE t SET s = 'x' FROM read_csv('/dev/stdin') q WHERE q.k = t.k"
    assert "20000" in told(f"{updated}; SELECT n FROM v WHERE s = 'x'", rows)
