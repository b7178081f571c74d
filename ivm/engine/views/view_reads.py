"""The relations that a view reads: by DuckDB's plan of its query, its list of names, or the words.

Contract: they are those whose rows determine the answer, also through plain views and macros. The
answer found by names or words may name too many, never too few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ivm.catalog.version import CatalogVersion, View
from ivm.sql.parse.function_list import VISIBLE_DATABASES, FunctionList, list_functions
from ivm.sql.resolve.bound_relations import bound_relations, listed_names
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import Path, canonical_name, fold, path_of, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.history import paths

_VIEWS = f"""
SELECT view_name, sql, CASE WHEN database_name = current_database() THEN schema_name END, view_name
FROM system.main.duckdb_views() WHERE NOT internal AND {VISIBLE_DATABASES}
"""
NamedText = tuple[str, str]
"""The name and the text of a plain view or macro."""


class Mentions(NamedTuple):
    """What a query names, by the most exact of what DuckDB tells.

    Attributes:
        paths: of the tables that its plan scans; None if there is no plan.
        names: the last names, folded, that DuckDB lists where there is no plan; None if it is no
            query, or does not bind.
        words: else those of the query, and of the plain views and macros that it names.
    """

    paths: frozenset[Path] | None
    names: frozenset[str] | None = None
    words: frozenset[str] = frozenset()

    def may_be(self, last: str) -> bool:
        """Returns whether a relation of that last name is one of these, where no plan tells."""
        return self.words >= words_in(last) if self.names is None else fold(last) in self.names


def mentions(cursor: Cursor, query: str) -> Mentions:
    """What a query names.

    Args:
        cursor: sees what the names mean; its transaction survives a query that does not bind.
        query: without parameters.
    """
    paths = bound_relations(cursor, query)
    names = listed_names(cursor, query) if paths is None else None
    if paths is not None or names is not None:
        return Mentions(paths, names)
    return Mentions(None, None, frozenset(words_with_definitions(query, views_and_macros(cursor))))


def relations_read(
    version: CatalogVersion, cursor: Cursor, query: str, name: str
) -> frozenset[str]:
    """The canonical names of the relations that a view's query reads, also through plain views.

    Raises:
        UnsupportedError: it reads a relation whose changes cannot be followed, or, while views are
            loaded, one that was made after it.
        SqlError: it reads the view itself.
    """
    found = mentions(cursor, query)
    if found.paths is None:  # a plan of thousands of levels, or USING KEY
        return _mentioned(version, found) - {name}
    unstored = {f"_ivm.{t.history.added}": t.name for t in version.tables.values() if t.history}
    reads = set()
    for database, *path in found.paths:
        resolved = canonical_name(path)
        resolved = unstored.get(resolved, resolved)  # what DuckDB reads of it while it is a stub
        if database != version.database or resolved not in version.qualified:
            raise UnsupportedError(
                f"view {name!r} reads {'.'.join([database, *path])}, which is no table of this "
                "database (a temporary table, a file, or a table of another database): its changes "
                "cannot be followed; load it into a table first"
            )
        if resolved == name:
            raise SqlError(f"view {name!r} cannot read itself; WITH RECURSIVE says recursion")
        if resolved in version.expected:
            raise _made_after(name, [resolved])
        reads.add(resolved)
    return frozenset(reads)


def demand_earlier(version: CatalogVersion, name: str, reads: Iterable[str]) -> None:
    """Demands that a view reads none that was made after it, since views are kept in that order.

    Raises:
        UnsupportedError: it does.
    """
    order = list(version.views)
    later = [n for n in reads if n in order and order.index(n) > order.index(name)]
    if later:
        raise _made_after(name, later)


def _made_after(name: str, later: Iterable[str]) -> UnsupportedError:
    return UnsupportedError(
        f"the materialized view {name} would then read {', '.join(later)}, which was created after "
        f"it: drop {name} first, and create it anew"
    )


def _mentioned(version: CatalogVersion, found: Mentions) -> frozenset[str]:
    """The relations whose names are told, of any schema."""
    told = found.names or ()
    stubs = {t.name for t in version.tables.values() if t.history and t.history.added in told}
    every = (*version.tables, *version.views)
    return frozenset(n for n in every if n in stubs or found.may_be(path_of(n)[-1]))


def views_and_macros(cursor: Cursor, functions: FunctionList | None = None) -> list[NamedText]:
    """All plain views and macros that the cursor sees.

    Args:
        cursor: the cursor.
        functions: those that it sees, listed anew if not given.
    """
    unstored, found = paths(cursor), rows(cursor, _VIEWS)
    views = [(name, text) for name, text, *path in found if tuple(path) not in unstored]
    known = list_functions(cursor) if functions is None else functions
    return views + [(m.name, m.definition) for m in known.macros if not m.internal]


def words_with_definitions(query: str, definitions: list[NamedText]) -> set[str]:
    """The words of a query and of the definitions that it names, directly or through others."""
    named = definitions_named(query, definitions)
    return words_in(query).union(*[words_in(text) for _, text in named])


def definitions_named(query: str, definitions: list[NamedText]) -> list[NamedText]:
    """The definitions whose names are words of a query, or of others that it names."""
    words, rest, named = words_in(query), definitions, list[NamedText]()
    while found := [each for each in rest if words.issuperset(words_in(each[0]))]:
        rest = [definition for definition in rest if definition not in found]
        words.update(*(words_in(text) for _, text in found))
        named += found
    return named


def views_shadowed_by(version: CatalogVersion, cursor: Cursor, name: str) -> list[View]:
    """The views for which a new relation may hide main's relation of the same last name.

    A plain view of a schema resolves names there before it does in main.

    Args:
        version: has the views.
        cursor: sees the plain views and macros.
        name: the canonical name of the new relation.
    """
    *schemas, last = path_of(name)
    views = list(version.views.values()) if schemas[-1] != "main" else []
    named, texts = words_in(f"{schemas[-1]} {last}"), views_and_macros(cursor) if views else []
    return [v for v in views if words_with_definitions(v.query, texts) >= named and v.name != name]
