"""Which versions of DuckDB are taken, and what becomes of a file that another one has written."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import ivm
from ivm.errors import EvaluationError, UnavailableError
from ivm.shell.command_line.cli import app
from ivm.sql.plan import known_functions
from ivm.storage.versions import REQUIRED, demand_known_duckdb
from ivm.storage.warehouse.duckdb.duck import rows, run
from tests.support import ROOT
from tests.support.crash_image import image
from tests.support.view_oracle import assert_verified

TAKEN = ("2.0.0", "2.0.1", "2.0.17", "2.0.2.dev5", "2.0.1rc1", "2.0.0.post1")
REFUSED = ("1.5.6", "2.0.0rc1", "2.0.0.dev12", "2.0.dev1", "2.1.0", "2.1.0.dev3", "3.0.0", "20.0.1")


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ivm.__version__ == project["version"]
    assert REQUIRED in project["dependencies"]


@pytest.mark.parametrize("version", TAKEN)
def test_releases_of_one_series_are_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", version)
    demand_known_duckdb()


@pytest.mark.parametrize("version", REFUSED)
def test_others_are_refused_in_a_sentence(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", version)
    with pytest.raises(UnavailableError) as refusal:
        ivm.connect()
    assert str(refusal.value) == (
        f"ivmdb {ivm.__version__} works with DuckDB 2.0.x, and this is {version}: "
        "pip install 'duckdb>=2.0,<2.1'. Nothing was changed."
    )


def test_a_refused_version_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    before = {path: path.stat() for path in tmp_path.rglob("*")}
    monkeypatch.setattr(duckdb, "__version__", "2.1.0")
    for opens in (ivm.connect, ivm.recover):
        for path in (file, tmp_path / "new.duckdb"):
            if path == file or opens is ivm.connect:
                with pytest.raises(UnavailableError, match=r"works with DuckDB 2\.0\.x"):
                    opens(path)
    for command in ([str(file), "-c", "FROM v"], ["recover", str(file)], ["serve", str(file)]):
        done = CliRunner().invoke(app, command, prog_name="ivm")
        assert done.exit_code == 1
        assert "pip install 'duckdb>=2.0,<2.1'" in " ".join(done.stderr.split())
    found = {path: path.stat() for path in tmp_path.rglob("*")}
    assert {p: (s.st_mtime_ns, s.st_size) for p, s in found.items()} == {
        p: (s.st_mtime_ns, s.st_size) for p, s in before.items()
    }


VIEWS = """
CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR, x DOUBLE);
CREATE MATERIALIZED VIEW back AS SELECT id, reverse(s) AS s FROM t;
CREATE MATERIALIZED VIEW above AS SELECT s, count(*) AS n FROM back GROUP BY s;
CREATE MATERIALIZED VIEW rounded AS SELECT round(x, 1) AS x, count(*) AS n FROM t GROUP BY 1;
INSERT INTO t VALUES (1, 'ab', 81.55), (2, 'cd', 0.25)
"""


@contextmanager
def as_if_unknown(name: str) -> Iterator[None]:
    """As if the function had come with a newer DuckDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_functions, "_FIXED", known_functions._FIXED - {name})
        known_functions.unknown_functions.cache_clear()
        yield
    known_functions.unknown_functions.cache_clear()


def test_a_view_that_this_duckdb_cannot_maintain_is_broken_alone(tmp_path: Path) -> None:
    """Bug: the file could not be opened, and another program was blamed."""
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute(VIEWS)
    with as_if_unknown("reverse"):
        for number in (3, 4):
            with ivm.connect(file) as db:
                for name in ("back", "above"):
                    with pytest.raises(EvaluationError) as refusal:
                        db.execute(f"FROM {name}")
                    assert "cannot be maintained by ivmdb" in str(refusal.value)
                    assert f"DuckDB {duckdb.__version__} has it, and" in str(refusal.value)
                    assert "CREATE OR REPLACE MATERIALIZED VIEW back" in str(refusal.value)
                    assert "another program" not in str(refusal.value)
                with pytest.raises(EvaluationError, match="reverse"):
                    db.execute("REFRESH MATERIALIZED VIEW back")
                db.execute("INSERT INTO t VALUES (?, 'ef', 5)", [number])
                assert_verified(db, "rounded")
            assert ivm.recover(file).trouble is None
    with ivm.connect(file) as db:
        assert len(db.execute("FROM back").fetchall()) == 4
        db.execute("DELETE FROM t WHERE id = 1")
        assert_verified(db)


