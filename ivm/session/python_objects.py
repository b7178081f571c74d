"""Objects of Python as tables: the caller's variables that a statement names, and registered ones.

Invariant: a name that means a relation of the session never means a variable. A variable is bound
for one statement and its result, and then let go. DuckDB's own search for variables is off: it
would find those of our frames.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Protocol

import duckdb
import numpy as np

from ivm.engine.engine import Engine
from ivm.engine.transaction import Transaction
from ivm.session.names import SessionNames
from ivm.session.result import Result
from ivm.sql.statements import parse as st
from ivm.sql.statements.tokens import Token, tokens
from ivm.storage.errors import InputError, UnsupportedError
from ivm.storage.identifiers import fold, literal
from ivm.storage.warehouse.duck import Cursor, rows

_BEFORE = frozenset(
    (
        *("FROM", "JOIN", "USING", "COPY", "DESCRIBE", "DESC", "SUMMARIZE"),
        *("PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER", ",", "("),
    )
)
"""What stands before the name of a table, and sometimes before other names."""
_LIBRARIES = frozenset(("pandas", "polars", "pyarrow", "numpy"))
_SETTINGS = ("python_enable_replacements", "python_scan_all_frames")
_MAX_TEXTS = 4096


class Owner(Protocol):
    """The part of a session that its objects use."""

    engine: Engine
    cursor: Cursor
    transaction: Transaction | None
    names: SessionNames
    prepared: dict[str, st.Statement]

    def release(self) -> None:
        """Frees the cursor: an open result is read into memory."""


class PythonObjects:
    """The objects that the statements of one session can read as tables.

    Args:
        session: its cursor sees the objects.
    """

    def __init__(self, session: Owner) -> None:
        self._session = session
        self._bound: list[str] = []
        self._registered: set[str] = set()
        self._unknown: dict[str, tuple[str, ...]] = {}
        self._generation = -1
        self._settings = dict(zip(_SETTINGS, (True, False), strict=True))

    # -- registered objects ---------------------------------------------------------------------

    def register(self, name: str, value: object) -> None:
        """Makes an object a temporary view of the session, which hides a table of that name.

        Raises:
            InputError: DuckDB cannot read the object as a table.
        """
        if not isinstance(name, str):
            raise InputError(f"an object is registered under a name, not under {name!r}")
        self._begin()
        self._session.cursor.register(name, _readable(value))
        self._registered.add(fold(name))
        self._session.names.changed()

    def unregister(self, name: str) -> None:
        """Removes a registered object; an unknown name is no error, as in DuckDB."""
        if fold(name) in self._registered:
            self._begin()
            self._session.cursor.unregister(name)
            self._registered.discard(fold(name))
            self._session.names.changed()

    def _begin(self) -> None:
        """Frees the cursor; in a transaction, what follows is undone with it, as in DuckDB."""
        session = self._session
        session.release()
        if session.transaction is not None:
            with session.transaction as transaction:
                transaction.begin_in_duckdb()

    # -- variables ------------------------------------------------------------------------------

    def bind(self, statement: st.Statement) -> None:
        """Lets a statement read the caller's variables that it names and that are no relations.

        Raises:
            UnsupportedError: it creates a view that would read an object.
        """
        if self._bound:
            self.unbind()
        if isinstance(statement, st.Execute):
            prepared = self._session.prepared.get(statement.name.lower())
            if not isinstance(prepared, st.Query):
                return  # its statement comes by itself
            statement = prepared
        if isinstance(statement, st.Insert | st.KeyedChange | st.TransactionControl):
            return  # of literals
        names = self._unknown_names(statement.text)
        if names:
            self._bind(statement, names)

    def _bind(self, statement: st.Statement, names: tuple[str, ...]) -> None:
        if _creates_view(statement):
            self._refuse_view(names)
        elif _reads(statement):
            target = _target(statement)
            for name, value in self._variables(names):
                if fold(name) != target:
                    self._begin()
                    self._session.cursor.register(name, _readable(value))
                    self._bound.append(name)

    def unbind(self) -> None:
        """Lets go of the variables of the last statement."""
        bound, self._bound = self._bound, []
        for name in bound:
            try:
                self._session.cursor.unregister(name)
            except duckdb.Error:  # the transaction is aborted: again before the next statement
                self._bound.append(name)

    def _refuse_view(self, names: tuple[str, ...]) -> None:
        found = [name for name in names if fold(name) in self._registered]
        found += [name for name, _ in self._variables(names)]
        if found:
            raise UnsupportedError(
                f"a view cannot read {found[0]!r}, an object of this program: load it into a table "
                f"first, as with CREATE TABLE … AS SELECT * FROM {found[0]}, and let the view read "
                "the table"
            )

    def _unknown_names(self, text: str) -> tuple[str, ...]:
        """The names in a text that may be of tables, and are none of the database's."""
        generation = self._session.engine.definitions.relations.generation
        if generation != self._generation or len(self._unknown) > _MAX_TEXTS:
            self._generation, self._unknown = generation, {}
        found = self._unknown.get(text)
        if found is None:
            resolve = self._session.engine.catalog.resolve
            found = tuple(name for name in table_names(text) if resolve((name,)) is None)
            self._unknown[text] = found
        return found

    def _variables(self, names: tuple[str, ...]) -> list[tuple[str, object]]:
        """The caller's variables of these names, but for those that a relation hides."""
        if not self._settings["python_enable_replacements"]:
            return []
        found: dict[str, object] = {}
        for scope in _scopes(self._settings["python_scan_all_frames"]):
            for name in names:
                if name not in found and name in scope:
                    found[name] = scope[name]
        tables = [(name, value) for name, value in found.items() if is_table(value)]
        return [each for each in tables if not self._is_relation(each[0])] if tables else []

    def _is_relation(self, name: str) -> bool:
        """Returns whether DuckDB finds a relation, perhaps a temporary one or one of its own."""
        self._session.release()
        word = literal(fold(name))
        return bool(
            rows(
                self._session.cursor,
                "SELECT 1 FROM (SELECT table_name, database_name, schema_name"
                " FROM system.main.duckdb_tables() UNION ALL SELECT view_name, database_name,"
                " schema_name FROM system.main.duckdb_views())"
                f" WHERE system.main.lower(table_name) = system.main.lower({word})"
                " AND schema_name IN ('main', 'pg_catalog') AND database_name"
                " IN ('temp', 'system', system.main.current_database()) LIMIT 1",
            )
        )

    # -- settings -------------------------------------------------------------------------------

    def set(self, statement: st.Ddl) -> bool:
        """Runs SET or RESET of DuckDB's settings for variables; returns False for any other."""
        if statement.action not in ("set", "reset") or statement.name is None:
            return False
        setting = fold(statement.name[-1])
        if setting not in self._settings:
            return False
        value = setting == "python_enable_replacements"
        if statement.action == "set":
            written = tokens(statement.text.rstrip("; \n"))[-1].text.strip("'").lower()
            if written not in _BOOLEANS:
                raise InputError(f"{setting} is true or false, not {written}")
            value = _BOOLEANS[written]
        self._settings[setting] = value
        return True


