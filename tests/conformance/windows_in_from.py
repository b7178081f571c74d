"""RisingWave's TUMBLE and HOP in FROM, which add window_start and window_end to a table."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_EPOCH = "TIMESTAMP '1970-01-01'"


def replace_windows(tree: exp.Expr) -> exp.Expr:
    """TUMBLE(t, c, size) and HOP(t, c, slide, size) as subqueries with both columns."""
    for table in list(tree.find_all(exp.Table)):
        call = table.this
        if isinstance(call, exp.Anonymous) and call.name.upper() in ("TUMBLE", "HOP"):
            parts = [part.sql("duckdb") for part in call.expressions]
            if call.name.upper() == "TUMBLE":
                parts.insert(2, parts[2])  # it slides by its size
            relation, column, slide, size = parts
            table.replace(_subquery(relation, column, slide, size, table.alias or relation))
    return tree


def _subquery(relation: str, column: str, slide: str, size: str, alias: str) -> exp.Expr:
    last = f"time_bucket({slide}, {column}, {_EPOCH})"
    starts = f"generate_series({last} + {slide} - {size}, {last}, {slide})"
    text = (
        f"FROM (SELECT {relation}.*, w AS window_start, w + {size} AS window_end "
        f"FROM {relation}, unnest({starts}) AS u(w)) AS {alias}"
    )
    parsed = sqlglot.parse_one(text, read="duckdb")
    found = parsed.find(exp.Subquery)
    assert found is not None
    return found
