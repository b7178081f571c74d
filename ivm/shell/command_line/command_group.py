"""The command `ivm` as a group of commands, whose first argument may be a database file instead.

Law: `ivm FILE …` is `ivm open FILE …`, a command that is never shown.
"""

from __future__ import annotations

import copy
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ivm.shell.command_line.exits import demand_no_typo
from ivm.shell.display.output import standard_output

DEFAULT = "open"  # the command of `ivm FILE`; never shown

HELP = """
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
            if not first.startswith("-"):
                demand_no_typo(first, self.shown())
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shown(self) -> list[str]:
        """The names of the commands that users know."""
        return [name for name, command in self.commands.items() if not command.hidden]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == DEFAULT else name), command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Adds the options of `ivm FILE` to the help of `ivm`, and examples at its end."""
        shown = copy.copy(self)
        shown.params = [*self.commands[DEFAULT].params, *self.params]
        TyperGroup.format_help(shown, ctx, formatter)
        output = standard_output()
        typer.echo(_styled(_EXAMPLES, output.paint.on))


class _Unnamed(typer.Context):
    """The context of a command without a name, which leaves no blank behind."""

    @property
    def command_path(self) -> str:
        return super().command_path.rstrip()


class Default(TyperCommand):
    context_class = _Unnamed


def _styled(text: str, colours: bool) -> str:
    """Replaces the two marks of the examples by escape sequences, or removes them."""
    for mark, code in (("bold", "1"), ("cyan", "36")):
        text = text.replace(f"[{mark}]", f"\x1b[{code}m" if colours else "")
        text = text.replace(f"[/{mark}]", "\x1b[0m" if colours else "")
    return text
