"""Constants as literals of Spark SQL.

Law: Spark reads the text, cast to the carrier's type, as the value that DuckDB has computed.
"""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError


def literal_text(value: Any) -> str:
    """The literal of a value as DuckDB's Python API gives it, to be cast to its type.

    Raises:
        NotTranslatableError: Spark might read it otherwise.
    """
    match value:
        case bool():
            return str(value).upper()
        case int():
            return f"'{value}'" if abs(value) >= 2**31 else str(value)
        case float():
            if math.isnan(value):
                return "'NaN'"
            return f"'{value!r}'" if math.isfinite(value) else f"'{'-' * (value < 0)}Infinity'"
        case decimal.Decimal():
            return f"'{value:f}'"
        case str():
            return said_string(value)
        case datetime.datetime() if _is_finite(value, datetime.datetime.min):
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case datetime.date() if _is_finite(value, datetime.date.min):
            return f"DATE'{value.isoformat()}'"
        case _:
            raise NotTranslatableError(f"a constant such as {value!r}")


def _is_finite(value: datetime.date, least: datetime.date) -> bool:
    """Returns whether it is certain: infinite ones are the first and last ones of Python."""
    local = isinstance(value, datetime.datetime) == isinstance(least, datetime.datetime)
    return local and value != least and value.year < 9999 and getattr(value, "tzinfo", None) is None


def said_string(value: str) -> str:
    """A string literal of Spark's."""
    if any(ord(letter) < 32 for letter in value):
        raise NotTranslatableError("a string with control characters")
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
