"""Errors as PostgreSQL's clients know them: SQLSTATE, message, hint and position.

Law: the class of an error decides the class of its code; words of the message only refine it. A
message is cut before the excerpt of the statement, which clients make by themselves.
"""

from __future__ import annotations

import re

from ivm.serve.access import AccessError
from ivm.serve.served_session import CancelledError
from ivm.storage.errors import (
    ConstraintError,
    CorruptionError,
    EvaluationError,
    InputError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

SYNTAX, PROTOCOL, FAILED_TRANSACTION = "42601", "08P01", "25P02"
NO_STATEMENT, NO_PORTAL, NOT_SUPPORTED = "26000", "34000", "0A000"
IDLE_TRANSACTION = "25P03"
BAD_COPY, BAD_TEXT, BAD_BINARY = "22P04", "22021", "22P03"
TOO_MANY, STOPPED, TOO_LARGE, BAD_LOGIN, NO_LOGIN = "53300", "57P01", "54000", "28P01", "28000"

_CODES: tuple[tuple[type[BaseException], str, tuple[tuple[str, str], ...]], ...] = (
    (CancelledError, "57014", (("the server is being stopped", STOPPED),)),
    (AccessError, "42501", ()),
    (
        EvaluationError,
        "22000",
        (
            ("division by zero", "22012"),
            ("overflow|out of range", "22003"),
            ("could not convert|conversion|cannot be cast|invalid", "22P02"),
        ),
    ),
    (
        SqlError,
        "42000",
        (
            ("syntax error|^parser error|unterminated", SYNTAX),
            (
                r"^(catalog error: )?([a-z]+ )?(function|macro) .*does not exist|no function match",
                "42883",
            ),
            (
                r"\b(table|view|relation)\b.*does not exist|referenced table|no view|no table",
                "42P01",
            ),
            ("schema.*does not exist", "3F000"),
            ("type.*does not exist", "42704"),
            ("schema.*already exists", "42P06"),
            ("already exists", "42P07"),
            ("values were supplied", SYNTAX),
            ("unrecognized configuration parameter", "42704"),
            ("ambiguous", "42702"),
            (
                "referenced column|column.*(not found|does not exist)|does not have a column",
                "42703",
            ),
            ("group by", "42803"),
            ("cannot compare|explicit cast|type", "42804"),
        ),
    ),
    (
        InputError,
        "22023",
        (
            ("a transaction is open already", "25001"),
            ("no transaction", "25P01"),
            ("no prepared statement", NO_STATEMENT),
        ),
    ),
    (UnsupportedError, "0A000", ()),
    (
        UnavailableError,
        "55000",
        (
            ("rolled back because|rollback, then begin", FAILED_TRANSACTION),
            ("read only", "25006"),
            ("another transaction has been open", "55P03"),
            ("connections, and takes no more", TOO_MANY),
            ("logins of .* have failed", NO_LOGIN),
            ("the server is being stopped", STOPPED),
            ("did nothing for", "25P03"),
            ("interrupted", "57014"),
            ("memory", "53200"),
            ("operating system|disk", "58030"),
        ),
    ),
    (CorruptionError, "XX001", ()),
    (MemoryError, "53200", ()),
)
_OF_CONSTRAINTS = (
    ("foreign key|still referenced", "23503"),
    ("not null", "23502"),
    ("check constraint", "23514"),
    ("duplicate|unique|primary key", "23505"),
)
_QUOTED = re.compile(r"""(?<!\w)(?:"[^"]*"|'[^']*')(?!\w)""")
_INTERNAL = "XX000"
_FATAL = frozenset((STOPPED, TOO_MANY, BAD_LOGIN, NO_LOGIN, IDLE_TRANSACTION))
_EXCERPT = re.compile(r"\n+LINE \d+: .*\Z", re.DOTALL)
_KIND = re.compile(
    r"^(?:Parser|Binder|Catalog|Constraint|Conversion|Out of Range|Invalid Input|Not implemented"
    r"|INTERRUPT|IO|TransactionContext) Error: "
)


class PgError(Exception):
    """An error that the server itself tells.

    Args:
        code: its SQLSTATE.
        message: what is wrong and what to do.
        routine: where PostgreSQL raises it, if drivers know it by that.
    """

    def __init__(self, code: str, message: str, routine: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.routine = routine


def other_columns() -> PgError:
    """A prepared statement has other columns than its client was told.

    By these words, and by this routine, drivers know that they are to prepare it anew.
    """
    return PgError(
        NOT_SUPPORTED, "cached plan must not change result type", "RevalidateCachedQuery"
    )


def code_of(error: BaseException) -> str:
    """The SQLSTATE of an error."""
    if isinstance(error, PgError):
        return error.code
    if isinstance(error, ConstraintError):
        return _constraint_code(str(error).lower())
    text = _QUOTED.sub("", str(error)).lower()  # values and names say what they like
    for kind, code, refined in _CODES:
        if isinstance(error, kind):
            return next((found for words, found in refined if re.search(words, text)), code)
    return _INTERNAL


def _constraint_code(text: str) -> str:
    """The code of what comes first in a message: the values of the row stand behind it."""
    places = [
        (found.start(), code)
        for words, code in _OF_CONSTRAINTS
        if (found := re.search(words, text))
    ]
    return min(places)[1] if places else "23000"


def error_fields(error: BaseException, offset: int = 0, *, ends: bool = False) -> dict[str, str]:
    """The fields of an error's message.

    Args:
        error: as it was raised.
        offset: of the statement in the client's text, in characters.
        ends: whether the connection ends with it.
    """
    text = _KIND.sub("", _EXCERPT.sub("", str(error) or type(error).__name__))
    first, _, rest = text.partition("\n")
    fatal = ends or code_of(error) in _FATAL
    severity = "FATAL" if fatal else "ERROR"
    found = {"S": severity, "V": severity, "C": code_of(error), "M": first}
    if rest.strip():
        found["H"] = rest.strip()
    if isinstance(error, PgError) and error.routine:
        found["R"] = error.routine
    position = getattr(error, "position", None)
    if position is not None:
        found["P"] = str(position + offset + 1)
    return found


def notice_fields(code: str, text: str, severity: str = "NOTICE") -> dict[str, str]:
    """The fields of a notice."""
    return {"S": severity, "V": severity, "C": code, "M": text}