@pytest.mark.full
def test_a_broken_view_is_mended_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute(VIEWS)
    with as_if_unknown("reverse"), ivm.connect(file) as db:
        db.execute("DROP MATERIALIZED VIEW above")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW back AS SELECT id, upper(s) AS s FROM t")
        db.execute("INSERT INTO t VALUES (3, 'ef', 5)")
        assert_verified(db)
    with ivm.connect(file) as db:
        assert ("EF",) in db.execute("SELECT s FROM back").fetchall()


def test_a_function_that_duckdb_lacks_breaks_its_view_alone(tmp_path: Path) -> None:
    """It is none of the user's: nobody can give it to connect()."""
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file) as db:
        db.execute(VIEWS)
        cursor = db._engine.warehouse.cursor()
        run(cursor, "UPDATE _ivm.views SET query = replace(query, 'reverse', 'f')")
    with pytest.raises(UnavailableError, match="functions="):
        ivm.connect(file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_functions, "_FIXED", known_functions._FIXED | {"f"})
        with ivm.connect(file) as db:
            with pytest.raises(EvaluationError, match="Function with name f does not exist"):
                db.execute("FROM above")
            assert_verified(db, "rounded")


@pytest.mark.full
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("record", ["value = '2.0.77'", "key = 'nothing'"])
def test_another_duckdb_fills_the_views_anew_once(
    closed: bool, record: str, tmp_path: Path
) -> None:
    """Another version may compute other values: deltas would not add up to rows of the old one."""
    file, copy = tmp_path / "shop.duckdb", tmp_path / "copy.duckdb"
    with ivm.connect(file) as db:
        db.execute(VIEWS)
        db.execute("FROM rounded").fetchall()
        cursor = db._engine.warehouse.cursor()
        run(cursor, f"UPDATE _ivm.meta SET {record} WHERE key = 'duckdb'")
        run(cursor, "UPDATE rounded SET x = 81.7 WHERE x > 80")  # as that version would have it
        db._engine.warehouse._saw_wal()
        db.execute("INSERT INTO t VALUES (3, 'ef', 7)")
        if not closed:
            image(file, copy)
    opened = file if closed else copy
    with ivm.connect(opened) as db:
        db.execute("DELETE FROM t WHERE id = 1")
        assert_verified(db)
        cursor = db._engine.warehouse.cursor()
        found = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'duckdb'")
        assert found == [(duckdb.__version__,)]
    with ivm.connect(opened) as db:
        assert not db._engine.warehouse.is_strange


STEP = """
import os, sys, ivm
step, ends, views = int(sys.argv[1]), *sys.argv[2:]
db = ivm.connect("shop.duckdb")
if step == 0:
    db.execute(views)
db.insert("t", {"id": [10 + step], "s": ["gh"], "x": [step + 0.55]})
db.execute("UPDATE t SET x = x + 1 WHERE id < 3")
db.execute("DELETE FROM t WHERE id = ?", [8 + step])
verdicts = db.execute("VERIFY MATERIALIZED VIEWS").fetchall()
assert len(verdicts) == 3 and all(verdict[4] for verdict in verdicts), verdicts
if ends == "crash":
    os._exit(0)
db.close()
"""


@pytest.mark.full
def test_a_file_goes_to_and_fro_between_versions(tmp_path: Path) -> None:
    """IVM_OLDEST_DUCKDB is a Python with this package and the oldest DuckDB that it takes."""
    pythons = (os.environ.get("IVM_OLDEST_DUCKDB", sys.executable), sys.executable)
    for step in range(6):
        ends = "crash" if step in (1, 2) else "close"
        command = [pythons[step % 2], "-c", STEP, str(step), ends, VIEWS]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        assert_verified(db)
