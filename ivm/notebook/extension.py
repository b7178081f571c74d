"""What IPython calls for `%load_ext ivm`; nothing else needs IPython, which is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ivm.notebook.magic import Magic

_loaded: dict[InteractiveShell, Magic] = {}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers the magics `%ivm` and `%%ivm`."""
    from ivm.notebook.magic import Magic

    _loaded[shell] = Magic.register(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Removes the magics, and closes what they have opened."""
    loaded = _loaded.pop(shell, None)
    if loaded is not None:
        loaded.remove()
