"""The job of one source: it reads ahead in one thread, and applies batch after batch in another.

Law: a batch is applied only if the source was not dropped, its row still says `running` with the
same options, and its positions are those at which this job stands. All is looked up under the
writer lock, so that neither a statement nor another job can come between.

A batch has as many events as take `HELD` seconds, for which other writers wait. An upstream that
does not answer is tried again, later and later; any other error stops the source, with the reason
in its row.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ivm.catalog.names import name_parts
from ivm.catalog.version import CatalogVersion
from ivm.cdc import records, stored_sources
from ivm.cdc.apply import Applied, Prepared, apply_parts, prepare
from ivm.cdc.dead_letter_limit import DeadLetterLimit
from ivm.cdc.follow import follow
from ivm.cdc.progress import Progress
from ivm.cdc.reading_ahead import ReadingAhead
from ivm.cdc.records import Records
from ivm.cdc.sources.source import Batch, Part, Position, Reader, Upstream
from ivm.cdc.stored_sources import RUNNING, StoredSource
from ivm.engine.engine import Engine
from ivm.session.session import Session
from ivm.storage.errors import InternalError, IvmError, UnavailableError

WithSession = Callable[[Callable[[Session], Any]], Any]
Open = Callable[[StoredSource, Mapping[str, Position]], Reader]

HELD = 0.02
"""Seconds that a batch aims at while it holds the writer lock."""
FIRST, LEAST, MOST = 1_000, 64, 100_000
"""Events of a batch: the first, and the bounds of the others."""
_WAIT = 0.1  # seconds for a first event, between looks at whether the job is to stop
_LONGEST_PAUSE = 60.0  # seconds between attempts to reach an upstream


class _OverError(IvmError):
    """The source was paused, changed or dropped."""


@dataclass(frozen=True)
class _Ahead:
    """A batch that was read, and its parts as decoded, unless their tables must change first.

    Attributes:
        version: of the catalog at that time.
        caught_up: whether the upstream had no more at some time during the reading.
    """

    batch: Batch
    prepared: list[Prepared] | None
    version: CatalogVersion
    caught_up: bool


def open_here(stored: StoredSource, positions: Mapping[str, Position]) -> Reader:
    """Opens a source in this process; see `Source.open`."""
    return stored.definition.open(stored.name, stored.target, positions)


class SourceJob:
    """A running source; see `Job`.

    Args:
        with_session: calls a function with the session of the calling thread.
        engine: of the database.
        name: of the source.
        after: the job that ran the source before, which may not have ended yet.
        open: opens the source where it was left.
    """

    def __init__(
        self,
        with_session: WithSession,
        engine: Engine,
        name: str,
        after: SourceJob | None,
        open: Open = open_here,
    ) -> None:
        self._with_session = with_session
        self._open = open
        self._engine = engine
        self._name = name
        self._limit = FIRST
        self._stored: StoredSource | None = None
        self._followed: dict[str, Upstream | None] = {}
        self.progress = Progress()
        self.progress.started()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(after,), name=f"ivm-source-{name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """See `Job`."""
        self._stopping.set()

    def join(self, timeout: float) -> bool:
        """See `Job`."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _is_there(self) -> bool:
        """Whether the source was not dropped; another one, equal to it, may have its name."""
        return self._engine.jobs.has_definition(self)

    def _run(self, after: SourceJob | None) -> None:
        if after is not None:
            while not after.join(_WAIT):
                pass
            self.progress.goes_on(after.progress)
        reason: str | None = None
        try:
            self._run_until_stopped()
        except _OverError:
            pass
        except Exception as error:
            reason = self._give_up(error)
        del self._with_session  # an ended job is known for long, and keeps no handle open
        self.progress.ended(reason)

    def _run_until_stopped(self) -> None:
        pause = _WAIT
        while not self._stopping.is_set():
            events = self.progress.events
            try:
                self._stream()
            except UnavailableError as error:
                self.progress.waiting(str(error))
                pause = _WAIT if self.progress.events > events else min(2 * pause, _LONGEST_PAUSE)
                self._stopping.wait(pause)

    def _give_up(self, error: Exception) -> str:
        """Stops the source; returns the reason."""
        if not isinstance(error, IvmError):
            error = InternalError(f"{type(error).__name__}: {error}")
        reason = str(error)
        stored = self._stored
        if stored is not None:
            with contextlib.suppress(IvmError):  # without a database, it is in the status alone
                self._with_session(lambda s: stored_sources.stop(s, stored, reason, self._is_there))
        return reason

    # -- reading --------------------------------------------------------------------------------

    def _stream(self) -> None:
        self._with_session(records.create)  # what a file of an older version lacks
        stored, positions, letters = self._with_session(self._load)
        self._stored = stored
        limit = DeadLetterLimit(stored.definition, letters)
        reader = self._open(stored, positions)
        self.progress.opened(reader, positions, letters)
        try:
            with ReadingAhead(lambda: self._read(reader), f"ivm-read-{self._name}") as ahead:
                while (found := ahead.next(self._stopping)) is not None:
                    self._apply(stored, positions, limit, found, reader)
        finally:
            self.progress.closed()
            reader.close()

    def _load(self, session: Session) -> tuple[StoredSource, dict[str, Position], int]:
        stored = stored_sources.load(session, self._name)
        if stored is None or stored.state != RUNNING or not self._is_there():
            raise _OverError
        return (
            stored,
            stored_sources.load_positions(session, stored.name),
            stored_sources.count_letters(session, stored.name),
        )

    def _read(self, reader: Reader) -> _Ahead:
        batch = reader.read(self._limit, _WAIT)
        if batch is None:  # one that only moves a position has no events either
            batch = Batch((), {})
        caught_up, version = reader.caught_up(), self._engine.catalog.version
        if any(self._must_follow(part) for part in batch.parts):
            return _Ahead(batch, None, version, caught_up)
        prepared = self._with_session(lambda s: [prepare(s, part) for part in batch.parts])
        return _Ahead(batch, prepared, version, caught_up)

    # -- applying -------------------------------------------------------------------------------

    def _apply(
        self,
        stored: StoredSource,
        positions: dict[str, Position],
        limit: DeadLetterLimit,
        found: _Ahead,
        reader: Reader,
    ) -> None:
        batch = found.batch
        if not batch.positions:
            self.progress.looked(found.caught_up)
            return

        self._follow(batch)

        def work(session: Session) -> Applied:
            def admit(records: Records, done: Applied) -> None:
                row = records.definition()
                if row is None or stored_sources.stored_source(row) != stored:
                    raise _OverError
                if not self._is_there():
                    raise _OverError
                letters = partial(stored_sources.count_letters, session, stored.name)
                limit.admit(len(batch), done, letters)

            parts = [partial(self._prepared, session, found, i) for i in range(len(batch.parts))]
            return apply_parts(session, stored.name, parts, batch.positions, positions, admit)

        self._engine.writer_lock.give_way()
        applied: Applied = self._with_session(work)
        self._engine.log.make_durable(self._engine.epoch)  # where commits do not wait for it
        positions.update(batch.positions)
        limit.passed(len(batch), applied.refused)
        reader.confirm(positions)
        self.progress.applied(batch, applied)
        self.progress.looked(found.caught_up)
        self._adapt(len(batch), applied.held)

    def _prepared(self, session: Session, found: _Ahead, i: int) -> Prepared:
        if found.prepared is None or self._engine.catalog.version is not found.version:
            return prepare(session, found.batch.parts[i])
        return found.prepared[i]

    def _must_follow(self, part: Part) -> bool:
        upstream = part.upstream
        if upstream is None or upstream != self._followed.get(part.table):
            return upstream is not None
        names = self._engine.catalog.names
        return upstream.goes_on and names.resolve(name_parts(part.table)) is None

    def _follow(self, batch: Batch) -> None:
        for part in batch.parts:
            if self._must_follow(part):
                self._with_session(partial(follow, part=part))
                self._followed[part.table] = part.upstream

    def _adapt(self, events: int, held: float) -> None:
        """Chooses the size of the next batches by the time that this one held the lock."""
        if held > HELD or events >= self._limit:  # else there was no more to read
            wanted = int(events * HELD / max(held, 1e-4))
            self._limit = max(LEAST, min(wanted, 2 * self._limit, MOST))
