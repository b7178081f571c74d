"""The layout of an arrangement: its columns, its key, and the order of rows under one key.

Invariant: two arrangements with equal layouts hold their rows in the same form, so that runs of
one can be merged, looked up and compared with runs of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from ivm.storage.errors import UnsupportedError
from ivm.storage.values.column import Column
from ivm.storage.values.key_codes import KeyCodes, is_exact, key_codes
from ivm.storage.values.ordering.order import OrderKey, OrderTerm, order_terms, orderable
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty


@dataclass(frozen=True)
class Layout:
    """Columns, key and order of an arrangement.

    Attributes:
        types: the types of all columns.
        key: positions of the key's columns (at least one).
        order: order of the rows under one key; empty if no operator reads the first ones.
        unique: a key has one row at most, that of its last entry: see `latest`. Without an order.

    Raises:
        UnsupportedError: `order` is given and some column's type cannot be sorted here.
    """

    types: tuple[ColumnType, ...]
    key: tuple[int, ...]
    order: tuple[OrderKey, ...] = ()
    unique: bool = False
    key_types: tuple[ColumnType, ...] = field(init=False, compare=False)
    exact: bool = field(init=False, compare=False)
    native: bool = field(init=False, compare=False)
    key_is_row: bool = field(init=False, compare=False)
    terms: tuple[OrderTerm, ...] = field(init=False, compare=False, repr=False)
    terms_backwards: tuple[OrderTerm, ...] = field(init=False, compare=False, repr=False)
    zero: ZSet = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        key_types = tuple([self.types[i] for i in self.key])
        exact = is_exact(key_types)
        native = exact and key_types[0].is_ordered_word and not key_types[0].is_float
        object.__setattr__(self, "key_types", key_types)
        object.__setattr__(self, "exact", exact)
        object.__setattr__(self, "native", native)
        object.__setattr__(self, "key_is_row", set(self.key) == set(range(len(self.types))))
        terms = order_terms(self.types, self.order)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "terms_backwards", tuple([t.backwards() for t in terms]))
        object.__setattr__(self, "zero", empty(self.types))
        if self.order:
            self._refuse_unorderable()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.types, self.key, self.order, self.unique

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def _refuse_unorderable(self) -> None:
        for type in self.types:
            if not orderable(type):
                raise UnsupportedError(
                    f"Rows with a column of type {type.sql} cannot be kept in order: its order "
                    "is not one of numbers or bytes. Ask orderable(type) first, and arrange "
                    "without an order."
                )

    @property
    def ascends(self) -> bool:
        """Returns whether the key is one column whose order is that of the codes."""
        return self.exact and self.key_types[0].is_ordered_word

    def key_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The key's columns among all columns."""
        return tuple([columns[i] for i in self.key])

    def search_codes(
        self, keys: Sequence[Column], codes: KeyCodes | None = None
    ) -> npt.NDArray[Any]:
        """The codes by which runs are sorted and searched.

        An exact key of integers is its own code, in its own width, so that a run need not store
        it twice; any other has int64 codes.
        """
        if self.native:
            return keys[0].values  # type: ignore[union-attr]
        return (key_codes(keys, self.key_types) if codes is None else codes).codes
