"""What the errors of Debezium's engine mean to a source.

Law: that the upstream cannot be reached, or has let go, is an `UnavailableError`, and it is tried
again; everything else is for somebody to mend.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ivm.cdc.sources.debezium.jvm import java
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import IvmError, UnavailableError

_NETWORK = (
    "java.io.IOException",
    "java.sql.SQLTransientException",
    "java.sql.SQLRecoverableException",
)
_GONE = ("08", "57P", "53")  # classes of SQL states: no connection, server ends, it has no room
_TOLD = re.compile(
    # The engine's checks tell what was thrown as a text alone. A slot may be held for a while by a
    # reader that has just ended.
    "Failed to establish connection|Communications link failure|Connection to \\S+ refused|"
    "The connection attempt failed|is active for PID|the database system is"
)
_ANEW = re.compile("no longer available on the server|does not exist|missing on the server")
_CLASS = re.compile(r"\b(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


def meaning(error: Any, message: str) -> IvmError:
    """The error of a source.

    Args:
        error: of Java; None if there is none.
        message: of the engine.
    """
    told = told_by(error) or message
    if any(_unreachable(cause) for cause in _causes(error)) or _TOLD.search(told):
        return UnavailableError(f"the upstream database does not answer Debezium's engine: {told}")
    way = "Mend that, and RESUME SOURCE"
    if _ANEW.search(told):
        way += "; or drop the source and create it again: it copies the tables anew"
    return SourceError(f"Debezium's engine has stopped: {told}. {way}")


def told_by(error: Any) -> str:
    """The texts of an error and its causes, without those that others repeat."""
    clean = [_CLASS.sub("", _text(cause)).strip().rstrip(".:") for cause in _causes(error)]
    kept: list[str] = []
    for text in clean:
        if text and not any(text in other for other in kept):
            kept.append(text)
    return ": ".join(kept)


def _causes(error: Any) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error.getCause()


def _text(cause: Any) -> str:
    text = cause.getMessage()
    return "" if text is None else str(text)


def _unreachable(cause: Any) -> bool:
    if isinstance(cause, java("java.sql.SQLException")):
        return str(cause.getSQLState() or "").startswith(_GONE)
    return any(isinstance(cause, java(name)) for name in _NETWORK)
