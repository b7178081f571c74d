"""The command line: `ivm FILE`, its commands, `ivm -c`, and SQL from a pipe.

Law: exit code 0 if all went well, 1 if a statement or a source failed or the database cannot be
opened, 2 if the command line makes no sense, 130 after Ctrl-C. Results go to standard output, all
else to standard error.
"""

from __future__ import annotations

import copy
import difflib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from ivm.database import Database
from ivm.recovery import recover
from ivm.shell.commands import run_command
from ivm.shell.console import Console, Settings
from ivm.shell.errors import report
from ivm.shell.ingest import ingest
from ivm.shell.open import MEMORY, open_database, version_number
from ivm.shell.output import standard_error, standard_output
from ivm.shell.recovery import report_lines
from ivm.shell.script import complete
from ivm.shell.tail import tail
from ivm.storage.errors import IvmError

_DEFAULT = "open"  # the command of `ivm FILE`; never shown

_HELP = """
A database that keeps materialized views right by computing with the change.

FILE is a DuckDB file, made if it is not there; without FILE the database lives in memory.
"""

_EXAMPLES = """
[bold]Examples[/bold]

  [cyan]ivm shop.duckdb[/cyan]                              the shell on a database file
  [cyan]ivm -c "FROM revenue" shop.duckdb[/cyan]            run SQL, print the result
  [cyan]ivm --csv -c "FROM revenue" shop.duckdb > r.csv[/cyan]
  [cyan]ivm run load.sql --db shop.duckdb[/cyan]            run a script
  [cyan]cat load.sql | ivm shop.duckdb[/cyan]               run SQL from a pipe
  [cyan]ivm ingest shop.duckdb[/cyan]                       run its sources of changes
  [cyan]ivm pipeline shop.duckdb[/cyan]                     the same, read by Spark
  [cyan]ivm tail shop.duckdb revenue[/cyan]                 the changes of a view, as they come
  [cyan]ivm backfill shop.duckdb[/cyan]                     fill views on Spark
  [cyan]ivm recover shop.duckdb[/cyan]                      whether file and log fit each other

[bold]A first view[/bold], to be typed into the shell

  [cyan]CREATE TABLE orders (region TEXT, amount DECIMAL(18,2));[/cyan]
  [cyan]CREATE MATERIALIZED VIEW revenue AS
    SELECT region, sum(amount) AS total FROM orders GROUP BY region;[/cyan]
  [cyan]INSERT INTO orders VALUES ('EU', 9.50);[/cyan]      revenue is right at once
  [cyan]FROM revenue;[/cyan]

Exit codes: 0 all went well; 1 an error in SQL or in opening, or recover leaves a choice;
2 a wrong command line; 130 ended by Ctrl-C.
"""


class Group(TyperGroup):
    """A group whose first argument may be a database file instead of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first not in self.commands and first not in ("--help", "-h", "--version"):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == _DEFAULT else name), command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Adds the options of `ivm FILE` to the help of `ivm`, and examples at its end."""
        shown = copy.copy(self)
        shown.params = [*self.commands[_DEFAULT].params, *self.params]
        TyperGroup.format_help(shown, ctx, formatter)
        output = standard_output()
        typer.echo(_styled(_EXAMPLES, output.paint.on))


class _Unnamed(typer.Context):
    """The context of a command without a name, which leaves no blank behind."""

    @property
    def command_path(self) -> str:
        return super().command_path.rstrip()


class _Default(TyperCommand):
    context_class = _Unnamed


def _styled(text: str, colours: bool) -> str:
    """Replaces the two marks of the examples by escape sequences, or removes them."""
    for mark, code in (("bold", "1"), ("cyan", "36")):
        text = text.replace(f"[{mark}]", f"\x1b[{code}m" if colours else "")
        text = text.replace(f"[/{mark}]", "\x1b[0m" if colours else "")
    return text


