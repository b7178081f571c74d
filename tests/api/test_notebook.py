"""`%ivm`, `%%ivm` and JupySQL's `%sql` in a real kernel, and notebooks run from top to bottom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import ivm

SHOWN = ("execute_result", "display_data", "update_display_data", "error", "stream")
Message = tuple[str, dict[str, Any]]


def environment(folder: Path) -> dict[str, str]:
    """One that finds the package that is tested, but not the repository's other folders.

    JupySQL is a top-level package `sql`, as is a folder of the repository.
    """
    (folder / "lib").mkdir()
    (folder / "lib" / "ivm").symlink_to(Path(ivm.__file__).parent)
    return {**os.environ, "PYTHONPATH": str(folder / "lib")}


class Kernel:
    """A running kernel, and what its cells show."""

    def __init__(self, folder: Path) -> None:
        self.manager, self.client = start_new_kernel(
            kernel_name="python3", cwd=str(folder), env=environment(folder)
        )

    def run(self, code: str) -> list[Message]:
        """The messages that a cell shows until it has run."""
        request, shown = self.client.execute(code), []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            kind, content = message["msg_type"], message["content"]
            if kind in SHOWN:
                shown.append((kind, content))
            mine = message["parent_header"].get("msg_id") == request
            if mine and kind == "status" and content["execution_state"] == "idle":
                return shown

    def updated(self, shown: list[Message], text: str) -> str:
        """The display updated to hold a text, if not by the messages given, then by later ones."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for kind, content in shown:
                if kind == "update_display_data" and text in content["data"]["text/html"]:
                    return str(content["transient"]["display_id"])
            message = self.client.get_iopub_msg(timeout=60)
            shown = [(message["msg_type"], message["content"])]
        raise AssertionError(f"no display was updated to hold {text!r}")


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    running = Kernel(tmp_path)
    yield running
    running.client.stop_channels()
    running.manager.shutdown_kernel(now=True)


def only(shown: list[Message]) -> dict[str, Any]:
    (message,) = shown
    return message[1]


@pytest.mark.filterwarnings("default")
def test_magics_in_a_kernel(kernel: Kernel) -> None:
    assert kernel.run("%load_ext ivm") == []
    assert "no database is open" in only(kernel.run("%ivm SELECT 1"))["text"]
    assert "ivm.Database 'shop.duckdb'" in str(kernel.run("%ivm connect shop.duckdb"))
    assert kernel.run("%ivm CREATE TABLE t (a INTEGER, b VARCHAR)") == []
    kernel.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
    assert (
        "Count" in only(kernel.run("%%ivm\nINSERT INTO t\nSELECT * FROM df"))["data"]["text/html"]
    )
    data = only(kernel.run("%ivm SELECT {'k': a} AS s FROM t"))["data"]  # braces are SQL's
    assert "<table" in data["text/html"]
    assert "struct" in data["text/plain"]
    kernel.run("%ivm CREATE MATERIALIZED VIEW v AS SELECT b, sum(a) AS s FROM t GROUP BY b")
    kernel.run("x = %ivm SELECT * FROM v ORDER BY b")
    assert "[('x', 1), ('y', 2)]" in str(kernel.run("x.fetchall()"))
    body = "    own = df\n    return get_ipython().run_line_magic('ivm', 'FROM own')"
    kernel.run(f"def f():\n{body}")
    assert "<table" in only(kernel.run("f()"))["data"]["text/html"]
    (error,) = kernel.run("%ivm SELECT nope FROM t")
    assert error[0] == "error"
    assert len(error[1]["traceback"]) == 1
    assert "SqlError: Binder Error" in error[1]["traceback"][0]
    assert "%ivm watch" in only(kernel.run("%ivm"))["text"]


@pytest.mark.filterwarnings("default")
def test_a_watched_view_changes_in_place(kernel: Kernel) -> None:
    kernel.run("%load_ext ivm")
    kernel.run("import ivm; db = ivm.connect()")  # the only one among the variables
    kernel.run("%ivm CREATE TABLE t (a INTEGER)")
    kernel.run("%ivm CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    drawn = only(kernel.run("%ivm watch v"))
    assert "v at epoch" in drawn["data"]["text/plain"]
    place = drawn["transient"]["display_id"]
    assert kernel.updated(kernel.run("db.insert('t', {'a': [777]})"), "777") == place
    many = "for i in range(300): _ = db.execute('INSERT INTO t VALUES (1)')"
    assert kernel.updated(kernel.run(many), "1077") == place
    kernel.run("%ivm unwatch v")
    kernel.run("%ivm INSERT INTO t VALUES (1)")
    other = only(kernel.run("%ivm watch v"))["transient"]["display_id"]
    assert other != place
    assert kernel.updated(kernel.run("%ivm DROP MATERIALIZED VIEW v"), "has ended") == other
    assert "error" in [kind for kind, _ in kernel.run("%ivm watch nothing")]


@pytest.mark.filterwarnings("default")
def test_jupysql_in_a_kernel(kernel: Kernel) -> None:
    kernel.run("from sqlalchemy.dialects import registry")
    kernel.run("registry.register('ivm', 'ivm.integrations.dialect', 'IvmDialect')")
    # With PySpark there, JupySQL demands all that Spark Connect needs.
    kernel.run("import sys; sys.modules['pyspark'] = None")
    assert "error" not in [kind for kind, _ in kernel.run("%load_ext sql")]
    kernel.run("%config SqlMagic.displaycon = False")
    kernel.run("%sql ivm:///shop.duckdb")
    kernel.run("%sql CREATE TABLE t (a INTEGER)")
    kernel.run("%sql INSERT INTO t VALUES (1), (41)")
    kernel.run("%sql CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    assert "42" in str(kernel.run("found = %sql SELECT * FROM v\nprint(found.DataFrame())"))
    assert "nope" in str(kernel.run("%sql SELECT nope FROM t"))


@pytest.mark.filterwarnings("default")
def test_a_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    cells = ["%load_ext ivm\n%ivm connect", "%ivm SELECT 42 AS answer", "%ivm SELECT nope"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        book, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    with pytest.raises(CellExecutionError, match="SqlError"):
        client.execute(env=environment(tmp_path))
    assert "42" in json.dumps(book.cells[1].outputs)


def test_without_ipython_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['IPython'] = None\n"
        "import ivm\n"
        "try: ivm.load_ipython_extension(None)\n"
        "except ivm.OperationalError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ivmdb[notebook]'" in done.stdout
    assert ivm.OperationalError is ivm.errors.UnavailableError
