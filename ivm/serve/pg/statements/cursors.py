"""Cursors in SQL: DECLARE runs a query, FETCH and MOVE read its rows, CLOSE forgets them.

Law: a cursor shows the rows that the query had when it was declared, once each, forwards. It ends
with its transaction; WITH HOLD, it outlives a commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from ivm.serve.batches import Batches
from ivm.serve.pg.wire.errors import PgError
from ivm.session.results.result import Result
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import WORD_CHARACTER, fold

_NAME = rf'(?P<name>"(?:[^"]|"")+"|(?!\d){WORD_CHARACTER}+)'
_DECLARE = re.compile(
    rf"DECLARE\s+{_NAME}(?P<kinds>(?:\s+(?:ASENSITIVE|INSENSITIVE|NO\s+SCROLL))*)\s+CURSOR\s+"
    r"(?:(?P<hold>WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH = re.compile(
    r"(?P<verb>FETCH|MOVE)(?:\s+(?P<way>NEXT|(?:FORWARD\s+)?(?:\d+|ALL)|FORWARD))?"
    rf"(?:\s+(?:FROM|IN))?\s+{_NAME}",
    re.IGNORECASE,
)
_CLOSE = re.compile(rf"CLOSE\s+(?:(?P<all>ALL)|{_NAME})", re.IGNORECASE)
_MOST = 100


@dataclass(frozen=True)
class Fetch:
    """FETCH or MOVE; `count` is None for all rows that are left."""

    text: str
    offset: int
    verb: str
    name: str
    count: int | None


@dataclass(frozen=True)
class Close:
    """CLOSE of a cursor, of all without a name."""

    text: str
    offset: int
    name: str | None


@dataclass(frozen=True)
class Declared:
    """What DECLARE says: the cursor's name, and its query with its place in the text."""

    name: str
    holds: bool
    query: str
    place: int


def declared(text: str) -> Declared:
    """Reads a DECLARE.

    Raises:
        UnsupportedError: it is of a kind that is not offered.
    """
    found = _DECLARE.fullmatch(text)
    if found is None:
        raise UnsupportedError(
            "DECLARE: cursors read forwards, as text: DECLARE name CURSOR [WITH HOLD] FOR query"
        )
    holds = (found["hold"] or "").upper() == "WITH"
    return Declared(_folded(found["name"]), holds, found["query"], found.start("query"))


def fetch(text: str, offset: int) -> Fetch:
    """Reads a FETCH or MOVE.

    Raises:
        UnsupportedError: it does not go forwards.
    """
    found = _FETCH.fullmatch(text)
    if found is None:
        raise UnsupportedError(
            "a cursor only goes forwards: FETCH or MOVE [NEXT | count | ALL | FORWARD …] FROM name"
        )
    *_, count = (found["way"] or "NEXT").upper().split()
    rows = None if count == "ALL" else int(count) if count.isdigit() else 1
    return Fetch(text, offset, found["verb"].upper(), _folded(found["name"]), rows)


def close(text: str, offset: int) -> Close | None:
    """Reads a CLOSE; None if it is none."""
    found = _CLOSE.fullmatch(text)
    if found is None:
        return None
    return Close(text, offset, None if found["all"] else _folded(found["name"]))


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else fold(name)


class _Cursor:
    """A cursor that is open."""

    def __init__(self, result: Result, *, holds: bool) -> None:
        self.names, self.types = list(result.columns), list(result.types)
        self.holds, self.is_committed = holds, False
        self._batches = Batches(result)
        self._left: pa.Table | None = None

    def take(self, count: int | None) -> pa.Table | None:
        """The next rows; None if there are none."""
        found: list[pa.Table] = []
        while count is None or count > 0:
            table = self._left if self._left is not None else self._batches.next()
            if table is None:
                break
            taken = table if count is None else table.slice(0, count)
            self._left = table.slice(len(taken)) if len(taken) < len(table) else None
            found.append(taken)
            count = None if count is None else count - len(taken)
        return pa.concat_tables(found).combine_chunks() if found else None


class Cursors:
    """The open cursors of one session."""

    def __init__(self) -> None:
        self._open: dict[str, _Cursor] = {}

    def declare(self, name: str, result: Result, *, holds: bool) -> None:
        """Opens a cursor on a result.

        Raises:
            PgError: there is one of this name, there are too many, or the result has no rows.
        """
        if name in self._open:
            raise PgError("42P03", f"there is a cursor {name!r} already: close it first")
        if len(self._open) >= _MOST:
            raise PgError("53400", f"there are {_MOST} cursors: close some")
        if result.kind != "rows":
            raise PgError("42601", "a cursor is declared for a query")
        if holds:
            result.held()
        self._open[name] = _Cursor(result, holds=holds)

    def columns(self, name: str) -> list[tuple[str, str]]:
        """The names and types of a cursor's columns."""
        found = self._find(name)
        return list(zip(found.names, found.types, strict=True))

    def fetch(self, name: str, count: int | None) -> Result:
        """The next rows of a cursor.

        Raises:
            PgError: there is none of this name.
        """
        found = self._find(name)
        table = found.take(count)
        if table is None:
            return Result("rows", found.names, found.types)
        return Result.of_table(table.rename_columns(found.names), found.types)

    def close(self, name: str | None) -> None:
        """Closes a cursor, or all of them.

        Raises:
            PgError: there is none of this name.
        """
        if name is None:
            self._open.clear()
        else:
            self._find(name)
            del self._open[name]

    def end(self, *, commits: bool) -> None:
        """A transaction has ended."""
        for name, cursor in list(self._open.items()):
            cursor.is_committed |= commits and cursor.holds
            if not cursor.is_committed:
                del self._open[name]

    def _find(self, name: str) -> _Cursor:
        found = self._open.get(name)
        if found is None:
            raise PgError("34000", f"there is no cursor {name!r}")
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._open
