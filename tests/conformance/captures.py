"""Views that the suites make, kept for Spark: the plan, the tables' rows, and DuckDB's answers.

Law: tables and answers are of one snapshot. The answer that counts is DuckDB's to the user's own
text; the one to the plan's SQL, whose orders are complete, decides where the text leaves some open.
Equal plans over equal tables are kept once.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb

import ivm
from ivm.backfill.refuse import refuse_uncomputable
from ivm.backfill.snapshot import export_scanned, pinned
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.sql.plan.nodes import Plan
from ivm.sql.plan.render import render
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

Texts: TypeAlias = Sequence[tuple[str | None, ...]]
"""Rows, each value as DuckDB writes it."""
Keep: TypeAlias = Callable[[ivm.Database, str], None]
"""Keeps the view of a name, as it is now."""


@dataclass(frozen=True)
class Capture:
    """What Spark is asked, and what it must answer.

    Attributes:
        query: the user's text.
        plan: of the view.
        zone: the time zone in which the database computes.
        wanted: DuckDB's answer to the user's text.
        planned: DuckDB's answer to the plan's SQL.
    """

    query: str
    plan: Plan
    zone: str
    wanted: Texts
    planned: Texts


@dataclass(frozen=True)
class Captures:
    """A folder of captures, which several processes may write to.

    Attributes:
        folder: where they are.
        every: of so many views one is taken; which ones follows from their text.
    """

    folder: Path
    every: int = 1

    def at(self, suite: str, case: str) -> Keep:
        """Keeps views of a case of a suite."""

        def keep(db: ivm.Database, name: str) -> None:
            if db.in_transaction:
                return  # others cannot see the view
            engine: Engine = db._engine
            view = engine.catalog.views[name]
            verdict, detail = self._take(engine, view)
            line = {"suite": suite, "case": case, "query": view.query}
            with open(self.folder / f"{os.getpid()}.jsonl", "a") as notes:
                notes.write(json.dumps(line | {"verdict": verdict, "detail": detail}) + "\n")

        return keep

    def notes(self) -> Iterator[dict[str, str]]:
        """What became of each view, those alike once: their verdicts, and the captures' names."""
        known = set()
        for file in sorted(self.folder.glob("*.jsonl")):
            for line in file.read_text().splitlines():
                note = json.loads(line)
                view = (note["suite"], note["query"], note["detail"])
                if view not in known:
                    known.add(view)
                    yield note

    def read(self, name: str) -> Capture:
        """A capture by its name."""
        with open(self.folder / name / "capture", "rb") as file:
            found = pickle.load(file)
        assert isinstance(found, Capture)
        return found

    def tables(self, name: str) -> Path:
        """The folder of a capture's tables."""
        return self.folder / name / "tables"

    def _take(self, engine: Engine, view: View) -> tuple[str, str]:
        """A verdict and the reason of it, or "taken" and the name of the capture."""
        if view.plan is None:
            return "no plan", view.reason or ""
        if zlib.crc32(view.query.encode()) % self.every:
            return "left out", ""
        try:
            refuse_uncomputable(engine.catalog.version, view)
        except UnsupportedError as error:
            return "refused", str(error)
        with pinned(engine) as (cursor, _):
            try:
                capture = _asked(engine, view, view.plan, cursor)
            except (duckdb.Error, ivm.IvmError) as error:
                return "no answer", str(error)
            draft = self.folder / uuid.uuid4().hex
            try:
                export_scanned(
                    engine,
                    engine.catalog.version,
                    cursor,
                    [view.plan],
                    draft / "tables",
                    lambda: None,
                )
                return "taken", self._keep(capture, draft)
            except duckdb.Error as error:
                return "error", f"its tables are not exported: {error}"
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def _keep(self, capture: Capture, draft: Path) -> str:
        """Gives a draft its name, unless there is one like it."""
        draft.mkdir(exist_ok=True)
        (draft / "capture").write_bytes(pickle.dumps(capture))
        name = _digest(draft, render(capture.plan), capture.zone)
        if not (self.folder / name).exists():
            os.rename(draft, self.folder / name)
        return name


def kept_at(captures: Captures | None, suite: str, case: str) -> Keep | None:
    """Keeps views of a case of a suite, if they are to be kept at all."""
    return None if captures is None else captures.at(suite, case)


def _asked(engine: Engine, view: View, plan: Plan, cursor: Cursor) -> Capture:
    zone, width = engine.warehouse.zone, len(view.schema)
    with zone.on(cursor):
        wanted, planned = (_texts(cursor, sql, width) for sql in (view.query, render(plan)))
    return Capture(view.query, plan, zone.name, wanted, planned)


def _texts(cursor: Cursor, query: str, width: int) -> Texts:
    names = [f"c{i}" for i in range(width)]
    listed = ", ".join(f"{name}::VARCHAR" for name in names)
    return rows(cursor, f"SELECT {listed} FROM ({query}) AS q({', '.join(names)})")


def _digest(draft: Path, *texts: str) -> str:
    """A name for equal plans over equal tables."""
    digest = hashlib.sha256(repr(texts).encode())
    for file in sorted((draft / "tables").rglob("*.parquet")):
        digest.update(str(file.relative_to(draft)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:32]
