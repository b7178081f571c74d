"""One connection's side that runs in threads: messages come in, answers go out.

Law: every message is answered as the protocol's flows have it. After an error in the extended
protocol all messages up to Sync are passed over; a Sync ends the transaction that the messages
before it were, and a simple query of several statements is one, too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ivm.serve.access import Gate
from ivm.serve.pg.catalog.catalog import Catalog
from ivm.serve.pg.catalog.session_settings import REPORTED, SessionSettings
from ivm.serve.pg.copy.copy_in import CopyIn
from ivm.serve.pg.portal_runs import PortalRuns
from ivm.serve.pg.portals import MOST_HELD, Portal, Prepared, PreparedStatements
from ivm.serve.pg.statements.actions import (
    Action,
    Nothing,
    Sql,
    actions_of,
    changes,
)
from ivm.serve.pg.statements.copy_syntax import CopyRows
from ivm.serve.pg.statements.describe import KnownParameters
from ivm.serve.pg.statements.statements import Statements
from ivm.serve.pg.values.parameters import values_of
from ivm.serve.pg.wire import codec
from ivm.serve.pg.wire.codec import Frame, ProtocolError, Reader
from ivm.serve.pg.wire.errors import (
    NO_PORTAL,
    SYNTAX,
    PgError,
    error_fields,
    notice_fields,
)
from ivm.serve.pg.wire.output import Client, Output
from ivm.serve.served_session import ServedSession
from ivm.serve.settings import ServerSettings
from ivm.serve.statement_log import StatementLog
from ivm.sql.statements import parse as st
from ivm.storage.errors import IvmError, SqlError
from ivm.storage.warehouse.duckdb.duckdb_errors import ours

_KINDS = frozenset("QPBDECSHdcfF")
"""The messages of a client that is logged in, but for its leave."""


class Backend:
    """Answers the messages of a client that is logged in.

    Args:
        served: its session.
        client: the way back.
        gate: says what its user may do.
        catalog: answers queries about the catalog.
        known: remembers the types of parameters.
        settings: of the session.
        limits: the settings of the server.
        log: of statements.
    """

    def __init__(
        self,
        served: ServedSession,
        client: Client,
        gate: Gate,
        catalog: Catalog,
        known: KnownParameters,
        settings: SessionSettings,
        limits: Callable[[], ServerSettings],
        log: StatementLog,
    ) -> None:
        self._served = served
        self._log = log
        self._out = Output(client)
        self._prepared = PreparedStatements()
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        self._copy: CopyIn | None = None
        self._copy_by_query = False
        self._several, self._left = False, deque[Action]()  # statements of a simple query
        self._statements = Statements(
            served,
            gate,
            catalog,
            known,
            settings,
            self._notice,
            self._report,
            self._portals.clear,
        )
        self._runs = PortalRuns(served, self._statements, self._out, limits, log)
        self._sql, self._offset = "", 0  # the text that is being run, and where in it
        self._late: Portal | None = None  # is described as it is executed

    # -- the connection -------------------------------------------------------------------------

    def take(self, asked: Mapping[str, str]) -> None:
        """Takes the settings that the client asks for at its login.

        Raises:
            IvmError: one of them is refused.
        """
        for name, value in asked.items():
            self._statements.effects.set(name, value)
        self._statements.settings.keep()

    def greet(self) -> None:
        """Tells the client its settings, its key, and that it may begin."""
        settings = self._statements.settings
        for name in REPORTED:
            self._out += codec.parameter_status(name, settings.get(name))
        self._out += codec.key_data(self._served.number, self._served.secret)
        self._ready()

    def handle(self, frames: Sequence[Frame]) -> bool:
        """Answers messages that have come together; returns False if the client takes its leave.

        Raises:
            ProtocolError: one is of no known kind; the client has been told.
            ConnectionError: the client has left.
        """
        for i, frame in enumerate(frames):
            if frame.tag == "X":
                self._out.flush()
                return False
            if frame.tag not in _KINDS:
                raise self._unknown(frame.tag)
            if self._skipping and frame.tag != "S":
                continue
            try:
                self._answer(frame, frames, i)
            except (ConnectionError, SystemExit):
                raise
            except Exception as error:
                self._fail(error)
                simple = frame.tag in "QF" or (frame.tag == "d" and self._copy_by_query)
                self._drop_copy()
                self._skipping = not simple
                if simple:
                    self._ready()
        self._out.flush()
        return True

    @property
    def seconds_in_transaction(self) -> float:
        """After which a client that does nothing in a transaction is sent away; 0: never."""
        return self._statements.transactions.idle_seconds

    def close(self) -> None:
        """Forgets what the connection held, when the client has left."""
        self._drop_copy()

    def _drop_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.drop()

    def _answer(self, frame: Frame, frames: Sequence[Frame], at: int) -> None:
        reader = Reader(frame.body)
        if self._copy is not None and frame.tag not in "dcf":
            if frame.tag in "SH":
                return  # as in PostgreSQL, they have no meaning before the rows' end
            self._drop_copy()
            raise PgError("57014", "COPY was ended by another message before the rows' end")
        if self._copy is None:
            self._served.cancelled = None  # what is cancelled is what begins now, and no more
        match frame.tag:
            case "Q":
                self._query(reader.text())
            case "P":
                self._parse(reader)
            case "B":
                self._bind(reader)
            case "D":
                self._describe(reader, frames[at + 1] if at + 1 < len(frames) else None)
            case "E":
                self._execute(reader.text(), reader.long(), alone=_is_last(frames, at))
            case "C":
                self._close(reader.byte(), reader.text())
            case "S":
                self._sync()
            case "H":
                self._out.flush()
            case "d":
                self._copy_data(frame.body)
            case "c":
                self._copy_end(None)
            case "f":
                self._copy_end(reader.text())
            case "F":
                raise PgError("0A000", "the protocol's function calls are not offered: use SELECT")

    def _unknown(self, tag: str) -> ProtocolError:
        """The error of a message of no known kind, which the client is told."""
        error = ProtocolError(f"a message of the unknown kind {tag!r}")
        self._out += codec.fields(b"E", error_fields(PgError(error.code, str(error)), ends=True))
        self._out.flush()
        return error

    # -- simple queries -------------------------------------------------------------------------

    def _query(self, text: str) -> None:
        self._portals.pop("", None)
        self._prepared.drop("")  # as in PostgreSQL
        self._sql, self._offset = text, 0
        actions = actions_of(text)
        if not actions:
            self._out += codec.EMPTY_QUERY
        self._several, self._left = len(actions) > 1, deque(actions)
        self._run_left()

    def _run_left(self) -> None:
        """Runs what is left of a simple query: it is one transaction but for what ends one."""
        while self._left:
            action = self._left.popleft()
            self._offset = action.offset
            if self._several and (changes(action) or isinstance(action, CopyRows)):
                self._statements.transactions.begin_implicit()
            if isinstance(action, CopyRows) and action.comes:
                self._copy_in(action, by_query=True)
                return  # the rest follows its rows
            self._run_simply(action)
        self._statements.transactions.end_implicit(commits=True)
        self._ready()

    def _run_simply(self, action: Action) -> None:
        portal = Portal(Prepared(action.text, action, ()), None, ())
        if isinstance(action, CopyRows):
            self._runs.copy_out(action)
            return
        self._run(portal, tells=True)
        if portal.rows is not None:
            self._runs.tell_rows(portal)
        self._runs.send(portal, None)

    # -- extended queries -----------------------------------------------------------------------

    def _parse(self, reader: Reader) -> None:
        name, text, oids = reader.text(), reader.text(), reader.ints()
        self._sql, self._offset = text, 0
        self._prepared.demand_free(name)
        actions = actions_of(text)
        if len(actions) > 1:
            raise PgError(SYNTAX, "a prepared statement is one statement, not several")
        action = actions[0] if actions else None
        self._prepared.add(name, Prepared(text, action, oids, name=name))
        self._out += codec.PARSE_COMPLETE

    def _bind(self, reader: Reader) -> None:
        name, statement = reader.text(), reader.text()
        formats, values, results = reader.shorts(), reader.values(), reader.shorts()
        reader.end()
        prepared = self._prepared.get(statement)
        self._sql = prepared.text
        if name and name in self._portals:
            raise PgError("42P03", f"there is a portal {name!r} already: close it first")
        if len(self._portals) >= MOST_HELD:
            raise PgError("53400", f"there are {MOST_HELD} portals: close some")
        params = None
        if values:
            with self._prepared.binding(prepared):
                types = self._parameters(prepared)
            params = values_of(values, formats, types)
        self._portals[name] = Portal(prepared, params, results)
        self._out += codec.BIND_COMPLETE

    def _describe(self, reader: Reader, following: Frame | None) -> None:
        kind, name = reader.byte(), reader.text()
        _demand_kind(kind)
        if kind == "S":
            self._describe_statement(self._prepared.get(name))
            return
        if name not in self._portals and name in self._statements.cursors:
            self._runs.tell(self._statements.cursors.columns(name), ())  # they are portals, too
            return
        portal = self._portal(name)
        self._sql = portal.prepared.text
        if portal.outcome is not None:
            self._runs.tell_rows(portal)
        elif _is_executed(following, name) and not _is_described_once(portal.prepared):
            self._late = portal  # its rows tell their columns
        else:
            self._tell_columns(portal.prepared, portal.formats)

    def _describe_statement(self, prepared: Prepared) -> None:
        self._sql = prepared.text
        with self._prepared.binding(prepared):
            told = codec.parameter_description(self._parameters(prepared))
        self._out += told
        self._tell_columns(prepared, ())

    def _tell_columns(self, prepared: Prepared, formats: Sequence[int]) -> None:
        with self._prepared.binding(prepared):
            self._parameters(prepared)
            columns = self._runs.described(prepared)
        self._runs.tell(columns, formats)

    def _execute(self, name: str, most: int, *, alone: bool) -> None:
        portal = self._portal(name)
        self._sql = portal.prepared.text
        action = portal.prepared.action
        described_now, self._late = self._late is portal, None
        if described_now and (action is None or isinstance(action, CopyRows)):
            self._out += codec.NO_DATA
        if action is None:
            self._out += codec.EMPTY_QUERY
            return
        if portal.ended and portal.rows is None:
            raise PgError("55000", f"the portal {name!r} is done, and cannot be run again: bind it")
        if isinstance(action, CopyRows):
            portal.ended = True
            self._statements.transactions.begin_implicit()
            if action.comes:
                self._copy_in(action, by_query=False)
            else:
                self._runs.copy_out(action)
            return
        if portal.outcome is not None:
            self._statements.demand_unchanged()
        else:
            if not alone and changes(action):
                self._statements.transactions.begin_implicit()
            with self._prepared.binding(portal.prepared, SqlError):
                self._run(portal, tells=described_now)
        if described_now:
            self._runs.tell_rows(portal)
        self._runs.send(portal, most if most > 0 else None)

    def _close(self, kind: str, name: str) -> None:
        _demand_kind(kind)
        if kind == "S":
            self._prepared.drop(name)
        else:
            self._portals.pop(name, None)
        self._out += codec.CLOSE_COMPLETE

    def _sync(self) -> None:
        skipped, self._skipping, self._late = self._skipping, False, None
        self._prepared.end_batch()
        try:
            self._statements.transactions.end_implicit(commits=not skipped)
        except Exception as error:
            self._fail(error)
        self._ready()

    def _portal(self, name: str) -> Portal:
        found = self._portals.get(name)
        if found is None:
            raise PgError(NO_PORTAL, f"there is no portal {name!r}")
        return found

    def _parameters(self, prepared: Prepared) -> tuple[int, ...]:
        if prepared.parameters is None:
            found = self._statements.parameters(prepared.action, prepared.oids)
            prepared.parameters = found
            prepared.action = self._statements.with_nested(prepared.action, found)
        return prepared.parameters

    # -- running --------------------------------------------------------------------------------

    def _run(self, portal: Portal, *, tells: bool) -> None:
        self._runs.run(portal, tells=tells)
        if portal.prepared.action is not None:
            self._forget(portal.prepared.action)

    def _forget(self, action: Action) -> None:
        """DEALLOCATE and DISCARD are about the protocol's prepared statements, too."""
        if isinstance(action, Sql) and isinstance(action.statement, st.Deallocate):
            self._prepared.drop(action.statement.name)
        elif isinstance(action, Nothing) and action.tag in ("DEALLOCATE ALL", "DISCARD ALL"):
            self._prepared.drop(None)

    # -- COPY -----------------------------------------------------------------------------------

    def _copy_in(self, action: CopyRows, *, by_query: bool) -> None:
        self._served.cancelled = None
        self._copy = CopyIn(action, self._statements)
        self._copy_by_query = by_query
        self._out += codec.copy_response(b"G", self._copy.columns, binary=self._copy.binary)
        self._out.flush()

    def _copy_data(self, data: bytes) -> None:
        if self._copy is not None:  # else it has failed, and the client does not know yet
            self._served.demand_wanted()
            self._copy.write(data)

    def _copy_end(self, failed: str | None) -> None:
        copy, self._copy = self._copy, None
        if copy is None:
            return
        try:
            if failed is not None:
                raise PgError("57014", f"COPY was ended by its client: {failed}")
            self._served.demand_wanted()
            began = time.perf_counter()
            count = copy.finish()
            self._out += codec.command_complete(f"COPY {count}")
            self._log.statement(self._served, self._sql, time.perf_counter() - began)
            if self._copy_by_query:
                self._run_left()
        except Exception as error:
            self._fail(error)
            if self._copy_by_query:
                self._ready()
            else:
                self._skipping = True
        finally:
            copy.drop()

    # -- answers --------------------------------------------------------------------------------

    def _ready(self) -> None:
        state = self._statements.transactions.state
        if state == "I":
            self._portals.clear()
        self._out += codec.READY[state]
        self._out.flush()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, ProtocolError):
            error = PgError(error.code, str(error))
        if not isinstance(error, PgError | IvmError):
            error = ours(error)
        try:
            self._statements.transactions.fail()
        except IvmError as second:  # the transaction cannot be ended: that is worse
            error = second
        self._log.failed(self._served, self._sql, error)
        self._out += codec.fields(b"E", error_fields(error, self._offset))

    def _notice(self, code: str, text: str) -> None:
        self._out += codec.fields(b"N", notice_fields(code, text, "WARNING"))

    def _report(self, name: str) -> None:
        self._out += codec.parameter_status(name, self._statements.settings.get(name))


def _demand_kind(kind: str) -> None:
    """Refuses a message about what is neither a statement nor a portal."""
    if kind not in "SP":
        raise ProtocolError(f"a message about the unknown kind of thing {kind!r}")


def _is_last(frames: Sequence[Frame], at: int) -> bool:
    """Whether nothing is done after a message before the next Sync, which has come."""
    for frame in frames[at + 1 :]:
        if frame.tag == "S":
            return True
        if frame.tag in "BEPQ":
            return False
    return False


def _is_described_once(prepared: Prepared) -> bool:
    """Whether this may be all that the client is told of the runs of a statement, whose columns
    have other types with other values of its parameters."""
    return bool(prepared.name and prepared.parameters and prepared.told is None)


def _is_executed(following: Frame | None, name: str) -> bool:
    """Returns whether the next message runs a portal."""
    return (
        following is not None
        and following.tag == "E"
        and following.body.partition(b"\0")[0] == name.encode()
    )
