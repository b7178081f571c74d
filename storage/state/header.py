"""The header of a file of states: which closing of a database saved it, and where its states are.

Contract: `state.json` is replaced in one piece and names the file that belongs to it. Nothing is
synced: what a power failure leaves of the two fails their checks.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ivm.storage.state.state_file import Span, StateFile, States

_NAME = "state.json"


@dataclass(frozen=True)
class Header:
    """What `state.json` tells.

    Attributes:
        stamp: of the closing.
        code: of the program that has written the states.
        file: the name of the file of states.
        states: where they are in it.
    """

    stamp: dict[str, Any]
    code: str
    file: str
    states: States

    def open(self, folder: Path, classes: Collection[type]) -> StateFile:
        """The file of states.

        Raises:
            OSError: it cannot be mapped.
        """
        return StateFile(folder / self.file, self.states, classes)


def read_header(folder: Path) -> Header | None:
    """The header in a side folder; None if there is none, or none that is whole."""
    try:
        checksum, _, text = (folder / _NAME).read_text().partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    if checksum != _checksum(text):
        return None
    told = json.loads(text)
    spans = {name: [Span(*span) for span in found] for name, found in told.pop("states").items()}
    return Header(**told, states=spans)


def write_header(folder: Path, header: Header) -> None:
    """Replaces the header in a side folder."""
    text, draft = json.dumps(asdict(header)), folder / f"{_NAME}.new"
    draft.write_text(f"{_checksum(text)}\n{text}")
    os.replace(draft, folder / _NAME)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def remove_states(folder: Path) -> None:
    """Removes the header and all files of states of a side folder."""
    for path in (folder / _NAME, folder / f"{_NAME}.new", *folder.glob("state-*.bin")):
        path.unlink(missing_ok=True)
