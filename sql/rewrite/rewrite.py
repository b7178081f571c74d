"""The ordered rules between binding and compiling.

Contract: every rule returns a plan with the same content, names and types; none looks at data.
"""

from __future__ import annotations

from collections.abc import Callable

from ivm.sql.plan.nodes import Plan
from ivm.sql.rewrite.check_collations import refuse_collations
from ivm.sql.rewrite.check_groups import refuse_groups
from ivm.sql.rewrite.lift_lookups import lift_lookups
from ivm.sql.rewrite.merge_projects import merge_projects
from ivm.sql.rewrite.prune_columns import prune_columns
from ivm.sql.rewrite.push_filters import push_filters
from ivm.sql.rewrite.sink_semi_joins import sink_semi_joins

RULES: tuple[Callable[[Plan], Plan], ...] = (
    sink_semi_joins,
    lift_lookups,
    push_filters,
    prune_columns,
    merge_projects,
)


def rewrite(plan: Plan) -> Plan:
    """The plan after all rules, in their order.

    Raises:
        NotIncremental: it still reads a column with a collation, or groups by a VARIANT.
    """
    for rule in RULES:
        plan = rule(plan)
    return refuse_groups(refuse_collations(plan))
