"""The header of a file of states: which closing of a database saved it, and where its states are.

Contract: `state.json` is replaced in one piece and names the file that belongs to it; states of
other code are none. Nothing is synced: what a power failure leaves of the two fails their checks.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivm.storage.state.state_file import Span, StateFile, States

_NAME = "state.json"


@dataclass(frozen=True)
class Header:
    """What `state.json` tells.

    Attributes:
        stamp: of the closing.
        file: the name of the file of states.
        states: where they are in it.
    """

    stamp: dict[str, Any]
    file: str
    states: States

    def open(self, folder: Path, classes: Collection[type]) -> StateFile:
        """The file of states.

        Raises:
            OSError: it cannot be mapped.
        """
        return StateFile(folder / self.file, self.states, classes)


def has_states(folder: Path) -> bool:
    """Returns whether a side folder has states, of whichever code."""
    return (folder / _NAME).exists()


def states_name() -> str:
    """A new name for a file of states."""
    return f"state-{uuid.uuid4().hex}.bin"


def read_header(folder: Path, code: str) -> Header | None:
    """The header in a side folder; None if there is none that is whole, or of this code.

    Args:
        folder: the side folder.
        code: tells the form of the states, and of the header's own lines.
    """
    try:
        checksum, _, text = (folder / _NAME).read_text().partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    writer, _, told = text.partition("\n")
    if checksum != _checksum(text) or writer != code:
        return None
    stamp, file, states = json.loads(told)
    spans = {name: [Span(*span) for span in found] for name, found in states.items()}
    return Header(stamp, file, spans)


def write_header(folder: Path, code: str, header: Header) -> None:
    """Replaces the header in a side folder."""
    text = f"{code}\n{json.dumps([header.stamp, header.file, header.states])}"
    draft = folder / f"{_NAME}.new"
    draft.write_text(f"{_checksum(text)}\n{text}")
    os.replace(draft, folder / _NAME)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def remove_states(folder: Path) -> None:
    """Removes the header and all files of states of a side folder."""
    for path in (folder / _NAME, folder / f"{_NAME}.new", *folder.glob("state-*.bin")):
        path.unlink(missing_ok=True)
