"""Columns merged by USING and NATURAL joins.

Law: a merged column stands at the left twin's place. An inner or left join shows the left twin, a
right join the right one, and a full join whichever is there: coalesce(left, right).
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import Plan, width
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.scope import Scope


def merged_twins(
    plan: Plan, kind: str, scope: Scope, twins: list[tuple[int, int]], context: Context
) -> Plan:
    """The join, with merged columns added to it where there are new ones.

    Args:
        kind: of the join.
        scope: the names over the join; it learns what its merged columns show.
        twins: positions of each merged column on the left and on the right.
    """
    if kind == "right":
        scope.stands.update(twins)
    if kind != "full" or not twins:
        return plan
    count = width(plan)
    coalesced: list[exp.Expression] = []
    for left, right in twins:
        scope.stands[left] = count + len(coalesced)
        coalesced.append(exp.Coalesce(this=column(left), expressions=[column(right)]))
    return context.project(plan, [*[column(i) for i in range(count)], *coalesced])
