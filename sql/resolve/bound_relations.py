"""Which relations a query reads, as DuckDB itself binds it.

Law: the answer is the whole path of every table that the bound plan scans, also below views and
macros, whatever names stand in their texts; nothing is guessed.
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
    """Database, schemas and name of each table that a query scans.

    Args:
        cursor: sees them; its transaction goes on even if the query does not bind.

    Returns:
        None if DuckDB cannot tell: the query does not bind, or its plan cannot be written.
    """
    ((failed, paths),) = rows(cursor, _SCANNED, [query])
    return None if failed or paths is None else frozenset(tuple(path) for path in paths)
