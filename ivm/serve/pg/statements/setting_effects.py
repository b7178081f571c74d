"""What the settings of a session do: time limits, the time zone, the modes of transactions.

Law: a setting whose effect is refused keeps its value. What SET has set is undone by ROLLBACK, what
SET LOCAL has by either end of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from ivm.dispatch import run_statement
from ivm.serve.pg.catalog.session_settings import SessionSettings, demand_main, seconds
from ivm.serve.pg.statements.actions import Setting
from ivm.serve.served_session import ServedSession
from ivm.session.results.result import Result
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import fold, literal
from ivm.storage.warehouse.duckdb.duck import rows

_IDLE = "idle_in_transaction_session_timeout"
_SCHEMAS = """SELECT schema_name FROM system.main.duckdb_schemas()
WHERE database_name = system.main.current_database()"""


class SettingEffects:
    """Sets the settings of one session.

    Args:
        settings: their values.
        served: the session.
        take_modes: gives the settings of transactions their effect.
        report: tells the client that a setting has changed.

    Attributes:
        idle_seconds: for which a client may do nothing in a transaction; 0: for ever.
    """

    def __init__(
        self,
        settings: SessionSettings,
        served: ServedSession,
        take_modes: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._served = served
        self._take_modes = take_modes
        self._report = report
        self._limit = served.seconds
        self.idle_seconds = 0.0

    def run(self, action: Setting) -> Result | None:
        """Runs SET or RESET; gives the row of SHOW."""
        if action.verb == "SHOW":
            assert action.name is not None
            name = self._settings.column_name(action.name)
            shown = pa.table({name: pa.array([self._settings.get(action.name)], pa.string())})
            return Result.of_table(shown, ["VARCHAR"])
        if action.verb == "RESET":
            self.reset(action.name)
        else:
            before = self._settings.all()
            self.set(str(action.name), str(action.value))
            self._settings.remember(str(action.name), before, local=action.local)
        return None

    def set(self, name: str, value: str) -> None:
        """Sets a setting, and tells the client if it wants to know."""
        before = self._settings.all().get(name, "")
        reported = self._settings.set(name, value)
        try:
            self._take(name)
        except BaseException:
            self._settings.set(name, before)
            raise
        if reported is not None:
            self._report(reported)

    def put_back(self, *, commits: bool) -> None:
        """Undoes at the end of a transaction what was set in it, or for it."""
        for name, value in self._settings.ended(commits=commits).items():
            self.set(name, value)

    def reset(self, name: str | None) -> None:
        """Gives a setting the value that it had at the login, or all of them."""
        for reported in self._settings.reset(name):
            self._report(reported)
        self._take(name)

    def _take(self, name: str | None) -> None:
        """Gives a setting its effect, or all of them."""
        self._take_modes()
        if name in (None, "statement_timeout"):
            self._served.seconds = self._limited(seconds(self._settings.get("statement_timeout")))
        if name in (None, _IDLE):
            self.idle_seconds = seconds(self._settings.get(_IDLE))
        if name in (None, "timezone"):
            self._take_zone()
        if name == "search_path":
            demand_main(self._settings.get(name), self._schemas)

    def _limited(self, wanted: float) -> float:
        """A time limit that is not above the server's."""
        limits = [limit for limit in (wanted, self._limit) if limit]
        return min(limits) if limits else 0.0

    def _take_zone(self) -> None:
        zone = self._settings.get("timezone")
        (statement,) = st.parse(f"SET TimeZone = {literal(zone)}")
        self._served.run(lambda session: run_statement(session, statement, None))

    def _schemas(self) -> frozenset[str]:
        """The folded names of the database's schemas."""
        found = self._served.run(lambda session: rows(session.cursor, _SCHEMAS))
        return frozenset([fold(name) for (name,) in found])
