"""`.sources` in the shell: the list, starting and stopping, and troubles told at the prompt."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

import ivm
from ivm.shell.commands import run_command
from ivm.shell.console import Console, Settings
from ivm.shell.display.output import Output
from ivm.shell.sources import Troubles
from tests.shell.clicks import CREATE, TABLE, put
from tests.shell.test_shell import CTRL_D, Terminal

pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
VIEW = "CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS n FROM clicks GROUP BY page"


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    return tmp_path / "clicks.jsonl"


@pytest.fixture
def db(inbox: Path) -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute(f"{TABLE}; {VIEW}")
        yield database


def waited(ready: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def ran(db: ivm.Database, text: str, mode: str = "csv") -> str:
    """What a script of commands writes."""
    stream = io.StringIO()
    output = Output(stream, is_terminal=False)
    Console(db, ":memory:", output, output, Settings(mode), run_command).run(text)
    return stream.getvalue()


@pytest.mark.full
def test_without_sources_it_teaches(db: ivm.Database) -> None:
    for command in (".sources", ".sources start", ".sources stop"):
        assert ran(db, command).startswith("No sources yet: CREATE SOURCE name INTO table FROM")


def test_sources_are_listed_started_and_stopped(db: ivm.Database, inbox: Path) -> None:
    db.execute(CREATE.format("clicks", "clicks", inbox))
    put(inbox, 1, 2)
    head = "source,into,state,events,behind,dead_letters,reason"
    assert ran(db, ".sources") == f"{head}\nclicks,clicks,not started,0,?,0,\n"
    assert ran(db, ".sources start").splitlines()[0] == head
    waited(lambda: db.sources()[0].caught_up)
    assert ran(db, ".sources") == f"{head}\nclicks,clicks,running,2,0,0,\n"
    assert ".sources start" not in ran(db, ".SOURCES STOP;")
    assert ran(db, ".sources").splitlines()[1].startswith("clicks,clicks,not started,2,")
    put(inbox, 3)
    ran(db, ".sources start")
    waited(lambda: db.execute("SELECT sum(n) FROM pages").fetchall() == [(3,)])


def test_sinks_are_started_too(db: ivm.Database, inbox: Path, tmp_path: Path) -> None:
    target = tmp_path / "pages.jsonl"
    db.execute(f"CREATE SINK feed FROM pages INTO FILES (path '{target}')")
    ran(db, ".sources start")
    db.execute("INSERT INTO clicks VALUES (1, 1)")
    waited(lambda: target.exists() and target.read_text().endswith("\n"))
    ran(db, ".sources stop")
    assert db.sinks()[0].state == "not started"


def test_a_wrong_argument_is_refused(db: ivm.Database) -> None:
    assert ran(db, ".sources begin") == (
        "Error: .sources takes start or stop, or nothing, not 'begin'\n"
    )


def test_a_trouble_is_told_once(db: ivm.Database, inbox: Path) -> None:
    db.execute(
        CREATE.format("clicks", "clicks", inbox) + "; ALTER SOURCE clicks SET (max_dead_letters 0)"
    )
    troubles = Troubles()
    assert troubles.untold(db) == []
    db.start_sources()
    for _ in range(2):  # once more after it went on
        with inbox.open("a") as file:
            file.write("{\n")
        waited(lambda: db.sources()[0].state == "stopped")
        [line] = troubles.untold(db)
        assert line.startswith("source 'clicks' has stopped: 1 events could not be applied")
        assert line.endswith("RESUME SOURCE clicks lets it go on")
        assert troubles.untold(db) == []
        inbox.unlink()
        db.execute("ALTER SOURCE clicks SET (skip_lost TRUE); RESUME SOURCE clicks")
        waited(lambda: db.sources()[0].caught_up)
        assert troubles.untold(db) == []


# --- on a terminal -----------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, inbox: Path) -> str:
    file = str(tmp_path / "shop.duckdb")
    with ivm.connect(file) as database:
        database.execute(f"{TABLE}; {VIEW}; {CREATE.format('clicks', 'clicks', inbox)}")
    return file


@pytest.mark.full(smoke=1)
def test_a_session_beside_a_running_source(shop: str, inbox: Path, tmp_path: Path) -> None:
    put(inbox, *range(100))
    terminal = Terminal(shop, XDG_STATE_HOME=str(tmp_path))
    terminal.type(".sources start")
    terminal.wait_for("shop>")
    terminal.type(".watch pages")
    with inbox.open("a") as file:
        file.write('{"id": 100, "page": 123456}\n')
    terminal.wait_for("123456")  # a new row; of others only what differs may be drawn
    terminal.process.send("q")
    terminal.wait_for("shop>")
    terminal.type("SELECT sum(n) AS total FROM pages;")
    terminal.wait_for("101 │")
    put(inbox, *range(101, 20_000))  # left in the middle of it
    assert terminal.leave() == 0
    with ivm.connect(shop) as db:
        db.start_sources()
        waited(lambda: db.sources()[0].caught_up)
        counts = "SELECT count(*), count(DISTINCT id) FROM clicks"
        assert db.execute(counts).fetchall() == [(20_000, 20_000)]


def _answered(terminal: Terminal, cell: str) -> str:
    """The output up to the prompt behind an answer, which may come at once with it."""
    told = terminal.wait_for(cell)
    return told if "shop>" in told.rpartition(cell)[2] else told + terminal.wait_for("shop>")


@pytest.mark.full
def test_troubles_are_told_before_the_next_prompt(shop: str, inbox: Path, tmp_path: Path) -> None:
    terminal = Terminal(shop, XDG_STATE_HOME=str(tmp_path))
    terminal.type(".sources start")
    terminal.wait_for("shop>")
    terminal.type("DROP TABLE clicks CASCADE;")
    terminal.wait_for("done")
    put(inbox, 1)
    terminal.type("BEGIN;")
    told = terminal.wait_for("shop*>")  # or the source was faster
    time.sleep(4)
    terminal.type("SELECT 42 AS answer;")
    assert "Note:" not in terminal.wait_for("shop*>")  # in a transaction it would need a query
    terminal.type("ROLLBACK;")
    told += terminal.wait_for("shop>")
    if "Note:" not in told:  # the source had to wait for the transaction, and stops meanwhile
        time.sleep(2)
        terminal.type("SELECT 41 AS answer;")
        told = _answered(terminal, "41 │")
    assert "Note: source 'clicks' has stopped: there is no table 'clicks'" in told
    terminal.type("SELECT 43 AS answer;")
    assert "Note:" not in _answered(terminal, "43 │")
    terminal.process.send(CTRL_D)
    terminal.process.expect(pexpect.EOF)
