"""The dot commands: a table of their names, help texts and functions."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ivm.shell.console import Console
from ivm.shell.created import statements
from ivm.shell.display.drawing import MODES
from ivm.shell.editing.highlight import painted
from ivm.shell.listing import named, relations, tables_query
from ivm.shell.open import open_database, same_file
from ivm.shell.sources import sources
from ivm.storage.errors import InputError


@dataclass(frozen=True)
class Command:
    """A dot command.

    Attributes:
        name: with its dot.
        argument: shown in the help; in brackets if it may be left out, empty if there is none.
        summary: one line.
        run: executes it; False if it ran a script that failed.
    """

    name: str
    argument: str
    summary: str
    run: Callable[[Console, str], bool]


def run_command(console: Console, line: str) -> bool:
    """Runs one command line.

    Raises:
        InputError: there is no such command, or its argument does not fit.
    """
    name, argument = [*line.rstrip().rstrip(";").split(maxsplit=1), ""][:2]
    command = _command(name)
    argument = _unquoted(argument.strip(), _QUOTES.get(command.argument, "'\""))
    if command.argument and not command.argument.startswith("[") and not argument:
        raise InputError(f"{command.name} needs {command.argument}: {command.summary}")
    if argument and not command.argument:
        raise InputError(f"{command.name} takes no argument, not {argument!r}")
    return command.run(console, argument)


def _command(name: str) -> Command:
    """Finds a command by its name or an unambiguous beginning of it."""
    lower = _OTHER_NAMES.get(name.lower(), name.lower())
    exact = [c for c in COMMANDS if c.name == lower]
    found = exact or [c for c in COMMANDS if len(lower) > 1 and c.name.startswith(lower)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{name} could be {' or '.join(c.name for c in found)}: type more of it")
    near = difflib.get_close_matches(lower, [c.name for c in COMMANDS], 1)
    hint = f"did you mean {near[0]}?" if near else ".help lists the commands"
    raise InputError(f"there is no command {name}; {hint}")


_OTHER_NAMES = {".exit": ".quit"}  # as in DuckDB's shell
_QUOTES = {"VIEW": "'", "[NAME]": "'"}  # where double quotes are part of a name


def _unquoted(text: str, signs: str) -> str:
    """Removes the quotes if one pair of these signs encloses the text."""
    sign = text[:1]
    quoted = sign and sign in signs and text.endswith(sign) and text.count(sign) == 2
    return text[1:-1] if quoted else text


def _help(console: Console, argument: str) -> bool:
    output = console.output
    if argument:
        command = _command(argument if argument.startswith(".") else f".{argument}")
        output.line(f"{command.name} {command.argument}".rstrip())
        output.line(f"  {command.summary}")
        if command.name == ".mode":
            output.lines(f"  {name:<9} {what}" for name, what in MODES.items())
        return True
    for command in COMMANDS:
        usage = f"{command.name} {command.argument}".ljust(21)
        output.line(f"{output.paint('command', usage)} {command.summary}")
    output.lines(_HELP_SQL)
    return True


_HELP_SQL = (
    "",
    "SQL ends with a semicolon and may span lines. Beside all of DuckDB's SQL there is:",
    "  CREATE [OR REPLACE] MATERIALIZED VIEW v AS SELECT …;   kept right by every change",
    "  EXPLAIN MATERIALIZED VIEW v;                           how it is maintained",
    "  CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS SELECT …;   filled by Spark",
    "  VERIFY MATERIALIZED VIEW v [USING SPARK];              recompute and compare",
    "  REFRESH MATERIALIZED VIEW v;                           mend one that a stream has broken",
    "  SHOW MATERIALIZED VIEWS;   DROP MATERIALIZED VIEW v;",
    "  CREATE SOURCE s INTO t FROM FILES (path '…', format '…');   SHOW SOURCES;",
    "  PAUSE | RESUME | DROP SOURCE s;   RETRY | DISCARD DEAD LETTERS FOR s;",
    "  CREATE SINK k FROM v INTO FILES (path '…');   SHOW SINKS;",
    "  PAUSE | RESUME | DROP SINK k;   SUBSCRIBE TO v;        its changes, until Ctrl-C",
    "Tab completes, Ctrl-R searches the history, Ctrl-D leaves. Ctrl-C drops the line, or ends",
    "the statement that runs.",
)


def _tables(console: Console, argument: str) -> bool:
    query = tables_query(relations(console.database))
    if query is None:
        console.output.line("No tables yet: CREATE TABLE …, or .open another FILE.")
    else:
        console.query(query)
    return True


def _views(console: Console, argument: str) -> bool:
    if not console.database.views():
        console.output.line("No materialized views yet: CREATE MATERIALIZED VIEW v AS SELECT …")
        return True
    console.query("SHOW MATERIALIZED VIEWS")
    return True


def _schema(console: Console, argument: str) -> bool:
    for statement in statements(console.database, argument):
        console.output.line(painted(statement + ";", console.output.paint))
    return True


def _explain(console: Console, argument: str) -> bool:
    console.query(f"EXPLAIN MATERIALIZED VIEW {named(argument)}")
    return True


def _watch(console: Console, argument: str) -> bool:
    from ivm.shell.watch import watch  # loads prompt_toolkit, which scripts do not need

    watch(console, argument)
    return True


def _mode(console: Console, argument: str) -> bool:
    mode = argument.lower()
    if mode and mode not in MODES:
        raise InputError(f"there is no mode {argument!r}; there are: {', '.join(MODES)}")
    console.settings.mode = mode or console.settings.mode
    if not argument:
        console.output.line(f"mode is {console.settings.mode}; there are: {', '.join(MODES)}")
    return True


def _timer(console: Console, argument: str) -> bool:
    if argument.lower() not in ("", "on", "off"):
        raise InputError(f".timer is on or off, not {argument!r}")
    on = argument.lower() == "on" if argument else not console.settings.timer
    console.settings.timer = on
    if not argument:
        console.output.line(f"timer is {'on' if on else 'off'}")
    return True


def _read(console: Console, argument: str) -> bool:
    return console.read(Path(argument).expanduser())


def _open(console: Console, argument: str) -> bool:
    if same_file(argument, console.path):
        raise InputError(f"{argument} is the database that is open")
    database = open_database(argument)
    console.replace(database, argument)
    return True


def _quit(console: Console, argument: str) -> bool:
    console.ended = True
    return True


COMMANDS = (
    Command(".help", "[COMMAND]", "this list, or one command", _help),
    Command(".tables", "", "tables and views, with their columns and rows", _tables),
    Command(".views", "", "materialized views and how each is maintained", _views),
    Command(".schema", "[NAME]", "the statements that made the tables and views", _schema),
    Command(".explain", "VIEW", "the plan that maintains a materialized view", _explain),
    Command(".watch", "VIEW", "show a materialized view as it changes; q ends", _watch),
    Command(".sources", "[start|stop]", "what the sources do; run them, and the sinks", sources),
    Command(".mode", "[MODE]", f"how results look: {', '.join(MODES)}", _mode),
    Command(".timer", "[on|off]", "show how long each statement took", _timer),
    Command(".read", "FILE", "run a script of SQL and dot commands", _read),
    Command(".open", "FILE", "close this database and open another", _open),
    Command(".quit", "", "leave (so does Ctrl-D)", _quit),
)
