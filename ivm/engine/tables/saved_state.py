"""The state of views and the indexes of tables from a closing to the next opening.

They lie in the side folder. Law: a state is taken up only by the opening that follows the closing
which saved it: the file has the mark of that closing, which no other has, and the folder's note and
the epoch are as it left them. In any other case, and where the saved state is damaged or of other
code, the state is built from the tables instead.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import shutil
import sys
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from ivm import delta_ops, ingest, sql, storage
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.state_checkpoint import CLASSES, identities, restore, states
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.state.header import (
    Header,
    has_states,
    read_header,
    remove_states,
    states_name,
    write_header,
)
from ivm.storage.state.pickles import StateError
from ivm.storage.state.state_file import StateFile, write
from ivm.storage.warehouse.opening.side_folder import read_note, side_folder
from ivm.storage.warehouse.tables.system_tables import read_closed
from ivm.storage.warehouse.warehouse import Warehouse

_log = logging.getLogger(__name__)
_LOADED = time.time()

Indexes: TypeAlias = Mapping[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], Arrangement]]
"""Indexes by their table and the positions of their key, as `KeyIndex.saved` gives them."""

_INDEX = "index of "


class SavedState:
    """The state that a closing has saved, and the one that the next closing saves.

    Args:
        warehouse: whose file's side folder has it; nothing is saved of a database in memory.
        circuit: of all views.
    """

    def __init__(self, warehouse: Warehouse, circuit: Circuit) -> None:
        self._warehouse = warehouse
        self._circuit = circuit
        self._header: Header | None = None  # of the state that is not out of date yet
        self._states: StateFile | None = None
        self._known: dict[int, str] = {}
        self._indexes: dict[str, set[str]] = {}  # of tables that have not changed, by their names

    @property
    def _folder(self) -> Path | None:
        file = self._warehouse.file.file
        return None if file is None else side_folder(file)

    # -- opening --------------------------------------------------------------------------------

    def open(self) -> None:
        """Takes up the state, if the database is as the closing left it that saved it.

        Called with all views in the circuit, before the folder's note is written anew.
        """
        warehouse, folder = self._warehouse, self._folder
        if folder is None or not has_states(folder) or not self._is_as_closed():
            return
        header = read_header(folder, _code())
        if header is None or header.stamp != self._stamp(warehouse.base_epoch):
            return
        with contextlib.suppress(OSError):  # it is gone: the state is built from the tables
            self._states, self._header = header.open(folder, CLASSES), header
            self._known = identities(self._circuit)
            for name in self._states.names:
                if name.startswith(_INDEX):
                    self._indexes.setdefault(_parts(name)[0], set()).add(name)

    def _is_as_closed(self) -> bool:
        """Returns whether the file is that of the last closing, and the log holds nothing more."""
        warehouse = self._warehouse
        if warehouse.foreign_write or warehouse.log is None:
            return False
        with contextlib.closing(warehouse.cursor()) as cursor:
            mark = read_closed(cursor)
        stamp = self._stamp(warehouse.base_epoch)
        replays = warehouse.log.last_epoch != warehouse.base_epoch
        return stamp is not None and stamp["mark"] == mark and not replays

    def _stamp(self, epoch: int) -> dict[str, Any] | None:
        """What tells a closing from all others; None if the file was not closed in good order."""
        folder = self._folder
        note = None if folder is None else read_note(folder)
        if note is None or not note.closed:
            return None
        return {**asdict(note), "epoch": epoch}

    # -- a session ------------------------------------------------------------------------------

    def restore(self, nodes: Iterable[int]) -> None:
        """Restores the state of nodes that lack it, since none of their sources has changed.

        Args:
            nodes: numbers of nodes that were there at the opening.
        """
        self._header = None
        if self._known:
            with self._reading() as states:
                restore(self._circuit, nodes, self._known, states)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[StateFile]:
        """Reads states; after an error none is used any more."""
        assert self._states is not None
        try:
            yield self._states
        except StateError as error:
            self._known, self._indexes, self._states = {}, {}, None
            _log.warning("%s: the saved state is not used: %s", self._folder, error)

    def restore_all(self) -> None:
        """Restores the state of all nodes, before views come or go."""
        self.restore(self._known)
        self._known = {}

    def index(self, table: str, key: Sequence[int]) -> Any:
        """The saved index of a table by a key; None if there is none, or the table has changed.

        Args:
            table: canonical name.
            key: positions of the columns.
        """
        name, found = _index(table, key), None
        if name in self._indexes.get(table, ()):
            with self._reading() as states:
                found = states.load(name)
        return found

    @property
    def tables(self) -> Collection[str]:
        """The tables with saved indexes that are up to date."""
        return self._indexes.keys()

    def keys(self, table: str) -> list[tuple[int, ...]]:
        """The keys of a table's saved indexes."""
        return [_parts(name)[1] for name in self._indexes.get(table, ())]

    def forget_indexes(self, table: str) -> None:
        """Drops the indexes of a table that is about to change."""
        if self._indexes.pop(table, None) is not None:
            self._header = None

    # -- closing --------------------------------------------------------------------------------

    def save(self, epoch: int, indexes: Indexes) -> None:
        """Saves the state of a database whose file was just closed.

        Args:
            epoch: of its last commit, which the tables have.
            indexes: of its tables, by their keys.
        """
        folder = self._folder
        if folder is None:
            return
        try:
            stamp = self._stamp(epoch)
            if stamp is not None and stamp["mark"] != self._warehouse.mark:
                return  # another database is in the place by now
            self._save(folder, indexes, stamp)
        except OSError as error:  # the database is closed all the same
            _log.warning("%s: the state of views was not saved: %s", folder, error)
            with contextlib.suppress(OSError):
                remove_states(folder)

    def _save(self, folder: Path, indexes: Indexes, stamp: dict[str, Any] | None) -> None:
        if stamp is not None and self._header is not None:
            write_header(folder, _code(), replace(self._header, stamp=stamp))
            return
        self.restore_all()
        left = [name for names in self._indexes.values() for name in names]
        kept = {name: self.index(*_parts(name)) for name in left}
        kept |= {_index(*name): index for name, index in indexes.items()}
        remove_states(folder)
        found = [*states(self._circuit), *kept.items()]
        if stamp is not None and found and self._has_room(folder, indexes):
            self._write(folder, stamp, found)

    def _has_room(self, folder: Path, indexes: Indexes) -> bool:
        """Returns whether the state takes less than half of the disk's free space."""
        circuit = self._circuit
        held = sum(circuit.node(number).operator.state_bytes() for number in circuit.numbers)
        held += sum(rows.nbytes for _, rows in indexes.values())
        return held < shutil.disk_usage(folder).free // 2

    @staticmethod
    def _write(folder: Path, stamp: dict[str, Any], found: Iterable[tuple[str, object]]) -> None:
        name = states_name()
        try:
            written = write(folder / name, found)
            write_header(folder, _code(), Header(stamp, name, written))
        except BaseException:
            remove_states(folder)
            raise


def _index(table: str, key: Sequence[int]) -> str:
    """The name of an index among the states."""
    return _INDEX + json.dumps([table, *key])


def _parts(name: str) -> tuple[str, tuple[int, ...]]:
    table, *key = json.loads(name.removeprefix(_INDEX))
    return table, tuple(key)


@functools.cache
def _code() -> str:
    """A digest of the code that gives states their form and meaning.

    Where a file of it was put there after it was loaded, as an upgrade does beside a server, the
    digest is none of any code.
    """
    versions = [package.__version__ for package in (np, pa, duckdb)]
    told = sys.version, sys.byteorder, *versions
    digest = hashlib.sha256(repr(told).encode())
    for package in (delta_ops, ingest, sql, storage):
        for folder in package.__path__:
            for path in sorted(Path(folder).rglob("*.py")):
                if path.stat().st_ctime > _LOADED:
                    return uuid.uuid4().hex
                digest.update(path.read_bytes())
    return digest.hexdigest()
