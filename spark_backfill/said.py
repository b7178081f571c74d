"""The list of what is said in Spark SQL, where Spark is known to compute what DuckDB computes.

Every rule on it is property-tested value by value; what is not on it DuckDB computes in the
workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.spark_backfill import said_comparisons, said_numbers, said_values
from ivm.spark_backfill.speaker import Rules, Speaker
from ivm.storage.values.types import ColumnType

_RULES = Rules(
    {**said_comparisons.RULES, **said_numbers.RULES, **said_values.RULES},
    said_values.FUNCTIONS,
    {**said_comparisons.READ, **said_values.READ},
)


def speaker(types: Sequence[ColumnType], zone: str, names: Sequence[str] | None = None) -> Speaker:
    """Makes a speaker of all rules; see `Speaker`."""
    return Speaker(types, zone, _RULES, names)
