"""The relations that a statement reads, found from its text.

Contract: the answer may name too many, never too few. The relations of a query are DuckDB's own
answer. In any other statement every word may name a relation, and the name of a plain view, a macro
or a function that runs SQL means all relations. Definitions that only one session sees (temporary
ones, and those not committed yet) are known to its own cursor alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import duckdb

from ivm.catalog.catalog import Catalog
from ivm.sql.parse.function_list import list_functions
from ivm.sql.resolve.bound_relations import last_names
from ivm.sql.statements.text.tokens import without_parameters
from ivm.storage.identifiers import fold, path_of, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor, lenient, rows
from ivm.storage.warehouse.warehouse import Warehouse

_DYNAMIC = {"query", "query_table"}
_MAX_STATEMENTS = 4096
_UNKNOWN = frozenset({"\0"})
_TRIGGERS = "SELECT 1 FROM system.main.duckdb_triggers() LIMIT 1"
_generations = itertools.count()
T = TypeVar("T")


class Relations:
    """The answers by text, of one state of the catalog; whoever changes it replaces them whole.

    Args:
        warehouse: gives the cursors that are asked.
        catalog: the relations that can be named.
        macros: tells the folded names of the macros that everybody sees.
        python_functions: the folded names of Python functions that are registered.

    Attributes:
        generation: a number that no other has: with another, names may mean something else.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        catalog: Catalog,
        macros: Callable[[], frozenset[str]],
        python_functions: frozenset[str] = frozenset(),
    ) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._macros = macros
        self._known: dict[str, frozenset[str] | None] = {}
        self._listed: set[str] = set()
        self._facts: dict[str, Any] = {}  # of the file, once they were asked for
        self.generation = next(_generations)
        self.python_functions = python_functions

    def renewed(self, python_functions: Iterable[str] = ()) -> Relations:
        """Those of the next generation, which know no answer yet.

        Args:
            python_functions: more of them, that have been registered.
        """
        functions = self.python_functions.union(map(fold, python_functions))
        return Relations(self._warehouse, self._catalog, self._macros, functions)

    def everything(self) -> frozenset[str]:
        """All tables and views."""
        return frozenset((*self._catalog.tables, *self._catalog.views))

    def read_by(self, sql: str) -> frozenset[str] | None:
        """The canonical names of the tables and views that a statement reads.

        Returns:
            None if it names a relation that is not in the catalog: see `seen_by`.
        """
        answer = self._known.get(sql, _UNKNOWN)
        if answer is not _UNKNOWN:
            return answer
        return frozenset() if self.names_none(sql) else self._ask(sql)

    def _ask(self, sql: str) -> frozenset[str] | None:
        known = self._known
        if len(known) >= _MAX_STATEMENTS:
            known.clear()
            self._listed.clear()
        found, certain, all_listed = self._find(sql, self._warehouse.cursor(), self._file_indirect)
        answer = known[sql] = found if certain else None
        if all_listed:
            self._listed.add(sql)
        return answer

    def names_none(self, sql: str) -> bool:
        """Returns whether no word of a text can mean a relation, or what may read one."""
        names = self._fact("names", lambda: WordSet([*self._lasts(), *self._file_indirect()]))
        return not names.may_occur_in(sql)

    def triggers(self) -> bool:
        """Returns whether the file has triggers; a change reads the relations that they read."""
        return self._fact("triggers", lambda: bool(rows(self._warehouse.cursor(), _TRIGGERS)))

    def may_call_python(self, sql: str) -> bool:
        """Returns whether a text may call a Python function, perhaps by a view or a macro."""
        own = self.python_functions
        if not own:
            return False
        called = self._fact("called", lambda: WordSet([*own, *self._file_indirect()]))
        return called.may_occur_in(sql)

    def may_name_definition(self, sql: str) -> bool:
        """Returns whether a text may name a plain view, a macro or a function that runs SQL."""
        return self._fact("words", lambda: WordSet(self._file_indirect())).may_occur_in(sql)

    def seen_by(self, cursor: Cursor, sql: str) -> frozenset[str]:
        """The same answer as a session's cursor sees it; its transaction survives an error."""
        with lenient(cursor):
            # A name that is unknown here too is of no relation of ours.
            found, *_ = self._find(sql, cursor, lambda: self._seen_indirect(cursor))
        return found

    def names_relations_alone(self, sql: str) -> bool:
        """Returns whether DuckDB has listed the names in a query, and all are of relations.

        False for a text that has not been asked for yet, if some word of it may name one.
        """
        if sql not in self._known and self.names_none(sql):
            self._ask(sql)
        return sql in self._listed

    def _fact(self, name: str, told: Callable[[], T]) -> T:
        """What is asked for once; two threads may both ask."""
        if name not in self._facts:
            self._facts[name] = told()
        fact: T = self._facts[name]
        return fact

    def _lasts(self) -> Iterator[str]:
        return map(_last, self.everything())

    def _file_indirect(self) -> set[str]:
        """What `_indirect` tells of the file."""
        ask = self._warehouse.cursor
        return self._fact("indirect", lambda: _indirect(ask(), self._catalog, self._macros()))

    def _seen_indirect(self, cursor: Cursor) -> set[str]:
        return _indirect(cursor, self._catalog, list_functions(cursor).every_macro)

    def _find(
        self, sql: str, cursor: Cursor, indirect: Callable[[], set[str]]
    ) -> tuple[frozenset[str], bool, bool]:
        """The relations, whether every name is of one of them, and whether DuckDB has said so."""
        words, plain = words_in(sql), without_parameters(sql)
        if plain != sql and WordSet(indirect()).may_occur_in(sql):
            return self.everything(), True, False  # a parameter may name what is read
        try:
            named = cursor.get_table_names(plain, qualified=True)
        except duckdb.InterruptException:
            raise
        except duckdb.Error:  # no SELECT, or it does not bind: DuckDB will say so
            if WordSet(indirect()).may_occur_in(sql):
                return self.everything(), True, False
            meant = [name for name in self.everything() if words_in(_last(name)) <= words]
            return frozenset(meant), True, False
        wanted = last_names(named)
        found = self._named(wanted)
        certain = wanted == {_last(name) for name in found}
        in_main = all(
            path_of(name)[:-1] == ("main",) for name in found
        )  # else it may lack the name
        return found, certain, certain and in_main and words.isdisjoint(_DYNAMIC)

    def _named(self, wanted: frozenset[str]) -> frozenset[str]:
        return frozenset(name for name in self.everything() if _last(name) in wanted)


def _last(name: str) -> str:
    return fold(path_of(name)[-1])


class WordSet:
    """Names that a text may spell, quoted or not.

    Which quotes belong together cannot be told without reading the strings of the text. So a name
    may be there if all its words are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        words = [words_in(name) for name in names]
        self._single = frozenset([word for each in words if len(each) == 1 for word in each])
        self._others = [each for each in words if len(each) != 1]

    def may_occur_in(self, text: str) -> bool:
        """Returns whether a text may spell one of the names."""
        words = words_in(text)
        return not self._single.isdisjoint(words) or any(each <= words for each in self._others)


def _indirect(cursor: Cursor, catalog: Catalog, macros: frozenset[str]) -> set[str]:
    """The folded names of plain views, macros and functions that run SQL."""
    listed = rows(cursor, "SELECT view_name FROM system.main.duckdb_views() WHERE NOT internal")
    found = [fold(name) for (name,) in listed]
    for name, info in catalog.tables.items():
        if info.history is not None and _last(name) in found:
            found.remove(_last(name))  # its own view; others of the name may stand elsewhere
    return {*found, *macros, *_DYNAMIC}
