"""`python -m ivm` and the console script `ivm`."""

from __future__ import annotations

import atexit
import gc
import os

from ivm.session.names.caller_scope import variables
from ivm.shell.command_line.cli import app


def main() -> None:
    """Runs the command line of this process."""
    _fill_standard_numbers()
    _keep_modules()
    with variables({}):  # SQL reads none of the program's
        app(prog_name="ivm")


def _keep_modules() -> None:
    """Spares what is imported by now the full collections, which it would make last 60 ms each."""
    gc.freeze()
    atexit.register(gc.unfreeze)


def _fill_standard_numbers() -> None:
    """Opens the null device for each closed standard stream.

    Otherwise a file opened later gets its number, and C code for the stream writes into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


if __name__ == "__main__":
    main()
