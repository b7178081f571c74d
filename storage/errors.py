"""Every error the database raises, sorted by what its reader can do about it.

    IvmError
    ├── InputError            the statement or the data is wrong: mend it
    │   ├── SqlError          the SQL text does not parse or bind (carries a position)
    │   ├── ConstraintError   a key, NOT NULL, CHECK or type forbids the change
    │   ├── SchemaMismatchError   a table cannot follow the one upstream (carries the way out)
    │   └── EvaluationError   an expression of a view fails (overflow, bad cast) on this change
    │                         or, of a broken view, on an earlier one
    ├── UnsupportedError      it has no meaning here: the message names the way out
    ├── UnavailableError      not now (a lock, a failed transaction, a disk): retry or reopen
    │   └── AccessError           a served database: the user may not, or nobody has logged in
    ├── CorruptionError       stored data is damaged or foreign: restore it, or ivm.recover
    └── InternalError         a fault of ours: please report it

A message names the thing and the value, gives the reason and ends with the way out.
"""

from __future__ import annotations


class IvmError(Exception):
    """Base of all errors that leave the package, whatever was raised inside."""


class InputError(IvmError):
    """The statement or the data is wrong."""


class SqlError(InputError):
    """SQL text that does not parse or bind.

    Args:
        message: what is wrong and what to do.
        position: zero-based character offset in the statement, if known.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class ConstraintError(InputError):
    """A key, NOT NULL, CHECK, foreign key or type forbids the change; nothing was applied."""


class EvaluationError(InputError):
    """An expression fails on this change (overflow, bad cast), and nothing was applied.

    Or the view that is read is broken: it fails on an earlier change of a stream.

    Attributes:
        views: the views that the failing operator feeds (set by the circuit).
    """

    views: frozenset[str] = frozenset()


class SchemaMismatchError(InputError):
    """A table cannot follow its upstream table without losing or inventing values.

    Args:
        message: the table, the columns and both types; ends with the statements.
        statements: what resolves it.
    """

    def __init__(self, message: str, statements: tuple[str, ...]) -> None:
        super().__init__(message)
        self.statements = statements


class UnsupportedError(IvmError):
    """A construct that has no meaning here.

    Args:
        message: names the construct, the reason and the way out.
        position: zero-based character offset in the statement, if known.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class UnavailableError(IvmError):
    """The database cannot serve this now; the message says what comes first.

    The file is locked, the handle closed, the disk full; a statement of the transaction has failed
    or was interrupted, and with it all of it; work in the background has failed; or it is not known
    whether a commit is in the file, and only opening it again shows it.
    """


class AccessError(UnavailableError):
    """A login or a statement that a served database does not allow."""


class CorruptionError(IvmError):
    """Stored data is damaged, not ours, or does not fit its log; nothing was changed.

    Where file and log do not fit each other, `ivm.recover` offers the ways out.
    """


class InternalError(IvmError):
    """A fault of this program. Please report it with the statement that led to it."""
