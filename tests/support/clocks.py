"""Clocks that tests move, and a database by such a clock beside a plain DuckDB."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import ivm
from tests.support.crash_image import image

NOON = datetime(2024, 3, 30, 12, 0, 0, tzinfo=UTC)


class HandMoved:
    """A clock that the test moves."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, db: ivm.Database, **by: float) -> None:
        self.now += timedelta(**by)
        db.tick()


class BesideTwin(RuleBasedStateMachine):
    """A file that is killed now and then, by a clock that the rules move, and its twin."""

    def begin_both(self, now: datetime, zone: str = "UTC") -> None:
        """Makes both, without tables; the file is opened by `open`."""
        self.folder = Path(tempfile.mkdtemp())
        self.number, self.now = 0, now
        self.twin = duckdb.connect()
        self.twin.execute(f"SET TimeZone = '{zone}'")

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number}.duckdb"

    def open(self) -> None:
        self.db = ivm.connect(self.path, clock=lambda: self.now)

    def both(self, sql: str) -> None:
        self.twin.execute(sql)
        self.db.execute(sql)

    @rule(killed=st.booleans())
    def reopen(self, killed: bool) -> None:
        """Goes on with the file as a crash would leave it, or as closing has left it."""
        before, self.number = self.db, self.number + 1
        if not killed:
            before.close()
        image(self.folder / f"{self.number - 1}.duckdb", self.path)
        self.open()
        before.close()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.db.close()
            self.twin.close()
            shutil.rmtree(self.folder)
