"""Names of outer queries in a nested query, which become its correlation parameters.

Law: a name is searched in the FROM clauses outward, innermost first; at each level an alias of the
SELECT list counts if no column has the name. The expression found is the argument of a parameter of
the nested query, over the plan of the outer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.sql.plan.expressions import structure
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.scope import Scope, is_no_field
from ivm.sql.subqueries.parameters import parameter
from ivm.storage.identifiers import fold


@dataclass
class Outer:
    """The outer query, as one nested query sees it.

    Attributes:
        number: the nested query's.
        scope: the outer query's names.
        plan: whose positions the scope has.
        context: the outer query's; its `outer` is the next query outward.
        aliases: folded alias → expression, of the outer SELECT list.
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
        """The outer query of a nested query that gets the next free number."""
        return cls(next(context.numbers), scope, plan, context)

    def resolve(self, node: exp.Column) -> exp.Expr | None:
        """The parameter for a name; None if no outer query knows the name.

        Raises:
            NotIncremental: the name is ambiguous, or stands for a window function.
        """
        found = self.scope.resolve(node)
        if self.context.outer is not None and is_no_field(found, self.plan):
            found = None
        if found is None and not node.table:
            found = self.aliases.get(fold(node.name))
        if found is None and self.context.outer is not None:
            found = self.context.outer.resolve(node)
        return None if found is None else self.parameter(found)

    def parameter(self, found: exp.Expr) -> exp.Expr:
        """The parameter for an expression over the outer plan; equal expressions share one.

        Raises:
            NotIncremental: it has a window function.
        """
        if found.find(exp.Window):
            raise NotIncremental("a window function read by a subquery")
        known = [structure(e) for e in self.arguments]
        if structure(found) not in known:
            known.append(structure(found))
            self.arguments.append(found.copy())
        (type,) = self.context.types([found], self.plan)
        return parameter(self.number, known.index(structure(found)), type)
