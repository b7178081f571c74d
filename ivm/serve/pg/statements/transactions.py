"""The transactions of one connection, as PostgreSQL's clients see them.

Contract: BEGIN takes no lock: the transaction begins at the first statement that is no query, and
queries before it see the newest epoch each, as READ COMMITTED has it. A transaction in which a
statement has failed refuses all but its end.
"""

from __future__ import annotations

from collections.abc import Callable

from ivm.serve.pg.catalog.session_settings import SessionSettings
from ivm.serve.pg.statements.actions import Begin, Savepoint, SetModes
from ivm.serve.pg.statements.cursors import Cursors
from ivm.serve.pg.statements.setting_effects import SettingEffects
from ivm.serve.pg.wire.errors import FAILED_TRANSACTION, PgError
from ivm.serve.served_session import ServedSession
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnsupportedError

_FAILED = (
    "the transaction has failed, and nothing of it was done: what follows is refused until ROLLBACK"
)
_NONE = "there is no transaction in progress"


class Transactions:
    """Begins and ends them, and knows how the one that is open does.

    Args:
        served: the session.
        settings: of the session.
        cursors: that SQL has declared.
        notice: tells the client something: a code and a text.
        report: tells the client that a setting has changed.
        ends: is told that a transaction ends, and with it the portals.

    Attributes:
        effects: of the settings.
        implicit: the transaction is one of several statements, which the client did not begin.
    """

    def __init__(
        self,
        served: ServedSession,
        settings: SessionSettings,
        cursors: Cursors,
        notice: Callable[[str, str], None],
        report: Callable[[str], None],
        ends: Callable[[], None],
    ) -> None:
        self._served = served
        self._settings = settings
        self._cursors = cursors
        self._notice = notice
        self._ends = ends
        self.effects = SettingEffects(settings, served, self._take_modes, report)
        self._failed = False
        self._savepoints: list[str] = []
        self.implicit = False

    @property
    def state(self) -> str:
        """The state of the transaction: I(dle), T(ransaction) or E(rror)."""
        connection = self._served.connection
        if self._failed:
            return "E"
        return "T" if connection.in_transaction and not self.implicit else "I"

    @property
    def idle_seconds(self) -> float:
        """For which the client may do nothing now, if it is in a transaction; 0: for ever."""
        return self.effects.idle_seconds if self.state != "I" else 0.0

    def fail(self) -> None:
        """A statement has failed: so has the transaction."""
        if self._served.connection.in_transaction and not self.implicit:
            self._failed = True
        else:
            self.end_implicit(commits=False)

    def begin_implicit(self) -> None:
        """Begins a transaction of several statements that the client did not begin."""
        if not self._served.connection.in_transaction and not self._failed:
            self._served.connection.begin()
            self.implicit = True

    def end_implicit(self, *, commits: bool) -> None:
        """Ends it, if there is one."""
        if self.implicit:
            self.implicit = False
            self._end(commits=commits)
        elif self.state == "I":
            self.effects.put_back(commits=commits)

    def demand_sound(self) -> None:
        """Refuses what follows a statement that has failed in the transaction.

        Raises:
            PgError: one has.
        """
        if self._failed:
            raise PgError(FAILED_TRANSACTION, _FAILED)

    def begin(self, action: Begin) -> str:
        """Runs BEGIN; returns its tag."""
        connection = self._served.connection
        if connection.in_transaction and not self.implicit:
            self._notice("25001", "there is already a transaction in progress")
            return "BEGIN"
        if self.implicit:
            self.implicit = False  # the statements before are part of it, as in PostgreSQL
        else:
            connection.begin()
        self._settings.begin(action.modes)
        self._pin()
        return "BEGIN"

    def set_modes(self, action: SetModes) -> str:
        """Runs SET TRANSACTION; returns its tag."""
        if self.state == "I" and any(name.startswith("transaction") for name, _ in action.modes):
            self._notice("25P01", "SET TRANSACTION is about a transaction: BEGIN one first")
        for name, value in action.modes:
            self.effects.set(name, value)
        return "SET"

    def _take_modes(self) -> None:
        """Settings of transactions may have changed; outside of one the defaults hold."""
        if self.state == "I":
            self._settings.begin()
        else:
            self._pin()

    def _pin(self) -> None:
        """Begins a transaction at once whose queries are to see one epoch."""
        if self._settings.is_pinned:
            served = self._served
            reads_only = self._settings.is_read_only or not served.user.grant.writes
            served.around(lambda: served.connection.pin(reads_only=reads_only))

    def control(self, statement: st.TransactionControl) -> str:
        """Begins or ends a transaction; returns the tag."""
        if statement.action == "begin":
            modes = (("transaction_read_only", "on"),) if statement.read_only else ()
            return self.begin(Begin(statement.text, statement.offset, modes))
        if not self._served.connection.in_transaction and not self._failed:
            self._notice("25P01", _NONE)
            return statement.action.upper()
        if self.implicit:
            self._notice("25P01", _NONE)
        commits = statement.action == "commit" and not self._failed
        self.implicit = False
        self._end(commits=commits)
        return "COMMIT" if commits else "ROLLBACK"

    def savepoint(self, action: Savepoint) -> str:
        """Savepoints of a transaction that has not begun: there is nothing to be undone."""
        if action.verb == "SAVEPOINT":
            self.demand_sound()
            if not self._served.connection.in_transaction:
                raise PgError("25P01", "SAVEPOINT can only be used in a transaction: BEGIN first")
            self._savepoints.append(action.name)
            return "SAVEPOINT"
        if action.name not in self._savepoints:
            raise PgError("3B001", f"there is no savepoint {action.name!r}")
        at = len(self._savepoints) - 1 - self._savepoints[::-1].index(action.name)
        if action.verb == "RELEASE":
            self.demand_sound()
            del self._savepoints[at:]
            return "RELEASE"
        if self._served.connection.has_begun:
            pinned = self._settings.is_pinned
            what = "whose queries see one epoch" if pinned else "that has changed something"
            raise UnsupportedError(f"a transaction {what} is undone as a whole: ROLLBACK it")
        del self._savepoints[at + 1 :]
        self._failed = False
        return "ROLLBACK"

    def _end(self, *, commits: bool) -> None:
        self._failed = False
        self._settings.begin()
        self._savepoints.clear()
        self._cursors.end(commits=commits)
        self._ends()
        connection, committed = self._served.connection, False
        try:
            self._served.around(connection.commit if commits else connection.rollback)
            committed = commits
        finally:
            self.effects.put_back(commits=committed)
