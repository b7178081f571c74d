"""The job of one sink: a thread that gives its target what the outbox has, epoch by epoch.

Contract: an epoch is acknowledged after the target has it for good, and given again after an error
or a crash in between. No writer waits for a sink: acknowledgements are committed when no
transaction is open, several epochs together. A target that fails is tried again, later and later.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from ivm.cdc.sinks.encode import Delta, Shape, encoded
from ivm.cdc.sinks.kinds import KINDS, definition_of
from ivm.cdc.sinks.target import Target
from ivm.engine.engine import Engine
from ivm.engine.feeds.outbox_rows import Sink
from ivm.storage.errors import EvaluationError
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.duckdb.duckdb_errors import ours

BATCH = 50_000
"""Rows of deltas after which a target is flushed."""
ACKNOWLEDGED = 0.1
"""Seconds between two acknowledgements that are committed."""
GATHERED = 0.01
"""Seconds in which epochs gather to a batch: each batch costs writers some milliseconds."""
REFRESHED = 1.0
"""Seconds between two recomputations of a recomputed view for its sink."""
UNANSWERED = 5.0
"""Seconds for which a target may be silent until that is told."""
_LONGEST_PAUSE = 30.0  # seconds between attempts to reach a target
_LAST_WORD = 1.0  # seconds for the last acknowledgement
_WAIT = 1.0  # seconds between looks at whether there is anything to do


class SinkJob:
    """A running sink; see `Job`. It ends when the sink is stopped, paused or dropped.

    Args:
        engine: of the database.
        name: of the sink.
        after: the job that ran the sink before, which may not have ended yet.

    Attributes:
        ended: whether it gives the target nothing any more.
    """

    def __init__(self, engine: Engine, name: str, after: SinkJob | None) -> None:
        self._engine = engine
        self._name = name
        self._stopping = threading.Event()
        self._identity: object = None  # of the sink: its name may go to another one
        self._reached = 0  # the last epoch that the target has for good
        self._next_acknowledgement = self._next_refresh = 0.0
        self._reason: str | None = None
        self._asked: float | None = None  # when the target was given what it has not answered yet
        self._thread = threading.Thread(
            target=self._run, args=(after,), name=f"ivm-sink-{name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """See `Job`."""
        self._stopping.set()
        self._engine.outbox.wake()

    def join(self, timeout: float) -> bool:
        """See `Job`."""
        self._thread.join(timeout)
        return self.ended

    @property
    def reason(self) -> str | None:
        """Why the target is being tried again, or waited for; None if all is well."""
        asked = self._asked
        silent = 0.0 if asked is None else time.monotonic() - asked
        if self._reason is None and silent > UNANSWERED:
            return f"the target has not answered for {silent:.0f} seconds; it is waited for"
        return self._reason

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        self._asked = time.monotonic()
        try:
            yield
        finally:
            self._asked = None

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self, after: SinkJob | None) -> None:
        while after is not None and not after.join(_WAIT):
            pass
        pause = 0.1
        found = self._engine.outbox.sinks.get(self._name)
        self._identity = None if found is None else found.identity
        while (sink := self._sink()) is not None:
            before = self._reached = sink.acknowledged
            try:
                self._deliver(sink)
            except Exception as error:  # of the target's library too; it is shown, and tried again
                self._reason = str(ours(error))
                pause = 0.1 if self._reached > before else min(2 * pause, _LONGEST_PAUSE)
                self._stopping.wait(pause)

    def _sink(self) -> Sink | None:
        """The sink, if it is to go on."""
        sink = self._own()
        return None if sink is None or sink.paused or self._stopping.is_set() else sink

    def _own(self) -> Sink | None:
        """The sink as it is now; None if it was dropped, whoever has its name."""
        sink = self._engine.outbox.sinks.get(self._name)
        return None if sink is None or sink.identity is not self._identity else sink

    def _deliver(self, sink: Sink) -> None:
        """Gives the target all that comes until the sink is not to go on."""
        target = definition_of(sink).target()
        try:
            with self._asking():
                target.open(self._reached)
            self._reason = None
            with contextlib.closing(self._engine.warehouse.cursor()) as cursor:
                run(cursor, "SET TimeZone = 'UTC'")
                while self._sink() is not None:
                    self._refresh(sink)
                    self._deliver_batch(cursor, target, sink)
                    self._acknowledge()
                    self._engine.outbox.wait(self._name, self._reached, self._patience())
                    self._stopping.wait(GATHERED)
        finally:
            target.close()
            self._acknowledge_at_last()

    def _deliver_batch(self, cursor: Cursor, target: Target, sink: Sink) -> None:
        found: list[Delta] = []
        last = self._reached
        for part, rows in self._engine.outbox.next(sink, self._reached, BATCH):
            found.append(Delta(part.epoch, part.time, rows))
            last = part.epoch
            if len(rows) >= BATCH:  # one of many parts
                self._write(cursor, target, sink, found)
                found = []
        if found:
            self._write(cursor, target, sink, found)
        if last > self._reached:
            with self._asking():
                self._reached = target.flush()

    def _write(self, cursor: Cursor, target: Target, sink: Sink, deltas: list[Delta]) -> None:
        catalog = self._engine.catalog  # an open transaction may be about to drop the view
        view = catalog.version.committed_views[sink.view]
        keyed = KINDS[sink.target].keyed and view.key is not None
        shape = Shape(sink.view, view.schema, view.key, keyed)
        self._engine.log.make_durable(deltas[-1].epoch)
        for epoch, lines, keys in encoded(cursor, sink.options["format"], shape, deltas):
            with self._asking():
                target.write(epoch, lines, keys)

    # -- acknowledging --------------------------------------------------------------------------

    def _unacknowledged(self) -> Sink | None:
        sink = self._own()
        return sink if sink is not None and sink.acknowledged < self._reached else None

    def _patience(self) -> float:
        """Seconds to wait for the next epoch."""
        return ACKNOWLEDGED if self._unacknowledged() else _WAIT

    def _acknowledge(self) -> None:
        if self._unacknowledged() and time.monotonic() >= self._next_acknowledgement:
            self._next_acknowledgement = time.monotonic() + ACKNOWLEDGED
            with self._engine.aside() as free:
                sink = self._unacknowledged()
                if free and sink is not None:
                    outbox = self._engine.outbox
                    self._engine.commit(outbox.acknowledgement(sink, self._reached))

    def _acknowledge_at_last(self) -> None:
        end = time.monotonic() + _LAST_WORD
        while self._unacknowledged() and time.monotonic() < end:
            self._next_acknowledgement = 0.0
            self._acknowledge()
            if self._unacknowledged():
                time.sleep(0.02)

    # -- recomputed views -----------------------------------------------------------------------

    def _refresh(self, sink: Sink) -> None:
        """Recomputes the view if it is stale: its difference then comes through the outbox."""
        recomputed = self._engine.recomputed
        if time.monotonic() < self._next_refresh or not recomputed.needs_refresh([sink.view]):
            return
        with self._engine.aside() as free:
            if free:
                try:
                    recomputed.refresh([sink.view])
                    self._reason = None
                except EvaluationError as error:  # until the rows are mended
                    self._reason = str(error)
                self._next_refresh = time.monotonic() + REFRESHED
