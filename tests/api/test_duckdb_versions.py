"""Which versions of DuckDB are taken, and what becomes of a file that another one has written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import ivm
from ivm.errors import UnavailableError
from ivm.shell.cli import app
from ivm.storage.versions import REQUIRED, demand_known_duckdb
from tests.support import ROOT

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
