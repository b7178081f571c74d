"""What the tests of changes demand of a statement: the way that it takes, and DuckDB's answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import duckdb
import pytest

from ivm import errors
from ivm.changes.rows.few_rows import FewRows
from ivm.reads import reads
from ivm.reads.reads import StateReads
from tests.support.duckdb_twin import Twin, watched

Statement: TypeAlias = str | tuple[str, Any]
"""SQL, and its parameters if it has any."""
Run: TypeAlias = Callable[[Twin, str, Any], bool]
History: TypeAlias = Sequence[tuple[bool, Sequence[Statement]]]
"""Transactions: whether each is committed, and its statements."""


def demand_fast(both: Twin, sql: str, params: Any = None, run: Run = Twin.run) -> None:
    """It takes the fast path, as EXPLAIN says."""
    assert told_way(both, sql, params).startswith("fast path")
    with watched() as seen:
        assert run(both, sql, params)
        assert seen == []
    both.check()


@contextlib.contextmanager
def few_rows_expected() -> Iterator[None]:
    """Every query in the block counts as one that has given few rows before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FewRows, "knows", lambda few, sql: True)
        yield


@contextlib.contextmanager
def sources_in_memory() -> Iterator[list[str]]:
    """Every source that can be is answered from memory when it comes first; collects those."""
    answered: list[str] = []
    answer, answer_shape = StateReads.answer, StateReads.answer_shape

    def noted(reads: StateReads, text: str, *given: Any, **further: Any) -> Any:
        found = answer(reads, text, *given, **further)
        if found is not None and further.get("is_source"):
            answered.append(text)
        return found

    def noted_shape(reads: StateReads, shape: str, *given: Any) -> Any:
        found = answer_shape(reads, shape, *given)
        if found is not None:
            answered.append(shape)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reads, "_WORTHWHILE", 1)
        patch.setattr(StateReads, "answer", noted)
        patch.setattr(StateReads, "answer_shape", noted_shape)
        yield answered


WAYS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
    "arrow": contextlib.nullcontext,
    "few": few_rows_expected,
    "memory": sources_in_memory,
}
"""How the rows of a source are read."""


def demand_native(both: Twin, sql: str, params: Any = None) -> None:
    """DuckDB runs it."""
    with watched() as seen:
        assert both.run(sql, params)
        assert len(seen) == 1
    both.check()


def told_way(both: Twin, sql: str, params: Any = None) -> str:
    """The way that EXPLAIN tells."""
    return str(both.db.execute(f"EXPLAIN {sql}", params).fetchall()[-1][1])


def demand_refused(both: Twin, sql: str, params: Any, then: str) -> None:
    """Both refuse it, and go on with another statement."""
    assert not both.run(sql, params)
    both.check()
    assert both.run(then)
    both.check()


def demand_same_words(both: Twin, sql: str) -> None:
    """Both refuse it, with the same first line."""
    with pytest.raises(duckdb.Error) as theirs:
        both.duck.execute(sql)
    with pytest.raises(errors.IvmError) as ours:
        both.db.execute(sql)
    if isinstance(theirs.value, duckdb.ConstraintException):
        assert isinstance(ours.value, errors.ConstraintError)
    assert str(ours.value).split("\n")[0] == str(theirs.value).split("\n")[0]
    both.check()


def run_history(
    both: Twin,
    history: History,
    run: Run = Twin.run,
    *,
    again: int = 1,
    check: Callable[[Twin], None] = Twin.check,
) -> None:
    """Runs statements in transactions, of which some are rolled back, and reopens the file.

    Args:
        again: how many statements of a transaction are run alone behind it.
    """
    for number, (keep, statements) in enumerate(history):
        pairs = list(_pairs(statements))
        both.run("BEGIN")
        going = all(run(both, *pair) for pair in pairs)
        both.run("COMMIT" if keep and going else "ROLLBACK")
        for pair in pairs[:again]:
            run(both, *pair)
        check(both)
        if number == min(1, len(history) - 1) and both.path != ":memory:":
            both.reopen()
            check(both)
    both.db.close()


def _pairs(statements: Iterable[Statement]) -> Iterable[tuple[str, Any]]:
    return [(each, None) if isinstance(each, str) else each for each in statements]
