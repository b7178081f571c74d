"""The tables that a query reads, from DuckDB's own bound plan.

Contract: the full path of every table that the bound plan scans, also below views and macros;
names in the query's text are not interpreted.
"""

from __future__ import annotations

from ivm.storage.identifiers import Path
from ivm.storage.warehouse.duck import Cursor, rows

_SCANNED = """
SELECT CAST(system.main.json_extract(plan, '$.error') AS BOOLEAN),
       CAST(system.main.json_extract(plan, '$..qualified_name.path') AS VARCHAR[][])
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
