"""What a client holds of statements: prepared ones, and portals, which have parameters and rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ivm.serve.pg.statements.actions import Action
from ivm.serve.pg.statements.describe import Columns
from ivm.serve.pg.statements.statements import Outcome
from ivm.serve.pg.values.rows import Rows
from ivm.serve.pg.wire.errors import NO_STATEMENT, PgError

MOST_HELD = 4096
"""Prepared statements, and portals, of a client."""


class Told(NamedTuple):
    """The columns that a client was told a statement has.

    Attributes:
        columns: their names and types.
        meaning: of the names in the statement; None if it cannot be told that they mean the same.
    """

    columns: Columns
    meaning: Hashable


@dataclass
class Prepared:
    """A prepared statement.

    Attributes:
        text: as the client wrote it.
        action: what it asks for; None for an empty text.
        oids: the types of parameters that the client gave; 0 leaves them open.
        parameters: the types of all its parameters, once they were asked for.
        told: the columns that the client was told, if it was before a run.
        name: "" if it has none, and is soon forgotten.
    """

    text: str
    action: Action | None
    oids: tuple[int, ...]
    parameters: tuple[int, ...] | None = None
    told: Told | None = None
    name: str = ""


class PreparedStatements:
    """The prepared statements of a client by their names.

    PostgreSQL binds a statement as it parses it; here that is done once the client asks for its
    columns. If it fails then, the statement has no name either: clients give it to the next one.
    """

    def __init__(self) -> None:
        self._named: dict[str, Prepared] = {}
        self._new: list[Prepared] = []  # what was parsed after the last Sync

    def demand_free(self, name: str) -> None:
        """Refuses a name that is taken; "" never is.

        Raises:
            PgError: it is, or there are too many.
        """
        if name and name in self._named:
            raise PgError(
                "42P05", f"there is a prepared statement {name!r} already: close it first"
            )
        if name and len(self._named) >= MOST_HELD:
            raise PgError("53400", f"there are {MOST_HELD} prepared statements: close some")

    def add(self, name: str, prepared: Prepared) -> None:
        """Adds a statement that was parsed."""
        self._named[name] = prepared
        self._new.append(prepared)

    def get(self, name: str) -> Prepared:
        """A statement.

        Raises:
            PgError: there is none of this name.
        """
        found = self._named.get(name)
        if found is None:
            raise PgError(NO_STATEMENT, f"there is no prepared statement {name!r}")
        return found

    def drop(self, name: str | None) -> None:
        """Forgets a statement, if there is one of this name, or all."""
        if name is None:
            self._named.clear()
        else:
            self._named.pop(name, None)

    @contextlib.contextmanager
    def binding(self, prepared: Prepared, failing: type[Exception] = Exception) -> Iterator[None]:
        """A block that binds a statement: a new one is forgotten if that fails by such an error."""
        try:
            yield
        except failing:
            if any(each is prepared for each in self._new):
                self._named = {n: p for n, p in self._named.items() if p is not prepared}
            raise

    def end_batch(self) -> None:
        """The client waits for the answers: it knows then what it has prepared."""
        self._new.clear()


@dataclass
class Portal:
    """A statement with its parameters, run or not.

    Attributes:
        outcome: None before it was run.
        rows: of the outcome, those that are not yet sent.
        ended: the client was told that it is done.
    """

    prepared: Prepared
    params: list[Any] | None
    formats: tuple[int, ...]
    outcome: Outcome | None = None
    rows: Rows | None = None
    ended: bool = False
    began: float = field(default_factory=time.perf_counter)
