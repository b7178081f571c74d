"""The parameters of a statement, and the values of a row, as a program gives them.

Law: what DuckDB takes is taken: a list, tuple or dict, and whatever else has values one after the
other and a length. A text is one value, not its letters; an iterator has no length.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np

from ivm.storage.errors import InputError

Values: TypeAlias = list[Any] | tuple[Any, ...] | dict[Any, Any]
Params: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
"""The parameters of a statement, in order or by name."""

_TAKEN = (list, tuple, dict)
_REFUSED = (str, bytes, Mapping)
_ALONE = frozenset(
    [int, float, str, bool, bytes, type(None), Decimal, datetime, date, time, timedelta, UUID]
)
"""The usual types whose values nobody can write into."""
_WRITABLE = (list, tuple, dict, set, bytearray, np.ndarray)


_NUMBERS = (np.bool_, np.integer, np.floating)


def parameters_of(given: Collection[Any] | None) -> Values | None:
    """The parameters of one call; see `values_of`. NumPy's numbers, which DuckDB takes for none,
    are Python's.
    """
    if given is None:
        return None
    values = values_of(given, "parameters")
    if isinstance(values, dict):
        return {name: _plain(value) for name, value in values.items()}
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, _NUMBERS) else value


def values_of(given: Any, what: str) -> Values:
    """Values in their order, or by name.

    It is called outside of statements: what reading an object of the program raises is its own.

    Args:
        given: by the program.
        what: it is, for the error.

    Raises:
        InputError: it is no list, tuple or dict, nor can it be read as a list.
    """
    if isinstance(given, _TAKEN):
        return given
    if isinstance(given, _REFUSED) or not (
        isinstance(given, Iterable) and isinstance(given, Sized)
    ):
        raise InputError(
            f"{what} are given as a list, tuple or dict, not as {given!r}: give one value as "
            "[value], and what has several as list(…) or dict(…)"
        )
    return list(given)


def own_value(value: Any) -> Any:
    """A value that is kept, as it is now: the program may write into it and give it again."""
    kind = type(value)
    if kind in _ALONE:
        return value
    if kind is list or kind is tuple:  # much sooner than a deep copy: these are rows, too
        return kind([part if type(part) in _ALONE else own_value(part) for part in value])
    return copy.deepcopy(value) if isinstance(value, _WRITABLE) else value
