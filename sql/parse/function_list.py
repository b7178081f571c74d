"""The macros, aggregates and unstable functions that a cursor sees, as DuckDB lists them.

Invariant: a list is valid until a function or a macro is created, replaced or dropped, or an
extension or a database brings some. DuckDB takes some 20 ms to make it, so callers keep one for all
that they ask meanwhile.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ivm.sql.plan.built_in import FACTS, schema_prefixes
from ivm.sql.plan.known_functions import OF_THE_SESSION, VOLATILE, is_fixed, unknown_functions
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

# Functions and views of other attached databases are called only by qualified names.
VISIBLE_DATABASES = "database_name IN (system.main.current_database(), 'temp', 'system')"
_LIST = f"""
SELECT function_name, function_type = 'table_macro',
    parameters, macro_definition,
    system.main.len(system.main.list_filter(parameter_types, lambda t: t IS NOT NULL)) > 0,
    internal, internal OR schema_name IN (system.main.current_schema(), 'main'),
    function_type = 'aggregate', {VISIBLE_DATABASES}
FROM system.main.duckdb_functions()
WHERE function_type IN ('macro', 'table_macro') AND macro_definition IS NOT NULL
    OR internal AND stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY')
    OR function_type = 'aggregate'
ORDER BY system.main.len(parameters)
"""


@dataclass(frozen=True)
class Macro:
    """A macro, or one overload of it.

    Attributes:
        table: it is a table macro.
        typed: its parameters have types.
        internal: it is DuckDB's own.
        on_search_path: a name without a schema may mean it.
    """

    name: str
    table: bool
    parameters: tuple[str, ...]
    definition: str
    typed: bool
    internal: bool
    on_search_path: bool

    @property
    def query(self) -> str:
        """The definition as a query; a scalar macro's has one row."""
        return self.definition if self.table else f"SELECT {self.definition}"


@dataclass(frozen=True)
class FunctionList:
    """The functions that matter to a view, by folded name.

    Attributes:
        unstable: functions whose result may differ from call to call, those of extensions and those
            of which nothing is known included.
        aggregates: the aggregate functions.
        macros: the macros, fewest parameters first.
        elsewhere: names of macros of other databases that are attached.
    """

    unstable: frozenset[str]
    aggregates: frozenset[str]
    macros: tuple[Macro, ...]
    elsewhere: frozenset[str]

    @functools.cached_property
    def own(self) -> frozenset[str]:
        """The names of the user's macros."""
        return frozenset([macro.name for macro in self.macros if not macro.internal])

    @functools.cached_property
    def every_macro(self) -> frozenset[str]:
        """The names of the user's macros, of other databases too."""
        return self.own | self.elsewhere

    @functools.cached_property
    def hiding(self) -> frozenset[str]:
        """The names of the user's macros that hide a built-in function."""
        own = [macro.name for macro in self.macros if macro.on_search_path and not macro.internal]
        return frozenset([name for name in own if name in schema_prefixes()])


@functools.cache
def built_in_functions() -> FunctionList:
    """The list of a database that has none of its own, which is the same for all of a process."""
    with FACTS.borrow() as facts:
        return list_functions(facts)


def list_functions(cursor: Cursor) -> FunctionList:
    """Reads the functions that a cursor sees from DuckDB's catalog."""
    found = rows(cursor, _LIST)
    macros = [
        Macro(fold(name), table, tuple(map(fold, parameters)), *rest)
        for name, table, parameters, *rest, _, visible in found
        if rest[0] is not None and visible
    ]
    others = [
        (fold(name), aggregate)
        for name, _, _, definition, *_, aggregate, _ in found
        if not definition
    ]
    elsewhere = frozenset([fold(n) for n, _, _, made, *_, visible in found if made and not visible])
    aggregates = frozenset([name for name, aggregate in others if aggregate])
    told = frozenset([name for name, aggregate in others if not aggregate and not is_fixed(name)])
    unstable = told | OF_THE_SESSION | VOLATILE | unknown_functions()
    return FunctionList(unstable, aggregates, tuple(macros), elsewhere)
