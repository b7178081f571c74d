"""`ivm ingest`: what it runs, what it shows, how it ends, and what is there afterwards."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import ivm
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.shell.command_line.cli import app
from ivm.shell.command_line.ingest_panel import drawn
from ivm.shell.display.output import Output
from ivm.shell.ingest_display import Lines, Seen
from ivm.shell.stop import Stop
from tests.shell.clicks import CREATE, TABLE, put

pytestmark = [
    pytest.mark.full(smoke=5),
    pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning"),
]
VIEW = """CREATE MATERIALIZED VIEW pages AS
          SELECT page, count(*) AS n, sum(id) AS total FROM clicks GROUP BY page"""


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["ingest", *args], prog_name="ivm")


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "ivm", "ingest", *args]


def environment(**variables: str) -> dict[str, str]:
    given = {name: os.environ[name] for name in os.environ if name not in ("COLUMNS", "LINES")}
    return {**given, "PYTHONPATH": str(Path(ivm.__file__).parent.parent), **variables}


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


@pytest.fixture
def shop(tmp_path: Path, inbox: Path) -> str:
    """A file with a source that follows the inbox."""
    file = str(tmp_path / "shop.duckdb")
    with ivm.connect(file) as db:
        db.execute(f"{TABLE}; {VIEW}; {CREATE.format('clicks', 'clicks', inbox / '*.jsonl')}")
    return file


def fill(inbox: Path, files: int = 4, rows: int = 50_000) -> int:
    """Writes many events; returns how many."""
    with ivm.connect() as db:
        for number in range(files):
            numbers = f"range({number * rows}, {(number + 1) * rows}) r(i)"
            events = f"SELECT i AS id, i % 7 AS page FROM {numbers}"
            db.execute(f"COPY ({events}) TO '{inbox}/{number}.jsonl' (FORMAT json)")
    return files * rows


def execute(file: str, sql: str) -> list[Any]:
    with ivm.connect(file) as db:
        return db.execute(sql).fetchall()


def assert_whole(file: str, count: int) -> None:
    """Each event from 0 on was applied once, and the view follows."""
    assert execute(file, "SELECT count(*), count(DISTINCT id), max(id) FROM clicks") == [
        (count, count, count - 1)
    ]
    assert execute(file, "SELECT sum(n), sum(total) FROM pages") == [
        (count, count * (count - 1) // 2)
    ]
    assert execute(file, "FROM _ivm.dead_letters") == []


# --- what it runs ------------------------------------------------------------------------------


@pytest.mark.full
def test_once_applies_what_is_there_and_leaves(shop: str, inbox: Path) -> None:
    put(inbox / "a.jsonl", 0, 1)
    put(inbox / "b.jsonl", 2)
    done = run(shop, "--once")
    assert (done.exit_code, done.stderr.splitlines()[-1][:26]) == (0, "Caught up: 3 events applie")
    assert "clicks: running · 3 events" in done.stdout
    assert "caught up" in done.stdout
    assert "\x1b" not in done.output
    put(inbox / "b.jsonl", 3)
    assert "Caught up: 1 event applied" in run(shop, "--once").stderr
    assert_whole(shop, 4)


def test_lines_of_json(shop: str, inbox: Path) -> None:
    put(inbox / "a.jsonl", 0, 1)
    done = run(shop, "--once", "--json")
    *sources, total = map(json.loads, done.stdout.splitlines())
    last = sources[-1]
    assert (last["type"], last["name"], last["events"], last["caught_up"]) == (
        *("source", "clicks", 2, True),
    )
    assert {"time", "state", "position", "lag_events", "reason"} < last.keys()
    assert (total["ended"], total["events"], total["dead_letters"]) == ("caught up", 2, 0)
    assert done.stderr == ""


@pytest.mark.full
def test_only_the_named_sources_run(shop: str, inbox: Path) -> None:
    execute(shop, f"{TABLE.replace('clicks', 'b')}; {CREATE.format('b', 'b', inbox / '*.jsonl')}")
    put(inbox / "a.jsonl", 0)
    done = run(shop, "B", "--once")
    assert done.exit_code == 0
    assert "clicks" not in done.stdout
    assert execute(shop, "FROM clicks") == []
    assert execute(shop, "FROM b") == [(0, 0)]


def test_dead_letters_are_told(shop: str, inbox: Path) -> None:
    put(inbox / "a.jsonl", 0)
    (inbox / "b.jsonl").write_text("{\n{\n")
    done = run(shop, "--once")
    assert done.exit_code == 0
    assert "2 events of clicks could not be applied: FROM _ivm.dead_letters" in done.stderr
    assert "could not" not in run(shop, "--once").stderr  # those of before are not told again


@pytest.mark.full
def test_sinks_run_beside_sources(shop: str, inbox: Path, tmp_path: Path) -> None:
    target = tmp_path / "pages.jsonl"
    execute(shop, f"CREATE SINK feed FROM pages INTO FILES (path '{target}')")
    put(inbox / "a.jsonl", 0, 1, 2)
    done = run(shop, "--once")
    assert done.exit_code == 0
    assert "feed: running · pages to epoch" in done.stdout
    assert len(target.read_text().splitlines()) == 3
    assert execute(shop, "FROM _ivm.outbox") == []


@pytest.mark.full
def test_a_view_that_breaks_is_told(shop: str, inbox: Path) -> None:
    execute(shop, "CREATE MATERIALIZED VIEW small AS SELECT id::TINYINT AS id FROM clicks")
    put(inbox / "a.jsonl", 0, 1000)
    done = run(shop, "--once")
    assert done.exit_code == 0
    assert "the view 'small' is broken" in done.stdout
    assert "the view 'small' is broken" in done.stderr
    assert execute(shop, "SELECT count(*) FROM clicks") == [(2,)]


# --- what it cannot run ------------------------------------------------------------------------


def test_without_a_source_it_teaches(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    execute(file, "CREATE TABLE t (a INTEGER)")
    done = run(file)
    assert done.exit_code == 1
    assert "there are no sources" in done.stderr
    assert "CREATE SOURCE clicks INTO clicks FROM FILES" in done.stderr


def test_no_database_is_made(tmp_path: Path) -> None:
    done = run(str(tmp_path / "nope.duckdb"))
    assert (done.exit_code, "there is no database" in done.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


def test_an_unknown_source_is_refused(shop: str) -> None:
    done = run(shop, "nope", "--once")
    assert done.exit_code == 1
    assert "Error: there is no source 'nope'; there are: clicks" in done.stderr


@pytest.mark.parametrize("once", [[], ["--once"]])
def test_when_all_is_paused_it_says_so(shop: str, once: list[str]) -> None:
    execute(shop, "PAUSE SOURCE clicks")
    done = run(shop, *once)
    assert done.exit_code == 1
    assert done.stderr == "Error: nothing runs, all is paused: RESUME SOURCE clicks\n"


@pytest.mark.full
def test_a_source_that_stops_leaves_the_others_running(shop: str, inbox: Path) -> None:
    lost = inbox.parent / "lost.jsonl"
    execute(shop, f"{TABLE.replace('clicks', 'b')}; {CREATE.format('b', 'b', lost)}")
    put(lost, 5)
    execute(shop, "ALTER SOURCE b SET (max_dead_letters 0)")
    lost.write_text("{\n")
    put(inbox / "a.jsonl", 0, 1)
    done = run(shop, "--once")
    assert done.exit_code == 1
    assert "b: stopped: 1 events could not be applied" in done.stdout
    assert re.search(r"Error: source 'b' has stopped: .*; RESUME SOURCE b lets it", done.stderr)
    assert_clicks = execute(shop, "SELECT count(*) FROM clicks")
    assert assert_clicks == [(2,)]
    alone = run(shop, "b")  # not --once: it ends, for nothing runs
    assert (alone.exit_code, "Ended: 0 events" in alone.stderr) == (1, True)


# --- what it shows -----------------------------------------------------------------------------


def source(**changes: Any) -> SourceInfo:
    given: dict[str, Any] = {
        **{"name": "clicks", "kind": "FILES", "target": "clicks", "state": "running"},
        **{"position": "/a/very/long/path/to/the/inbox/of/clicks.jsonl: 123456"},
        **{
            "lag_events": 1234,
            "lag_seconds": 2.5,
            "events": 1234567,
            "events_per_second": 98_765.4,
        },
        **{"dead_letters": 3, "reason": None, "caught_up": False, "has_caught_up": False},
    }
    return SourceInfo(**{**given, **changes})


SEEN = Seen(
    [source(), source(name="drops", state="waiting", reason="the broker does not answer")],
    [SinkInfo("feed", "pages", "FILES", "", "running", 7, 1, 2, None)],
    {"small": "the view 'small' is broken"},
)


@pytest.mark.parametrize("width", [30, 50, 70, 100, 200])
def test_the_panel_fits_the_terminal(width: int) -> None:
    console = Console(width=width, no_color=True, force_terminal=True)
    with console.capture() as captured:
        console.print(drawn("shop.duckdb", SEEN, 3661, width))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", captured.get()).splitlines()
    assert {len(line) for line in lines} == {width}
    text = "\n".join(lines)
    assert "drops" in text
    if width >= 70:
        assert all(word in text for word in ("1,234,567", "98,765", "1,234 · 2.5 s", "2,469,134"))
        assert "1:01:01" in text
        assert re.search("clicks +━+╸? *99 %", text)
        assert "drops: the broker does not answer" in text
        assert "1 epoch, 2 rows" in text
        assert "small: a broken view" in text
    assert ("clicks.jsonl: 123456" in text) == (width >= 100)


def test_lines_are_written_when_something_has_changed(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as stream:
        output = Output(stream)
        with Lines(output, output) as lines:
            for seen in (SEEN, SEEN, Seen([source(events=5), source(name="drops")])):
                lines.show(seen)
            lines.show(Seen([source(events=6), source(name="drops")]))  # within the five seconds
        stream.seek(0)
        written = [line.split(" ", 1)[1].rstrip() for line in stream]
    assert [line.split(" · ")[0] for line in written] == [
        "clicks: running",
        "drops: waiting: the broker does not answer",
        "feed: running",
        "the view 'small' is broken",
        "drops: running",
        "clicks: running",  # at the end, what has moved since
    ]
    assert "6 events, 98,765/s" in written[-1]


# --- how it ends -------------------------------------------------------------------------------


class Process:
    """`ivm ingest --json` as a process."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            command(*args, "--json"),
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_for(self, ready: Callable[[dict[str, Any]], Any]) -> None:
        """Reads lines up to one that is so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if ready(json.loads(line)):
                return
        raise AssertionError(self.process.communicate())

    def end(self, number: int) -> tuple[int, str, str]:
        """Sends a signal; returns the exit code and the outputs."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output, errors


