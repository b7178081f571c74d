"""The tables that a query reads, from DuckDB's own bound plan or its list of names.

Contract: every table that the query scans, also below views and macros; names in the query's text
are not interpreted. The plan tells full paths. The list tells names alone, also of a query whose
plan DuckDB cannot serialize (USING KEY).
"""

from __future__ import annotations

import re

import duckdb

from ivm.storage.identifiers import Path, fold, split_name
from ivm.storage.warehouse.duckdb.duck import Cursor, lenient, rows

_NAME = re.compile(r'(?:"(?:[^"]|"")*"|[^"\s])+')  # of a relation; " AS alias" may follow
# Of scans alone: types that a plan names have paths, too.
_SCANNED = """
SELECT CAST(system.main.json_extract(plan, '$.error') AS BOOLEAN),
       CAST(system.main.json_extract(plan, '$..function_data.qualified_name.path') AS VARCHAR[][])
FROM (SELECT CASE WHEN plan <> '' THEN plan END AS plan
      FROM (SELECT CAST(system.main.json_serialize_plan($1) AS VARCHAR) AS plan))
"""


def bound_relations(cursor: Cursor, query: str) -> frozenset[Path] | None:
    """Returns database, schemas and name of each table that a query scans.

    Args:
        cursor: sees the tables; its transaction survives a query that does not bind.

    Returns:
        The paths; None if the query does not bind or DuckDB cannot serialize its plan.
    """
    ((failed, paths),) = rows(cursor, _SCANNED, [query])
    return None if failed or paths is None else frozenset(tuple(path) for path in paths)


def listed_names(cursor: Cursor, query: str) -> frozenset[str] | None:
    """Returns the last name, folded, of each table that a query scans.

    Args:
        cursor: as of `bound_relations`.
        query: without parameters.

    Returns:
        The names; None if it is no query, or does not bind.
    """
    try:
        with lenient(cursor):
            return last_names(cursor.get_table_names(query, qualified=True))
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        return None


def last_names(listed: set[str]) -> frozenset[str]:
    """The last names, folded, of what DuckDB lists as names of tables, some with an alias."""
    return frozenset(fold(split_name(_NAME.findall(name)[0])[-1]) for name in listed)
