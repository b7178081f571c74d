"""The command `.sources`: what the sources of changes are doing, and their start and stop.

Contract: what a source or sink fails with is told once, before the next prompt; nothing is written
while somebody types.
"""

from __future__ import annotations

import pyarrow as pa

from ivm.cdc.progress import NOT_STARTED
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.database import Database
from ivm.session.results.result import Result
from ivm.shell.console import Console
from ivm.shell.editing.completion import quoted
from ivm.shell.ingest_display import behind
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError

_TROUBLES = ("stopped", "waiting", "failing")
_TYPES = {
    **dict.fromkeys(("source", "into", "state"), "VARCHAR"),
    **{"events": "BIGINT", "behind": "VARCHAR", "dead_letters": "BIGINT", "reason": "VARCHAR"},
}


def sources(console: Console, argument: str) -> bool:
    """Runs `.sources [start|stop]`."""
    match argument.lower():
        case "start":
            console.database.start_sources()
            console.database.start_sinks()
        case "stop":
            if not (console.database.stop_sources() and console.database.stop_sinks()):
                console.errors.line("A batch is still being applied; its source ends after it.")
        case "":
            pass
        case _:
            raise InputError(f".sources takes start or stop, or nothing, not {argument!r}")
    _list(console)
    return True


def _list(console: Console) -> None:
    found = console.database.sources()
    if not found:
        way = "CREATE SOURCE name INTO table FROM FILES (path '…', format 'json')"
        console.output.line(f"No sources yet: {way}")
        return
    rows = [_row(source) for source in found]
    kinds = {"VARCHAR": pa.string(), "BIGINT": pa.int64()}
    columns = [
        pa.array(cells, kinds[type])
        for cells, type in zip(zip(*rows, strict=True), _TYPES.values(), strict=True)
    ]
    console.show(Result.of_table(pa.table(columns, list(_TYPES)), list(_TYPES.values())))
    waiting = sum(source.state == NOT_STARTED for source in found)
    if waiting and console.settings.talkative:
        console.notes.line(f"{counted(waiting, 'source')} not started: .sources start")


def _row(source: SourceInfo) -> tuple[str | int | None, ...]:
    return (
        source.name,
        source.target,
        source.state,
        source.events,
        behind(source),
        source.dead_letters,
        source.reason,
    )


class Troubles:
    """The troubles of sources and sinks that have been told."""

    def __init__(self) -> None:
        self._told: dict[tuple[type, str], str | None] = {}

    def untold(self, database: Database) -> list[str]:
        """Returns a line for each trouble that is new; those that are over can come again."""
        jobs: list[SourceInfo | SinkInfo] = [*database.sources(), *database.sinks()]
        now = {(type(job), job.name): job for job in jobs if job.state in _TROUBLES}
        new = [job for key, job in now.items() if self._told.get(key) != job.reason]
        self._told = {key: job.reason for key, job in now.items()}
        return [_told(job) for job in new]


def _told(job: SourceInfo | SinkInfo) -> str:
    kind = "source" if isinstance(job, SourceInfo) else "sink"
    way = f"; RESUME SOURCE {quoted(job.name)} lets it go on" if job.state == "stopped" else ""
    return f"{kind} {job.name!r} {_VERBS[job.state]}: {job.reason}{way}"


_VERBS = {"stopped": "has stopped", "waiting": "waits", "failing": "fails and is tried again"}
