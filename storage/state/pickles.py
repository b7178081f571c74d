"""Pickles of state: arrays and Arrow columns stay outside, as buffers that may be mapped files.

Law: reading gives an object equal to the one written, in any process with the same code. A pickle
is made of named classes alone: reading one from a stranger's file runs nothing else.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run
from ivm.storage.values import dictionary
from ivm.storage.values.column import ArrowColumn, DictionaryColumn, FixedColumn
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet

_CLASSES = (Arrangement, ArrowColumn, FixedColumn, Layout, OrderKey, Run, ZSet)
_NUMPY = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
}
_ARROW = {("pyarrow.lib", "_restore_array"), ("pyarrow.lib", "py_buffer")}

Buffer: TypeAlias = bytes | memoryview | pickle.PickleBuffer
Numbers: TypeAlias = dictionary.DictionaryCodes
"""This process's number of each string of another one's dictionary."""


class StateError(Exception):
    """A state that is damaged, or not one of ours."""


def dump(value: object) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The pickle of a state, and the buffers that it is read with.

    Args:
        value: made of arrays, columns, arrangements and the owner's classes.
    """
    out, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(out, buffers).dump(value)
    return out.getvalue(), buffers


def load(
    pickled: bytes | memoryview,
    buffers: Iterable[memoryview],
    classes: Collection[type],
    numbers: Numbers | None,
) -> Any:
    """The state that `dump` was given.

    Args:
        pickled: the pickle.
        buffers: as `dump` gave them; the state shares their memory.
        classes: the owner's classes.
        numbers: of the writer's dictionary; None where it is this one's.

    Raises:
        StateError: the pickle names something else.
    """
    return _Unpickler(io.BytesIO(pickled), buffers, classes, numbers).load()


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(out, protocol=5, buffer_callback=buffers.append)

    def persistent_id(self, obj: Any) -> object:
        """Types by name, Arrow's as a schema has them; strings by their dictionary numbers."""
        if isinstance(obj, DictionaryColumn):
            return obj.codes
        if isinstance(obj, pa.DataType):
            return pa.schema([("", obj)]).serialize().to_pybytes()
        return obj.sql if isinstance(obj, ColumnType) else None


class _Unpickler(pickle.Unpickler):
    def __init__(
        self,
        file: io.BytesIO,
        buffers: Iterable[memoryview],
        classes: Collection[type],
        numbers: Numbers | None,
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._classes = {(c.__module__, c.__qualname__): c for c in (*_CLASSES, *classes)}
        self._numbers = numbers

    def persistent_load(self, pid: Any) -> object:
        if isinstance(pid, str):
            return type_of(pid)
        if isinstance(pid, bytes):
            return pa.ipc.read_schema(pa.py_buffer(pid)).field(0).type
        return DictionaryColumn(pid if self._numbers is None else self._numbers[pid])

    def find_class(self, module_name: str, global_name: str) -> Any:
        name = (module_name, global_name)
        if name in self._classes:
            return self._classes[name]
        if name in _NUMPY or name in _ARROW:
            return super().find_class(module_name, global_name)
        raise StateError(f"a state names {module_name}.{global_name}, which is no part of one")


def renumbered(texts: pa.Array) -> Numbers | None:
    """This process's number of each string of another process's dictionary; None for the same.

    Raises:
        StateError: the dictionary is full.
    """
    numbers = dictionary.encode(texts, force=True)
    if numbers is None:
        raise StateError("the strings of a state have no more room in this process's dictionary")
    return None if np.array_equal(numbers, np.arange(len(texts))) else numbers
