"""Values of which DuckDB alone knows which are equal: no operator groups or distinguishes them.

Law: VARIANTs of several types may be equal, in DuckDB; here two are only if their bytes are. So
they may pass through a plan, and DuckDB may compute with them: in a row, or in the rows of a group.
"""

from __future__ import annotations

from ivm.sql.plan.columns import reads
from ivm.sql.plan.nodes import (
    Aggregate,
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Unnest,
    types,
)
from ivm.sql.plan.walks import inputs
from ivm.storage.values.key_codes import groupable


def refuse_groups(plan: Plan) -> Plan:
    """Returns the plan unchanged.

    Raises:
        NotIncremental: it groups or distinguishes rows by such values.
    """
    for part, compared in zip(inputs(plan), _compared(plan), strict=True):
        refuse_groups(part)
        odd = [type for i, type in enumerate(types(part)) if i in compared and not groupable(type)]
        if odd:
            raise NotIncremental(f"groups, a DISTINCT, a window or an order of {odd[0].sql} values")
    return plan


def _compared(plan: Plan) -> tuple[frozenset[int], ...]:
    """For each input, positions of the columns whose values the node may compare itself."""
    match plan:
        case Filter() | Project() | Unnest() | Join():  # a join has none of them as a key
            return (frozenset(),) * len(inputs(plan))
        case Aggregate():
            distinct = [call.arguments for call in plan.aggregates if call.distinct]
            return (frozenset(plan.groups).union(*distinct),)
        case GroupRecompute():
            return (frozenset(plan.partition),)
        case _:
            return reads(plan)