def is_running(line: dict[str, Any]) -> bool:
    return bool(line.get("state") == "running")


@pytest.mark.full
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_in_the_middle_loses_nothing(
    shop: str, inbox: Path, number: int, code: int
) -> None:
    count = fill(inbox, files=2)
    process = Process(shop)
    process.wait_for(is_running)
    time.sleep(0.2)
    returned, output, errors = process.end(number)
    assert (returned, errors) == (code, "")
    assert json.loads(output.splitlines()[-1])["ended"] == "stopped"
    before = execute(shop, "SELECT count(*) FROM clicks")[0][0]
    assert 0 < before <= count
    assert run(shop, "--once").exit_code == 0
    assert_whole(shop, count)


def test_a_second_signal_ends_the_process_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop() as stop:
        assert not stop.wait(0)
        signal.raise_signal(signal.SIGINT)
        assert (stop.wait(0), stop.number) == (True, signal.SIGINT)
        for number in (signal.SIGINT, signal.SIGTERM):
            assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before


_AT_EVERY_STEP = """
import itertools, signal, sys
from ivm.shell.stop import Stop

def waits(number):
    steps = itertools.count()
    with Stop() as stop:
        sys.setprofile(lambda *_: next(steps) == number and signal.raise_signal(signal.SIGINT))
        stop.wait(0.001)
        sys.setprofile(None)
        if stop.number is None:
            return next(steps)
        assert stop.wait(10)

print(next(filter(None, map(waits, itertools.count()))))
"""


