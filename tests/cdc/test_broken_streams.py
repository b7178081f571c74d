"""Law: after any batches, breaks, refreshes and crashes, tables are right and so is every view that
is not broken; once its rows are mended, a refreshed view is right again."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.engine.base.log_writer import LogWriter
from ivm.engine.engine import Engine
from ivm.engine.views.broken_views import BrokenViews
from ivm.engine.views.maintenance import Maintenance
from ivm.engine.views.views import Views
from ivm.storage.warehouse.flusher import Flusher
from tests.cdc import broken_world as world
from tests.support.crash_image import image
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=4)

Events: TypeAlias = list[tuple[int, tuple[int, str] | None]]

_TEXTS = st.sampled_from(["1", "2", "-3", "7", "12", "x", "99999999999", "5" * 9, ""])
_VALUES = st.tuples(st.integers(0, 2), _TEXTS)
_EVENTS = st.lists(st.tuples(st.integers(1, 6), st.none() | _VALUES), min_size=1, max_size=5)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.sampled_from("tttu"), _EVENTS),
        st.tuples(st.just("refresh"), st.sampled_from(sorted(world.VIEWS)), st.just([])),
        st.tuples(st.just("insert"), st.sampled_from("tu"), _EVENTS),
        st.tuples(st.sampled_from(["crash", "reopen"]), st.just(""), st.just([])),
        st.tuples(st.sampled_from(["read", "flush"]), st.just(""), st.just([])),
    ),
    min_size=1,
    max_size=8,
)


class _Run:
    """A database with a stream into it, and the rows that its tables must hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "0.duckdb"
        self.db = ivm.connect(self.path)
        world.create(self.db)
        self.rows: dict[str, world.Rows] = {"t": {}, "u": {}}
        self.position = 0

    def step(self, kind: str, name: str, events: Events) -> None:
        if kind == "batch":
            self.position += 1
            batch = [world.event(*e) for e in events]
            self.db.ingest(name, batch, source="s", position=self.position)
            world.apply(self.rows[name], events)
        elif kind == "refresh":
            world.refresh(self.db, name)
        elif kind == "insert":
            self._insert(name, events)
        elif kind == "crash":
            copy = self.folder / f"{self.position}-{len(list(self.folder.iterdir()))}.duckdb"
            image(self.path, copy)
            self.db.close()
            self.path, self.db = copy, ivm.connect(copy)
        elif kind == "reopen":
            self.db.close()
            self.db = ivm.connect(self.path)
        elif kind == "read":
            world.check(self.db, self.rows["t"], self.rows["u"])
        else:
            self.db.flush()

    def _insert(self, name: str, events: Events) -> None:
        """A write of the user's: of one row, which views may refuse."""
        for id, values in events[:1]:
            if values is None or id in self.rows[name]:
                continue
            sql = f"INSERT INTO {name} VALUES ({id}, {values[0]}, '{values[1]}')"
            if not world.refused(self.db, sql):
                self.rows[name][id] = values


