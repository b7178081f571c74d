"""How a command ends where it cannot go on: a message on standard error, and an exit code.

Law: the code is 1 after an error of the database, 2 if the command line makes no sense.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from ivm.shell.display.errors import report
from ivm.shell.display.output import standard_error
from ivm.shell.open import MEMORY
from ivm.storage.errors import IvmError


@contextmanager
def errors_reported() -> Iterator[None]:
    """Ends with exit code 1 after an error of the database."""
    try:
        yield
    except IvmError as error:
        errors = standard_error()
        errors.lines(report(error, "", errors.paint))
        raise typer.Exit(1) from error


def refuse(reason: str) -> NoReturn:
    """Ends with exit code 2."""
    errors = standard_error()
    errors.line(f"{errors.paint('error', 'Usage:')} {reason}")
    raise typer.Exit(2)


def demand_file(file: str, usage: str) -> None:
    """Refuses a database that would only now be made, without sources and views."""
    if not os.path.exists(os.path.expanduser(file)):
        refuse(f"there is no database {file!r}: ivm {usage}")


def demand_no_typo(file: str, commands: Iterable[str]) -> None:
    """Refuses `ivm shel`, which would make a database of that name."""
    if Path(file).suffix or "/" in file or file == MEMORY or Path(file).exists():
        return
    near = difflib.get_close_matches(file, [*commands, "--help", "--version"], 1, 0.6)
    if near:
        refuse(
            f"there is no command and no database {file!r}; did you mean: ivm {near[0]}? "
            f"(a new database of that name: ivm ./{file})"
        )
