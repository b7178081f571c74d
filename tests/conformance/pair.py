"""The database under test, and plain DuckDB with plain views, told the same statements.

Law: what DuckDB accepts must be accepted, and what it answers must be answered. A statement that
plain DuckDB refuses is not DuckDB's SQL; what needs the relation it would have made is left out
with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import duckdb

import ivm
from tests.conformance.captures import Keep
from tests.conformance.compare import difference
from tests.conformance.dialect import Statement
from tests.conformance.openness import leaves_open
from tests.support.view_oracle import verdicts

Rows = list[tuple[Any, ...]]


class NotDuckDBError(Exception):
    """Plain DuckDB refuses the statement too, or it needs one that was refused."""


class WrongError(Exception):
    """DuckDB accepts or answers what the database under test does not."""


class Pair:
    """Two databases side by side; a context manager.

    Args:
        keep: is called for each materialized view before it goes, at the latest at the end.
    """

    def __init__(self, keep: Keep | None = None) -> None:
        self.db = ivm.connect()
        self._keep = keep
        self._twin = duckdb.connect()
        self._absent: dict[str, str] = {}
        self._open: set[str] = set()

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._keep_views(lambda _: True)
        self.db.close()
        self._twin.close()

    def answer(self, statement: Statement) -> Rows:
        """Run it in both; its rows in the database under test, which plain DuckDB gives too.

        Raises:
            NotDuckDBError: neither can run it.
            WrongError: one can, or the answers differ.
        """
        self._refuse_absent(statement)
        if statement.ours.startswith("DROP"):
            self._keep_views(
                lambda name: _names(statement.ours, name) or "CASCADE" in statement.ours
            )
        ours, plain = self._ours(self._materialized(statement.ours)), self._plain(statement.plain)
        if isinstance(plain, str) and isinstance(ours, str):
            self.lose(statement.made, plain)
            raise NotDuckDBError(plain)
        if isinstance(plain, str):
            self.lose(statement.made, plain)
            raise WrongError(f"plain DuckDB refuses it: {plain}")
        if isinstance(ours, str):
            if statement.view:
                self._plain(f"DROP VIEW {statement.made}")
            self.lose(statement.made, ours)
            raise WrongError(ours)
        if statement.view and leaves_open(statement.plain):
            self._open.add(statement.made)
        if found := difference(ours, plain):
            self._refuse_wrong(statement, found if len(ours) == len(plain) else "")
        return ours

    def lose(self, made: str, reason: str) -> None:
        """The relation that a statement should have made is not there."""
        if made:
            self._absent[made] = reason

    def undo(self, statement: Statement) -> None:
        """Drop the view that a statement made."""
        self._ours(f"DROP MATERIALIZED VIEW {statement.made}")
        self._plain(f"DROP VIEW {statement.made}")

    def _keep_views(self, wanted: Callable[[str], bool]) -> None:
        if self._keep is not None:
            for view in self.db.views():
                if wanted(view.name):
                    self._keep(self.db, view.name)

    def _materialized(self, sql: str) -> str:
        """Others drop a materialized view by DROP VIEW."""
        found = re.match(r"DROP VIEW (?:IF EXISTS )?(\w+)", sql)
        if found and any(view.name == found[1] for view in self.db.views()):
            return sql.replace("DROP VIEW", "DROP MATERIALIZED VIEW", 1)
        return sql

    def _refuse_wrong(self, statement: Statement, found: str) -> None:
        """Other rows than DuckDB's are right only where SQL leaves them open."""
        named = [name for name in self._open if _names(statement.plain, name)]
        if not found or not named:
            raise WrongError(found or "another number of rows")
        for name in named:
            (verdict,) = verdicts(self.db, name)
            if not verdict["ok"]:
                raise WrongError(f"VERIFY {verdict}")

    def _refuse_absent(self, statement: Statement) -> None:
        for name, reason in list(self._absent.items()):
            if name != statement.made and _names(statement.plain, name):
                self.lose(statement.made, reason)
                raise NotDuckDBError(f"needs {name}: {reason}")
        self._absent.pop(statement.made, None)

    def _plain(self, sql: str) -> Rows | str:
        try:
            return self._twin.execute(sql).fetchall()
        except duckdb.Error as error:
            return str(error).splitlines()[0]

    def _ours(self, sql: str) -> Rows | str:
        try:
            return self.db.execute(sql).fetchall()
        except Exception as error:  # a fault of ours is a finding, not the end of the run
            return f"{type(error).__name__}: {error}"


def _names(sql: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", sql, re.I) is not None
