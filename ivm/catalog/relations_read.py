"""The relations that a statement reads, found from its text.

Contract: the answer may name too many, never too few. The relations of a query are DuckDB's own
answer. In any other statement every word may name a relation, and the name of a plain view, a macro
or a function that runs SQL means all relations. Definitions that only one session sees (temporary
ones, and those not committed yet) are known to its own cursor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


class Relations:
    """A cache of answers by text, emptied whenever the catalog changes.

    An answer computed while the catalog changes is not cached: it may be of the catalog before.

    Args:
        warehouse: gives the cursors that are asked.
        catalog: the relations that can be named.
        macros: tells the folded names of the macros that everybody sees.

    Attributes:
        generation: a number that grows whenever names may come to mean something else.
        python_functions: the folded names of Python functions that are registered.
    """

    def __init__(
        self, warehouse: Warehouse, catalog: Catalog, macros: Callable[[], frozenset[str]]
    ) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._macros = macros
        self._known: dict[str, frozenset[str] | None] = {}
        self._listed: set[str] = set()
        self._indirect: list[set[str]] = []  # what `_indirect` tells, once it was asked for
        self._triggers: list[bool] = []  # whether there are some, once it was asked for
        self._names: WordSet | None = None
        self._callers: WordSet | None = None
        self._definitions: WordSet | None = None
        self.generation = 0
        self.python_functions: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Drops all answers: the catalog has changed."""
        self.generation += 1
        # New ones: a look-up under way in another thread fills the old ones.
        self._known, self._listed, self._indirect, self._triggers = {}, set(), [], []
        self._names = self._callers = self._definitions = None

    def everything(self) -> frozenset[str]:
        """All tables and views."""
        return frozenset((*self._catalog.tables, *self._catalog.views))

    def learn_functions(self, names: Iterable[str]) -> None:
        """Notes Python functions that have been registered."""
        self.python_functions |= frozenset(map(fold, names))
        self._callers = None

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
        known, listed = self._known, self._listed
        if len(known) >= _MAX_STATEMENTS:
            known.clear()
            listed.clear()
        found, certain, all_listed = self._find(sql, self._warehouse.cursor(), self._file_indirect)
        answer = known[sql] = found if certain else None
        if all_listed:
            listed.add(sql)
        return answer

    def names_none(self, sql: str) -> bool:
        """Returns whether no word of a text can mean a relation, or what may read one."""
        names, generation = self._names, self.generation
        if names is None:
            last = [_last(name) for name in self.everything()]
            names = WordSet([*last, *self._file_indirect()])
            if generation == self.generation:
                self._names = names
        return not names.may_occur_in(sql)

    def triggers(self) -> bool:
        """Returns whether the file has triggers; a change reads the relations that they read."""
        told = self._triggers
        if not told:
            cursor = self._warehouse.cursor()
            told.append(bool(rows(cursor, "SELECT 1 FROM system.main.duckdb_triggers() LIMIT 1")))
        return told[0]

    def may_call_python(self, sql: str) -> bool:
        """Returns whether a text may call a Python function, perhaps by a view or a macro."""
        if not self.python_functions:
            return False
        callers, generation = self._callers, self.generation
        if callers is None:
            callers = WordSet([*self.python_functions, *self._file_indirect()])
            if generation == self.generation:
                self._callers = callers
        return callers.may_occur_in(sql)

    def may_name_definition(self, sql: str) -> bool:
        """Returns whether a text may name a plain view, a macro or a function that runs SQL."""
        definitions, generation = self._definitions, self.generation
        if definitions is None:
            definitions = WordSet(self._file_indirect())
            if generation == self.generation:
                self._definitions = definitions
        return definitions.may_occur_in(sql)

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

    def _file_indirect(self) -> set[str]:
        """What `_indirect` tells of the file, asked once."""
        told = self._indirect
        if not told:
            told.append(_indirect(self._warehouse.cursor(), self._catalog, self._macros()))
        return told[0]

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
