"""DuckDB's errors in our tree, with their words kept and the offset in the statement found.

Contract: no error is lost: the DuckDB error is the cause, and its message is kept whole, but for
guesses at tables of DuckDB's own, excerpts of SQL that no user wrote, and stacks.
"""

from __future__ import annotations

import re

import duckdb

from ivm.storage.errors import (
    ConstraintError,
    EvaluationError,
    InputError,
    InternalError,
    IvmError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

_CLASSES: tuple[tuple[type[Exception], type[IvmError]], ...] = (
    (duckdb.ParserException, SqlError),
    (duckdb.BinderException, SqlError),
    (duckdb.CatalogException, SqlError),
    (duckdb.ConstraintException, ConstraintError),
    (duckdb.ConversionException, EvaluationError),
    (duckdb.OutOfRangeException, EvaluationError),
    (duckdb.NotImplementedException, UnsupportedError),
    (duckdb.FatalException, UnavailableError),
    (duckdb.InternalException, UnavailableError),
    (duckdb.IOException, UnavailableError),
    (duckdb.OutOfMemoryException, UnavailableError),
    (duckdb.TransactionException, UnavailableError),
    (duckdb.InterruptException, UnavailableError),
)
# As after DuckDB's fault `asof_of_intervals`.
_GIVEN_UP = (
    "DuckDB has given the database up after this fault of its own. Close it and open it again: "
    "of a file's commits none is lost"
)
_PERHAPS = (  # not after every one: DuckDB does not tell
    "This is a fault of DuckDB's own. If what follows is refused, it has given the database up: "
    "close it then and open it again. Of a file's commits none is lost"
)
_NO_TEXT = "std::bad_cast"  # what DuckDB's binding says of a name with half a surrogate pair
_LOST = "a value is refused, and DuckDB's words are lost: they quote bytes that are no UTF-8 text"
"""As after DuckDB's fault `undecodable_messages`."""
_INTERRUPTED = "Query interrupted"  # DuckDB's words for a KeyboardInterrupt
# An exception of Python code that DuckDB calls comes back as an error of DuckDB's.
# It is DuckDB's fault `signals_in_functions`.
_CALLED = re.compile(
    r"Invalid Input Error: (?:[a-z ]+ the object registered as '[^']*' failed|Python exception "
    r"occurred while executing the UDF): (KeyboardInterrupt|MemoryError)(?::|$)"
)
_RAISED: dict[str, type[BaseException]] = {
    "KeyboardInterrupt": KeyboardInterrupt,
    "MemoryError": MemoryError,
}
_LINE = re.compile(r"LINE (\d+): (.*)\n( *)\^")
_GUESS = re.compile(
    r'\nDid you mean "(pg_|duckdb_|sqlite_|pragma_|information_schema|_ivm)[^"]*"\?'
)
_VIEWS = re.compile(r"Table with name views does not exist!", re.IGNORECASE)
_WATERMARK = re.compile(
    r'Catalog Error: Scalar Function with name "?watermark"? does not exist!(\nDid you mean .*)?',
    re.IGNORECASE,
)
_NO_WATERMARK = re.compile(
    r'Catalog Error: Table with name "?watermark (.+?)"? does not exist!(\nDid you mean .*)?'
)
_WINDOWS = re.compile(
    r"Table Function with name \"?(tumble|hop|cumulate|session)\"? does not exist!", re.IGNORECASE
)
_NO_FORM = re.compile(
    "Invalid Input Error: (Can't convert VARIANT|Type U?INT(64|128) with value .* type INT64)"
)
_ADVICE = re.compile(", or SET error_on_division_by_zero=false to [^.]*")  # which is refused here
_OURS = re.compile(r"( when casting from source column [cv]\d+)?(\n\nLINE \d+: .*)?$", re.DOTALL)


def translated(
    error: duckdb.Error, offset: int = 0, text: str | None = None, before: str = ""
) -> IvmError:
    """The error in our tree that stands for one of DuckDB's.

    Args:
        error: from DuckDB.
        offset: characters before the statement in the user's script.
        text: the statement, to turn DuckDB's line and column into an offset.
        before: the words that we put before it for DuckDB, which no user is shown.
    """
    message = _GUESS.sub("\nSHOW TABLES lists what there is.", str(error) or _LOST)
    message = _NO_WATERMARK.sub(r"table '\1' has no watermark", message)
    message = _WATERMARK.sub(
        "watermark() takes the name of a table as a text: watermark('name')", message
    )
    message = _VIEWS.sub(r"\g<0>\nSHOW MATERIALIZED VIEWS lists the views.", message)
    message = _WINDOWS.sub(
        r"\g<0>\nA window of time is one of a relation, by its name: FROM \1(…)", message
    )
    message = _ADVICE.sub("", message)
    if _NO_FORM.match(message):
        message += "\nA VARIANT holds it, and Arrow has no form for that: read it as v::VARCHAR."
    if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
        outlook = _GIVEN_UP if isinstance(error, duckdb.FatalException) else _PERHAPS
        message = f"{message.partition('Stack Trace')[0].rstrip()}\n{outlook}"
    kind = next((ours for theirs, ours in _CLASSES if isinstance(error, theirs)), InputError)
    if kind in (SqlError, UnsupportedError):
        whole = None if text is None else before + text
        position = _position(message, offset - len(before), whole)
        return kind(_without(before, message), position)
    return kind(message)


def _without(before: str, message: str) -> str:
    """The message with the words before the statement cut off its excerpt."""
    told, found, excerpt = message.partition(f"\nLINE 1: {before}")
    line, end, caret = excerpt.partition("\n")
    return f"{told}\nLINE 1: {line}{end}{caret[len(before) :]}" if found else message


def of_our_sql(error: Exception | str) -> str:
    """DuckDB's message about a statement of our own, without its excerpt."""
    return _OURS.sub("", _ADVICE.sub("", str(error)), count=1)


def is_of_the_rows(error: EvaluationError) -> bool:
    """Returns whether an expression failed on its rows, not for want of memory, disk or time."""
    cause: BaseException | None = error
    while cause is not None:
        ours = translated(cause) if isinstance(cause, duckdb.Error) else cause
        if isinstance(ours, UnavailableError):
            return False
        cause = cause.__cause__
    return raised_below(error) is None


class Translating:
    """A block whose exceptions leave it as errors of ours.

    This is the edge of the package: every call of a user's passes it, so it is no generator.
    Running out of memory keeps Python's own name, as Ctrl-C does, which DuckDB gives another one.
    """

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return
        raised = raised_below(error)
        if raised is not None:
            raise raised from error
        if not isinstance(error, IvmError):
            raise ours(error) from error


def raised_below(error: BaseException | None) -> BaseException | None:
    """The interrupt, or what ended a Python function, that DuckDB made an error of; else None."""
    while error is not None:
        if isinstance(error, RuntimeError) and str(error) == _INTERRUPTED:
            return KeyboardInterrupt()
        found = _CALLED.match(str(error)) if isinstance(error, duckdb.Error) else None
        if found is not None:
            return _RAISED[found[1]]()
        error = error.__cause__
    return None


def is_cut_short(error: duckdb.Error) -> bool:
    """Returns whether an interrupt ended what DuckDB did: that says nothing of the statement."""
    return isinstance(error, duckdb.InterruptException) or raised_below(error) is not None


def ours(error: Exception) -> IvmError:
    """The error in our tree: a foreseen one in its own words, any other as our fault."""
    if isinstance(error, IvmError):
        return error
    if isinstance(error, duckdb.Error):
        return translated(error)
    if isinstance(error, RecursionError):
        return UnsupportedError(
            "the statement is nested too deeply to be read: part it, for example with CTEs or views"
        )
    if isinstance(error, UnicodeError):
        return InputError(f"a text is not valid Unicode ({error}): mend it")
    if isinstance(error, RuntimeError) and str(error) == _NO_TEXT:
        return InputError("the name of a parameter is no valid Unicode: mend it")
    if isinstance(error, ImportError):
        return UnavailableError(f"{error}: install it to have results in this form")
    if isinstance(error, OSError):
        return UnavailableError(f"the operating system refused: {error}")
    return InternalError(
        f"a fault of this program, not of yours ({type(error).__name__}: {error}): please report "
        "it with the statement that led to it"
    )


def _position(message: str, offset: int, text: str | None) -> int | None:
    """The offset under the caret of DuckDB's excerpt, which may begin with an ellipsis."""
    found = _LINE.search(message)
    if found is None or text is None:
        return None
    line_number, shown, blanks = int(found[1]), found[2], len(found[3])
    column = blanks - len(f"LINE {line_number}: ")
    lines = text.split("\n")
    if line_number > len(lines):
        return None
    start = sum(len(line) + 1 for line in lines[: line_number - 1])
    if shown.startswith("..."):
        at = lines[line_number - 1].find(shown[3:].removesuffix("..."))
        column = column - 3 + max(at, 0)
    return offset + start + column
