"""Strings as numbers, dates and timestamps, by Arrow, where all of a batch have the plain form.

Law: DuckDB takes many other forms (spaces, 1e3, 1_000, 24:00:00, years of five digits), and has
words for those that it does not take: a batch with such a string is undecided.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.sql.scalar.operands.kernel import NotListedError, Operand, UndecidedError, by_arrow
from ivm.storage.values.types import ColumnType

_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_FORMS = {
    "DOUBLE": r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?",
    "DATE": _DAY,
    "TIMESTAMP": f"{_DAY}(?:{_TIME})?",
}
_COMMA = pa.scalar(",", pa.large_string())


def from_string(operand: Operand, type: ColumnType) -> Operand:
    """Casts a VARCHAR operand.

    Raises:
        NotListedError: DuckDB alone casts strings to the type.
    """
    form, target = plain_form(type), type.arrow
    if form is None:
        raise NotListedError(f"cast of VARCHAR to {type}")

    def compute(array: pa.Array) -> pa.Array:
        given = array.drop_null()
        if not are_of(form, _joined(given), len(given)):
            raise UndecidedError
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:  # out of range, or a 13th month
            raise UndecidedError from error

    return by_arrow(operand, type, compute)


@functools.cache
def plain_form(type: ColumnType) -> re.Pattern[str] | None:
    """The pattern of strings of the plain form, with a comma behind each; None if there is none."""
    form = _form(type)
    # Possessive: no place to return to is kept for each string, which would take pages of memory.
    return None if form is None else re.compile(f"(?:{form},)*+")


def are_of(form: re.Pattern[str], text: str, count: int) -> bool:
    """Returns whether all strings are of a form.

    Args:
        form: of any number of them, with a comma behind each and no other.
        text: the strings, with a comma behind each.
        count: of them; one that has a comma itself would pass for two.
    """
    return text.count(",") == count and form.fullmatch(text) is not None


def _form(type: ColumnType) -> str | None:
    if type.is_integer and type.sql not in ("HUGEINT", "UHUGEINT"):
        return "-?[0-9]{1,18}"
    if type.is_decimal:
        places = rf"(?:\.[0-9]{{1,{type.scale}}})?" if type.scale else ""
        return f"-?[0-9]{{1,{max(type.precision - type.scale, 1)}}}{places}"
    return _FORMS.get(type.sql)


def _joined(array: pa.Array) -> str:
    """The strings with a comma behind each."""
    offsets = pa.array(np.array([0, len(array)]))
    text = pc.binary_join(pa.LargeListArray.from_arrays(offsets, array), _COMMA)[0].as_py()
    return f"{text}," if len(array) else ""
