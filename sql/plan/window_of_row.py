"""Whether the times of final rows follow from those of the rows that they are made of.

Law: where they do, a row is part of results up to a time that is as far as a window is long, so
what waits for it is final soon. Not so with sessions, whose end other rows move, with the first of
a group, and with joins, by which a row may be part of any later one.
"""

from __future__ import annotations

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import used
from ivm.sql.plan.nodes import (
    Aggregate,
    Arrivals,
    Arrived,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Scan,
    TopK,
    Union,
    Unnest,
    ViewScan,
    Window,
    width,
)


def follows_from_row(plan: Plan, column: int) -> bool:
    """Returns whether a column is made of one column of each row of a table below, row by row.

    Args:
        plan: of the rows.
        column: tells their time.
    """
    match plan:
        case Scan():
            return True
        case Project():
            read = used(plan.exprs[column])
            return len(read) == 1 and follows_from_row(plan.input, *read)
        case Filter() | Distinct() | ViewScan() | TopK() | Window() | Aggregate():
            below = origins(plan)[0].get(column)
            return below is not None and follows_from_row(plan.input, below)
        case GroupRecompute():
            below = origins(plan)[0].get(column)
            if below is None or below not in plan.partition:
                return False
            return follows_from_row(plan.input, below)
        case Unnest():
            listed = [*plan.kept, *plan.lists]
            return column < len(listed) and follows_from_row(plan.input, listed[column])
        case Arrivals() | Arrived():
            return follows_from_row(plan.input, column)
        case Join() if plan.lookup and column < width(plan.left):
            return follows_from_row(plan.left, column)
        case Union():
            return all(follows_from_row(part, column) for part in plan.inputs)
        case _:
            return False