app = typer.Typer(
    cls=Group,
    help=_HELP,
    add_completion=False,
    pretty_exceptions_enable=False,
    subcommand_metavar="[COMMAND …]",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ivm {version_number()}")
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


@app.command(_DEFAULT, hidden=True, cls=_Default)
def _open(
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
    _guard_against_typos(file)
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
        _refuse(f"there is no script {script!r}: ivm run FILE.sql [--db FILE]")


_Once = Annotated[bool, typer.Option("--once", help="Leave when all is applied that was there.")]
_Progress = Annotated[bool, typer.Option("--json", help="Print progress as lines of JSON.")]


@app.command("ingest")
def _ingest(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE …]", help="Sources to run.", show_default="all, and the sinks"
        ),
    ] = None,
    once: _Once = False,
    json: _Progress = False,
) -> None:
    """Run the sources of FILE, which follow other databases, queues and files, and its sinks.

    Ctrl-C stops after the batches under way, and the next run goes on from there.

    \b
    A source is created once:
      CREATE SOURCE clicks INTO clicks
        FROM FILES (path 'inbox/*.jsonl', format 'json');

    \b
    ivm ingest shop.duckdb                a live panel, until Ctrl-C
    ivm ingest shop.duckdb clicks         one source of several
    ivm ingest shop.duckdb --once         catch up and leave
    ivm ingest shop.duckdb --json > log   for programs

    \b
    Exit codes: 0 caught up, or ended by SIGTERM
                1 a source has failed, or nothing can run
                130 ended by Ctrl-C
    """
    _guard_against_missing(file, "ingest FILE [SOURCE …]")
    with _errors_reported(), closing(open_database(file)) as database:
        code = ingest(database, file, sources or [], once=once, as_json=json)
    raise typer.Exit(code)


@app.command("pipeline")
def _pipeline(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE …]",
            help="Sources to run.",
            show_default="all that Spark can read, and the sinks",
        ),
    ] = None,
    once: _Once = False,
    json: _Progress = False,
) -> None:
    """Run sources of FILE by Spark: Kafka, and whole files of JSON lines.

    Structured Streaming reads and decodes, in as many workers as Spark has. The
    database applies each micro-batch as one epoch, exactly once. Ctrl-C stops
    after the one under way, and the next run goes on.

    \b
    A source is created once, as for ivm ingest:
      CREATE SOURCE clicks INTO clicks
        FROM FILES (path '/lake/clicks/*.json', format 'debezium');

    \b
    ivm pipeline shop.duckdb              all of them, until Ctrl-C
    ivm pipeline shop.duckdb clicks       one of several
    ivm pipeline shop.duckdb --once       catch up and leave

    \b
    Spark's master, packages and settings stand in ivm.toml beside FILE:
      \\[spark]
      master = "local[4]"
    Without it Spark runs on this machine.

    Exit codes: as of ivm ingest.
    """
    _guard_against_missing(file, "pipeline FILE [SOURCE …]")
    with _errors_reported(), closing(open_database(file)) as database:
        code = ingest(database, file, sources or [], once=once, as_json=json, on_spark=True)
    raise typer.Exit(code)


@app.command("tail")
def _tail(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    view: Annotated[str, typer.Argument(metavar="VIEW", help="A materialized view.")],
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="jsonl or debezium.")
    ] = "jsonl",
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Begin with the rows that the view has.")
    ] = False,
) -> None:
    """Print the changes of VIEW as lines of JSON while the sources of FILE run, until Ctrl-C.

    \b
    ivm tail shop.duckdb revenue
    ivm tail shop.duckdb revenue --format debezium --snapshot | head

    Exit codes: 0 the reader has left, or ended by SIGTERM; 1 an error; 130 ended by Ctrl-C.
    """
    _guard_against_missing(file, "tail FILE VIEW")
    with _errors_reported(), closing(open_database(file)) as database:
        code = tail(database, view, format, standard_output(), snapshot=snapshot)
    raise typer.Exit(code)


