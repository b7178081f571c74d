"""A running engine of Debezium: its batches are taken one after another, and acknowledged later.

Law: the engine is told that an event is processed only by `Given.confirm`, which is when our
commit is durable; for PostgreSQL, that is what moves the slot.

Contract: at most `_AHEAD` batches wait, and the engine waits with the next one; so memory is
bounded by these and by the engine's own queue.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jpype

from ivm.cdc.sources.debezium.errors import meaning
from ivm.cdc.sources.debezium.jvm import java
from ivm.storage.errors import UnavailableError

_AHEAD = 2
_GLANCE = 0.05  # seconds between looks at whether to stop
_LOOK = 0.5  # seconds between looks at the connection
_ALONE = 5.0  # seconds that it takes to connect after the copy
_PATIENCE = 60.0  # seconds for the engine to begin, or to end
_numbers = itertools.count()


@dataclass(frozen=True)
class Given:
    """A batch of the engine.

    Attributes:
        events: of Java, in order.
        committer: to which they are acknowledged.
    """

    events: Any
    committer: Any

    def __len__(self) -> int:
        return int(self.events.size())

    def confirm(self, i: int) -> None:
        """Acknowledges the events up to one of them: the last one stands for all before it."""
        self.committer.markProcessed(self.events.get(i))
        self.committer.markBatchFinished()


class Engine:
    """Runs an engine in a thread, which begins at once.

    Args:
        properties: of the engine.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._number = next(_numbers)
        self._batches: queue.Queue[Given] = queue.Queue(_AHEAD)
        self._stopping, self._begun, self._over = (threading.Event() for _ in range(3))
        self._failure: tuple[Any, str] | None = None
        self._streams = False
        self._looked = 0.0
        self._alone_since: float | None = None
        given = java("java.util.Properties")()
        for name, value in properties.items():
            given.setProperty(name, value)
        given.setProperty("custom.metric.tags", f"reader={self._number}")
        self._engine = (
            java("io.debezium.engine.DebeziumEngine")
            .create(java("io.debezium.engine.format.Json"))
            .using(given)
            .using(_proxy("CompletionCallback", handle=self._ended))
            .using(_proxy("ConnectorCallback", pollingStarted=self._begun.set))
            .notifying(
                _proxy(
                    "ChangeConsumer",
                    handleBatch=self._given,
                    supportsTombstoneEvents=lambda: False,
                )
            )
            .build()
        )
        self._thread = threading.Thread(target=self._run, name="ivm-debezium", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Waits until the engine has begun.

        Raises:
            UnavailableError: the upstream does not answer.
            SourceError: somebody must act.
        """
        end = time.monotonic() + _PATIENCE
        while not self._begun.wait(_GLANCE):
            self._demand_runs()
            if time.monotonic() > end:
                raise UnavailableError(f"Debezium's engine has not begun in {_PATIENCE:.0f} s")

    def next(self, timeout: float) -> Given | None:
        """The next batch, or None if none comes in time; see `begin` for the errors."""
        try:
            return self._batches.get(timeout=timeout) if timeout else self._batches.get_nowait()
        except queue.Empty:
            self._demand_runs()
            if time.monotonic() - self._looked > _LOOK:
                self._look()
            return None

    @property
    def streams(self) -> bool:
        """Whether the copy is over, and the engine has begun to read the stream of changes."""
        return self._streams

    def _look(self) -> None:
        """Asks whether the connector is connected: that of MySQL does not tell if it is not.

        Raises:
            UnavailableError: it was, or should have been for a while.
        """
        self._looked = time.monotonic()
        streams = self._told("streaming", "Connected")
        if streams or not self._told("snapshot", "SnapshotCompleted", "SnapshotSkipped"):
            self._alone_since = None
        elif self._alone_since is None:  # the first look since the copy, or the connection, ended
            self._alone_since = self._looked
        if self._alone_since is not None and (
            self._streams or self._looked - self._alone_since > _ALONE
        ):
            raise UnavailableError("the upstream database has ended the connection of Debezium")
        self._streams = streams

    def _told(self, context: str, *names: str) -> bool:
        """Whether one of the connector's metrics is true."""
        beans = java("java.lang.management.ManagementFactory").getPlatformMBeanServer()
        name = f"debezium.*:context={context},reader={self._number},*"
        found = beans.queryNames(java("javax.management.ObjectName")(name), None)
        return any(beans.getAttribute(bean, name) for bean in found for name in names)

    def close(self) -> None:
        """Ends the engine."""
        self._stopping.set()
        end = time.monotonic() + _PATIENCE
        while not self._over.is_set() and time.monotonic() < end:
            try:
                self._engine.close()
            except java("java.lang.IllegalStateException"):  # it begins, or ends, at the moment
                self._over.wait(_GLANCE)
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        try:
            self._engine.run()
        finally:
            self._over.set()

    def _demand_runs(self) -> None:
        if self._over.is_set() and self._batches.empty():
            raise meaning(*(self._failure or (None, "it has ended by itself")))

    # -- called by the engine, in threads of its own --------------------------------------------

    def _given(self, events: Any, committer: Any) -> None:
        batch = Given(events, committer)
        while not self._stopping.is_set():
            try:
                self._batches.put(batch, timeout=_GLANCE)
                return
            except queue.Full:
                pass

    def _ended(self, success: bool, message: Any, error: Any) -> None:
        self._failure = error, str(message)


def _proxy(interface: str, **methods: Callable[..., object]) -> Any:
    """A Java object whose methods are functions; others do what the interface says."""
    return jpype.JProxy(f"io.debezium.engine.DebeziumEngine${interface}", dict=methods)
