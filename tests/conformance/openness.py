"""Which queries SQL gives several right answers, where rows tie."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_OPEN = (
    exp.Limit, exp.Fetch, exp.TableSample, exp.Distinct, exp.ArrayAgg, exp.GroupConcat, exp.First,
    exp.Last, exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.Mode, exp.Window,
)  # fmt: skip


def leaves_open(sql: str) -> bool:
    """Whether the query has a construct whose answer over ties SQL does not fix."""
    return sqlglot.parse_one(sql, read="duckdb").find(*_OPEN) is not None