@settings(max_examples=examples(24), deadline=None, suppress_health_check=list(HealthCheck))
@given(_STEPS)
def test_a_stream_with_views_that_break(steps: list[tuple[str, str, Events]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(Path(folder))
        try:
            for step in steps:
                run.step(*step)
            world.check(run.db, run.rows["t"], run.rows["u"])
            world.mend(run.db)
        finally:
            run.db.close()


POINTS = [
    (BrokenViews, "_save"),
    (BrokenViews, "mark"),
    (LogWriter, "append"),
    (LogWriter, "make_durable"),
    (LogWriter, "start_segment"),
    (Engine, "_adopt"),
    (Engine, "_finish"),
    (Flusher, "_write"),
    (Views, "refill"),
    (Views, "rebuild"),
    (Maintenance, "hydrate"),
]
"""Steps of a break and of a refresh, before and after which a process may be killed."""

BEFORE: Events = [(1, (1, "1")), (2, (2, "2"))]
BREAKS: Events = [(3, (1, "x")), (4, (2, "5" * 9)), (1, (1, "7"))]
MENDS: Events = [(3, (1, "3")), (4, None)]


class _Images:
    """Copies of a database, taken before and after each of some steps, as kill −9 leaves it."""

    def __init__(self, patch: pytest.MonkeyPatch, path: Path, folder: Path) -> None:
        self.taken: list[Path] = []
        self._last: object = None
        self._path, self._folder = path, folder
        for owner, method in POINTS:
            self._watch(patch, owner, method)

    def _watch(self, patch: pytest.MonkeyPatch, owner: type, method: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.take(f"{method}-before")
            result = original(*args, **kwargs)
            self.take(f"{method}-after")
            return result

        patch.setattr(owner, method, watched)

    def take(self, name: str) -> None:
        """Takes a copy, if a file has changed since the last one."""
        files = [self._path, *self._path.parent.glob(f"{self._path.name}.*/*")]
        files += self._path.parent.glob(f"{self._path.name}.wal")
        state = [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        if state == self._last:
            return
        self._last = state
        copy = self._folder / f"{len(self.taken)}-{name}.duckdb"
        self.taken.append(image(self._path, copy))


@pytest.mark.full
@pytest.mark.parametrize("flushed", [False, True])
def test_a_kill_during_a_break(tmp_path: Path, flushed: bool) -> None:
    """The batch is applied whole or not; if it is, what fails on it is broken."""
    run = _Run(tmp_path)
    before: world.Rows = {}
    world.apply(before, BEFORE)
    run.step("batch", "t", BEFORE)
    if flushed:
        world.check(run.db, run.rows["t"], {})
    with pytest.MonkeyPatch.context() as patch:
        images = _Images(patch, run.path, tmp_path)
        run.step("batch", "t", BREAKS)
        images.take("end")
    run.db.close()
    after = run.rows["t"]
    assert len(images.taken) > 3
    for path in images.taken:
        with ivm.connect(path) as db:
            applied = _position(db) == 2
            world.check(db, after if applied else before, {})
            assert not applied or {"numbers", "sums"} <= world.broken(db)
            again = db.ingest("t", [world.event(*e) for e in BREAKS], source="s", position=2)
            assert again.skipped == applied
            world.check(db, after, {})
            world.mend(db)


@pytest.mark.full
def test_a_kill_during_a_refresh(tmp_path: Path) -> None:
    """The views are all mended or none; nothing of the tables is lost."""
    run = _Run(tmp_path)
    for events in (BEFORE, BREAKS, MENDS):
        run.step("batch", "t", events)
    before = world.broken(run.db)
    with pytest.MonkeyPatch.context() as patch:
        images = _Images(patch, run.path, tmp_path)
        run.step("refresh", "numbers", [])
        images.take("end")
    mended = before - world.broken(run.db)
    assert {"numbers", "sums"} <= mended
    run.db.close()
    for path in images.taken:
        with ivm.connect(path) as db:
            assert before - world.broken(db) in (set(), mended)
            world.check(db, run.rows["t"], {})
            world.mend(db)


def _position(db: ivm.Database) -> int:
    ((found,),) = db.execute("SELECT max(position) FROM _ivm.positions").fetchall()
    return int(found)


@pytest.mark.full
def test_readers_meet_the_rows_before_or_the_error(tmp_path: Path) -> None:
    run = _Run(tmp_path)
    run.step("batch", "t", BEFORE)
    done, wrong = threading.Event(), list[Any]()

    def read() -> None:
        while not done.is_set():
            with contextlib.suppress(errors.EvaluationError):
                found = run.db.execute(
                    "SELECT (SELECT sum(n) FROM counted), (SELECT sum(i) FROM sums)"
                ).fetchall()
                if found not in ([(2, 3)], [(3, 10)]):
                    wrong.append(found)
            time.sleep(0.001)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(10):
        run.step("batch", "t", [(3, (1, "x"))])
        run.step("batch", "t", [(3, (1, "7"))])
        run.step("refresh", "numbers", [])
        run.step("batch", "t", [(3, None)])
    done.set()
    for reader in readers:
        reader.join()
    run.db.close()
    assert not wrong
