"""`ivm backfill`: fills what waits, is stopped by Ctrl-C, goes on, and says what it cannot do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ivm
from tests.spark.test_backfill import CREATE, TABLES
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=3)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with a view that nobody has filled."""
    session()  # or the test is not run
    path = tmp_path / "shop.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLES)
        db._engine.jobs.stop("backfill")
        db.execute(CREATE)
    return path


def started(*arguments: str, cwd: Path, path: str | None = None) -> subprocess.Popen[str]:
    environment = os.environ | ({"PATH": path, "JAVA_HOME": ""} if path is not None else {})
    return subprocess.Popen(
        [sys.executable, "-m", "ivm", *arguments],
        cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.full
def test_ctrl_c_stops_and_the_next_run_goes_on(file: Path) -> None:
    first = started("backfill", file.name, cwd=file.parent)
    assert first.stdout is not None
    for line in first.stdout:
        if "starting Spark" in line:
            first.send_signal(signal.SIGINT)
            break
    output, errors = first.communicate(timeout=120)
    assert first.returncode == 130, errors
    stopped = "stopped; what is done is kept: ivm backfill goes on from there"
    assert errors.splitlines()[0] == stopped
    second = started("backfill", file.name, "V", cwd=file.parent)
    output, errors = second.communicate(timeout=120)
    assert (second.returncode, errors) == (0, "")
    assert output.splitlines()[-1] == "V: filled"
    third = started("backfill", file.name, cwd=file.parent)
    assert "all views are filled" in third.communicate(timeout=120)[0]
    with ivm.connect(file) as db:
        assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall()[0][4]


@pytest.mark.full
def test_what_is_missing_is_said(file: Path) -> None:
    without_java = started("backfill", file.name, cwd=file.parent, path="/nowhere")
    _, errors = without_java.communicate(timeout=120)
    assert without_java.returncode == 1
    assert "finds no Java" in errors
    assert "apt-get install openjdk-17" in errors
    (file.parent / "ivm.toml").write_text("[spark]\nmster = 'local'\n")
    misspelt = started("backfill", file.name, cwd=file.parent)
    assert "[spark] has the keys master, remote, packages, config" in misspelt.communicate()[1]
    (file.parent / "ivm.toml").write_text("[spark]\nmaster = 'local[x'\n")
    wrong = started("backfill", file.name, cwd=file.parent)
    assert "Could not parse Master URL: 'local[x'" in wrong.communicate(timeout=120)[1]
    unknown = started("backfill", file.name, "revenu", cwd=file.parent)
    assert "there is no materialized view 'revenu'" in unknown.communicate(timeout=120)[1]
    missing = started("backfill", "none.duckdb", cwd=file.parent)
    assert "there is no database 'none.duckdb'" in missing.communicate(timeout=120)[1]
    assert missing.returncode == 2


@pytest.mark.full
def test_the_settings_of_the_file_are_used(file: Path) -> None:
    (file.parent / "ivm.toml").write_text(
        '[spark]\nmaster = "local[1]"\n[spark.config]\n"spark.sql.shuffle.partitions" = 1\n'
    )
    child = started("backfill", file.name, cwd=file.parent)
    assert child.communicate(timeout=120)[1] == ""
    assert child.returncode == 0
