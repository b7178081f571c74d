"""The types in which DuckDB compares a value with the rows of a query: IN, ANY and ALL.

Law: DuckDB casts the rows' value to the type compared by its built-in casts alone. `=` and `<` take
the casts too that ICU adds (to a TIMESTAMPTZ in the session's zone) and JSON (from and to JSON),
they compare JSON in other types, and keep all digits of decimals. A NULL that is cast to a UNION is
not NULL. So values of two types, with one of these types in them, are compared by no operator.
"""

from __future__ import annotations

import re

from ivm.sql.plan.nodes import NotIncremental
from ivm.storage.values.types import MOST_DIGITS, ColumnType, type_of

# A name in a type may match too: the view is recomputed, and is right.
_ODD = re.compile("JSON|UNION")
_ZONED = re.compile("TIMESTAMP WITH TIME ZONE|TIMESTAMPTZ_NS")


def check_casts(value: ColumnType, row: ColumnType) -> None:
    """Refuses a comparison of a value with a query's rows in which an operator casts otherwise.

    Raises:
        NotIncremental: names the types.
    """
    if value != row and _casts_differ(value.sql, row.sql):
        raise NotIncremental(f"a comparison of {value.sql} with a subquery or list of {row.sql}")


def _casts_differ(value: str, row: str) -> bool:
    # A bare TIMESTAMPTZ of the rows is cast to no type but one that has it in it.
    zoned = value if _ZONED.fullmatch(row) else value + row
    return bool(_ODD.search(value + row) or _ZONED.search(zoned))


def check_element(value: ColumnType, element: ColumnType) -> None:
    """Refuses a comparison with the elements of a list, which DuckDB makes the rows of a query.

    Raises:
        NotIncremental: names the types.
    """
    check_casts(value, element)
    if shortened(value, element) is not None:
        raise NotIncremental(f"a comparison of {value.sql} with a list of {element.sql}")


def shortened(a: ColumnType, b: ColumnType) -> ColumnType | None:
    """The type for two decimals if all their digits are too many; None if not."""
    if not (a.is_decimal and b.is_decimal):
        return None
    whole = max(a.precision - a.scale, b.precision - b.scale)
    fits = whole + max(a.scale, b.scale) <= MOST_DIGITS
    return None if fits else type_of(f"DECIMAL({MOST_DIGITS},{MOST_DIGITS - whole})")
