"""Plans of queries over databases whose macros stay what they are once a query has been bound.

DuckDB takes as long to list its functions as to bind a query: it is asked once for each database.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.nodes import Plan
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.warehouse.duckdb.duck import Cursor

_lists: WeakKeyDictionary[Cursor, FunctionList] = WeakKeyDictionary()


def bound(query: str, cursor: Cursor) -> Plan:
    """The plan of a query, as written."""
    functions = _lists.get(cursor)
    if functions is None:
        functions = _lists[cursor] = list_functions(cursor)
    return bind(query, DuckCatalog(cursor), cursor, functions)


def planned(query: str, cursor: Cursor) -> Plan:
    """The rewritten plan of a query."""
    return rewrite(bound(query, cursor))
