"""OpenIVM's views over TPC-C: after every epoch each equals DuckDB's answer to its query.

Half of the views are created over empty tables, half over filled ones. They stand in one database,
so that one change steps them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

import ivm
from tests.conformance.captures import Captures, kept_at
from tests.conformance.compare import difference
from tests.conformance.openness import leaves_open
from tests.conformance.outcome import Outcome
from tests.conformance.tpcc_rows import Content, tables
from tests.support.view_oracle import verdicts

_NOW = "TIMESTAMP '2026-06-15 10:00:00'"  # both databases are told the same time


@dataclass(frozen=True)
class Case:
    """A view of the suite.

    Attributes:
        file: its name there.
        view: its name here.
        sql: its query.
    """

    file: str
    view: str
    sql: str


def cases(folder: Path) -> list[Case]:
    """All views of the suite."""
    lines = (folder / "view_queries.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [
        Case(q["file"], f"v{i}", re.sub(r"\bdl\.", "", q["sql"]).strip().rstrip(";"))
        for i, q in enumerate(found)
    ]


def run(
    folder: Path,
    part: slice = slice(None),
    *,
    seed: int = 1,
    captures: Captures | None = None,
) -> Iterator[Outcome]:
    """Views of the suite under random changes.

    Args:
        folder: `openivm` of the suites.
        part: which of the views.
        seed: decides rows and changes.
        captures: keep the views as they are after all changes.
    """
    yield from _Chunk(folder, cases(folder)[part], seed + (part.start or 0)).run(captures)


class _Chunk:
    """The views in one database, and its twin in plain DuckDB."""

    def __init__(self, folder: Path, cases: list[Case], seed: int) -> None:
        self._schema = tables((folder / "tpcc_schema.sql").read_text())
        text = (folder / "deltas.sql").read_text()
        self._deltas = [s.replace("NOW()", _NOW) for s in text.splitlines() if s.strip()]
        self._cases = cases
        self._content = Content(self._schema, seed)
        self._faults: dict[str, str] = {}
        self._open: set[str] = set()

    def run(self, captures: Captures | None) -> Iterator[Outcome]:
        with ivm.connect() as self._db, duckdb.connect() as self._twin:
            self._both([table.ddl for table in self._schema])
            half = len(self._cases) // 2
            self._create(self._cases[:half])
            self._both(list(self._content.fill()))
            self._create(self._cases[half:])
            self._compare("at creation")
            for number, epoch in enumerate(self._content.epochs(self._deltas)):
                self._both(epoch)
                self._compare(f"after epoch {number}")
            strategies = {view.name: view.strategy for view in self._db.views()}
            for case in self._cases:
                keep = kept_at(captures, "openivm", case.file)
                if keep is not None and case.view in strategies:
                    keep(self._db, case.view)
        for case in self._cases:
            fault = self._faults.get(case.view, "")
            verdict = "fail" if fault else "open" if case.view in self._open else "pass"
            yield Outcome("openivm", case.file, verdict, strategies.get(case.view, ""), fault)

    def _both(self, statements: list[str]) -> None:
        with self._db.transaction():
            for statement in statements:
                self._db.execute(statement)
        self._twin.execute("BEGIN")
        for statement in statements:
            self._twin.execute(statement)
        self._twin.execute("COMMIT")

    def _create(self, cases: list[Case]) -> None:
        for case in cases:
            try:
                self._db.execute(f"CREATE MATERIALIZED VIEW {case.view} AS {case.sql}")
            except ivm.IvmError as error:
                self._faults[case.view] = f"not created: {error}"

    def _compare(self, when: str) -> None:
        for case in self._cases:
            if case.view not in self._faults and (found := self._differs(case)):
                self._faults[case.view] = f"{when}: {found}"

    def _differs(self, case: Case) -> str:
        found = self._db.execute(f"SELECT * FROM {case.view}").fetchall()
        wanted = self._twin.execute(case.sql).fetchall()
        fault = difference(found, wanted)
        if fault and len(found) == len(wanted) and leaves_open(case.sql):
            self._open.add(case.view)
            (verdict,) = verdicts(self._db, case.view)
            return "" if verdict["ok"] else f"VERIFY {verdict}"
        return fault
