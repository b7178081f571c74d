"""`python -m ivm` and the console script `ivm`."""

from __future__ import annotations

import os

from ivm.shell.cli import app


def main() -> None:
    """Run the command line of this process."""
    _fill_standard_numbers()
    app(prog_name="ivm")


def _fill_standard_numbers() -> None:
    """Let no file get the number of a standard stream that is closed: C code may write there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


if __name__ == "__main__":
    main()
