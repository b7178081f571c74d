"""Replacement scans: Python objects of the caller's scope, which SQL reads by their names.

Contract: as in DuckDB, a name that is no relation may be a variable's (`caller_scope`); tables,
views and CTEs come first. No view is made over one: it would outlive the object.
Invariant: such an object is a temporary view of the session's cursor for one statement, until its
result has been read or detached. DuckDB's own search is off (`DatabaseFile`): it would find the
variables of our own frames. Which names a statement lacks is DuckDB's answer to an EXPLAIN, asked
only if a word of the statement is the name of an object that can be scanned.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any, Protocol

import duckdb

from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.session.names.caller_scope import values_of
from ivm.session.names.names import SessionNames
from ivm.session.results.result import Result
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import Reader, tokens
from ivm.storage.errors import InputError, IvmError, SqlError, UnsupportedError
from ivm.storage.identifiers import WORD_CHARACTER, fold, quote, words_in
from ivm.storage.warehouse.duckdb.duck import Cursor, lenient, rows, run

_WORD = re.compile(rf'"((?:[^"]|"")+)"|({WORD_CHARACTER}+)')
_MISSING = re.compile(r"Table with name (.+) does not exist!", re.DOTALL)
_LIBRARIES = frozenset(("numpy", "pandas", "polars", "pyarrow"))
_SETTINGS = {"python_enable_replacements": "enabled", "python_scan_all_frames": "all_frames"}
_LASTING = frozenset(("DataFrame", "Table", "RecordBatch", "ndarray", "dict"))
"""The names of the types of objects that can be read again and again; a stream cannot."""
_DEFINITIONS = ("view", "macro")
_QUERIES = frozenset(("select", "from", "table", "pivot", "unpivot", "describe", "summarize"))
_PROBE = "_ivm_probe"
_OF_THE_NAME = (duckdb.CatalogException, duckdb.ParserException, duckdb.TransactionException)
_LONG = 1 << 16  # characters: the words of longer texts are not kept


class Owner(Protocol):
    """The part of a session that its scans use."""

    engine: Engine
    cursor: Cursor
    transaction: Transaction | None
    prepared: dict[str, st.Statement]
    names: SessionNames

    def release(self) -> None:
        """Frees the cursor: an open result is read into memory."""


class ReplacementScans:
    """The Python objects that one session's SQL reads.

    Args:
        session: whose cursor reads them.

    Attributes:
        registered: the folded names of those that `register` has given.
    """

    def __init__(self, session: Owner) -> None:
        self._session = session
        self._shown: list[str] = []
        self._once: set[str] = set()
        self.registered: set[str] = set()

    def register(self, name: str, scanned: object) -> None:
        """Makes an object a temporary view of the session, until `unregister`.

        Raises:
            InputError: it is no text, or the object cannot be scanned.
        """
        _demand_name(name)
        self._begin()
        self._register(name, scanned)
        self._learn(name)
        self.registered.add(fold(name))

    def unregister(self, name: str) -> None:
        """Forgets an object; an unknown name is no error, as in DuckDB."""
        _demand_name(name)
        self._begin()
        self._session.cursor.unregister(name)
        self._once.discard(fold(name))
        self._learn(name)
        self.registered.discard(fold(name))

    def show(self, statement: st.Statement, params: Any) -> None:
        """Makes the objects that a statement reads temporary views, until `hide`.

        Args:
            statement: about to be run.
            params: its parameters.

        Raises:
            InputError: an object that it names cannot be scanned.
            UnsupportedError: a view or macro would read one.
        """
        if self.registered:
            self._refuse_registered(statement)
        if isinstance(statement, st.Execute):
            prepared = self._session.prepared.get(statement.name.lower())
            if prepared is None:
                return  # running it says so
            statement = st.Prepare("", 0, "", prepared)
        found = self._candidates(statement) if self._may_read(statement) else {}
        if not found:
            return
        probe, values = _probe(statement, params)
        while (missing := self._missing(probe, values)) in found and missing not in self._shown:
            if _defines(statement):
                raise UnsupportedError(_no_definition(missing, "variable"), statement.offset)
            self._begin()
            self._register(missing, found[missing])
            self._shown.append(missing)

    def naming_variable(self, error: IvmError) -> IvmError:
        """The error that a relation is missing, and why the variable of its name is not read.

        Args:
            error: of a statement of the caller's; given back if it is another one.
        """
        message, settings = str(error), self._session.engine.scan_settings
        found = _MISSING.search(message)
        if found is None or not isinstance(error, SqlError) or not settings.enabled:
            return error
        value = values_of(frozenset((found[1],)), all_frames=settings.all_frames).get(found[1])
        if (
            value is None
            or _is_scannable(value)
            or callable(value)
            or isinstance(value, ModuleType)
        ):
            return error
        why, at = _not_scanned(found[1], value), found.end()
        if why in message:  # said by a statement below this one
            return error
        return SqlError(f"{message[:at]}\n{why}{message[at:]}", error.position)

    def read_once(self, text: str) -> bool:
        """Returns whether a query may name an object that has no more rows once it has been read.

        Args:
            text: of a query whose objects are shown.
        """
        if not self._once:
            return False
        words = words_in(text)  # whichever quotes belong together
        return any(words_in(name) <= words for name in self._once)

    def hide(self) -> None:
        """Forgets the objects of the last statement, whose result has been read."""
        if not self._shown:
            return
        with contextlib.suppress(duckdb.TransactionException):  # aborted: after its ROLLBACK
            self._session.cursor.complete()
            while self._shown:
                self._session.cursor.unregister(self._shown[-1])
                self._once.discard(fold(self._shown.pop()))

    def _may_read(self, statement: st.Statement) -> bool:
        """Returns whether a statement may name an object."""
        match statement:
            case st.Query(text=text):
                return not self._session.engine.definitions.relations.names_relations_alone(text)
            case st.Insert(text=text) | st.KeyedChange(text=text):
                return bool(statement.expressions or statement.returning) and _has_query(text)
            case st.Ddl(action="create", target=target):
                return target == "table" or target in _DEFINITIONS
            case st.Ddl(action="set", target=target):
                return target == "variable"
            case st.Prepare(statement=inner):
                return self._may_read(inner)
            case _:
                return isinstance(statement, st.Dml | st.CreateView)

    def _candidates(self, statement: st.Statement) -> dict[str, object]:
        """The objects that words of a statement name, apart from the names of relations."""
        settings = self._session.engine.scan_settings
        if not settings.enabled:
            return {}
        found = values_of(_words(_text(statement)), all_frames=settings.all_frames)
        resolve = self._session.names.resolve
        return {n: o for n, o in found.items() if _is_scannable(o) and resolve((n,)) is None}

    def _missing(self, probe: str, params: Any) -> str | None:
        """The first name in a statement that DuckDB knows no relation of, if any."""
        cursor = self._session.cursor
        with lenient(cursor):
            try:
                run(cursor, probe, params)
            except duckdb.CatalogException as error:
                found = _MISSING.search(str(error))
                return None if found is None else found[1]
            except duckdb.InterruptException:
                raise
            except duckdb.Error:
                return None  # the statement itself will say it
            if probe.startswith("PREPARE"):
                run(cursor, f"DEALLOCATE {_PROBE}")
        return None

    def _begin(self) -> None:
        """Begins an open transaction in DuckDB: views made before would outlive its ROLLBACK."""
        self._session.release()
        if self._session.transaction is not None:
            with self._session.transaction as transaction:
                transaction.show(())

    def _register(self, name: str, scanned: object) -> None:
        given = scanned.held() if isinstance(scanned, Result) else scanned
        if type(given).__name__ not in _LASTING:
            self._once.add(fold(name))
        if given is None:
            read = isinstance(scanned, Result) and scanned.columns
            why = "its rows have been read; those of db.sql(…) are there again and again"
            raise _unreadable(name, scanned, why if read else "it has no columns")
        try:
            self._session.cursor.register(name, given)
        except _OF_THE_NAME:
            raise
        except Exception as error:  # the object's own ones, too
            raise _unreadable(name, scanned, str(error).partition("\n")[0]) from error

    def _learn(self, name: str) -> None:
        made = st.Ddl("", 0, "create", "view", names=((name,),), temporary=True)
        self._session.names.learn(made)

    def _refuse_registered(self, statement: st.Statement) -> None:
        if not _defines(statement) or (isinstance(statement, st.Ddl) and statement.temporary):
            return
        standing = self.registered & self._session.names.hidden  # a ROLLBACK may undo one
        for word in _words(statement.text):
            if fold(word) in standing:
                raise UnsupportedError(_no_definition(word, "registered"), statement.offset)

    # -- settings -------------------------------------------------------------------------------

    def set(self, statement: st.Ddl) -> bool:
        """Runs a SET, RESET or PRAGMA of DuckDB's settings for scans; False if it is another."""
        name = statement.name[-1].lower() if statement.name else ""
        if name not in _SETTINGS or statement.target == "variable":
            return False
        settings = self._session.engine.scan_settings
        with duckdb.connect() as other:  # which reads every spelling of a value
            resets = statement.text.lstrip().upper().startswith("RESET")
            for each, attribute in _SETTINGS.items():
                if not (resets and each == name):  # else some releases come back to this value
                    run(other, f"SET GLOBAL {each} = {getattr(settings, attribute)}")
            run(other, statement.text)
            for each, attribute in _SETTINGS.items():
                ((value,),) = rows(other, f"SELECT current_setting('{each}')")
                setattr(settings, attribute, value)
        return True


