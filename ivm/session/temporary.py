"""Temporary relations, types and macros are refused in materialized views, which sessions share.

Invariant: no view is bound, filled or verified in a session in which a name in its text, or in the
plain views and macros behind it, means something temporary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ivm.engine.view_reads import views_and_macros, words_of, words_with_definitions
from ivm.session.names import Temporary
from ivm.sql.resolve.bound_relations import bound_relations
from ivm.storage.errors import UnsupportedError
from ivm.storage.warehouse.duck import Cursor


def refuse_temporary(
    cursor: Cursor, temporary: Sequence[Temporary], queries: Iterable[tuple[str, str]]
) -> None:
    """Refuses views whose queries would read something temporary in a session.

    Args:
        cursor: the session's.
        temporary: the session's temporary things.
        queries: names of views, and their texts.

    Raises:
        UnsupportedError: a query would, or may, read a temporary thing.
    """
    asked = list(queries) if temporary else []
    texts = views_and_macros(cursor) if asked else []
    for view, query in asked:
        words = words_with_definitions(query, texts)
        suspects = [each for each in temporary if words.issuperset(words_of(each.name))]
        if suspects and (_more_than_tables(suspects) or _reads_temporary(cursor, query)):
            kind, name = suspects[0]
            raise UnsupportedError(
                f"the materialized view {view!r} would read the temporary {kind} {name!r}, which "
                f"this session alone sees: drop it (DROP {kind.upper()} temp.{name}), or give it "
                "another name, or use another session"
            )


def _more_than_tables(suspects: Sequence[Temporary]) -> bool:
    return any(each.kind != "table" for each in suspects)


def _reads_temporary(cursor: Cursor, query: str) -> bool:
    """Returns whether DuckDB binds a temporary table in the query, or its plan is too deep."""
    paths = bound_relations(cursor, query)
    return paths is None or any(path[0] == "temp" for path in paths)
