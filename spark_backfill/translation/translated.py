"""The list of what is said in Spark SQL, where Spark is known to compute what DuckDB computes.

Every rule on it is property-tested value by value; what is not on it DuckDB computes in the
workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.spark_backfill.translation import (
    translated_comparisons,
    translated_numbers,
    translated_values,
)
from ivm.spark_backfill.translation.translator import Rules, Translator
from ivm.storage.values.types import ColumnType

_RULES = Rules(
    {**translated_comparisons.RULES, **translated_numbers.RULES, **translated_values.RULES},
    translated_values.FUNCTIONS,
    {**translated_comparisons.READ, **translated_values.READ},
)


def translator(
    types: Sequence[ColumnType], zone: str, names: Sequence[str] | None = None
) -> Translator:
    """Makes a translator of all rules; see `Translator`."""
    return Translator(types, zone, _RULES, names)