@pytest.mark.full
def test_a_signal_at_any_moment_is_noticed() -> None:
    """One in the middle of the waiting itself has hung the process for good."""
    run = [sys.executable, "-c", _AT_EVERY_STEP]
    steps = subprocess.run(run, env=environment(), timeout=60, check=True, stdout=subprocess.PIPE)
    assert int(steps.stdout) > 2


def test_signals_that_are_ignored_stay_so() -> None:
    """As for what a script runs in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.wait(0)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.full
def test_kill_9_in_the_middle_loses_nothing(shop: str, inbox: Path) -> None:
    count = fill(inbox, files=6)
    for seconds in (0.05, 0.3, 0.6):
        process = Process(shop)
        process.wait_for(is_running)
        time.sleep(seconds)
        assert process.end(signal.SIGKILL)[0] == -signal.SIGKILL
    assert run(shop, "--once").exit_code == 0
    assert_whole(shop, count)


@pytest.mark.full
def test_files_that_grow_and_come_meanwhile(shop: str, inbox: Path) -> None:
    """--once ends although there is always more, and the runs together apply all of it."""
    writing = [sys.executable, "-c", _WRITER, str(inbox)]
    with subprocess.Popen(writing, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(2):
                assert run(shop, "--once").exit_code == 0
            assert writer.poll() is None  # it was writing all the time
        finally:
            writer.terminate()
        count = int(writer.stdout.read().split()[-1])
    assert run(shop, "--once").exit_code == 0
    assert_whole(shop, count)


_WRITER = """
import signal, sys, threading
over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
count = 0
while not over.wait(0.003):
    with open(f"{sys.argv[1]}/{count // 100:06}.jsonl", "a") as file:
        file.write('{"id": %d, "page": %d}\\n' % (count, count % 7))
    count += 1
    print(count, flush=True)
