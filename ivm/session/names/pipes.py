"""Pipes and terminals that a statement reads, copied to files before it is run.

They can be read only once, and a statement is looked at several times: for the relations that it
reads, for its rows as a change of views. DuckDB, which would begin in the middle, gives wrong rows.

Contract: the statement reads what the pipe had, up to its end; the copies are there until its
result has been read.
"""

from __future__ import annotations

import os
import select
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from ivm.engine.engine import Engine
from ivm.ingest.parameters import Params
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.file_arguments import FileArgument, file_arguments
from ivm.sql.statements.text.spelling import string_value
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import literal
from ivm.storage.interrupts import check
from ivm.storage.warehouse.duckdb.duck import Cursor

_PIECE = 1 << 20  # bytes
_PATIENCE = 100  # milliseconds in which an interrupt is noticed


class Owner(Protocol):
    """The part of a session that its pipes use."""

    engine: Engine
    cursor: Cursor


class Pipes:
    """The copies for one session's statement."""

    def __init__(self, session: Owner) -> None:
        self._session = session
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._copies: dict[str, str] = {}

    def copied(self, statement: st.Statement, params: Params) -> tuple[st.Statement, Params]:
        """The statement and parameters with the paths of the copies in the place of their own.

        Raises:
            UnavailableError: one cannot be read, or there is no room for its copy.
        """
        text, values = statement.text, params
        if not _reads(statement):
            return statement, params
        for argument in reversed(file_arguments(text)):
            if argument.parameter is not None:
                values = self._with_value(values, argument.parameter)
            elif (path := self._copy(_path(text, argument))) is not None:
                text = f"{text[: argument.start]}{literal(path)}{text[argument.end :]}"
        if text == statement.text:
            return statement, values
        (found,) = st.parse(text)
        return replace(found, offset=statement.offset), values

    def remove(self) -> None:
        """Removes the copies of the last statement, whose result has been read."""
        if self._folder is not None:
            folder, self._folder, self._copies = self._folder, None, {}
            folder.cleanup()

    def _with_value(self, params: Params, parameter: int | str) -> Params:
        try:
            value = params[parameter]  # type: ignore[index]
        except (IndexError, KeyError, TypeError):
            return params  # running it says so
        found = self._value(value)
        if found is value:
            return params
        if isinstance(params, Mapping):
            return {name: found if name == parameter else one for name, one in params.items()}
        return [found if i == parameter else given for i, given in enumerate(params or ())]

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            found = [self._value(each) for each in value]
            return found if any(a is not b for a, b in zip(found, value, strict=True)) else value
        path = self._copy(value) if isinstance(value, str) else None
        return value if path is None else path

    def _copy(self, path: str) -> str | None:
        """The path of a copy, under the same name; None for what can be read again."""
        if not _is_read_once(path) or not self._is_free():
            return None
        if path not in self._copies:
            try:
                self._copies[path] = self._written(path)
            except OSError as error:
                raise UnavailableError(
                    f"{path} can be read only once, and could not be copied to a file "
                    f"({error.strerror}): write what it has to a file of your own"
                ) from error
        return self._copies[path]

    def _is_free(self) -> bool:
        return self._session.engine.warehouse.file_access.is_free(self._session.cursor)

    def _written(self, path: str) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ivm-pipe-")
        folder = Path(self._folder.name, str(len(self._copies)))
        folder.mkdir()
        target = folder / Path(path).name
        with open(target, "wb") as file:
            for piece in _pieces(path):
                file.write(piece)
        return str(target)


def _reads(statement: st.Statement) -> bool:
    """Returns whether a statement reads by itself; a definition reads each time it is used."""
    match statement:
        case st.Ddl(action="create", target="table") | st.Query() | st.Dml():
            return True
        case _:
            return False


def _path(text: str, argument: FileArgument) -> str:
    quoted = text[argument.start : argument.end]
    if quoted[0] not in ("'", '"'):
        return string_value(quoted)
    return quoted[1:-1].replace(quoted[0] * 2, quoted[0])


def _is_read_once(path: str) -> bool:
    """Returns whether a path is that of a pipe or a terminal."""
    try:
        mode = os.stat(path).st_mode
        return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))
    except (OSError, ValueError):  # there is no such file, or a null character
        return False


def _is_terminal(path: str) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return os.isatty(fd)
    finally:
        os.close(fd)


def _pieces(path: str) -> Iterator[bytes]:
    """What a pipe has, once somebody writes to it, up to its end."""
    fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        while True:
            check()
            if waiting.poll(_PATIENCE):
                piece = os.read(fd, _PIECE)
                if not piece:
                    return
                yield piece
    finally:
        os.close(fd)
