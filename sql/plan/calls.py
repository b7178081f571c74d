"""The calls that plan nodes make: aggregates, window functions and functions that give rows.

Law: a call names the columns of its node's input by position and holds nothing of the node itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import used
from ivm.storage.values.order import OrderKey
from ivm.storage.values.types import ColumnType


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over input columns.

    Attributes:
        function: DuckDB's name in lower case; ``count_star`` for COUNT(*).
        arguments: input columns.
        filter: the BOOLEAN input column of its FILTER clause, or None.
        type: the result's type.
        order: its ORDER BY, complete where the result depends on an order; () elsewhere.
        parameters: constants after the arguments, as SQL.
        fields: names under which the first arguments are packed into one struct, if any.
        given: how many keys of the order the user wrote; they come first.
    """

    function: str
    arguments: tuple[int, ...]
    distinct: bool
    filter: int | None
    type: ColumnType
    order: tuple[OrderKey, ...] = ()
    parameters: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    given: int = 0

    def reads(self) -> set[int]:
        """The input columns that it looks at."""
        chosen = () if self.filter is None else (self.filter,)
        return {*self.arguments, *chosen, *[key.column for key in self.order]}

    def moved(self, at: Callable[[int], int]) -> AggregateCall:
        """The call over the same columns at other positions."""
        return replace(
            self,
            arguments=tuple(map(at, self.arguments)),
            filter=None if self.filter is None else at(self.filter),
            order=moved_order(self.order, at),
        )


@dataclass(frozen=True)
class RowCall:
    """A table function whose rows for one row's values depend on these alone.

    Attributes:
        columns: names of those of its columns that are read.
    """

    name: str
    columns: tuple[str, ...]


Ties: TypeAlias = Literal["none", "window", "argument", "split"]


@dataclass(frozen=True)
class WindowCall:
    """One function over a window.

    Attributes:
        function: the call with its FILTER, names as they are; arguments are columns or constants.
        frame: the frame clause, or None.
        ignore_nulls: NULL arguments are passed over.
        ties: how rows that the window's order leaves open are told apart: not at all (``none``), by
            all columns in the window's own order (``window``) or, where that would change the
            frames, in an order of the arguments (``argument``); by all columns though the frame
            excludes peers in the window's order (``split``, see `render_split`).
    """

    function: exp.Expr
    frame: exp.Expr | None
    ignore_nulls: bool
    ties: Ties

    def mapped(self, image: Callable[[exp.Expr], exp.Expr]) -> WindowCall:
        """The call with the image of each of its expressions."""
        frame = None if self.frame is None else image(self.frame)
        return replace(self, function=image(self.function), frame=frame)

    def expressions(self) -> tuple[exp.Expr, ...]:
        """The call and its frame."""
        return (self.function,) if self.frame is None else (self.function, self.frame)

    def reads(self) -> set[int]:
        """The input columns that it looks at."""
        return set[int]().union(*[used(e) for e in self.expressions()])


def moved_order(order: Sequence[OrderKey], at: Callable[[int], int]) -> tuple[OrderKey, ...]:
    """The order by the same columns at other positions."""
    return tuple(replace(key, column=at(key.column)) for key in order)
