"""The macros and unstable functions that a cursor sees, as DuckDB lists them.

Law: a list holds until a function or a macro is created, replaced or dropped. DuckDB takes some ten
milliseconds to make it, so it is asked for once for all that is bound meanwhile.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ivm.sql.plan.built_in import places
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duck import Cursor, rows

# Other attached databases have names of their own.
REACHED = "database_name IN (system.main.current_database(), 'temp', 'system')"
_LIST = f"""
SELECT function_name, function_type = 'table_macro',
    parameters, macro_definition,
    system.main.len(system.main.list_filter(parameter_types, lambda t: t IS NOT NULL)) > 0,
    internal, internal OR schema_name IN (system.main.current_schema(), 'main'),
    function_type = 'aggregate'
FROM system.main.duckdb_functions()
WHERE function_type IN ('macro', 'table_macro') AND macro_definition IS NOT NULL AND {REACHED}
    OR internal AND stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY')
    OR function_type = 'aggregate'
ORDER BY system.main.len(parameters)
"""


@dataclass(frozen=True)
class Macro:
    """One macro, or one of several with the same name and other parameters.

    Attributes:
        table: it is called in FROM.
        typed: its parameters have types.
        internal: DuckDB's own.
        near: a name without a schema may mean it.
    """

    name: str
    table: bool
    parameters: tuple[str, ...]
    definition: str
    typed: bool
    internal: bool
    near: bool

    @property
    def query(self) -> str:
        """The definition as a query, that of a scalar macro of one row."""
        return self.definition if self.table else f"SELECT {self.definition}"


@dataclass(frozen=True)
class FunctionList:
    """What there is.

    Attributes:
        unstable: what may differ from call to call, the user's own Python functions included.
        aggregates: the functions of many rows.
        macros: those with fewer parameters first.
    """

    unstable: frozenset[str]
    aggregates: frozenset[str]
    macros: tuple[Macro, ...]

    @functools.cached_property
    def hiding(self) -> frozenset[str]:
        """The names of the user's macros that are names of built-in functions too."""
        own = [macro.name for macro in self.macros if macro.near and not macro.internal]
        return frozenset([name for name in own if name in places()])


def own_names(cursor: Cursor) -> frozenset[str]:
    """The names, folded, of the user's functions and macros that text may mean."""
    names = f"""SELECT DISTINCT function_name FROM system.main.duckdb_functions()
        WHERE NOT internal AND {REACHED}"""
    return frozenset([fold(name) for (name,) in rows(cursor, names)])


def list_functions(cursor: Cursor) -> FunctionList:
    """The functions that a cursor sees."""
    found = rows(cursor, _LIST)
    macros = [
        Macro(fold(name), table, tuple(map(fold, parameters)), *rest)
        for name, table, parameters, *rest, _ in found
        if rest[0] is not None
    ]
    others = [
        (fold(name), aggregate) for name, _, _, definition, *_, aggregate in found if not definition
    ]
    aggregates = frozenset([name for name, aggregate in others if aggregate])
    unstable = frozenset([name for name, aggregate in others if not aggregate])
    return FunctionList(unstable, aggregates, tuple(macros))
