"""The command line: `ivm FILE`, its commands, `ivm -c`, and SQL from a pipe.

Law: exit code 0 if all went well, 1 if a statement or a source failed or the database cannot be
opened, 2 if the command line makes no sense, 130 after Ctrl-C. Results go to standard output, all
else to standard error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from ivm.database import Database
from ivm.shell.command_line import file_commands
from ivm.shell.command_line.command_group import DEFAULT, HELP, Default, Group
from ivm.shell.command_line.exits import demand_no_typo, errors_reported, refuse
from ivm.shell.commands import run_command
from ivm.shell.console import Console, Settings
from ivm.shell.display.output import standard_error, standard_output
from ivm.shell.editing.script import complete
from ivm.shell.open import MEMORY, open_database
from ivm.storage.versions import own_version

app = typer.Typer(
    cls=Group,
    help=HELP,
    add_completion=False,
    pretty_exceptions_enable=False,
    subcommand_metavar="[COMMAND …]",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ivm {own_version()}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", help="Show the version.", callback=_show_version, is_eager=True
)


@app.callback()
def _ivm(version: Annotated[bool, _VERSION] = False) -> None:
    pass


def _flag(name: str, help: str) -> Any:
    return typer.Option(f"--{name}", help=help, rich_help_panel="Output")


File = Annotated[
    str, typer.Argument(metavar="FILE", help="A DuckDB file.", show_default="in memory")
]
Json = Annotated[bool, _flag("json", "Print results as JSON arrays of objects.")]
Csv = Annotated[bool, _flag("csv", "Print results as CSV with a header.")]
Table = Annotated[bool, _flag("table", "Print results as tables (the default).")]
Markdown = Annotated[bool, _flag("markdown", "Print results as Markdown tables.")]


@app.command(DEFAULT, hidden=True, cls=Default)
def _open(
    context: typer.Context,
    file: File = MEMORY,
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", metavar="SQL", help="Run SQL and leave; may be repeated."),
    ] = None,
    json: Json = False,
    csv: Csv = False,
    table: Table = False,
    markdown: Markdown = False,
) -> None:
    """Open the shell on FILE, or run SQL given by -c or a pipe."""
    demand_no_typo(file, cast(Group, context.find_root().command).shown())
    mode = _mode(json=json, csv=csv, table=table, markdown=markdown)
    if command:
        _run(file, mode, [("", 0, text) for text in command])
    else:
        _converse(file, mode)


@app.command("shell")
def _shell(
    file: File = MEMORY,
    json: Json = False,
    csv: Csv = False,
    table: Table = False,
    markdown: Markdown = False,
) -> None:
    """Open the interactive shell, on FILE or in memory."""
    _converse(file, _mode(json=json, csv=csv, table=table, markdown=markdown))


@app.command("run")
def _script(
    script: Annotated[str, typer.Argument(metavar="FILE.sql", help="The script; - is a pipe.")],
    db: Annotated[
        str, typer.Option("--db", metavar="FILE", help="A DuckDB file.", show_default="in memory")
    ] = MEMORY,
    json: Json = False,
    csv: Csv = False,
    table: Table = False,
    markdown: Markdown = False,
) -> None:
    """Run a script of SQL statements and dot commands, up to its first error."""
    mode = _mode(json=json, csv=csv, table=table, markdown=markdown)
    if script == "-":
        _run(db, mode, _piped(sys.stdin))
    elif Path(script).is_file() or Path(script).is_fifo():
        _with_console(db, mode, lambda console: console.read(Path(script)))
    else:
        refuse(f"there is no script {script!r}: ivm run FILE.sql [--db FILE]")


for _command in file_commands.COMMANDS:
    app.command()(_command)


def _mode(**flags: bool) -> str:
    chosen = [name for name, wanted in flags.items() if wanted]
    if len(chosen) > 1:
        refuse(f"{' and '.join(f'--{name}' for name in chosen)} exclude each other: give one")
    return chosen[0] if chosen else "table"


def _converse(file: str, mode: str) -> None:
    """Runs the shell if a person sits at the terminal, else the statements of the pipe."""
    if sys.stdin is None or not sys.stdin.isatty():
        _run(file, mode, _piped(sys.stdin))
        return
    from ivm.shell.prompt import interact_here  # prompt_toolkit takes 0.1 s to load

    interact_here(_opened(file), file, mode)


def _opened(file: str) -> Database:
    with errors_reported():
        return open_database(file)


def _run(file: str, mode: str, scripts: Iterable[tuple[str, int, str]]) -> None:
    """Runs scripts, each (source, lines before it, text), up to the first error or `.quit`."""

    def work(console: Console) -> bool:
        for source, line, text in scripts:
            if not console.run(text, source, line):
                return False
            if console.ended:
                break
        return True

    _with_console(file, mode, work)


def _with_console(file: str, mode: str, work: Callable[[Console], bool]) -> None:
    console = Console(
        _opened(file), file, standard_output(), standard_error(), Settings(mode), run_command
    )
    try:
        well = console.guarded(lambda: work(console))
    finally:
        closed = console.guarded(console.close)
    if not (well and closed):
        raise typer.Exit(130 if console.interrupted else 1)


_LAST_SEMICOLON = re.compile(r";\s*(--.*|/\*.*\*/\s*)?$")  # a comment may follow it


def _piped(stream: TextIO | None) -> Iterator[tuple[str, int, str]]:
    """Yields the statements of a pipe as they come, so that a slow writer sees its answers."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="surrogateescape")  # the statement with such bytes is refused
    text, first = "", 0
    for number, line in enumerate(stream or (), 1):
        text += line
        may_end = _LAST_SEMICOLON.search(line) or line.lstrip().startswith(".")
        if may_end and complete(text):
            yield "stdin", first, text
            text, first = "", number
    yield "stdin", first, text
