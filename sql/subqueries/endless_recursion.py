"""Recursive queries that may never end, and of which DuckDB reads only the first rows.

Law: a plan reads all rows below it. Where DuckDB stops at the first ones, as LIMIT and EXISTS do
unless an operator below collects all rows first, a recursion without end has an answer in DuckDB
and none by a plan.
"""

from __future__ import annotations

from ivm.sql.plan.nodes import (
    Aggregate,
    DynamicLimit,
    GroupRecompute,
    NotIncremental,
    Plan,
    Recursive,
    TopK,
)
from ivm.sql.plan.walks import inputs


def refuse_endless(plan: Plan, reader: str) -> None:
    """Refuses a plan with a recursion that DuckDB may end early.

    Args:
        plan: DuckDB reads only its first rows.
        reader: the construct that reads them, named in the reason.

    Raises:
        NotIncremental: the rows of a recursive query arrive one by one.
    """
    if _streams_recursion(plan):
        raise NotIncremental(f"{reader} over a recursive query")


def _streams_recursion(plan: Plan) -> bool:
    if isinstance(plan, Recursive):
        return True
    gathers = isinstance(plan, (Aggregate, GroupRecompute, TopK, DynamicLimit))
    return not gathers and any(map(_streams_recursion, inputs(plan)))
