"""The logical plan: small frozen nodes, columns by position.

Law: every node denotes a Z-set that is a function of the base relations alone (in the step of a
recursive query: and of its last rows); `render` gives its SQL, and `schema` the names and the types
that DuckDB's DESCRIBE gives that SQL. Column i of an input is written ``c<i>`` in expressions (for
a join: the left columns, then the right ones).
Names matter only in the schema of the root; nodes compare by identity, plans by their rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall, RowCall, WindowCall
from ivm.storage.values.order import OrderKey
from ivm.storage.values.types import ColumnType, Schema

JoinKind: TypeAlias = Literal["inner", "left", "full", "semi", "anti"]


class NotIncremental(Exception):  # noqa: N818  # a verdict the caller acts on, not a fault
    """The query is maintained by whole recompute.

    Args:
        reason: names the construct, for EXPLAIN.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class Scan:
    """Columns of a base relation (or of a view without a plan of its own).

    Attributes:
        relation: the catalog's one name of it, which is also its SQL spelling.
        columns: positions in the relation's own schema, ascending.
        key: positions of its primary key among these columns, None if it has none among them.
        collated: positions among these of columns with a collation; read without it.
    """

    relation: str
    columns: tuple[int, ...]
    schema: Schema
    key: tuple[int, ...] | None = None
    collated: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Values:
    """Constant rows; every expression is cast to its column's type when rendered."""

    rows: tuple[tuple[exp.Expr, ...], ...]
    schema: Schema


@dataclass(frozen=True, eq=False)
class ViewScan:
    """The plan of a lower materialized view, kept whole so that its nodes are shared."""

    name: str
    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows where the predicate is true (not NULL)."""

    input: Plan
    predicate: exp.Expr

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Project:
    """One column per expression."""

    input: Plan
    exprs: tuple[exp.Expr, ...]
    schema: Schema


@dataclass(frozen=True, eq=False)
class Join:
    """Left ⋈ right on equal key columns (of one type on both sides) and the residual predicate.

    Attributes:
        null_safe: per key, True for IS NOT DISTINCT FROM.
        residual: over left then right columns, or None.
    """

    left: Plan
    right: Plan
    kind: JoinKind
    left_keys: tuple[int, ...] = ()
    right_keys: tuple[int, ...] = ()
    null_safe: tuple[bool, ...] = ()
    residual: exp.Expr | None = None

    @property
    def schema(self) -> Schema:
        if self.kind in ("semi", "anti"):
            return self.left.schema
        return self.left.schema + self.right.schema


@dataclass(frozen=True, eq=False)
class Aggregate:
    """GROUP BY: the group columns, then the aggregates. No groups: always one row."""

    input: Plan
    groups: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    schema: Schema


@dataclass(frozen=True, eq=False)
class GroupRecompute:
    """DuckDB's own SQL over whole groups.

    Attributes:
        partition: input columns that form the group.
        exprs: output columns, with aggregates (grouped) or window functions (not grouped) in them.
        grouped: True: one row per group (GROUP BY); False: one row per input row.
    """

    input: Plan
    partition: tuple[int, ...]
    exprs: tuple[exp.Expr, ...]
    grouped: bool
    schema: Schema


@dataclass(frozen=True, eq=False)
class Distinct:
    """Each row once, by SQL's grouping equality."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Union:
    """UNION ALL of inputs with equal types.

    Attributes:
        negated: inputs whose rows are subtracted (of rows that are there); () for none.
    """

    inputs: tuple[Plan, ...]
    schema: Schema
    negated: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class SetOp:
    """INTERSECT or EXCEPT of inputs with equal types.

    Attributes:
        all: multiset semantics.
    """

    left: Plan
    right: Plan
    kind: Literal["intersect", "except"]
    all: bool
    schema: Schema


@dataclass(frozen=True, eq=False)
class TopK:
    """Rows `offset` … `offset + limit` of each partition in order, ties by all columns ascending.

    Attributes:
        limit: None means no end.
        rank: True adds the row number within the partition (BIGINT, from 1) as last column.
    """

    input: Plan
    partition: tuple[int, ...]
    order: tuple[OrderKey, ...]
    limit: int | None
    offset: int
    rank: bool
    schema: Schema


