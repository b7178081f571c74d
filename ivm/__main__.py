"""`python -m ivm` and the console script `ivm`."""

from __future__ import annotations

import os

from ivm.shell.cli import app


def main() -> None:
    """Runs the command line of this process."""
    _fill_standard_numbers()
    app(prog_name="ivm")


def _fill_standard_numbers() -> None:
    """Opens the null device for each closed standard stream.

    Otherwise a file opened later gets its number, and C code for the stream writes into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


if __name__ == "__main__":
    main()
