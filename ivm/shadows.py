"""Temporary things of a session stay out of the materialized views, which all sessions share.

Law: no text of a view is bound, filled or checked where a name in it, or in the plain views and
macros behind it, means something that only the session sees.
"""

from __future__ import annotations

from collections.abc import Iterable

from ivm.sql.bound_relations import bound_relations
from ivm.storage.duck import Cursor, rows
from ivm.storage.errors import UnsupportedError
from ivm.views import stand_ins, words_behind, words_of

_TEMPORARY = """
SELECT 'table', table_name FROM system.main.duckdb_tables() WHERE temporary
UNION ALL SELECT 'view', view_name FROM system.main.duckdb_views() WHERE temporary AND NOT internal
UNION ALL SELECT 'type', type_name FROM system.main.duckdb_types()
WHERE database_name = 'temp' AND NOT internal
UNION ALL SELECT DISTINCT 'macro', function_name FROM system.main.duckdb_functions()
WHERE database_name = 'temp' AND NOT internal
"""


def refuse_temporary(cursor: Cursor, queries: Iterable[tuple[str, str]]) -> None:
    """Nothing temporary is meant by these queries, as a session would read them.

    Args:
        cursor: the session's.
        queries: names of views, and their texts.

    Raises:
        UnsupportedError: something is, or may be.
    """
    found = [(kind, str(name)) for kind, name in rows(cursor, _TEMPORARY)]
    behind = stand_ins(cursor) if found else []
    for view, query in queries if found else ():
        words = words_behind(query, behind)
        suspects = [each for each in found if words.issuperset(words_of(each[1]))]
        if suspects and (_more_than_tables(suspects) or _reads_temporary(cursor, query)):
            kind, name = suspects[0]
            raise UnsupportedError(
                f"the materialized view {view!r} would read the temporary {kind} {name!r}, which "
                f"this session alone sees: drop it (DROP {kind.upper()} temp.{name}), or give it "
                "another name, or use another session"
            )


def _more_than_tables(suspects: list[tuple[str, str]]) -> bool:
    return any(kind != "table" for kind, _ in suspects)


def _reads_temporary(cursor: Cursor, query: str) -> bool:
    """Whether DuckDB binds a temporary table, or cannot tell."""
    paths = bound_relations(cursor, query)
    return paths is None or any(path[0] == "temp" for path in paths)
