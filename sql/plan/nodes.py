"""The logical plan: frozen nodes, columns by position.

Law: content(node) is a Z-set that depends on the base relations alone (in the step of a recursive
query also on the last rows), and DuckDB's answer to `render(node)`; `schema` is DuckDB's DESCRIBE
of that SQL. Column i of an input is written ``c<i>`` in expressions (for a join: the left columns,
then the right ones).
Names matter only in the schema of the root; nodes compare by identity, plans by their rendering.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall, RowCall, WindowCall
from ivm.sql.plan.expressions import conjunction
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, Schema

JoinKind: TypeAlias = Literal["inner", "left", "full", "semi", "anti"]


class NotIncremental(Exception):  # noqa: N818  # a verdict the caller acts on, not a fault
    """The query is maintained by recomputing all its rows.

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
        relation: its canonical name, which is also its SQL spelling.
        columns: positions in the relation's own schema, ascending.
        key: positions of its primary key in the scan; None without one, or if columns of it are
            not scanned.
        collated: positions in the scan of columns with a collation, which are read without it.
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
    """The plan of a lower materialized view; no rule changes it, so that its nodes are shared."""

    name: str
    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows for which the predicate is TRUE."""

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
    """Left ⋈ right on equal key columns (of equal types) and the residual predicate.

    Attributes:
        null_safe: per key, True for IS NOT DISTINCT FROM.
        residual: over left then right columns, or None.
        lookup: the left rows are `Arrivals`, and find the right ones as these are then.
    """

    left: Plan
    right: Plan
    kind: JoinKind
    left_keys: tuple[int, ...] = ()
    right_keys: tuple[int, ...] = ()
    null_safe: tuple[bool, ...] = ()
    residual: exp.Expr | None = None
    lookup: bool = False

    @property
    def schema(self) -> Schema:
        if self.kind in ("semi", "anti"):
            return self.left.schema
        return self.left.schema + self.right.schema


@dataclass(frozen=True, eq=False)
class Aggregate:
    """GROUP BY: the group columns, then the aggregates. Without groups it has always one row."""

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
        negated: indexes of the inputs whose rows are subtracted; the others must hold them.
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
    """Rows `offset + 1` … `offset + limit` of each partition, ties by all columns ascending.

    Attributes:
        limit: None means all rows after the offset.
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
    """LIMIT and OFFSET that a query computes, in order, ties by all columns ascending.

    Attributes:
        bounds: one row of two BIGINTs: how many rows are skipped, and the number of the last row,
            which is negative where the numbers are none that LIMIT and OFFSET may have.
    """

    input: Plan
    bounds: Plan
    order: tuple[OrderKey, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Unnest:
    """Each row once per index of its lists, which are unnested in parallel, padded with NULL.

    Attributes:
        kept: input columns that are passed on, first in the output.
        lists: LIST input columns; their elements come next.
        outer: a row without elements stays, once, with NULLs.
        ordinality: adds the index (BIGINT, from 1) as last column.
        call: a table function of the arguments `lists`, whose columns replace the elements.
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
    """The rows of a table function of constant arguments."""

    call: exp.Expr
    schema: Schema


@dataclass(frozen=True, eq=False)
class Recursive:
    """A recursive query.

    Law: W₀ = base, Wᵢ₊₁ = step(Wᵢ); the content is the sum of all Wᵢ up to the first empty one
    after W₀.

    Attributes:
        step: reads Wᵢ by `RecursiveScan` nodes of the same depth.
        distinct: UNION: every Wᵢ holds each row once, and no row of an earlier one.
        depth: distinguishes it from the recursive queries around it.
    """

    base: Plan
    step: Plan
    distinct: bool
    depth: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class RecursiveScan:
    """The last rows Wᵢ of the recursive query around it; the only node that is no relation."""

    depth: int
    schema: Schema


@dataclass(frozen=True, eq=False)
class Window:
    """The input's columns and one per window function, all over one partition and order.

    Attributes:
        max_rank: only rows with at most this RANK or DENSE_RANK, which is then the only call.
        given: how many keys of the order the query fixes; they come first. None: all.
    """

    input: Plan
    partition: tuple[int, ...]
    order: tuple[OrderKey, ...]
    calls: tuple[WindowCall, ...]
    schema: Schema
    max_rank: int | None = None
    given: int | None = None


@dataclass(frozen=True, eq=False)
class Emit:
    """The rows that a bound has passed, each once and for ever: the content is what is stored.

    Attributes:
        bound: a plan of one row with one column, of the type of the column that it passes.
        by: that column.
        inclusive: whether rows whose value is the bound are passed.
        stored: all columns of the view's table.
        tables: canonical names of the tables whose watermarks make the bound.
    """

    input: Plan
    bound: Plan
    by: int
    inclusive: bool
    stored: Scan
    tables: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Awaited:
    """The rows of a relation that final rows may still be made of; known to a circuit alone.

    Attributes:
        time: of what is made of a row none is after it; over the relation's columns.
        bound: see `Emit`, whose it is.
        inclusive: see `Emit`.
        tables: see `Emit`.
        view: that waits, which shares these rows with no other: they go some time after they may.
    """

    input: Scan | ViewScan
    time: exp.Expr
    bound: Plan
    inclusive: bool
    tables: tuple[str, ...]
    view: str

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The rows that come to a relation, in the step in which they come; this is no relation."""

    input: Scan | ViewScan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Arrived:
    """The rows made of those of one relation as they arrive: the content is what is stored.

    Attributes:
        input: makes the rows of `Arrivals`, each by itself.
        origin: the relation, whose rows take along what was made of them when they go.
        origin_key: positions of a unique key of it, or of all its columns.
        key: positions of these columns in the rows that are made.
        counted: rows may be equal; then one at most is made of each.
        stored: all columns of the view's table.
        present: the plan of the rows as if all of the relation arrived now.
    """

    input: Plan
    origin: Scan | ViewScan
    origin_key: tuple[int, ...]
    key: tuple[int, ...]
    stored: Scan
    present: Plan
    counted: bool

    @property
    def schema(self) -> Schema:
        return self.input.schema


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
    | Emit
    | Awaited
    | Arrivals
    | Arrived
    | Window
    | Unnest
    | TableFunction
    | Recursive
    | RecursiveScan
)


def types(plan: Plan) -> tuple[ColumnType, ...]:
    """The types of the plan's columns."""
    return tuple(t for _, t in plan.schema)


def width(plan: Plan) -> int:
    """The number of the plan's columns."""
    return len(plan.schema)


def numbered(types: Iterable[ColumnType]) -> Schema:
    """The schema of columns c0, c1, … of the given types."""
    return tuple((f"c{i}", type) for i, type in enumerate(types))


def filtered_by(plan: Plan, terms: Iterable[exp.Expr]) -> Plan:
    """Filters the plan by the conjunction of the terms, if there are any."""
    predicate = conjunction(terms)
    return plan if predicate is None else Filter(plan, predicate)
