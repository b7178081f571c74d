"""What a client holds of statements: prepared ones, and portals, which have parameters and rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ivm.serve.pg.actions import Action
from ivm.serve.pg.rows import Rows
from ivm.serve.pg.statements import Outcome


@dataclass
class Prepared:
    """A prepared statement.

    Attributes:
        text: as the client wrote it.
        action: what it asks for; None for an empty text.
        oids: the types of parameters that the client gave; 0 leaves them open.
        parameters: the types of all its parameters, once they were asked for.
        told: the columns that the client was told, if it was before a run.
    """

    text: str
    action: Action | None
    oids: tuple[int, ...]
    parameters: tuple[int, ...] | None = None
    told: list[tuple[str, str]] | None = None


@dataclass
class Portal:
    """A statement with its parameters, run or not.

    Attributes:
        outcome: None before it was run.
        rows: of the outcome, those that are not yet sent.
        sent: rows that were sent.
    """

    prepared: Prepared
    params: list[Any] | None
    formats: tuple[int, ...]
    outcome: Outcome | None = None
    rows: Rows | None = None
    sent: int = 0
    began: float = field(default_factory=time.perf_counter)
