"""The check of a statement before a user runs it.

Law: a kind of statement that is not named here is for admins. A check changes nothing, and binds
nothing: a file would be read by that already. Names mean what they do in the snapshot that the
statement reads: in a READ ONLY transaction a view or macro is what it was when that began.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ivm.access.content import Content, Definitions, definitions_of
from ivm.access.roles import ADMIN, Grant
from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.session.names.replacement_scans import explained
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.cached_by_text import LONGEST
from ivm.sql.statements.text.tokens import tokens
from ivm.storage.errors import AccessError
from ivm.storage.identifiers import canonical_name

_QUERIES = frozenset(
    (
        *("select", "from", "with", "values", "table", "describe", "desc", "show", "summarize"),
        *("pivot", "unpivot", "pivot_wider", "pivot_longer"),
    )
)
_PIVOTS = frozenset(("pivot", "pivot_wider"))  # DuckDB makes several statements of one
_FREE = (st.TransactionControl, st.Deallocate, st.ShowViews, st.Subscribe)
_CHANGES = frozenset(("insert", "update", "delete", "truncate"))
_SETTINGS = frozenset(("timezone",))
_MOST = 4096  # answers that are kept


class _Key(NamedTuple):
    text: str
    grant: Grant
    hidden: frozenset[str]  # names that mean temporary relations


class Checks:
    """Checks statements of one database; any thread calls it.

    Args:
        engine: the database's engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._generation = -1
        self._definitions: Definitions | None = None
        self._good: set[_Key] = set()
        self._pinned: WeakKeyDictionary[Transaction, Definitions] = WeakKeyDictionary()

    def demand(self, session: Session, grant: Grant, statement: st.Statement) -> None:
        """Refuses a statement that a role may not run.

        Raises:
            AccessError: what is missing, and who can give it.
            SqlError: it calls a function that does not exist.
        """
        if grant.role == ADMIN:
            return
        if isinstance(statement, st.Execute):
            return self._execute(session, grant, statement)
        if session.is_pinned:
            return self._demand(session, grant, statement)
        generation = self._current()
        key = _Key(statement.text, grant, session.names.hidden)
        if key in self._good:
            return
        self._demand(session, grant, statement)
        if len(statement.text) > LONGEST:
            return
        with self._lock:
            if len(self._good) >= _MOST:
                self._good.clear()
            if generation == self._generation:
                self._good.add(key)

    @contextlib.contextmanager
    def allowing(self, session: Session, grant: Grant, statement: st.Statement) -> Iterator[None]:
        """Runs a block with a statement that a role may run; see `demand`.

        A query is looked through once more behind the block if a view or macro may have been
        replaced meanwhile: it may have read the new one.
        """
        meaning = self._engine.meaning() if grant.role != ADMIN else None
        self.demand(session, grant, statement)
        yield
        if grant.role == ADMIN or not _is_query(session, statement):
            return
        if meaning is None or meaning != self._engine.meaning():
            with self._lock:
                self._definitions, self._good = None, set()
            self.demand(session, grant, statement)

    def _current(self) -> int:
        """The generation of the definitions; answers of an earlier one are forgotten."""
        generation = self._engine.definitions.relations.generation
        with self._lock:
            if generation != self._generation:
                self._generation, self._definitions, self._good = generation, None, set()
        return generation

    def _content(self, session: Session, grant: Grant) -> Content:
        definitions = self._of_snapshot(session) if session.is_pinned else self._committed()
        cursor = self._engine.warehouse.cursor()  # the session's may hold a result
        return Content(cursor, grant, definitions, session.names.hidden)

    def _committed(self) -> Definitions:
        generation, definitions = self._current(), self._definitions
        if definitions is None:
            definitions = definitions_of(self._engine.warehouse.cursor())
            with self._lock:
                if generation == self._generation:  # else they may be of before
                    self._definitions = definitions
        return definitions

    def _of_snapshot(self, session: Session) -> Definitions:
        transaction = session.transaction
        assert transaction is not None
        with self._lock:
            known = self._pinned.get(transaction)
        if known is not None:
            return known
        session.release()
        with transaction:
            transaction.begin_in_duckdb()
            found = definitions_of(session.cursor)
        with self._lock:
            self._pinned[transaction] = found
        return found

    # -- kinds of statements ----------------------------------------------------------------------

    def _demand(self, session: Session, grant: Grant, statement: st.Statement) -> None:
        match statement:
            case st.Query():
                self._query(session, grant, statement)
            case st.Dml():
                grant.demand_write()
                self._change(session, grant, statement)
            case st.Prepare():
                self._demand(session, grant, statement.statement)
            case st.ExplainView(name=name):
                self._content(session, grant).name(list(name))
            case st.Ddl() if _is_time_zone(statement):
                pass
            case _ if isinstance(statement, _FREE):
                pass
            case _:
                raise _refused(statement)

    def _query(self, session: Session, grant: Grant, statement: st.Query) -> None:
        if statement.kind == "explain":
            return self._explain(session, grant, statement)
        if statement.kind not in _QUERIES:
            raise _refused(statement)
        if statement.kind in _PIVOTS:
            raise AccessError(
                f"{statement.kind.upper()} as a statement is for admins: write SELECT * FROM "
                "(PIVOT … ON column IN (values) USING …)"
            )
        self._content(session, grant).demand(statement.text)

    def _explain(self, session: Session, grant: Grant, statement: st.Query) -> None:
        for inner in st.parse(explained(statement.text)):
            self._demand(session, grant, inner)

    def _change(self, session: Session, grant: Grant, statement: st.Dml) -> None:
        if statement.kind not in _CHANGES or statement.table is None:
            raise _refused(statement)
        content = self._content(session, grant)
        table = content.relation(statement.table)
        if table is None:
            raise AccessError(f"{canonical_name(statement.table)!r} is no table of this database")
        grant.demand_relation(table)
        if isinstance(statement, st.Insert) and statement.is_plain:
            return
        wrapped = f"WITH _ivm_change AS ({statement.text}\n) SELECT 1"
        content.demand(wrapped, changes=True)

    def _execute(self, session: Session, grant: Grant, statement: st.Execute) -> None:
        prepared = session.prepared.get(statement.name.lower())
        if prepared is None:
            return  # running it says so
        if statement.arguments:
            self._content(session, grant).demand(f"SELECT struct_pack({statement.arguments}\n)")
        self.demand(session, grant, prepared)


def _is_query(session: Session, statement: st.Statement) -> bool:
    if isinstance(statement, st.Execute):
        return isinstance(session.prepared.get(statement.name.lower()), st.Query)
    return isinstance(statement, st.Query)


def _is_time_zone(statement: st.Ddl) -> bool:
    """Returns whether a statement sets the session's time zone to a constant, or resets it."""
    if statement.action not in ("set", "reset") or statement.target in ("global", "variable"):
        return False
    name = statement.name[-1].lower() if statement.name else ""
    return name in _SETTINGS and not any(token.word == "(" for token in tokens(statement.text))


def _refused(statement: st.Statement) -> AccessError:
    words = " ".join(statement.text.split(maxsplit=2)[:2]).upper()
    return AccessError(
        f"{words} is for admins: other roles run queries, SHOW, EXPLAIN and SUBSCRIBE, and the "
        "role write INSERT, UPDATE, DELETE and TRUNCATE"
    )
