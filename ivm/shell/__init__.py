"""The command line and the interactive shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ivm.shell.prompt import interact

__all__ = ["interact"]


def __getattr__(name: str) -> object:
    """Loads `interact` on demand: prompt_toolkit takes 0.1 s of a script's start."""
    if name != "interact":
        raise AttributeError(f"module 'ivm.shell' has no attribute {name!r}")
    from ivm.shell.prompt import interact

    return interact