_BOOLEANS = {
    **dict.fromkeys(("true", "t", "1", "on", "yes"), True),
    **dict.fromkeys(("false", "f", "0", "off", "no"), False),
}


def _reads(statement: st.Statement) -> bool:
    """Returns whether a statement, of those that create no view, may read tables."""
    if isinstance(statement, st.Ddl):
        return (statement.action, statement.target) in (("create", "table"), ("set", "variable"))
    return isinstance(statement, st.Query | st.Dml | st.Prepare)


def _target(statement: st.Statement) -> str | None:
    """The folded name of what a statement changes, or makes beside temporary views."""
    if isinstance(statement, st.Dml) and statement.table:
        return fold(statement.table[-1])
    if isinstance(statement, st.Ddl) and statement.temporary and statement.name:
        return fold(statement.name[-1])
    return None


def _creates_view(statement: st.Statement) -> bool:
    if isinstance(statement, st.Ddl):
        return (statement.action, statement.target) == ("create", "view")
    return isinstance(statement, st.CreateView)


@functools.lru_cache(maxsize=1024)
def table_names(text: str) -> tuple[str, ...]:
    """The names without a schema that stand in a statement where tables do; perhaps others too."""
    found = tokens(text)
    end = Token("", "", len(text))
    names = [
        _unquoted(token.text)
        for before, token, after in zip(found, found[1:], (*found[2:], end), strict=False)
        if before.word in _BEFORE and after.word not in (".", "(") and _is_name(token)
    ]
    return tuple(dict.fromkeys(names))


def _is_name(token: Token) -> bool:
    return token.text[:1] == '"' or token.word[:1].isalpha() or token.word[:1] == "_"


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if text[:1] == '"' else text


def _scopes(every_frame: bool) -> Iterator[Mapping[str, object]]:
    """The variables of the frame that called the package: local ones, then global ones.

    Args:
        every_frame: go on with the frames above it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) == "ivm":
        if frame.f_globals["__name__"].startswith("ivm.shell"):
            return  # what it runs sees none of its variables
        frame = frame.f_back
    while frame is not None:
        yield frame.f_locals
        yield frame.f_globals
        frame = frame.f_back if every_frame else None


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def is_table(value: object) -> bool:
    """Returns whether a variable can be meant by the name of a table."""
    if isinstance(value, dict | list):
        columns = list(value.values() if isinstance(value, dict) else value)
        return bool(columns) and all(isinstance(column, np.ndarray) for column in columns)
    if isinstance(value, Result | duckdb.DuckDBPyRelation) or hasattr(value, "__arrow_c_stream__"):
        return not isinstance(value, type)
    kind = type(value)
    if kind.__module__.partition(".")[0] not in _LIBRARIES:
        return False
    return kind.__name__ in (
        *("DataFrame", "Series", "LazyFrame", "ndarray", "Table", "RecordBatch", "Scanner"),
        *("RecordBatchReader", "Dataset", "InMemoryDataset", "FileSystemDataset", "UnionDataset"),
    )


def _readable(value: object) -> object:
    """The object as DuckDB can read it; results and relations of other connections are read."""
    if isinstance(value, Result):
        return value.peek()
    if isinstance(value, duckdb.DuckDBPyRelation):
        return value.to_arrow_table()
    return value
