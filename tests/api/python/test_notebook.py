"""The magics of `%load_ext ivm`, in a real kernel, as a notebook's front end sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

import ivm

pytestmark = pytest.mark.full(smoke=2)

_PATIENCE = 60.0  # seconds, of a busy machine
_SETUP = """%%ivm
CREATE TABLE orders(id INT PRIMARY KEY, item VARCHAR, price DOUBLE);
INSERT INTO orders VALUES (1, 'pen', 2.5), (2, '<b>', 7);
CREATE MATERIALIZED VIEW prices AS
    SELECT item, sum(price) AS total FROM orders GROUP BY item ORDER BY item DESC;
SELECT * FROM prices ORDER BY item"""


@dataclass
class Cell:
    """What a cell has shown."""

    results: list[dict[str, str]] = field(default_factory=list)
    displays: list[dict[str, str]] = field(default_factory=list)
    text: str = ""
    error: str = ""
    errors: int = 0


class Notebook:
    """A kernel, its cells, and what is shown in places that change."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client
        self.places: dict[str, dict[str, str]] = {}

    def run(self, code: str, *, during: Any = None) -> Cell:
        """Runs a cell to its end; `during` is called once it has begun."""
        cell, sent = Cell(), self._client.execute(code)
        while True:
            message = self._client.get_iopub_msg(timeout=_PATIENCE)
            kind, content = message["msg_type"], message["content"]
            self._place(kind, content)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if kind == "execute_input" and during is not None:
                during()
            if kind == "execute_result":
                cell.results.append(content["data"])
            elif kind == "display_data":
                cell.displays.append(content["data"])
            elif kind == "stream":
                cell.text += content["text"]
            elif kind == "error":
                cell.error = "\n".join(content["traceback"])
                cell.errors += 1
            elif kind == "status" and content["execution_state"] == "idle":
                return cell

    def _place(self, kind: str, content: dict[str, Any]) -> None:
        place = content.get("transient", {}).get("display_id")
        if kind in ("display_data", "update_display_data") and place is not None:
            self.places[place] = content["data"]

    def shown(self, wanted: str) -> dict[str, str]:
        """Waits until the newest place shows a text."""
        end = time.monotonic() + _PATIENCE
        while wanted not in (newest := list(self.places.values())[-1])["text/plain"]:
            assert time.monotonic() < end, f"{wanted!r} is not in\n{newest['text/plain']}"
            message = self._client.get_iopub_msg(timeout=_PATIENCE)
            self._place(message["msg_type"], message["content"])
        return newest


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    manager = KernelManager(kernel_name="python3")
    path = os.pathsep.join([str(Path(ivm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    manager.start_kernel(env={**os.environ, "PYTHONPATH": path})
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(kernel: KernelManager) -> Iterator[Notebook]:
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=_PATIENCE)
    book = Notebook(client)
    assert book.run("%reset -f\n%reload_ext ivm\n%ivm connect :memory:").error == ""
    yield book
    assert book.run("%unload_ext ivm").error == ""
    client.stop_channels()


@pytest.mark.full
def test_a_cell_runs_statements_and_shows_the_last_result(notebook: Notebook) -> None:
    (shown,) = notebook.run(_SETUP).results
    assert "pen" in shown["text/plain"]
    assert "<td>&lt;b&gt;</td>" in shown["text/html"]
    (shown,) = notebook.run("%ivm SELECT {'a': 1} AS s, '$HOME' AS h, '{x}' AS t;").results
    assert "{'a': 1}" in shown["text/plain"]
    assert "$HOME" in shown["text/plain"]
    assert "{x}" in shown["text/plain"]
    (shown,) = notebook.run("n = %ivm SELECT count(*) FROM prices\nn.fetchall()").results
    assert shown["text/plain"] == "[(2,)]"


def test_variables_of_the_notebook_are_tables(notebook: Notebook) -> None:
    """In a function its own come first, as for SQL in a call."""
    notebook.run(_SETUP)
    cell = notebook.run(
        "import pandas as pd\n"
        "extra = pd.DataFrame({'id': [3], 'item': ['ink'], 'price': [1.5]})\n"
        "%ivm INSERT INTO orders SELECT * FROM extra"
    )
    assert cell.error == ""
    (shown,) = notebook.run("%ivm SELECT total FROM prices JOIN extra USING (item)").results
    assert "1.5" in shown["text/plain"]
    (shown,) = notebook.run(
        "def read():\n"
        "    extra = pd.DataFrame({'a': ['mine']})\n"
        "    return get_ipython().run_line_magic('ivm', 'SELECT * FROM extra')\n"
        "read()"
    ).results
    assert "mine" in shown["text/plain"]
    assert "shell does not exist" in notebook.run("%ivm SELECT * FROM shell").error


def test_errors_are_short_and_keep_their_types(notebook: Notebook) -> None:
    cell = notebook.run("%ivm SELECT * FROM nowhere")
    assert cell.error.startswith("SqlError: Catalog Error: Table with name nowhere does not exist!")
    assert "Traceback" not in cell.error
    cell = notebook.run(
        "try:\n    %ivm SELECT * FROM nowhere\nexcept ivm.errors.SqlError:\n    print('met')"
    )
    assert "NameError" in cell.error  # `ivm` is loaded, not imported
    cell = notebook.run(
        "import ivm\n"
        "try:\n    %ivm SELECT * FROM nowhere\nexcept ivm.errors.SqlError:\n    print('met')"
    )
    assert cell.text == "met\n"
    assert "there is nothing to run" in notebook.run("%ivm").text
    assert "takes the name of a materialized view" in notebook.run("%ivm watch").text


def test_an_error_of_late_rows_is_the_cells(notebook: Notebook) -> None:
    """Bug: what shows the result met it, twice and with a traceback, and the cell had gone well."""
    late = "SELECT CASE WHEN i = 3000000 THEN error('late') END AS e FROM range(3000001) r(i)"
    for code in (f"%ivm {late}", f"rows = %ivm {late}", f"%%ivm\n{late}"):
        cell = notebook.run(f"%%time\n{code}" if code[1] != "%" else code)
        assert (cell.error, cell.errors) == ("InputError: Invalid Input Error: late", 1)
    notebook.run("rows = %ivm SELECT i FROM range(3) r(i)")
    (shown,) = notebook.run("rows.fetchone(), rows.fetchall()").results
    assert shown["text/plain"] == "((0,), [(1,), (2,)])"


def test_connections(notebook: Notebook, tmp_path: Path) -> None:
    """A file that is opened here is closed here; a database of the notebook's stays open."""
    assert "connected to :memory:" in notebook.run("%ivm connect ':memory:'").text
    notebook.run(f"%ivm connect {tmp_path / 'shop.duckdb'}")
    notebook.run("%ivm CREATE TABLE t AS SELECT 42 AS a")
    assert "there is no folder" in notebook.run("%ivm connect /nowhere/shop.duckdb").error
    assert "42" in notebook.run("%ivm FROM t").results[0]["text/plain"]  # still connected
    notebook.run("%ivm close")
    assert "no database is open" in notebook.run("%ivm FROM t").text
    with ivm.connect(tmp_path / "shop.duckdb") as db:  # the kernel does not hold it any more
        assert db.execute("FROM t").fetchall() == [(42,)]
    notebook.run(
        "import ivm\nmine = ivm.connect(':memory:')\nmine.execute('CREATE TABLE u(b INT)')"
    )
    notebook.run("%ivm connect mine")
    assert notebook.run("%ivm INSERT INTO u VALUES (1)").error == ""
    notebook.run("%ivm close")
    assert notebook.run("mine.execute('FROM u').fetchall()").results[0]["text/plain"] == "[(1,)]"


def test_a_variable_that_is_no_database_leaves_the_name_to_a_file(
    notebook: Notebook, tmp_path: Path
) -> None:
    """Bug: whether a frame is true was asked."""
    notebook.run(f"import numpy, os\nos.chdir({str(tmp_path)!r})\nshop = numpy.zeros(2)")
    assert "connected to shop" in notebook.run("%ivm connect shop").text
    notebook.run("%ivm close")
    assert (tmp_path / "shop").exists()


def test_a_variable_of_any_database(notebook: Notebook, tmp_path: Path) -> None:
    """Bug: a served one, and one of a function's own, were files of the variable's name."""
    notebook.run(f"import ivm, os\nos.chdir({str(tmp_path)!r})")
    notebook.run("far = ivm.connect('ivm://ann@127.0.0.1:1')")
    assert "connected to http://127.0.0.1:1" in notebook.run("%ivm connect far").text
    assert notebook.run("%ivm FROM t").error.startswith("UnavailableError: the server at")
    local = "def use():\n    own = ivm.connect()\n    own.execute('CREATE TABLE o AS SELECT 42')\n"
    notebook.run(f"{local}    %ivm connect own\nuse()")
    assert "42" in notebook.run("%ivm FROM o").results[0]["text/plain"]
    notebook.run("con = ivm.dbapi.connect()\ncursor = con.cursor()")
    assert "db = con.database, then %ivm connect db" in notebook.run("%ivm connect con").text
    assert "cursor.connection.database" in notebook.run("%ivm connect cursor").text
    notebook.run("db = cursor.connection.database\n%ivm connect db\n%ivm CREATE TABLE c(a INT)")
    assert notebook.run("con.execute('FROM c').fetchall()").results[0]["text/plain"] == "[]"
    assert not list(tmp_path.iterdir())


def test_a_watched_view_changes_in_place(notebook: Notebook) -> None:
    """While other cells run; the view's own order, the added rows marked, one place."""
    notebook.run(_SETUP)
    (first,) = notebook.run("%ivm watch prices").displays
    assert first["text/plain"].startswith("prices   2 rows")
    assert first["text/html"].index("pen") < first["text/html"].index("&lt;b&gt;")
    notebook.run("%ivm INSERT INTO orders VALUES (3, 'ink', NULL)")
    shown = notebook.shown("3 rows")
    assert "last change +1 −0" in shown["text/plain"]
    marked = shown["text/html"].split("rgba")[1]
    assert "ink" in marked.split("</tr>")[0]
    assert "<i>NULL</i>" in marked.split("</tr>")[0]
    notebook.run("%ivm DELETE FROM orders")
    notebook.shown("0 rows")
    assert len(notebook.places) == 1


def test_watching_ends(notebook: Notebook) -> None:
    notebook.run(_SETUP)
    notebook.run("%ivm watch prices")
    notebook.run("%ivm unwatch PRICES")
    assert "prices is not watched; nothing is" in notebook.run("%ivm unwatch prices").text
    notebook.run("%ivm watch prices")
    notebook.run("%ivm INSERT INTO orders VALUES (3, 'ink', 1)")
    notebook.shown("3 rows")
    first, second = notebook.places.values()
    assert "2 rows" in first["text/plain"]  # the place that was left stays as it was
    notebook.run("%ivm watch prices")  # instead of the one before
    notebook.run("%ivm DROP MATERIALIZED VIEW prices")
    notebook.shown("prices changes no more")
    threads = "import threading\n[t.name for t in threading.enumerate() if t.name == 'ivm-watch']"
    assert notebook.run(threads).results[0]["text/plain"] == "[]"
    assert second is not first


@pytest.mark.full
def test_names_of_watched_views_are_sqls(notebook: Notebook) -> None:
    """Bug: what `watch` takes, quoted or qualified, `unwatch` did not know."""
    notebook.run(_SETUP)
    notebook.run('%ivm CREATE MATERIALIZED VIEW "Odd name" AS SELECT count(*) AS n FROM orders')
    for name in ('"Odd name"', "main.prices", "memory.main.prices", 'MAIN."Prices";', "prices"):
        assert notebook.run(f"%ivm watch {name}").displays
        cell = notebook.run(f"%ivm unwatch {name}")
        assert (cell.text, cell.error) == ("", "")
    notebook.run("%ivm watch prices")
    assert (
        "other.prices is not watched; prices is" in notebook.run("%ivm unwatch other.prices").text
    )


def test_watching_a_served_database(notebook: Notebook) -> None:
    """Bug: the error named a method that nobody had called."""
    notebook.run("%ivm connect ivm://ann@127.0.0.1:1")
    assert "follow one by db.subscribe" in notebook.run("%ivm watch prices").text


def test_watching_shows_what_is_committed(notebook: Notebook) -> None:
    notebook.run(_SETUP)
    notebook.run("%ivm BEGIN")
    assert "a transaction is open" in notebook.run("%ivm watch prices").error
    notebook.run("%ivm ROLLBACK")
    assert notebook.run("%ivm watch nothing").error.startswith("SqlError: there is no material")
    notebook.run("%ivm watch prices")
    notebook.run("%ivm close")
    notebook.run("pass")
    assert "2 rows" in notebook.shown("prices")["text/plain"]


@pytest.mark.full
def test_an_interrupted_cell(kernel: KernelManager, notebook: Notebook) -> None:
    """The query ends, and the notebook goes on."""
    notebook.run(_SETUP)

    def interrupt() -> None:
        time.sleep(1.0)  # until the query runs; too early it ends the cell all the same
        kernel.interrupt_kernel()

    begun = time.monotonic()
    long = "%ivm SELECT sum(sin(a.range * b.range)) FROM range(10000000) a, range(1000000) b"
    assert "KeyboardInterrupt" in notebook.run(long, during=interrupt).error
    assert time.monotonic() - begun < _PATIENCE
    assert "2" in notebook.run("%ivm SELECT count(*) FROM prices").results[0]["text/plain"]


@pytest.mark.full
def test_a_terminal_has_no_place_that_changes() -> None:
    """IPython without a kernel: SQL runs, watching is refused."""
    code = (
        "from IPython.testing.globalipapp import start_ipython\n"
        "shell = start_ipython()\n"
        "shell.run_line_magic('load_ext', 'ivm')\n"
        "shell.run_line_magic('ivm', 'connect :memory:')\n"
        "print(shell.run_line_magic('ivm', 'SELECT 42').fetchall())\n"
        "try:\n"
        "    shell.run_line_magic('ivm', 'watch v')\n"
        "except BaseException as error:\n"
        "    print(error)\n"
    )
    done = _python(code)
    assert "[(42,)]" in done.stdout, done.stderr
    assert "needs a notebook" in done.stdout


@pytest.mark.full
def test_nothing_needs_ipython() -> None:
    """Without it the package is imported and works; only loading the extension fails."""
    code = (
        "import sys\n"
        "sys.modules['IPython'] = None\n"
        "import ivm\n"
        "print(ivm.connect().execute('SELECT 42').fetchall())\n"
        "try:\n"
        "    ivm.load_ipython_extension(object())\n"
        "except ImportError as error:\n"
        "    print('refused')\n"
    )
    assert _python(code).stdout == "[(42,)]\nrefused\n"
    assert _python("import ivm, sys; print('IPython' in sys.modules)").stdout == "False\n"


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
