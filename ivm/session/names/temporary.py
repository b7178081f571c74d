"""Temporary relations, types and macros are refused in materialized views, which sessions share.

Invariant: no view is bound, filled or verified in a session in which a name in its text, or in the
plain views and macros behind it, means something temporary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ivm.engine.views.view_reads import mentions, views_and_macros, words_with_definitions
from ivm.session.names.names import Temporary
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor


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
        suspects = [each for each in temporary if words.issuperset(words_in(each.name))]
        if suspects and not _more_than_tables(suspects):
            suspects = _read(cursor, query, suspects)
        if suspects:
            kind, name = suspects[0]
            raise UnsupportedError(
                f"the materialized view {view!r} would read the temporary {kind} {name!r}, which "
                f"this session alone sees: drop it (DROP {kind.upper()} temp.{name}), or give it "
                "another name, or use another session"
            )


def _more_than_tables(suspects: Sequence[Temporary]) -> bool:
    return any(each.kind != "table" for each in suspects)


def _read(cursor: Cursor, query: str, tables: Sequence[Temporary]) -> list[Temporary]:
    """The temporary tables among these that DuckDB binds in the query, or may bind."""
    found = mentions(cursor, query)
    if found.paths is None:
        return [table for table in tables if found.may_be(table.name)]
    names = {fold(path[-1]) for path in found.paths if path[0] == "temp"}
    return [table for table in tables if fold(table.name) in names]
