"""dbt-postgres against `ivm serve`: the project in examples/dbt, run again and again.

dbt is installed in a virtual environment of its own, since it pins packages that are ours too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.serve.serving import served
from tests.support import ROOT

pytestmark = pytest.mark.full

PACKAGES = ("dbt-core<1.12", "dbt-postgres")
REVENUE = "SELECT region, orders, amount FROM dbt.revenue"


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in a new virtual environment."""
    place = tmp_path_factory.mktemp("dbt") / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [
        str(place / "bin" / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *PACKAGES,
    ]
    found = subprocess.run(pip, capture_output=True, text=True, check=False)
    if found.returncode and os.environ.get("IVM_SERVERS") != "required":
        pytest.skip(f"NOT RUN: dbt cannot be installed: {found.stderr[-500:]}")
    assert found.returncode == 0, found.stderr
    return place / "bin" / "dbt"


class Project:
    """The example, with a server of its own.

    Args:
        dbt: the command.
        folder: the project's copy.
        port: of the server.
    """

    def __init__(self, dbt: Path, folder: Path, port: int) -> None:
        self._dbt, self.folder, self._port = dbt, folder, port

    def run(self, *words: str) -> None:
        """Runs dbt, which must say that all went well."""
        environment = {
            **os.environ,
            "IVM_PORT": str(self._port),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "0",
        }
        found = subprocess.run(
            [self._dbt, *words, "--profiles-dir", "."],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert found.returncode == 0, found.stdout
        assert "ERROR=" not in found.stdout or "ERROR=0" in found.stdout, found.stdout


def test_a_project_is_built_again_and_again(dbt: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "dbt", folder)
    with served(tmp_path / "shop.duckdb") as server:
        project = Project(dbt, folder, server.port)
        with psycopg.connect(server.dsn(), autocommit=True) as shop:
            project.run("build")
            first = Counter(shop.execute(REVENUE).fetchall())
            assert first == Counter([("north", 2, 30.5), ("south", 1, 5.25)])
            shop.execute("INSERT INTO dbt.paid_orders VALUES (9, 2, 50, '2024-03-05')")
            assert ("south", 2, 55.25) in shop.execute(REVENUE).fetchall()  # at once
            _change(folder / "seeds" / "customers.csv", "1,Ann,north", "1,Ann,south")
            _change(
                folder / "seeds" / "orders.csv", "3,2,5.25", "4,3,7,2024-03-09 10:00:00\n3,2,5.25"
            )
            for words in (("build",), ("build", "--full-refresh"), ("build",)):
                project.run(*words)
                assert Counter(shop.execute(REVENUE).fetchall()) == Counter(
                    [("south", 3, 35.75), ("north", 1, 7.0)]
                )
                logged = "SELECT id FROM dbt.order_log ORDER BY id"
                assert shop.execute(logged).fetchall() == [(1,), (2,), (3,), (4,)]
                merged = "SELECT count(*) FROM dbt.order_log_merged"
                assert shop.execute(merged).fetchall() == [(4,)]
                history = "SELECT id, region, dbt_valid_to IS NULL FROM dbt.customer_history"
                assert Counter(shop.execute(history).fetchall()) == Counter(
                    [
                        (1, "north", False),
                        (1, "south", True),
                        (2, "south", True),
                        (3, "north", True),
                    ]
                )
                ok = shop.execute("VERIFY MATERIALIZED VIEWS").fetchall()
                assert len(ok) == 2
                assert all(row[-1] for row in ok)
            project.run("docs", "generate")
            catalog = json.loads((folder / "target" / "catalog.json").read_text(encoding="utf-8"))
            kinds = {name: node["metadata"]["type"] for name, node in catalog["nodes"].items()}
            assert kinds["model.shop.revenue"] == "MATERIALIZED VIEW"
            assert kinds["model.shop.paid_orders"] == "BASE TABLE"
            assert kinds["model.shop.customer_names"] == "VIEW"


def _change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
