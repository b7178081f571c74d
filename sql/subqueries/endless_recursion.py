"""Recursive queries of which DuckDB may read the first rows alone: they may have no last one.

Law: a plan reads all rows below it. Where DuckDB stops at the first ones, as LIMIT and EXISTS do
unless something below gathers all rows first, a recursion without end has an answer in DuckDB and
none by a plan.
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
    inputs,
)


def refuse_endless(plan: Plan, reader: str) -> None:
    """Leave to DuckDB what may never end.

    Args:
        plan: of it DuckDB needs the first rows alone.
        reader: what reads them, for the reason.

    Raises:
        NotIncremental: rows of a recursive query come up one by one.
    """
    if _streams_recursion(plan):
        raise NotIncremental(f"{reader} over a recursive query")


def _streams_recursion(plan: Plan) -> bool:
    if isinstance(plan, Recursive):
        return True
    gathers = isinstance(plan, (Aggregate, GroupRecompute, TopK, DynamicLimit))
    return not gathers and any(map(_streams_recursion, inputs(plan)))
