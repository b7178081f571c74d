"""`ivm tail` and SUBSCRIBE: the changes of a view as JSON lines, until somebody stops them.

Law: each epoch is written once, in order, from the moment on at which the tail was opened.
"""

from __future__ import annotations

import signal

from ivm.cdc.sinks.tail import Tail
from ivm.database import Database
from ivm.shell.display.output import Output
from ivm.shell.stop import Stop
from ivm.storage.errors import InputError

_LOOKS = 0.2  # seconds between two looks at whether to stop


def tail(database: Database, view: str, format: str, output: Output, *, snapshot: bool) -> int:
    """Runs the database's sources and sinks, and writes the changes that a view undergoes.

    Args:
        database: open.
        view: its name.
        format: of the lines.
        output: for the lines.
        snapshot: whether to begin with the rows that the view has.

    Returns:
        The exit code.
    """
    with Stop() as stop, database.tail(view, format=format, snapshot=snapshot) as lines:
        database.start_sources()
        database.start_sinks()
        follow(lines, output, stop)
    return 130 if stop.number == signal.SIGINT else 0


def follow(lines: Tail, output: Output, stop: Stop) -> None:
    """Writes lines until a signal comes, or nobody reads them any more.

    Raises:
        InputError: the view changes no more.
    """
    while stop.number is None and not output.broken:
        found = lines.poll(_LOOKS)
        if found is not None:
            output.lines(found)
        elif lines.ended:
            raise InputError(
                "the view changes no more: it was dropped or replaced, or the database was closed"
            )
