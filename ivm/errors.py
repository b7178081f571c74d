"""The error tree (drawn in `ivm.storage.errors`), under the name users import it by."""

from ivm.storage.errors import (
    AccessError,
    ConstraintError,
    CorruptionError,
    EvaluationError,
    InputError,
    InternalError,
    IvmError,
    SchemaMismatchError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "AccessError",
    "ConstraintError",
    "CorruptionError",
    "EvaluationError",
    "InputError",
    "InternalError",
    "IvmError",
    "SchemaMismatchError",
    "SqlError",
    "UnavailableError",
    "UnsupportedError",
]