@app.command("backfill")
def _backfill(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="[VIEW …]", help="Views to fill.", show_default="all unfilled ones"),
    ] = None,
) -> None:
    """Fill views of FILE on Spark, or go on with it, and wait until they can be read.

    Ctrl-C stops; what is done is kept, and the next run goes on from there.

    \b
    A view that Spark fills:
      CREATE MATERIALIZED VIEW revenue WITH (backfill = 'spark') AS SELECT …;

    \b
    ivm backfill shop.duckdb              all views that are not filled
    ivm backfill shop.duckdb revenue      one of them

    \b
    Spark's master, packages and settings stand in ivm.toml beside FILE:
      \\[spark]
      master = "local[4]"
    Without it Spark runs on this machine.

    \b
    Exit codes: 0 filled; 1 an error; 130 ended by Ctrl-C
    """
    _guard_against_missing(file, "backfill FILE [VIEW …]")
    from ivm.shell.backfill import backfill  # rich takes a moment to load

    with _errors_reported(), closing(open_database(file)) as database:
        code = backfill(database, views or [])
    raise typer.Exit(code)


@app.command("recover")
def _recover(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    replay: Annotated[
        bool, typer.Option("--replay", help="Apply the log's commits to the tables as they are.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Go on without the log's commits; set them aside.")
    ] = False,
) -> None:
    """Say whether FILE and its log fit each other, or make them fit.

    Without an option nothing is changed. Nothing is ever deleted: what is given up is set aside.
    """
    if replay and give_up:
        _refuse("--replay and --give-up exclude each other: give one")
    output = standard_output()
    with _errors_reported():
        found = recover(file, "replay" if replay else "give up" if give_up else None)
    output.lines(report_lines(found))
    if found.trouble is not None:
        raise typer.Exit(1)


def _mode(**flags: bool) -> str:
    chosen = [name for name, wanted in flags.items() if wanted]
    if len(chosen) > 1:
        _refuse(f"{' and '.join(f'--{name}' for name in chosen)} exclude each other: give one")
    return chosen[0] if chosen else "table"


def _guard_against_typos(file: str) -> None:
    """Refuses `ivm shel`, which would make a database of that name."""
    if Path(file).suffix or "/" in file or file == MEMORY or Path(file).exists():
        return
    near = difflib.get_close_matches(
        file,
        [
            "shell",
            "run",
            "ingest",
            "pipeline",
            "tail",
            "backfill",
            "recover",
            "--help",
            "--version",
        ],
        1,
        0.6,
    )
    if near:
        _refuse(
            f"there is no command and no database {file!r}; did you mean: ivm {near[0]}? "
            f"(a new database of that name: ivm ./{file})"
        )


def _guard_against_missing(file: str, usage: str) -> None:
    """Refuses a database that would only now be made, without sources and views."""
    if not Path(file).expanduser().exists():
        _refuse(f"there is no database {file!r}: ivm {usage}")


def _refuse(reason: str) -> NoReturn:
    """Ends with exit code 2."""
    errors = standard_error()
    errors.line(f"{errors.paint('error', 'Usage:')} {reason}")
    raise typer.Exit(2)


def _converse(file: str, mode: str) -> None:
    """Runs the shell if a person sits at the terminal, else the statements of the pipe."""
    if sys.stdin is None or not sys.stdin.isatty():
        _run(file, mode, _piped(sys.stdin))
        return
    from ivm.shell.prompt import interact_here  # prompt_toolkit takes 0.1 s to load

    interact_here(_opened(file), file, mode)


def _opened(file: str) -> Database:
    with _errors_reported():
        return open_database(file)


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Ends with exit code 1 after an error of the database."""
    try:
        yield
    except IvmError as error:
        errors = standard_error()
        errors.lines(report(error, "", errors.paint))
        raise typer.Exit(1) from error


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


def _piped(stream: TextIO | None) -> Iterator[tuple[str, int, str]]:
    """Yields the statements of a pipe as they come, so that a slow writer sees its answers."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="surrogateescape")  # the statement with such bytes is refused
    text, first = "", 0
    for number, line in enumerate(stream or (), 1):
        text += line
        ends = line.rstrip().endswith(";") or text.lstrip().startswith(".")
        if ends and complete(text):
            yield "stdin", first, text
            text, first = "", number
    yield "stdin", first, text
