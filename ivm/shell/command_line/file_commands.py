"""The commands on a database file that there is: its sources, views on Spark, changes, recovery."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from ivm.recovery import recover as recovered
from ivm.shell.command_line.exits import demand_file, errors_reported, refuse
from ivm.shell.command_line.ingest import ingest as run_ingest
from ivm.shell.command_line.recovery import report_lines
from ivm.shell.display.output import standard_output
from ivm.shell.open import open_database
from ivm.shell.tail import tail as run_tail
from ivm.storage.file_modes import private_files

_Once = Annotated[bool, typer.Option("--once", help="Leave when all is applied that was there.")]
_Progress = Annotated[bool, typer.Option("--json", help="Print progress as lines of JSON.")]


def ingest(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Sources to run.", show_default="all, and the sinks"),
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
    demand_file(file, "ingest FILE [SOURCE …]")
    with errors_reported(), closing(open_database(file)) as database:
        code = run_ingest(database, file, sources or [], once=once, as_json=json)
    raise typer.Exit(code)


def pipeline(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
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
    demand_file(file, "pipeline FILE [SOURCE …]")
    with errors_reported(), closing(open_database(file)) as database:
        code = run_ingest(database, file, sources or [], once=once, as_json=json, on_spark=True)
    raise typer.Exit(code)


def tail(
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
    demand_file(file, "tail FILE VIEW")
    with errors_reported(), closing(open_database(file)) as database:
        code = run_tail(database, view, format, standard_output(), snapshot=snapshot)
    raise typer.Exit(code)


def serve(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    pg: Annotated[
        str | None,
        typer.Option("--pg", metavar="HOST:PORT", help="Listen for PostgreSQL's protocol."),
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Listen for HTTP.")
    ] = None,
    trust_loopback: Annotated[
        bool, typer.Option("--trust-loopback", help="Programs of this machine need no password.")
    ] = False,
    tls: Annotated[
        str | None, typer.Option("--tls", metavar="KIND", help="off, or self-made.")
    ] = None,
) -> None:
    """Serve FILE to other programs, with its sources and sinks running, until SIGTERM or Ctrl-C.

    \b
    ivm serve shop.duckdb --pg 127.0.0.1:5432 --http 127.0.0.1:8080 --trust-loopback
    psql -h 127.0.0.1 shop -c 'FROM revenue'
    curl http://127.0.0.1:8080/views/revenue

    \b
    Limits, TLS and the log are set in ivm.toml beside FILE:
      \\[server]
      pg = "0.0.0.0:5432"
      tls = "self-made"

    Exit codes: 0 ended by SIGTERM; 1 an error; 130 ended by Ctrl-C.
    """
    from ivm.shell.command_line.serve import (
        serve as run,  # asyncio and the protocol take a moment to load
    )

    given = {"pg": pg, "http": http, "tls": tls, "trust": "loopback" if trust_loopback else None}
    with errors_reported(), private_files(), closing(open_database(file)) as database:
        code = run(database, file, given)
    raise typer.Exit(code)


def backfill(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DuckDB file.")],
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views to fill.", show_default="all unfilled ones"),
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
    demand_file(file, "backfill FILE [VIEW …]")
    from ivm.shell.command_line.backfill import backfill as fill  # rich takes a moment to load

    with errors_reported(), closing(open_database(file)) as database:
        code = fill(database, views or [])
    raise typer.Exit(code)


def recover(
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
        refuse("--replay and --give-up exclude each other: give one")
    output = standard_output()
    with errors_reported():
        found = recovered(file, "replay" if replay else "give up" if give_up else None)
    output.lines(report_lines(found))
    if found.trouble is not None:
        raise typer.Exit(1)


COMMANDS = (serve, ingest, pipeline, tail, backfill, recover)
