"""A plain DuckDB beside ours that gets the same statements, to compare rows, results and errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.changes import queried_changes
from ivm.session import dml
from ivm.storage.duckdb_faults import FAULTS
from tests.support.view_oracle import assert_verified


class Twin:
    """The same tables in ivm and in DuckDB.

    Args:
        setup: statements of both.
        views: statements of ours.
        tables: the names of the tables to compare.
        path: of our file; in memory without.
    """

    def __init__(
        self, setup: str, views: str = "", tables: Sequence[str] = ("t",), path: Path | None = None
    ) -> None:
        self.path = ":memory:" if path is None else str(path)
        self.db = ivm.connect(self.path)
        self.duck = duckdb.connect()
        self.tables = tables
        self.duck.execute(setup)
        self.db.execute(setup)
        if views:
            self.db.execute(views)

    def run(self, sql: str, params: Any = None) -> bool:
        """Runs it in both; whether it went well."""
        return self.compare(lambda db: db.execute(sql, params), sql)

    def compare(self, call: Callable[[Any], Any], sql: str = "") -> bool:
        """Calls something with both, and compares the results; whether it went well.

        Args:
            call: runs it.
            sql: of a statement that may update by a FROM.
        """
        try:
            wanted = call(self.duck)
            shown = [(column[0], str(column[1])) for column in wanted.description or ()]
            rows = sorted(map(repr, wanted.fetchall()))
        except duckdb.Error as error:
            with pytest.raises((errors.IvmError, duckdb.Error)) as raised:
                call(self.db)
            if isinstance(error, duckdb.ConstraintException):
                assert isinstance(raised.value, errors.ConstraintError), raised.value
            return False
        result = call(self.db)
        if result.kind != "done":
            assert list(zip(result.columns, result.types, strict=True)) == shown
            found = sorted(map(repr, result.fetchall()))
            assert found == rows or _is_once(sql, found, rows)
        return True

    def check(self) -> None:
        for table in self.tables:
            query = f"SELECT *, COLUMNS(*)::VARCHAR FROM {table}"
            ours = sorted(map(repr, self.db.execute(query).fetchall()))
            assert ours == sorted(map(repr, self.duck.execute(query).fetchall()))
        assert_verified(self.db)

    def reopen(self) -> None:
        """Closes and opens our file."""
        self.db.close()
        self.db = ivm.connect(self.path)


def _is_once(sql: str, found: list[str], rows: list[str]) -> bool:
    """Whether an UPDATE counts or returns rows once that DuckDB does for each match."""
    (fault,) = [fault for fault in FAULTS if fault.name == "counted_matches"]
    if duckdb.__version__ < fault.seen[0] or not re.search(r"(?i)\bUPDATE\b.*\bFROM\b", sql):
        return False
    if "RETURNING" in sql:
        return Counter(found) < Counter(rows)
    return 0 < int(found[0][1:-2]) < int(rows[0][1:-2])


@contextmanager
def watched() -> Iterator[list[str]]:
    """Collects the statements that DuckDB runs in the block."""
    seen: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((dml, "run_in_duckdb"), (queried_changes, "load")):
            patch.setattr(module, name, _noting(seen, getattr(module, name)))
        yield seen


def _noting(seen: list[str], whole: Callable[..., Any]) -> Callable[..., Any]:
    def noted(session: Any, transaction: Any, statement: Any, info: Any, params: Any) -> Any:
        seen.append(statement.text)
        return whole(session, transaction, statement, info, params)

    return noted
