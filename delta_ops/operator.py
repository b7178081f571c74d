"""The interface of all operators: a delta in, a delta out, new state staged until the commit.

Law: if the inputs' integrals before a step are I and the step's deltas are d, the output is
Q(I + d) − Q(I), where Q is the operator's query.

Contract: a step only stages: `commit` adopts the new state, `rollback` drops it, and between steps
exactly one of them is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from ivm.storage.values.column import Column, Mask
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor

Kernel: TypeAlias = Callable[[Sequence[Column], int], Column]
"""(columns, row count) → one column of a type fixed at compile time."""

Predicate: TypeAlias = Callable[[Sequence[Column], int], Mask]
"""(columns, row count) → bool[n], NULL being False."""

CursorFactory: TypeAlias = Callable[[], Cursor]
"""Gives a cursor for one statement; its owner closes it."""

Fetch: TypeAlias = Callable[[int], Iterator[ZSet]]
"""The whole content of an input (by position) or of a node (by number), in chunks."""

Types: TypeAlias = tuple[ColumnType, ...]

Strategy: TypeAlias = Literal["linear", "indexed", "group recompute", "whole recompute"]


class Staged(Protocol):
    """A part of an operator's state, staged with the operator."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def saved(self) -> object: ...

    def restore(self, saved: Any, /) -> None: ...

    @property
    def nbytes(self) -> int: ...


class Operator:
    """Base of all operators: stateless unless a subclass says otherwise.

    Attributes:
        types: the output columns' types.
        strategy: the word EXPLAIN shows.
        why: the operator's rule in a few words, for EXPLAIN.
        stateful: it holds state that must be hydrated before the first step.
        transparent: the output is the input, as it is.
        kept: the output is stored with the view, and read there by what hydrates from it.
        consolidated: no two rows of an output delta can be equal.
        reproducible: DuckDB's answer to the same query has the same bits; where it has not (sums
            of DOUBLE are exact here, and rounded at every addition there), operators above are
            hydrated from `contents`, never from SQL.
        parts: of the state, if they are committed and rolled back as one.
    """

    strategy: ClassVar[Strategy] = "linear"
    why: ClassVar[str] = "applied to the change alone"
    stateful: ClassVar[bool] = False
    transparent: ClassVar[bool] = False
    kept: ClassVar[bool] = False
    consolidated: bool = False
    reproducible: bool = True
    parts: tuple[Staged, ...] = ()

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self.types: Types = tuple(types)

    def over(self, inputs: tuple[Operator, ...]) -> Operator:
        """Returns itself, its state too, with these operators as the inputs it reads."""
        return self

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        """The output's delta for the inputs' deltas (at least one not empty).

        Raises:
            EvaluationError: an expression fails on these rows; the caller rolls back.
        """
        raise NotImplementedError

    def commit(self) -> None:
        """Adopts the state staged by the last step."""
        for part in self.parts:
            part.commit()

    def rollback(self) -> None:
        """Drops the state staged by the last step."""
        for part in self.parts:
            part.rollback()

    def saved(self) -> object:
        """The committed state, for `restore` of an equal operator in another process.

        Returns:
            Arrays, columns and arrangements, which are shared with the state; None if it cannot be
            saved, and is hydrated instead.
        """
        return tuple([part.saved() for part in self.parts]) or None

    def restore(self, saved: Any) -> None:
        """Takes what `saved` gave, in place of any earlier state.

        Raises:
            StateError: it is of another operator; `hydrate` is to build the state.
        """
        for part, state in zip(self.parts, saved, strict=True):
            part.restore(state)

    def origin(self, column: int) -> int | None:
        """The input column that an output column passes on, in rows made by kernels alone.

        None if that is no column of the only input, or the operator keeps state or asks DuckDB.
        """
        return None

    def hydration_key(self, number: int) -> tuple[int, ...]:
        """The columns of an input by whose key codes its rows are best sorted for `hydrate`.

        In that order they need little memory beside the state; () if the order does not matter.
        """
        return ()

    def hydrate(self, inputs: Fetch) -> None:
        """Builds the state from the inputs' whole contents, in place of any earlier state.

        Args:
            inputs: behind the last one comes the output's content, if it is `kept`.
        """

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        """The output's whole content in chunks, from state where there is one."""
        for chunk in inputs(0):
            yield self.step((chunk,))

    def describe(self) -> str:
        """One line for EXPLAIN."""
        return type(self).__name__

    def state_rows(self) -> int:
        """Rows (or groups) held in state."""
        return 0

    def state_bytes(self) -> int:
        """Bytes held in state."""
        return sum([part.nbytes for part in self.parts])


class Source(Operator):
    """The node where a relation's delta enters the circuit."""

    why = "where the table's changes enter"

    def __init__(self, name: str, types: Sequence[ColumnType]) -> None:
        super().__init__(types)
        self.name = name

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        return inputs[0]

    def describe(self) -> str:
        return f"Source({self.name})"
