"""The user's Python functions in SQL, also in views.

Contract: a function that a view calls returns the same value for the same arguments. Functions are
not stored: those that views call are passed to every `connect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import duckdb
from duckdb.func import FunctionNullHandling, PythonUDFType

from ivm.storage.errors import InputError
from ivm.storage.warehouse.duck import Cursor

Kind: TypeAlias = Literal["native", "arrow"]
NullHandling: TypeAlias = Literal["default", "special"]
_KINDS = {"native": PythonUDFType.NATIVE, "arrow": PythonUDFType.ARROW}
_NULLS = {"default": FunctionNullHandling.DEFAULT, "special": FunctionNullHandling.SPECIAL}


def demand_function(given: object) -> None:
    """Raises InputError if the argument is no `Function`."""
    if not isinstance(given, Function):
        raise InputError(f"give ivm.Function(name, function), not {given!r}")


@dataclass(frozen=True)
class Function:
    """A Python function to be called from SQL.

    Attributes:
        name: in SQL.
        function: takes one value a parameter and returns one (``native``), or takes Arrow arrays
            and returns one of the same length (``arrow``).
        parameters: DuckDB types; None reads them from the function's annotations.
        returns: a DuckDB type; None reads it from the annotations.
        type: ``native`` or ``arrow``.
        null_handling: ``default``: a NULL argument gives NULL without a call; ``special``: the
            function is called with it.
        side_effects: its value may differ from call to call; views may not call it.
    """

    name: str
    function: Callable[..., Any]
    parameters: Sequence[str] | None = None
    returns: str | None = None
    type: Kind = "native"
    null_handling: NullHandling = "default"
    side_effects: bool = False

    def register(self, cursor: Cursor) -> None:
        """Makes the function known to every cursor of the database.

        Raises:
            InputError: DuckDB does not accept it (a name in use, an unknown type).
        """
        if self.type not in _KINDS or self.null_handling not in _NULLS:
            raise InputError(
                f"function {self.name!r}: type is 'native' or 'arrow', null_handling 'default' or "
                f"'special', not {self.type!r}, {self.null_handling!r}"
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
                type=_KINDS[self.type],
                null_handling=_NULLS[self.null_handling],
                side_effects=self.side_effects,
            )
        except duckdb.Error as error:
            raise InputError(f"function {self.name!r} cannot be registered: {error}") from error
