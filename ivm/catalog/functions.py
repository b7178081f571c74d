"""The user's Python functions in SQL, also in views.

Contract: a function that a view calls returns the same value for the same arguments. Functions are
not stored: those that views call are passed to every `connect`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import duckdb
from duckdb import PythonExceptionHandling, sqltypes
from duckdb.func import FunctionNullHandling, PythonUDFType

from ivm.storage.errors import InputError
from ivm.storage.warehouse.duckdb.duck import Cursor

V = TypeVar("V")
SqlType: TypeAlias = str | sqltypes.DuckDBPyType
Kind: TypeAlias = Literal["native", "arrow"]
NullHandling: TypeAlias = Literal["default", "special"]
ExceptionHandling: TypeAlias = Literal["default", "return_null"]
_KINDS = {"native": PythonUDFType.NATIVE, "arrow": PythonUDFType.ARROW}
_NULLS = {"default": FunctionNullHandling.DEFAULT, "special": FunctionNullHandling.SPECIAL}
_ERRORS = {
    "default": PythonExceptionHandling.DEFAULT,
    "return_null": PythonExceptionHandling.RETURN_NULL,
}


@dataclass(frozen=True)
class Function:
    """A Python function to be called from SQL.

    Attributes:
        name: in SQL.
        function: takes one value a parameter and returns one (``native``), or takes Arrow arrays
            and returns one of the same length (``arrow``).
        parameters: DuckDB types, as text or `duckdb.sqltypes`; None reads them from the function's
            annotations.
        returns: a DuckDB type; None reads it from the annotations.
        type: ``native`` or ``arrow``.
        null_handling: ``default``: a NULL argument gives NULL without a call; ``special``: the
            function is called with it.
        exception_handling: ``default``: what the function raises refuses the statement;
            ``return_null``: its value is NULL then.
        side_effects: its value may differ from call to call; views may not call it.
    """

    name: str
    function: Callable[..., Any]
    parameters: Sequence[SqlType] | None = None
    returns: SqlType | None = None
    type: Kind | PythonUDFType = "native"
    null_handling: NullHandling | FunctionNullHandling = "default"
    side_effects: bool = False
    exception_handling: ExceptionHandling | PythonExceptionHandling = "default"

    def register(self, cursor: Cursor) -> None:
        """Makes the function known to every cursor of the database.

        Raises:
            InputError: DuckDB does not accept it (a name in use, an unknown type).
        """
        type = _meant(self.type, _KINDS)
        nulls = _meant(self.null_handling, _NULLS)
        errors = _meant(self.exception_handling, _ERRORS)
        if type is None or nulls is None or errors is None:
            raise InputError(
                f"function {self.name!r}: type is 'native' or 'arrow', null_handling 'default' or "
                "'special', exception_handling 'default' or 'return_null', not "
                f"{self.type!r}, {self.null_handling!r}, {self.exception_handling!r}"
            )
        parameters: list[Any] | None = None
        if self.parameters is not None:
            parameters = list(self.parameters)
        try:
            cursor.create_function(
                self.name,
                self.function,
                parameters,
                self.returns,
                type=type,
                null_handling=nulls,
                exception_handling=errors,
                side_effects=self.side_effects,
            )
        except duckdb.Error as error:
            raise InputError(f"function {self.name!r} cannot be registered: {error}") from error


def demand_function(given: object) -> Function:
    """The argument; raises InputError if it is no `Function`."""
    if not isinstance(given, Function):
        raise InputError(f"give ivm.Function(name, function), not {given!r}")
    return given


def _meant(given: str | V, names: Mapping[str, V]) -> V | None:
    """The value that is given, or its name; None for others."""
    if isinstance(given, str):
        return names.get(given)
    return given if given in names.values() else None