@dataclass(frozen=True, eq=False)
class DynamicLimit:
    """The rows between two places in order, ties by all columns ascending.

    Attributes:
        places: its one row tells how many rows are passed over, and the last place (BIGINTs).
    """

    input: Plan
    places: Plan
    order: tuple[OrderKey, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Unnest:
    """Each row once for every place in its lists, which run side by side, padded with NULL.

    Attributes:
        kept: input columns that are passed on, first in the output.
        lists: LIST input columns; their elements come next.
        outer: rows without any element stay, once, with NULLs.
        ordinality: adds the place (BIGINT, from 1) as last column.
        call: gives the elements: its columns for `lists`, which are then its arguments.
    """

    input: Plan
    kept: tuple[int, ...]
    lists: tuple[int, ...]
    outer: bool
    ordinality: bool
    schema: Schema
    call: RowCall | None = None


@dataclass(frozen=True, eq=False)
class TableFunction:
    """Constant rows that a table function gives for constant arguments."""

    call: exp.Expr
    schema: Schema


@dataclass(frozen=True, eq=False)
class Recursive:
    """The rows of a recursive query: those of its base, and what its step makes of the last ones.

    With W₀ = base and Wᵢ₊₁ = step(Wᵢ), the content is the sum of all Wᵢ up to the first empty one
    after W₀.

    Attributes:
        step: reads Wᵢ by `RecursiveScan` nodes of the same depth.
        distinct: UNION: every Wᵢ holds each row once, and none of an earlier one.
        depth: tells it from recursive queries around it.
    """

    base: Plan
    step: Plan
    distinct: bool
    depth: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class RecursiveScan:
    """The last rows of the recursive query around it (the only node that is no relation's)."""

    depth: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class Window:
    """The input's columns and one per window function, all over one partition and order.

    Attributes:
        most: of the rows only those whose RANK or DENSE_RANK, then the one call, is at most this.
        given: how many keys of the order the query fixes; they come first. None: all.
    """

    input: Plan
    partition: tuple[int, ...]
    order: tuple[OrderKey, ...]
    calls: tuple[WindowCall, ...]
    schema: Schema
    most: int | None = None
    given: int | None = None


Plan: TypeAlias = (
    Scan
    | Values
    | ViewScan
    | Filter
    | Project
    | Join
    | Aggregate
    | GroupRecompute
    | Distinct
    | Union
    | SetOp
    | TopK
    | DynamicLimit
    | Window
    | Unnest
    | TableFunction
    | Recursive
    | RecursiveScan
)


def inputs(plan: Plan) -> tuple[Plan, ...]:
    """The plan's direct inputs, in order."""
    match plan:
        case Scan() | Values() | TableFunction() | RecursiveScan():
            return ()
        case Join() | SetOp():
            return (plan.left, plan.right)
        case Recursive():
            return (plan.base, plan.step)
        case DynamicLimit():
            return (plan.input, plan.places)
        case Union():
            return plan.inputs
        case _:
            return (plan.input,)


def with_inputs(plan: Plan, image: Callable[[Plan], Plan]) -> Plan:
    """The plan with the image of each direct input; the plan of a lower view stays as it is."""
    match plan:
        case Scan() | Values() | ViewScan() | TableFunction() | RecursiveScan():
            return plan
        case Join() | SetOp():
            return replace(plan, left=image(plan.left), right=image(plan.right))
        case Recursive():
            return replace(plan, base=image(plan.base), step=image(plan.step))
        case DynamicLimit():
            return replace(plan, input=image(plan.input), places=image(plan.places))
        case Union():
            return replace(plan, inputs=tuple(image(part) for part in plan.inputs))
        case _:
            return replace(plan, input=image(plan.input))


def open_scans(plan: Plan) -> frozenset[int]:
    """Depths of the recursive queries whose last rows the plan reads: it stands in their steps."""
    known: dict[int, frozenset[int]] = {}

    def look(part: Plan) -> frozenset[int]:
        if id(part) not in known:
            known[id(part)] = opened(part, [look(below) for below in inputs(part)])
        return known[id(part)]

    return look(plan)


def opened(plan: Plan, below: Sequence[frozenset[int]]) -> frozenset[int]:
    """`open_scans` of a node, given those of its inputs."""
    if isinstance(plan, RecursiveScan):
        return frozenset([plan.depth])
    every = frozenset[int]().union(*below)
    return every - {plan.depth} if isinstance(plan, Recursive) else every


def types(plan: Plan) -> tuple[ColumnType, ...]:
    """The types of the plan's columns."""
    return tuple(t for _, t in plan.schema)


def width(plan: Plan) -> int:
    """The number of the plan's columns."""
    return len(plan.schema)
