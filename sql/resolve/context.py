"""What travels through one binding: the catalog, the cursor, the common table expressions in sight.

Law: immutable but for caches; a nested query gets a child with more names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sqlglot import exp

from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import cast, column, position, text
from ivm.sql.plan.nodes import NotIncremental, Plan, Project, Values
from ivm.sql.resolve.catalog import RelationCatalog
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.functions import Functions
from ivm.sql.resolve.plain_views import PlainViews
from ivm.sql.resolve.scope import Bound, Scope
from ivm.storage.identifiers import fold
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.warehouse.duck import Cursor


def demand_only(node: exp.Expr, known: str, construct: str) -> None:
    """Refuse a node that carries a part nobody here looks at.

    Args:
        known: names of the parts that are looked at.

    Raises:
        NotIncremental: names the construct and its parts.
    """
    extra = {part for part, value in node.args.items() if value} - set(known.split())
    if extra:
        raise NotIncremental(f"{construct} with {', '.join(sorted(extra)).upper()}")


class OuterNames(Protocol):
    """Names that stand outside of a query and may be used in it.

    Attributes:
        scope: the names of the query around.
        aliases: folded alias → expression, of its SELECT list.
        plan: what the scope's positions stand in.
        context: that of the query around.
    """

    scope: Scope
    aliases: Mapping[str, exp.Expr]
    plan: Plan
    context: Context

    def resolve(self, node: exp.Column) -> exp.Expr | None: ...

    def parameter(self, found: exp.Expr) -> exp.Expr: ...


@dataclass(frozen=True)
class Nested:
    """A bound nested query that stands for a value.

    Attributes:
        comparison: of the operands with its rows; None for EXISTS and scalar subqueries.
        operands: how many.
        scalar: the value is its one row's column.
    """

    plan: Plan
    comparison: type[exp.Binary] | None
    operands: int
    scalar: bool


@dataclass(frozen=True)
class Context:
    """The surroundings of a query.

    Attributes:
        outer: the names of the queries around it.
        nested: the nested queries met so far, by number; shared by the whole binding.
        numbers: gives each nested query its number.
        widened: plans that have the rows of another one with more columns, and that other one.
        ctes: bound common table expressions by folded name.
        cte_texts: their SQL.
        views: DuckDB views being expanded, against cycles.
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

    def with_cte(self, name: str, bound: Bound, node: exp.Expr) -> Context:
        texts = {**self.cte_texts, fold(name): text(node)}
        return replace(self, ctes={**self.ctes, fold(name): bound}, cte_texts=texts)

    def standalone(self, query: exp.Expr) -> str:
        """A nested query with the common table expressions it may name."""
        bare = query.copy()
        bare.set("with_", None)
        prologue = f"WITH {', '.join(self.cte_texts.values())} " if self.cte_texts else ""
        return prologue + text(bare)

    def types(self, exprs: Sequence[exp.Expr], plan: Plan) -> list[ColumnType]:
        """Types of expressions over the plan's columns; bare columns are not asked for."""
        known = [position(e) for e in exprs]
        asked = [e for e, p in zip(exprs, known, strict=True) if p is None]
        answers = iter(types_of(self.cursor, [duck_text(e) for e in asked], plan.schema))
        return [next(answers) if p is None else plan.schema[p][1] for p in known]

    def project(
        self, plan: Plan, exprs: Sequence[exp.Expr], names: list[str] | None = None
    ) -> Plan:
        """The plan under a projection, or the plan itself if that would change nothing."""
        names = names or [f"c{i}" for i in range(len(exprs))]
        same = [position(e) for e in exprs] == list(range(len(plan.schema)))
        if same and names == [n for n, _ in plan.schema]:
            return plan
        schema = tuple(zip(names, self.types(exprs, plan), strict=True))
        return Project(plan, tuple(exprs), schema)

    def cast(self, plan: Plan, wanted: Sequence[ColumnType]) -> Plan:
        """The plan with its columns cast to the wanted types."""
        own = [t for _, t in plan.schema]
        pairs = zip(own, wanted, strict=True)
        exprs = [column(i) if a == b else cast(column(i), b) for i, (a, b) in enumerate(pairs)]
        return plan if own == list(wanted) else self.project(plan, exprs)

    def narrow(self, plan: Plan, columns: list[int]) -> Plan:
        """The plan with only the given columns, in that order."""
        return self.project(plan, [column(i) for i in columns])


BindQuery: TypeAlias = Callable[[exp.Expr, Context], Bound]
"""Binds a query or a nested one."""

ONE_ROW = Values(((exp.true(),),), (("c0", type_of("BOOLEAN")),))
"""What is read where there is no FROM clause."""
