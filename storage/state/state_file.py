"""A file of states by name: their buffers one behind the other, mapped when they are read.

Law: `StateFile.load(name)` gives the state that was written under the name, or an error: every
buffer is checked before it is used. What is written to a loaded state goes to pages of the
process's own, not to the file. The zeros at the end of a buffer (room for growth) take no space.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ivm.storage.state.pickles import Buffer, Numbers, StateError, dump, load, renumbered
from ivm.storage.values import dictionary

_ALIGNED = 64  # bytes: what Arrow asks of a buffer's address
_STRETCH = 1 << 20
_TEXTS = "texts"
"""The name of the process's dictionary among the states."""


class Span(NamedTuple):
    """A buffer in the file: its place, its bytes, those of them written, and their CRC-32."""

    offset: int
    length: int
    written: int
    checksum: int


States = dict[str, list[Span]]
"""The spans of each state's pickle and, behind it, of its buffers."""


def write(path: Path, states: Iterable[tuple[str, object]]) -> States:
    """Writes a new file.

    Args:
        path: of the file; one that is there already is an error.
        states: by name, made as they are written.

    Returns:
        Where they are, for `StateFile`.
    """
    found: States = {}
    with open(path, "xb") as file:
        for name, state in states:
            found[name] = _write(file, state)
        found[_TEXTS] = _write(file, dictionary.texts())
        file.truncate(_aligned(file.tell()))
    return found


def _write(file: IO[bytes], state: object) -> list[Span]:
    pickled, buffers = dump(state)
    parts: list[Buffer] = [pickled, *[b.raw() for b in buffers]]
    return [_place(file, part) for part in parts]


def _place(file: IO[bytes], buffer: Buffer) -> Span:
    offset, whole = file.seek(_aligned(file.tell())), memoryview(buffer)
    used = whole[: _used(whole)]
    file.write(used)
    file.seek(offset + len(whole))
    return Span(offset, len(whole), len(used), zlib.crc32(used))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED) * _ALIGNED


def _used(buffer: memoryview) -> int:
    """The bytes without the stretches of zeros at the end."""
    values, end = np.frombuffer(buffer, np.uint8), len(buffer)
    while end > _STRETCH and not values[end - _STRETCH : end].any():
        end -= _STRETCH
    return end


class StateFile:
    """A file that `write` has written.

    Args:
        path: of the file.
        states: as `write` returned them.
        classes: of which the states may be made, beside arrays, columns and arrangements.

    Raises:
        OSError: it cannot be mapped.
    """

    def __init__(
        self, path: Path, states: Mapping[str, list[Span]], classes: Collection[type]
    ) -> None:
        self._states = states
        self._classes = classes
        self._numbers: Numbers | None = None
        self._renumbered = False
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._bytes = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))

    @property
    def names(self) -> list[str]:
        """The names of all states."""
        return list(self._states)

    def __contains__(self, name: str) -> bool:
        return name in self._states

    def load(self, name: str) -> Any:
        """The state of that name; it stays readable when the file is removed.

        Raises:
            StateError: the file is damaged, or not one of ours.
        """
        if not self._renumbered:
            texts = self._read(_TEXTS)
            if not isinstance(texts, pa.Array):
                raise StateError("a file of states has no dictionary")
            self._numbers, self._renumbered = renumbered(texts), True
        return self._read(name)

    def _read(self, name: str) -> Any:
        pickled, *buffers = [self._checked(span) for span in self._states[name]]
        try:
            return load(pickled, buffers, self._classes, self._numbers)
        except StateError:
            raise
        except Exception as error:  # whatever a pickle that is not ours leads to
            raise StateError(f"a state cannot be read: {error!r}") from error

    def _checked(self, span: Span) -> memoryview:
        found = self._bytes[span.offset : span.offset + span.length]
        if len(found) < span.length or zlib.crc32(found[: span.written]) != span.checksum:
            raise StateError("a file of states is damaged")
        return found
