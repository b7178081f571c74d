"""The names of the query around a nested one.

Law: a name is looked for in the FROM clauses outward, innermost first; at each level an alias of
the SELECT list stands where no column has the name. What is found becomes a parameter of the nested
query, and the argument is an expression over the plan around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.plan.expressions import structure
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.scope import Scope
from ivm.sql.subqueries.parameters import parameter
from ivm.storage.identifiers import fold


@dataclass
class Outer:
    """One nested query's view of what surrounds it.

    Attributes:
        number: the nested query's.
        scope: the names around it.
        plan: what the scope's positions stand in.
        context: that of the query around, with its own surroundings.
        aliases: folded alias → expression, of the SELECT list around.
        arguments: over `plan`, one per parameter.
    """

    number: int
    scope: Scope
    plan: Plan
    context: Context
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    arguments: list[exp.Expr] = field(default_factory=list)

    @classmethod
    def of(cls, scope: Scope, plan: Plan, context: Context) -> Outer:
        """The surroundings of a query that gets the next free number."""
        return cls(next(context.numbers), scope, plan, context)

    def resolve(self, node: exp.Column) -> exp.Expr | None:
        """The parameter that a name means; None if no query around knows the name."""
        found = self.scope.resolve(node)
        if found is None and not node.table:
            found = self.aliases.get(fold(node.name))
        if found is None and self.context.outer is not None:
            found = self.context.outer.resolve(node)
        return None if found is None else self.parameter(found)

    def parameter(self, found: exp.Expr) -> exp.Expr:
        """The parameter whose argument is an expression over the plan around."""
        if found.find(exp.Window):
            raise NotIncremental("a window function read by a subquery")
        known = [structure(e) for e in self.arguments]
        if structure(found) not in known:
            known.append(structure(found))
            self.arguments.append(found.copy())
        (type,) = self.context.types([found], self.plan)
        return parameter(self.number, known.index(structure(found)), type)
