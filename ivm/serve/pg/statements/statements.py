"""Runs what a client asks for, in its session and its transaction.

Law: nothing is run, and nothing is bound, before it was checked that the user may do so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ivm.access.roles import ADMIN
from ivm.cdc.statements import MOVED
from ivm.dispatch import run_statement
from ivm.serve.access import Gate
from ivm.serve.kept_by_meaning import meaning_of
from ivm.serve.pg.catalog.catalog import Catalog, Teller, catalog_parameters
from ivm.serve.pg.catalog.session_settings import SERVER, SessionSettings
from ivm.serve.pg.statements.actions import (
    Action,
    Begin,
    CatalogQuery,
    Declare,
    Nothing,
    Savepoint,
    SetModes,
    Setting,
    Sql,
)
from ivm.serve.pg.statements.cursors import Close, Cursors, Fetch
from ivm.serve.pg.statements.describe import (
    EXPLAINED,
    READS,
    SHOWS,
    Columns,
    KnownParameters,
    result_columns,
)
from ivm.serve.pg.statements.discard import discard_temporary, discard_variables
from ivm.serve.pg.statements.tags import tag_of
from ivm.serve.pg.statements.transactions import Transactions
from ivm.serve.pg.values.text_sql import value_sql
from ivm.serve.pg.values.types import JSON, JSONB
from ivm.serve.pg.wire.errors import PgError
from ivm.serve.served_session import ServedSession
from ivm.serve.session_values import SessionValues, may_ask, with_calls, with_values
from ivm.session.queries.prepared import deallocate_all
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.placeholders import filled
from ivm.storage.errors import UnavailableError

T = TypeVar("T")

_TOKEN: Columns = [("name", "VARCHAR"), ("token", "VARCHAR")]


@dataclass
class Outcome:
    """What a statement has come to.

    Attributes:
        result: with rows if it is of kind "rows".
        tag: gives the tag, of the number of rows that were sent.
    """

    result: Result
    tag: Callable[[int], str]


class Statements:
    """The statements of one connection.

    Args:
        served: its session.
        gate: says what its user may do.
        catalog: answers queries about the catalog.
        known: remembers the types of parameters.
        settings: of the session.
        notice: tells the client something: a code and a text.
        report: tells the client that a setting has changed.
        ends: is told that a transaction ends.

    Attributes:
        effects: of the settings.
        cursors: that SQL has declared.
        transactions: of the connection.
    """

    def __init__(
        self,
        served: ServedSession,
        gate: Gate,
        catalog: Catalog,
        known: KnownParameters,
        settings: SessionSettings,
        notice: Callable[[str, str], None],
        report: Callable[[str], None],
        ends: Callable[[], None],
    ) -> None:
        self._served = served
        self._gate = gate
        self._catalog = catalog
        self._known = known
        self.settings = settings
        self._values = SessionValues(served.user.name, SERVER, settings.all)
        self.cursors = Cursors()
        self.transactions = Transactions(served, settings, self.cursors, notice, report, ends)
        self.effects = self.transactions.effects

    def run(self, action: Action, params: Sequence[Any] | None = None) -> Outcome:
        """Runs one statement.

        Raises:
            IvmError: it fails, or its user was dropped.
            PgError: the transaction has failed before.
        """
        if isinstance(action, Sql):
            statement = action.statement
            if isinstance(statement, st.TransactionControl):
                if statement.action == "commit":
                    self._gate.demand_unchanged(self._served.user)
                return _done(self.transactions.control(statement))
            self.transactions.demand_sound()
            return self._sql(statement, params)
        self._gate.demand_unchanged(self._served.user)
        if isinstance(action, Savepoint):
            return _done(self.transactions.savepoint(action))
        self.transactions.demand_sound()
        match action:
            case Begin():
                return _done(self.transactions.begin(action))
            case SetModes():
                return _done(self.transactions.set_modes(action))
            case Setting():
                return self._setting(action)
            case CatalogQuery():
                return _rows(self._catalog.answer(action.text, params, self._teller()))
            case Declare():
                return self._declare(action, params)
            case Fetch():
                result = self._served.around(lambda: self.cursors.fetch(action.name, action.count))
                return _fetched(action.verb, result)
            case Close():
                self.cursors.close(action.name)
                return _done("CLOSE CURSOR" if action.name is not None else "CLOSE CURSOR ALL")
            case Nothing(tag=tag):
                self._forget(tag)
                return _done(tag)
        raise AssertionError(action)

    def _forget(self, tag: str) -> None:
        """Forgets what DISCARD or DEALLOCATE ALL names of the session's state.

        Raises:
            PgError: it is all of it, in a transaction, which could not be undone.
        """
        served = self._served
        if tag == "DISCARD ALL" and served.connection.in_transaction:
            raise PgError("25001", "DISCARD ALL cannot run inside a transaction: end it before")
        if tag in ("DEALLOCATE ALL", "DISCARD ALL"):
            served.run(deallocate_all)
        if tag in ("DISCARD ALL", "DISCARD TEMP", "DISCARD TEMPORARY"):
            served.run_changing(discard_temporary)
        if tag == "DISCARD ALL":
            served.run(discard_variables)
            self.cursors.close(None)
            self.effects.reset(None)

    def demand_unchanged(self) -> None:
        """Refuses to go on with what was begun.

        Raises:
            AccessError: the user is not what it was at login.
            PgError: the transaction has failed meanwhile.
        """
        self._gate.demand_unchanged(self._served.user)
        self.transactions.demand_sound()

    def _declare(self, action: Declare, params: Sequence[Any] | None) -> Outcome:
        if not action.holds and self.transactions.state == "I":
            raise PgError("25P01", "DECLARE CURSOR can only be used in a transaction: BEGIN first")
        result = self.run(action.query, params).result
        self._served.around(lambda: self.cursors.declare(action.name, result, holds=action.holds))
        if self.transactions.state == "I":
            self.cursors.end(commits=True)
        return _done("DECLARE CURSOR")

    def _sql(self, statement: st.Statement, params: Sequence[Any] | None) -> Outcome:
        served = self._served
        statement = self._called(statement)
        is_query = isinstance(statement, st.Query)
        read_only = self.settings.is_read_only
        if read_only:
            self._demand_reading(statement)

        def work(session: Session) -> Result:
            if read_only and isinstance(statement, st.Execute):
                self._demand_reading(session.prepared.get(statement.name.lower()))
            with self._gate.allowing(served.user, statement, session):
                return run_statement(session, self._with_values(session, statement), params)

        result = served.run(work) if is_query else served.run_changing(work)
        return Outcome(result, lambda rows: tag_of(statement, result, rows))

    def change(self, statement: st.Statement, asked: st.Statement) -> Result:
        """Runs a change that the server has made of what the client asks for."""
        self.transactions.demand_sound()
        if self.settings.is_read_only:
            self._demand_reading(asked)

        def work(session: Session) -> Result:
            self._gate.demand(self._served.user, asked, session)
            return run_statement(session, self._with_values(session, statement), None)

        return self._served.run_changing(work)

    def with_session(self, work: Callable[[Session], T]) -> T:
        """Calls a function with the session, which changes nothing by it."""
        self.transactions.demand_sound()
        return self._served.run(work)

    def demand(self, text: str) -> None:
        """Refuses what the user may not run.

        Raises:
            AccessError: it is one of these statements.
        """
        for statement in st.parse(text):
            self._allowed(statement, lambda session: None)

    def _allowed(self, statement: st.Statement, work: Callable[[Session], T]) -> T:
        """Describes a statement that the user may run: to bind it reads the files that it names."""

        def checked(session: Session) -> T:
            self._gate.demand(self._served.user, statement, session)
            return work(session)

        return self.with_session(checked)

    def parameters(self, action: Action | None, given: Sequence[int]) -> tuple[int, ...]:
        """The OIDs of a statement's parameters; see `describe`."""
        if isinstance(action, Declare):
            action = action.query
        if isinstance(action, CatalogQuery):
            return catalog_parameters(action.text, given)
        if not isinstance(action, Sql) or isinstance(action.statement, st.TransactionControl):
            return ()  # the end of a failed transaction is described, too
        statement = self._called(action.statement)
        return self._allowed(
            statement, lambda session: self._known.types(session, statement, given)
        )

    def with_nested(self, action: Action | None, oids: Sequence[int]) -> Action | None:
        """The action that takes json for its nested values: DuckDB compares such by their texts."""
        if not isinstance(action, Sql) or not {JSON, JSONB} & set(oids):
            return action
        asked = self._called(action.statement)
        types = self._allowed(asked, lambda session: self._known.nested(session, asked))
        if not types:
            return action
        written = {name: value_sql(type, f"${name}") for name, type in types.items()}
        text = filled(action.text, lambda name: written.get(name, f"${name}"))
        (statement,) = st.parse(text)
        return Sql(text, action.offset, statement)

    def columns(self, action: Action | None, oids: Sequence[int]) -> Columns | None:
        """The columns of a statement's result, None if it has none."""
        if isinstance(action, Setting) and action.verb == "SHOW":
            return [(self.settings.column_name(str(action.name)), "VARCHAR")]
        if isinstance(action, Fetch):
            return self.cursors.columns(action.name) if action.verb == "FETCH" else None
        if isinstance(action, CatalogQuery):
            result = self._catalog.answer(action.text, [None] * len(oids), self._teller())
            found = [type.replace('"NULL"', "VARCHAR") for type in result.types]
            return list(zip(result.columns, found, strict=True))
        if not isinstance(action, Sql):
            return None
        statement = action.statement
        if isinstance(statement, st.Dml | st.Query):
            kind = getattr(statement, "kind", "")
            if isinstance(statement, st.Dml) or kind in READS:
                return self._described(statement, oids)
        if isinstance(statement, st.ChangeToken):
            return _TOKEN if statement.action == "create" else None
        if isinstance(statement, st.ChangeSource):
            return list(MOVED.items()) if statement.action == "set position" else None
        if isinstance(statement, st.Query) and statement.kind == "explain":
            return EXPLAINED  # to run it takes parameters, and ANALYZE runs what it explains
        if isinstance(statement, st.Execute):
            return self._executed(action, statement)
        return self._by_running(action) if isinstance(statement, (st.Query, *SHOWS)) else None

    def meaning(self, action: Action | None) -> Hashable:
        """Equal as long as the names in a statement mean the same; None if that is not known."""
        if not isinstance(action, Sql) or not isinstance(action.statement, st.Dml | st.Query):
            return None
        text = action.text
        return self.with_session(lambda session: meaning_of(session, text))

    def _executed(self, action: Action, statement: st.Execute) -> Columns | None:
        """The columns of what EXECUTE gives: a query is run, a change is described."""
        name = statement.name.lower()
        prepared = self._allowed(statement, lambda session: session.prepared.get(name))
        if not isinstance(prepared, st.Dml):
            return self._by_running(action)
        if statement.explain:
            return EXPLAINED
        return self._described(prepared, ())

    def _described(self, statement: st.Statement, oids: Sequence[int]) -> Columns | None:
        called = self._called(statement)
        return self._allowed(
            called,
            lambda session: result_columns(session, self._with_values(session, called), oids),
        )

    def _by_running(self, action: Action) -> Columns | None:
        """The columns of a statement that tells, and changes nothing."""
        result = self.run(action).result
        return list(zip(result.columns, result.types, strict=True))

    def _demand_reading(self, statement: st.Statement | None) -> None:
        """Refuses what may change something; what EXECUTE runs is asked for by itself."""
        prepared = st.Prepare, st.Execute, st.Deallocate
        if statement is not None and not isinstance(statement, (st.Query, *SHOWS, *prepared)):
            is_open = self.transactions.state != "I"
            way = "end it" if is_open else "SET default_transaction_read_only = off"
            raise UnavailableError(f"the transaction is READ ONLY: {way} before changes")

    def _called(self, statement: st.Statement) -> st.Statement:
        """The statement with what it asks for by functions; long ones can be cancelled in it."""
        if not isinstance(statement, st.Query | st.Dml) or not may_ask(statement):
            return statement
        return self._served.around(lambda: with_calls(statement, self._values))

    def _with_values(self, session: Session, statement: st.Statement) -> st.Statement:
        """The statement with what the session tells of itself; after the check of its user."""
        return with_values(session, statement, self._values)

    # -- settings -------------------------------------------------------------------------------

    def _setting(self, action: Setting) -> Outcome:
        shown = self.effects.run(action)
        return _done(action.verb) if shown is None else _rows(shown, "SHOW")

    def _teller(self) -> Teller:
        served = self._served
        return Teller(
            served.number,
            served.user.name,
            self.settings,
            demand=self._is_admin,
            set=self.effects.set,
            run=served.run,
            around=served.around,
        )

    def _is_admin(self) -> bool:
        """Whether the user, who is what it was at login, is an admin."""
        self._gate.demand_unchanged(self._served.user)
        return self._served.user.role == ADMIN


def _fetched(verb: str, result: Result) -> Outcome:
    if verb == "FETCH":
        return Outcome(result, lambda rows: f"FETCH {rows}")
    table = result.held() if result.kind == "rows" else None
    return _done(f"MOVE {0 if table is None else len(table)}")


def _done(tag: str) -> Outcome:
    return Outcome(Result("done"), lambda rows: tag)


def _rows(result: Result, tag: str = "") -> Outcome:
    return Outcome(result, lambda rows: tag or f"SELECT {rows}")
