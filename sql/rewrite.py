"""The ordered rules between binding and compiling.

Law: every rule gives a plan with the same content and the same names and types; none looks at data.
"""

from __future__ import annotations

from collections.abc import Callable

from ivm.sql.collated_columns import refuse_collations
from ivm.sql.lift_lookups import lift_lookups
from ivm.sql.merge_projects import merge_projects
from ivm.sql.plan import Plan
from ivm.sql.prune_columns import prune_columns
from ivm.sql.push_filters import push_filters
from ivm.sql.sink_semi_joins import sink_semi_joins

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
        NotIncremental: it still looks at a column with a collation.
    """
    for rule in RULES:
        plan = rule(plan)
    return refuse_collations(plan)