def _demand_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"a registered object has a name as text, not {name!r}")


def _unreadable(name: str, scanned: object, why: str) -> InputError:
    return InputError(f"{_not_scanned(name, scanned)} ({why})")


def _not_scanned(name: str, value: object) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return (
        f"the Python object {name!r} ({kind}) cannot be read as a table: give a pandas or polars "
        "frame, an Arrow table, batch, reader or dataset, a numpy array, a dict of numpy arrays, "
        "or a Result"
    )


def _words(text: str) -> frozenset[str]:
    """All words of a text that may be the name of a table, as they are written."""
    return _words_kept(text) if len(text) < _LONG else _words_kept.__wrapped__(text)


@lru_cache(maxsize=4096)
def _words_kept(text: str) -> frozenset[str]:
    return frozenset([quoted.replace('""', '"') or word for quoted, word in _WORD.findall(text)])


def _has_query(text: str) -> bool:
    """Returns whether an expression of a text may be a query."""
    return any(word.lower() in _QUERIES for word in _words(text))


def _is_scannable(value: object) -> bool:
    """Returns whether an object is of a kind that DuckDB may read; DuckDB decides."""
    kind = type(value)
    if isinstance(value, Result):
        return True
    if kind.__module__.partition(".")[0] in _LIBRARIES or hasattr(kind, "__arrow_c_stream__"):
        return True
    if isinstance(value, dict | list) and value:
        values: Iterable[Any] = value.values() if isinstance(value, dict) else value
        return all(type(each).__module__ == "numpy" for each in values)
    return False


