"""The sections of `ivm.toml`: beside the database, else in the working folder."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ivm.storage.errors import InputError

FILE = "ivm.toml"


def section(
    database: str, name: str, known: Collection[str] | None = None
) -> dict[str, Any] | None:
    """What the file says under `[name]`; None if there is no file, or it says nothing.

    Args:
        database: the path of its file.
        name: of the section.
        known: the keys that it may have; None if they are names.

    Raises:
        InputError: the file cannot be read, is no TOML, or has unknown keys.
    """
    for folder in (Path(database).parent, Path()):
        file = folder / FILE
        if file.is_file():
            return _read(file, name, known)
    return None


def _read(file: Path, name: str, known: Collection[str] | None) -> dict[str, Any] | None:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8")).get(name)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    if found is None or (isinstance(found, dict) and (known is None or set(found) <= set(known))):
        return found
    raise InputError(f"{file}: [{name}] has the keys {', '.join(known or ('…',))}, and no others")
