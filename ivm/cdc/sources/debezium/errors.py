"""What the errors of Debezium's engine mean to a source.

Law: that the upstream cannot be reached, or has let go, is an `UnavailableError`, and it is tried
again; everything else is for somebody to mend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import IvmError, UnavailableError

_NETWORK = (
    "java.io.IOException",
    "java.sql.SQLTransientException",
    "java.sql.SQLRecoverableException",
)
_GONE = ("08", "57P", "53")  # classes of SQL states: no connection, server ends, it has no room
_ANEW = "no longer available on the server"
_BUSY = "is active for PID"  # another reader that has just ended may still hold the slot


def meaning(error: Any, message: str) -> IvmError:
    """The error of a source.

    Args:
        error: of Java; None if there is none.
        message: of the engine.
    """
    causes = list(_causes(error))
    texts = list(dict.fromkeys(text for cause in causes if (text := _text(cause))))
    told = (
        ": ".join(
            [
                text
                for text in texts
                if not any(text in other for other in texts[:-1] if other != text)
            ]
        )
        or message
    )
    if any(_unreachable(cause) for cause in causes) or _BUSY in told:
        return UnavailableError(f"the upstream database does not answer Debezium's engine: {told}")
    way = "Mend that, and RESUME SOURCE"
    if _ANEW in told:
        way = "Drop the source and create it again: it copies the tables anew"
    return SourceError(f"Debezium's engine has stopped: {told}. {way}")


def _causes(error: Any) -> Iterator[Any]:
    seen = 0
    while error is not None and seen < 20:
        yield error
        error, seen = error.getCause(), seen + 1


def _text(cause: Any) -> str:
    text = cause.getMessage()
    return "" if text is None else str(text).strip().rstrip(".")


def _unreachable(cause: Any) -> bool:
    from ivm.cdc.sources.debezium.jvm import java

    if isinstance(cause, java("java.sql.SQLException")):
        state = str(cause.getSQLState() or "")
        if state.startswith(_GONE):
            return True
    return any(isinstance(cause, java(name)) for name in _NETWORK)
