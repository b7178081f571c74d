"""The calls in plan nodes: aggregates, window functions and table functions.

Invariant: a call names the columns of its node's input by position and refers to nothing else of
the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import used
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over input columns.

    Attributes:
        function: DuckDB's name in lower case; ``count_star`` for COUNT(*).
        arguments: input columns.
        filter: the BOOLEAN input column of its FILTER clause, or None.
        type: the result's type.
        order: a total ORDER BY if the result depends on the order of rows, else ().
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
        """Positions of the input columns whose values it depends on."""
        chosen = () if self.filter is None else (self.filter,)
        return {*self.arguments, *chosen, *[key.column for key in self.order]}

    def moved(self, at: Callable[[int], int]) -> AggregateCall:
        """Returns the call with each position replaced by its image."""
        return replace(
            self,
            arguments=tuple(map(at, self.arguments)),
            filter=None if self.filter is None else at(self.filter),
            order=moved_order(self.order, at),
        )


@dataclass(frozen=True)
class RowCall:
    """A table function of one input row's values.

    Attributes:
        columns: names of its columns that are read.
    """

    name: str
    columns: tuple[str, ...]


Ties: TypeAlias = Literal["none", "window", "argument", "split"]


@dataclass(frozen=True)
class WindowCall:
    """One function over a window.

    Attributes:
        function: the call with its FILTER, names as written; arguments are columns or constants.
        frame: the frame clause, or None.
        ignore_nulls: NULL arguments are skipped.
        ties: how ties of the window's order are broken: not at all (``none``); by all columns, in
            the window's own order (``window``) or, if that would change the frames, in an order of
            the arguments (``argument``); by all columns though the frame excludes peers in the
            window's order (``split``, see `render_split`).
    """

    function: exp.Expr
    frame: exp.Expr | None
    ignore_nulls: bool
    ties: Ties

    def mapped(self, image: Callable[[exp.Expr], exp.Expr]) -> WindowCall:
        """Returns the call with each expression replaced by its image."""
        frame = None if self.frame is None else image(self.frame)
        return replace(self, function=image(self.function), frame=frame)

    def expressions(self) -> tuple[exp.Expr, ...]:
        """The call and its frame."""
        return (self.function,) if self.frame is None else (self.function, self.frame)

    def reads(self) -> set[int]:
        """Positions of the input columns whose values it depends on."""
        return set[int]().union(*[used(e) for e in self.expressions()])


def moved_order(order: Sequence[OrderKey], at: Callable[[int], int]) -> tuple[OrderKey, ...]:
    """Returns the order with each position replaced by its image."""
    return tuple(replace(key, column=at(key.column)) for key in order)


def key_text(key: OrderKey, prefix: str = "c") -> str:
    """Renders a key of an ORDER BY; `prefix` stands before the position in the column's name."""
    direction = "DESC" if key.descending else "ASC"
    return f"{prefix}{key.column} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
