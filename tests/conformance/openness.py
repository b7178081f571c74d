"""Which queries SQL gives several right answers, where rows tie."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_OPEN = (
    exp.Limit, exp.Fetch, exp.TableSample, exp.Distinct, exp.ArrayAgg, exp.GroupConcat, exp.First,
    exp.Last, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.Mode, exp.Window,
)  # fmt: skip
_OPEN_CALLS = ("json_group_array", "json_group_object")


def leaves_open(sql: str) -> bool:
    """Whether the query has a construct whose answer over ties SQL does not fix."""
    query = sqlglot.parse_one(sql, read="duckdb")
    calls = query.find_all(exp.Anonymous)
    return query.find(*_OPEN) is not None or any(c.name.lower() in _OPEN_CALLS for c in calls)