"""


@pytest.mark.full
def test_a_reader_that_leaves_ends_the_output_alone(shop: str, inbox: Path) -> None:
    count = fill(inbox, rows=10_000)
    line = f"set -o pipefail; {shlex.join(command(shop, '--once', '--json'))} | head -1"
    done = subprocess.run(
        ["bash", "-c", line], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    assert_whole(shop, count)


@pytest.mark.full
def test_a_second_process_gets_a_clear_error(shop: str, inbox: Path) -> None:
    process = Process(shop)
    process.wait_for(is_running)
    done = run(shop)
    assert (done.exit_code, done.stderr.startswith("Error: ")) == (1, True)
    put(inbox / "a.jsonl", 0)
    process.wait_for(lambda line: line.get("events") == 1)
    assert process.end(signal.SIGINT)[0] == 130


# --- on a terminal -----------------------------------------------------------------------------


def on_terminal(shop: str, columns: int, **variables: str) -> tuple[str, int]:
    """What is written on a terminal up to Ctrl-C, and the exit code."""
    process = pexpect.spawn(
        *(sys.executable, ["-m", "ivm", "ingest", shop]),
        env=environment(**{"TERM": "xterm-256color", **variables}),
        dimensions=(30, columns),
        encoding="utf-8",
        timeout=60,
    )
    process.expect("running")
    time.sleep(1)
    process.sendintr()
    seen = process.before + process.after
    process.expect(pexpect.EOF)
    process.close()
    return seen + process.before, int(process.exitstatus or 0)


@pytest.mark.full
def test_a_live_panel(shop: str, inbox: Path) -> None:
    put(inbox / "a.jsonl", 0, 1)
    seen, code = on_terminal(shop, 100)
    assert code == 130
    assert "shop.duckdb · 1 view · 0:00:0" in seen
    assert "Ctrl-C stops" in seen
    assert "Stopped: 2 events applied" in seen
    assert "\x1b[32mrunning" in seen
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")  # the cursor is there again


@pytest.mark.full
def test_a_panel_without_colours_on_a_narrow_terminal(shop: str) -> None:
    seen, code = on_terminal(shop, 40, NO_COLOR="1")
    assert code == 130
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", seen) is None
    frames = seen[: seen.index("^C")].replace("\x1b[1A", "\n")  # one up, to the next frame
    lines = re.sub(r"\x1b\[[0-9;?]*\w", "", frames).splitlines()
    assert max(map(len, lines)) == 40


@pytest.mark.full
def test_a_terminal_without_escape_sequences_gets_lines(shop: str) -> None:
    seen, code = on_terminal(shop, 100, TERM="dumb")
    assert (code, "\x1b" in seen) == (130, False)
    assert "clicks: running" in seen