def _text(statement: st.Statement) -> str:
    return statement.statement.text if isinstance(statement, st.Prepare) else statement.text


def _defines(statement: st.Statement) -> bool:
    """Returns whether a statement makes a view or a macro."""
    return isinstance(statement, st.CreateView) or (
        isinstance(statement, st.Ddl)
        and statement.action == "create"
        and statement.target in _DEFINITIONS
    )


def _no_definition(name: str, what: str) -> str:
    table = quote(name)
    return (
        f"{name!r} is a Python object ({what}), which ends with the program, so that no view or "
        f"macro can read it: load it into a table first, by CREATE TABLE {table} AS FROM {table} "
        "(under another name if you keep the object registered)"
    )


def _probe(statement: st.Statement, params: Any) -> tuple[str, Any]:
    """A statement that binds what the given one reads and changes nothing, and its parameters."""
    match statement:
        case st.Prepare(statement=prepared):
            return f"PREPARE {_PROBE} AS {prepared.text}", None
        case st.CreateView(query=query):
            return f"EXPLAIN {query}", None
        case _:
            return f"EXPLAIN {explained(statement.text)}", params


def explained(text: str) -> str:
    """The text without its own EXPLAIN [ANALYZE] [(options)]."""
    reader = Reader(tokens(text))
    if not reader.accept("EXPLAIN"):
        return text
    reader.accept("ANALYZE")
    if reader.peek() == "(" and reader.peek(1) in ("ANALYZE", "FORMAT"):
        reader.skip_parentheses()
    return text if reader.done else text[reader.tokens[reader.at].start :]
