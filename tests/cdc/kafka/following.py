"""A source that is followed batch by batch, as its job does, and can be left after any of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import ivm
from ivm.cdc import stored_sources
from ivm.cdc.apply import apply_parts, prepare
from ivm.cdc.sources.source import Batch, Position, Reader
from ivm.session.session import Session
from tests.support import ROOT

WAIT = 30.0


class Following:
    """An opened source of a database; a context manager."""

    def __init__(self, db: ivm.Database, source: str) -> None:
        self._db = db
        stored = db._with_session(lambda s: stored_sources.load(s, source))
        assert stored is not None
        self._stored = stored
        self.reader: Reader = self._stored.definition.open(
            source, self._stored.target, self.positions()
        )

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *exc: object) -> None:
        self.reader.close()

    def positions(self) -> dict[str, Position]:
        """As they are committed."""
        name = self._stored.name
        return self._db._with_session(lambda s: stored_sources.load_positions(s, name))

    def at(self, topic: str, partition: int = 0) -> int:
        """The committed offset of a partition."""
        return self.positions()[f"{topic}/{partition}"].offset

    def step(self, limit: int = 1000, timeout: float = 0.1) -> Batch | None:
        """Reads and applies a batch, if there is one in time."""
        since = self.positions()
        batch = self.reader.read(limit, timeout)
        if batch is not None:

            def work(session: Session) -> None:
                parts = [partial(prepare, session, part) for part in batch.parts]
                apply_parts(session, self._stored.name, parts, batch.positions, since)

            self._db._with_session(work)
        return batch

    def catch_up(self, limit: int = 1000) -> None:
        """Applies all that there is."""
        until = time.monotonic() + WAIT
        while self.step(limit) is not None or not self.reader.caught_up():
            assert time.monotonic() < until, "it does not catch up"


def rows(db: ivm.Database, sql: str) -> list[tuple[Any, ...]]:
    """The sorted rows of a query."""
    return sorted(db.execute(sql).fetchall(), key=repr)


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for what another thread brings about."""
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def examples_of(page: str, of: str = "kafka") -> list[str]:
    """The examples of a page of the docs that need a server."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```sql {of}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
