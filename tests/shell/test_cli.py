"""The command line: what it runs, what it prints where, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ivm
from ivm.shell.command_line.cli import app
from ivm.shell.commands import COMMANDS
from ivm.shell.display.drawing import MODES
from tests.support import ROOT

SETUP = """
CREATE TABLE orders (region VARCHAR, amount INTEGER);
CREATE MATERIALIZED VIEW revenue AS SELECT region, sum(amount) AS total FROM orders GROUP BY region;
INSERT INTO orders VALUES ('EU', 1), ('EU', 2);
"""


def run(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, list(args), input=stdin, prog_name="ivm")


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "ivm", *args]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(ivm.__file__).parent.parent)}


@pytest.fixture
def shop(tmp_path: Path) -> str:
    file = str(tmp_path / "shop.duckdb")
    assert run("-c", SETUP, file).exit_code == 0
    return file


# --- what it runs ----------------------------------------------------------------------------


def test_sql_from_the_command_line(shop: str) -> None:
    for args in (("-c", "FROM revenue", shop), (shop, "--command", "FROM revenue")):
        result = run(*args)
        assert result.exit_code == 0
        assert "│ EU      │       3 │" in result.stdout


@pytest.mark.full
def test_changes_print_nothing(shop: str) -> None:
    result = run("-c", "INSERT INTO orders VALUES ('US', 5)", shop)
    assert (result.exit_code, result.output) == (0, "")
    assert "│ US      │       5 │" in run("-c", "FROM revenue", shop).stdout


def test_several_commands_run_in_order() -> None:
    result = run(
        "--csv", "-c", "CREATE TABLE t (a INT)", "-c", "INSERT INTO t VALUES (1)", "-c", "FROM t"
    )
    assert result.stdout == "a\n1\n"


@pytest.mark.full
def test_sql_from_a_pipe(shop: str) -> None:
    result = run(shop, "--csv", stdin="FROM revenue;\nSELECT 1 AS\n  one")
    assert result.stdout == "region,total\nEU,3\none\n1\n"


@pytest.mark.full
def test_the_shell_command_reads_pipes_too(shop: str) -> None:
    assert run("shell", shop, "--csv", stdin="FROM revenue;").stdout == "region,total\nEU,3\n"


@pytest.mark.full
def test_a_script_runs_with_its_commands(shop: str, tmp_path: Path) -> None:
    script = tmp_path / "report.sql"
    script.write_text("-- a report\n.mode csv\nFROM revenue;\n.quit\nSELECT 'never';\n")
    assert run("run", str(script), "--db", shop).stdout == "region,total\nEU,3\n"
    assert run("run", "-", "--db", shop, stdin=script.read_text()).stdout == "region,total\nEU,3\n"


@pytest.mark.full
def test_a_script_may_come_from_a_process(tmp_path: Path) -> None:
    line = f"{shlex.join(command('run', '--csv'))} <(echo 'SELECT 1 AS a;')"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("a\n1\n", "")


def test_scripts_read_scripts(tmp_path: Path) -> None:
    inner = tmp_path / "inner.sql"
    inner.write_text("SELECT 1 AS a;")
    outer = tmp_path / "outer.sql"
    outer.write_text(f".mode csv\n.read '{inner}'\nSELECT 2 AS b;")
    assert run("run", str(outer)).stdout == "a\n1\nb\n2\n"


def test_a_script_that_reads_itself_ends(tmp_path: Path) -> None:
    script = tmp_path / "loop.sql"
    script.write_text(f".read {script}")
    result = run("run", str(script))
    assert result.exit_code == 1
    assert "over and over" in result.stderr


# --- how it prints ---------------------------------------------------------------------------


@pytest.mark.full
def test_output_modes(shop: str) -> None:
    assert json.loads(run("--json", "-c", "FROM revenue", shop).stdout) == [
        {"region": "EU", "total": 3}
    ]
    assert run("--csv", "-c", "FROM revenue", shop).stdout == "region,total\nEU,3\n"
    assert run("--markdown", "-c", "FROM revenue", shop).stdout.startswith("| region | total |\n")
    assert run("--table", "-c", "FROM revenue", shop).stdout.startswith("┌")


def test_a_pipe_gets_every_row_and_no_colours() -> None:
    result = run("-c", "SELECT range AS a, NULL AS b FROM range(100)")
    assert result.stdout.count("│ NULL") == 100
    assert "\x1b" not in result.stdout


def test_statements_without_rows_print_nothing(tmp_path: Path) -> None:
    """DuckDB answers SET with an empty column and COPY with a count, which came into the CSV."""
    copy = f"COPY (FROM range(3)) TO '{tmp_path / 'a.csv'}'"
    result = run("--csv", "-c", f"SET threads = 2; RESET threads; {copy}; SELECT 1 AS a")
    assert result.stdout == "a\n1\n"


def test_timing_of_a_script_goes_to_standard_error() -> None:
    result = run("--csv", stdin=".timer on\nSELECT 1 AS a;")
    assert result.stdout == "a\n1\n"
    assert "1 row · " in result.stderr


@pytest.mark.full
def test_plans_are_printed_as_they_are(shop: str) -> None:
    result = run("-c", "EXPLAIN MATERIALIZED VIEW revenue", shop)
    assert "orders" in result.stdout
    assert "\\n" not in result.stdout


# --- errors and exit codes -------------------------------------------------------------------


def test_an_sql_error_ends_the_script_with_1() -> None:
    result = run(stdin="SELECT 1 AS fine;\n\nSELECT nope\n  FROM range(3);\nSELECT 2 AS never;")
    assert result.exit_code == 1
    assert "fine" in result.stdout
    assert "never" not in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0].startswith("Binder Error: stdin:3: Referenced column")
    assert lines[-2:] == ["LINE 1: SELECT nope", "               ^^^^"]


def test_errors_of_a_script_name_the_file_and_line(tmp_path: Path) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1;\n\n  .nope\n")
    result = run("run", str(script))
    assert result.exit_code == 1
    assert f"{script}:3: there is no command .nope" in result.stderr


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--nope"], "No such option"),
        (["--csv", "--json", "-c", "SELECT 1"], "--json and --csv exclude each other"),
        (["shel"], "did you mean: ivm shell?"),
        (["run", "missing.sql"], "there is no script 'missing.sql'"),
        (["run"], "Missing argument"),
    ],
)
def test_a_wrong_command_line_ends_with_2(args: list[str], reason: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_usage_has_single_blanks() -> None:
    assert run("--nonsense").stderr.startswith(
        "Usage: ivm [OPTIONS] [FILE]\nTry 'ivm -h' for help."
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("report.sql", "is a script, not a database"),
        ("data.csv", "is not a database"),
        (".", "is a folder"),
        ("ivm://ann:x@127.0.0.1:8080", "`ivm serve` holds"),
        ("missing/db.duckdb", "there is no folder"),
    ],
)
def test_what_is_no_database_is_not_opened(
    name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("-c", "SELECT 1", name)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes.duckdb"
    file.write_text("not a database" * 1000)
    result = run("-c", "SELECT 1", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert file.read_text() == "not a database" * 1000


@pytest.mark.full
def test_an_open_transaction_is_rolled_back_at_the_end(shop: str) -> None:
    result = run("-c", "BEGIN; INSERT INTO orders VALUES ('EU', 100)", shop)
    assert "rolled back" in result.stderr
    assert "│ EU      │       3 │" in run("-c", "FROM revenue", shop).stdout


def test_unreadable_scripts_say_why(tmp_path: Path) -> None:
    script = tmp_path / "binary.sql"
    script.write_bytes(b"SELECT '\xff\xfe'")
    result = run("run", str(script))
    assert result.exit_code == 1
    assert "byte 8 is not UTF-8" in result.stderr


# --- help ------------------------------------------------------------------------------------


def test_help_teaches() -> None:
    for args in (["--help"], ["-h"]):
        result = run(*args)
        assert result.exit_code == 0
        for word in (
            "shell",
            "run",
            "--json",
            "--command",
            "CREATE MATERIALIZED VIEW",
            "ivm shop.duckdb",
        ):
            assert word in result.stdout
    assert "open" not in result.stdout.split("Examples")[0].split("Commands")[1].split()


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("ivm ")


# --- real processes --------------------------------------------------------------------------


@pytest.mark.full
def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    query = "SELECT range FROM range(1000000)"
    line = f"set -o pipefail; {shlex.join(command('--csv', '-c', query))} | head -2"
    done = subprocess.run(
        ["bash", "-c", line],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "range\n0\n", "")


@pytest.mark.full
def test_sql_reads_no_variables_of_the_program() -> None:
    """Bug: an error told of those in the frame that runs a command."""
    line = command("-c", "FROM kwargs")
    done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    assert "Table with name kwargs does not exist" in done.stderr
    assert "Python" not in done.stderr


@pytest.mark.full
def test_statements_after_a_broken_pipe_still_run(tmp_path: Path) -> None:
    file = tmp_path / "t.duckdb"
    script = tmp_path / "script.sql"
    script.write_text("SELECT range FROM range(1000000);\nCREATE TABLE done (a INT);")
    line = f"{shlex.join(command('run', str(script), '--csv', '--db', str(file)))} | head -1"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("range\n", "")
    assert "done" in run("-c", ".tables", str(file)).stdout


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("behind", ["", " -- a comment; of mine", " /* one */ "])
def test_a_slow_writer_sees_its_answers(tmp_path: Path, behind: str) -> None:
    with subprocess.Popen(
        command("--csv"),
        env=environment(),
        cwd=tmp_path,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"SELECT 1 AS a;{behind}\n")
        process.stdin.flush()
        assert [process.stdout.readline(), process.stdout.readline()] == ["a\n", "1\n"]
        process.stdin.write("-- a remark\n.mode\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("mode is csv")
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.full
def test_ctrl_c_ends_a_statement_with_130(tmp_path: Path) -> None:
    slow = "SELECT 'begun' AS a; SELECT count(*) FROM range(100000000) a, range(100000) b; SELECT 2"
    with subprocess.Popen(
        command("-c", slow),
        env=environment(),
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while "└" not in process.stdout.readline():
            pass
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors.strip()) == (130, "", "Cancelled.")


@pytest.mark.full
def test_a_second_process_gets_a_clear_error(shop: str, tmp_path: Path) -> None:
    with ivm.connect(shop):
        done = subprocess.run(
            command("-c", "SELECT 1", shop), env=environment(), capture_output=True, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("-c 'SELECT 1' > /dev/full", 1, "cannot be written: No space left on device"),
        ("-c 'SELECT 1' >&-", 0, ""),
        ("-c 'SELEC 1' 2>&-", 1, ""),
        ("<&-", 0, ""),
        ("< bytes.sql", 1, "stdin:2: character 9 is no text"),
        ('-c "$(cat bytes.sql)"', 1, "character 9 is no text"),
        ("run open.sql", 1, "open.sql:2: unterminated /* comment"),
    ],
)
def test_odd_streams(tmp_path: Path, line: str, code: int, says: str) -> None:
    """No output, no input, no room and no text: an error in one line, never a traceback."""
    (tmp_path / "bytes.sql").write_bytes(b"SELECT 1;\nSELECT '\xff';\n")
    (tmp_path / "open.sql").write_bytes(b"SELECT 1;\n/* SELECT 2;\n")
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(command())} {line}"],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    file = str(tmp_path / "t.duckdb")
    create = shlex.join(command("-c", "CREATE TABLE a (b INTEGER)", file))
    subprocess.run(["bash", "-c", f"{create} <&- >&- 2>&-"], env=environment(), check=True)
    assert "a" in run("--csv", "-c", "SHOW TABLES", file).stdout.split()


# --- docs ------------------------------------------------------------------------------------


def test_the_docs_name_every_command_option_and_mode() -> None:
    docs = (ROOT / "docs" / "shell.md").read_text()
    for command in COMMANDS:
        usage = f"{command.name} {command.argument}".strip().replace("|", "\\|")
        assert f"`{usage}`" in docs
    for mode in MODES:
        assert f"`{mode}`" in docs
    for option in re.findall(r"--\w+", run("--help").stdout.split("Examples")[0]):
        assert f"`{option}`" in docs
