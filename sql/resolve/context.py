"""The context of one binding: the catalog, the cursor, the visible common table expressions.

Invariant: immutable except for caches; a nested query gets a copy with more names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sqlglot import exp

from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import cast, column, position, text
from ivm.sql.plan.nodes import NotIncremental, Plan, Project, Values, numbered
from ivm.sql.resolve.catalog import RelationCatalog
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.functions import Functions
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.resolve.scope import Bound, Scope
from ivm.storage.identifiers import fold
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.warehouse.duckdb.duck import Cursor


def demand_only(node: exp.Expr, known: str, construct: str) -> None:
    """Refuses a syntax node with parts that the binder would ignore.

    Args:
        known: names of the parts that it reads, between blanks.
        construct: the node's name in the refusal.

    Raises:
        NotIncremental: names the construct and its parts.
    """
    extra = {part for part, value in node.args.items() if value} - set(known.split())
    if extra:
        raise NotIncremental(f"{construct} with {', '.join(sorted(extra)).upper()}")


class OuterNames(Protocol):
    """The names of the outer query that a nested query may use.

    Attributes:
        scope: the names of the outer query.
        aliases: folded alias → expression, of the outer select list.
        plan: the plan to whose columns the scope's positions refer.
        context: the outer query's context.
    """

    scope: Scope
    aliases: Mapping[str, exp.Expr]
    plan: Plan
    context: Context

    def resolve(self, node: exp.Column) -> exp.Expr | None:
        """The correlation parameter for a name; None if no outer query knows the name."""

    def parameter(self, found: exp.Expr) -> exp.Expr:
        """The correlation parameter for an expression over the outer plan."""


@dataclass(frozen=True)
class Nested:
    """A bound nested query in an expression.

    Attributes:
        comparison: the comparison of operands with its rows; None for EXISTS and scalar subqueries.
        operands: the number of operands.
        scalar: its value is the column of its only row.
    """

    plan: Plan
    comparison: type[exp.Binary] | None
    operands: int
    scalar: bool


@dataclass(frozen=True)
class Context:
    """The context in which a query is bound.

    Attributes:
        outer: the names of the outer query, if it is a nested one.
        nested: the nested queries found so far, by number; shared by the whole binding.
        numbers: the numbers for nested queries.
        widened: id of a plan → that plan, and the plan of the same rows and fewer columns below it.
        ctes: bound common table expressions by folded name.
        cte_texts: their SQL.
        views: plain views being expanded, to detect cycles.
        tick: of the clock that the query reads, see `ivm.sql.resolve.clock`; None if it reads none.
        told: the numbers of the nested queries that read it, by column; shared like `nested`.
    """

    catalog: RelationCatalog
    cursor: Cursor
    functions: Functions
    plain_views: PlainViews
    ctes: Mapping[str, Bound] = field(default_factory=dict)
    cte_texts: Mapping[str, str] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    outer: OuterNames | None = None
    nested: dict[int, Nested] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    widened: dict[int, tuple[Plan, Plan]] = field(default_factory=dict)
    tick: int | None = None
    told: dict[str, int] = field(default_factory=dict)

    def with_cte(self, name: str, bound: Bound, node: exp.Expr) -> Context:
        """Returns the context in which one more common table expression is visible."""
        texts = {**self.cte_texts, fold(name): text(node)}
        return replace(self, ctes={**self.ctes, fold(name): bound}, cte_texts=texts)

    def standalone(self, query: exp.Expr) -> str:
        """The SQL of a nested query, with the common table expressions that it may name."""
        bare = query.copy()
        bare.set("with_", None)
        prologue = f"WITH {', '.join(self.cte_texts.values())} " if self.cte_texts else ""
        return prologue + text(bare)

    def types(self, exprs: Sequence[exp.Expr], plan: Plan) -> list[ColumnType]:
        """Types of expressions over the plan's columns; DuckDB is asked only for computed ones."""
        known = [position(e) for e in exprs]
        asked = [e for e, p in zip(exprs, known, strict=True) if p is None]
        answers = iter(types_of(self.cursor, [duck_text(e) for e in asked], plan.schema))
        return [next(answers) if p is None else plan.schema[p][1] for p in known]

    def project(
        self, plan: Plan, exprs: Sequence[exp.Expr], names: list[str] | None = None
    ) -> Plan:
        """Projects the plan, or returns it if the projection would change nothing."""
        names = names or [f"c{i}" for i in range(len(exprs))]
        same = [position(e) for e in exprs] == list(range(len(plan.schema)))
        if same and names == [n for n, _ in plan.schema]:
            return plan
        schema = tuple(zip(names, self.types(exprs, plan), strict=True))
        return Project(plan, tuple(exprs), schema)

    def cast(self, plan: Plan, wanted: Sequence[ColumnType]) -> Plan:
        """Casts the plan's columns to the wanted types."""
        own = [t for _, t in plan.schema]
        pairs = zip(own, wanted, strict=True)
        exprs = [column(i) if a == b else cast(column(i), b) for i, (a, b) in enumerate(pairs)]
        if own == list(wanted):
            return plan
        # Not the types that DuckDB tells: it leaves out a cast that changes names' case alone.
        return Project(plan, tuple(exprs), numbered(wanted))

    def narrow(self, plan: Plan, columns: list[int]) -> Plan:
        """Projects the plan to the columns at the given positions, in that order."""
        return self.project(plan, [column(i) for i in columns])


BindQuery: TypeAlias = Callable[[exp.Expr, Context], Bound]
"""Binds a query or a nested one."""

ONE_ROW = Values(((exp.true(),),), (("c0", type_of("BOOLEAN")),))
"""The input of a SELECT without FROM clause."""
