"""Strings as numbers, dates and timestamps, by Arrow, where all of a batch have the plain form.

Law: DuckDB takes many other forms (spaces, 1e3, 1_000, 24:00:00, years of five digits), and has
words for those that it does not take: a batch with such a string is undecided.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from ivm.sql.scalar.kernel import NotListedError, Operand, UndecidedError
from ivm.sql.scalar.string import string_to_fixed
from ivm.storage.values.types import ColumnType

_DAY = "[12][0-9]{3}-[0-9]{2}-[0-9]{2}"
_TIME = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_FORMS = {
    "DOUBLE": r"-?[0-9]{1,15}(\.[0-9]{1,15})?",
    "DATE": _DAY,
    "TIMESTAMP": f"{_DAY}({_TIME})?",
}


def from_string(operand: Operand, type: ColumnType) -> Operand:
    """Casts a VARCHAR operand.

    Raises:
        NotListedError: DuckDB alone casts strings to the type.
    """
    form, target = _form(type), type.arrow
    options = pc.MatchSubstringOptions(f"^{form}$")

    def compute(array: pa.Array) -> pa.Array:
        plain = pc.all(pc.call_function("match_substring_regex", [array], options)).as_py()
        if plain is False:  # None of NULLs alone
            raise UndecidedError
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:  # out of range, or a 13th month
            raise UndecidedError from error

    return string_to_fixed(operand, type, compute)


@functools.cache
def _form(type: ColumnType) -> str:
    if type.is_integer and type.sql not in ("HUGEINT", "UHUGEINT"):
        return "-?[0-9]{1,18}"
    if type.is_decimal:
        places = rf"(\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
        return f"-?[0-9]{{1,{max(type.precision - type.scale, 1)}}}{places}"
    if type.sql not in _FORMS:
        raise NotListedError(f"cast of VARCHAR to {type}")
    return _FORMS[type.sql]
