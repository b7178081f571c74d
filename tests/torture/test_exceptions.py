"""An exception after or before each system call and each DuckDB statement of each kind of change.

Whatever is raised, wherever: the change has happened wholly or not at all, its caller was told
which, and the database goes on, or says that it must be opened again.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ivm.storage.warehouse.duckdb import duck
from ivm.storage.warehouse.duckdb.appender import Appenders
from tests.tiers import TIER
from tests.torture.patient import Patient

pytestmark = pytest.mark.full(smoke=4)

ROW = 7
NATIVE = (
    f"MERGE INTO t USING (SELECT {ROW} AS b) ON a + 0 = b WHEN NOT MATCHED THEN INSERT VALUES (b)"
)
"""A change of one row that the fast path leaves to DuckDB."""
CHANGES: dict[str, tuple[int | None, Callable[[Patient], object]]] = {
    "commit": (ROW, lambda p: p.db.insert("t", {"a": [ROW]})),
    "native": (ROW, lambda p: p.db.execute(NATIVE)),
    "flush": (None, lambda p: p.db.execute("FROM t").fetchall()),
    "refresh": (None, lambda p: p.db.execute("FROM whole").fetchall()),
    "catalog": (
        ROW,
        lambda p: p.db.execute(f"BEGIN; {NATIVE}; CREATE TABLE u (x INTEGER); COMMIT"),
    ),
    "checkpoint": (None, lambda p: p.db.execute("CHECKPOINT")),
}
SYSTEM = ("writev", "fdatasync", "fsync", "pwrite", "replace", "ftruncate", "unlink")
STATEMENTS = ("run", "append", "run BEGIN", "run COMMIT", "run CHECKPOINT")
"""Statements by their first word, too."""
SHORT = {
    ("commit", "writev", "odd"),
    ("commit", "fdatasync", "odd"),
    ("commit", "pwrite", "memory"),
    ("native", "fdatasync", "disk"),
    ("native", "run", "odd"),
    ("native", "run COMMIT", "odd"),
    ("flush", "run", "odd"),
    ("flush", "run BEGIN", "memory"),
    ("flush", "run COMMIT", "odd"),
    ("catalog", "fsync", "disk"),
    ("catalog", "run", "memory"),
    ("checkpoint", "run CHECKPOINT", "odd"),
}
"""Outside of a fuzz only these are tried, at some of the calls."""


class OddError(BaseException):
    """Nobody has foreseen this."""


def _odd(*_: object) -> None:
    raise OddError


def _no_memory(*_: object) -> None:
    raise MemoryError


def _disk(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FAULTS: dict[str, tuple[str, Callable[..., None]]] = {
    "odd": ("after", _odd),
    "memory": ("before", _no_memory),
    "disk": ("before", _disk),
    "full": ("before", _full),
}


class Trap:
    """Counts the calls of one function, and strikes at one of them.

    Args:
        at: which call is struck; 0 for none.
        when: before or after its work.
        strike: what happens then.
    """

    def __init__(self, at: int, when: str, strike: Callable[..., None]) -> None:
        self.calls, self.at, self.when, self.strike = 0, at, when, strike
        self.armed = True

    def around(self, real: Callable[..., Any], word: str = "") -> Callable[..., Any]:
        def trapped(*args: Any, **kwargs: Any) -> Any:
            counted = self.armed and (not word or args[1].startswith(word))
            self.calls += counted
            struck = counted and self.calls == self.at
            if struck:
                self.armed = False
                if self.when == "before":
                    self.strike()
            result = real(*args, **kwargs)
            if struck:
                self.strike()
            return result

        return trapped

    def set_at(self, patch: pytest.MonkeyPatch, function: str) -> None:
        """Stand in the way of a function, wherever it is called from (of `run`: with a word)."""
        function, _, word = function.partition(" ")
        if function == "append":
            patch.setattr(Appenders, "write", self.around(Appenders.write))
        elif function == "run":
            real = duck.run
            for module in list(sys.modules.values()):
                if vars(module).get("run") is real:
                    patch.setattr(module, "run", self.around(real, word))
            patch.setattr(Appenders, "run", self.around(Appenders.run, word))
        else:
            patch.setattr(os, function, self.around(getattr(os, function)))


def _hurt(folder: Path, change: str, function: str, trap: Trap) -> bool:
    """Whether the trap was sprung."""
    folder.mkdir()
    patient = Patient(folder)
    row, work = CHANGES[change]
    with pytest.MonkeyPatch.context() as patch:
        trap.set_at(patch, function)
        error = patient.change(row, lambda: work(patient))
        trap.armed = False
    sprung = trap.calls >= trap.at > 0
    assert sprung or error is None, repr(error)
    patient.examine()
    return sprung


def _cases() -> Iterator[tuple[str, str, str]]:
    for change in CHANGES:
        for function in SYSTEM + STATEMENTS:
            for fault in FAULTS:
                case = change, function, fault
                if (function in SYSTEM or fault in ("odd", "memory")) and (
                    TIER == "fuzz" or case in SHORT
                ):
                    yield case


@pytest.mark.parametrize(("change", "function", "fault"), list(_cases()))
def test_no_exception_does_harm(tmp_path: Path, change: str, function: str, fault: str) -> None:
    at = 1
    while _hurt(tmp_path / str(at), change, function, Trap(at, *FAULTS[fault])):
        at += 1 if TIER == "fuzz" else 3
    assert at > 1 or (change, function, fault) not in SHORT
