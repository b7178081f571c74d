"""Runs portals, and tells what comes of them: columns, rows, tags, and the rows of COPY."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence

from ivm.serve.pg.copy.copy_out import CopyOut
from ivm.serve.pg.portals import Portal, Prepared, Told
from ivm.serve.pg.statements.actions import changes
from ivm.serve.pg.statements.copy_syntax import CopyRows
from ivm.serve.pg.statements.describe import Columns
from ivm.serve.pg.statements.statements import Statements
from ivm.serve.pg.values.columns import Wanted
from ivm.serve.pg.values.rows import Rows, as_told, formats_of
from ivm.serve.pg.values.types import pg_type
from ivm.serve.pg.wire import codec
from ivm.serve.pg.wire.codec import Column
from ivm.serve.pg.wire.errors import TOO_LARGE, PgError, other_columns
from ivm.serve.pg.wire.output import Output
from ivm.serve.served_session import ServedSession
from ivm.serve.settings import ServerSettings
from ivm.serve.statement_log import StatementLog

_MEGABYTE = 1_000_000


class PortalRuns:
    """Runs the portals of one connection.

    Args:
        served: its session.
        statements: run in it.
        output: the way back to the client.
        limits: the settings of the server.
        log: of statements.
    """

    def __init__(
        self,
        served: ServedSession,
        statements: Statements,
        output: Output,
        limits: Callable[[], ServerSettings],
        log: StatementLog,
    ) -> None:
        self._served = served
        self._statements = statements
        self._out = output
        self._limits = limits
        self._log = log

    def run(self, portal: Portal, *, tells: bool) -> None:
        """Runs a portal, whose rows can be sent then.

        Args:
            portal: which was not run.
            tells: the client is told then which columns it has.
        """
        portal.began = time.perf_counter()
        prepared = portal.prepared
        assert prepared.action is not None
        if changes(prepared.action) and not tells and not self._means_the_same(prepared):
            self._demand_told(prepared)  # before the run: what it has changed would stay
        portal.outcome = self._statements.run(prepared.action, portal.params)
        result = portal.outcome.result
        if prepared.told is not None and result.kind == "rows":
            columns = prepared.told.columns
            if list(zip(result.columns, result.types, strict=True)) != columns:
                is_the_same = bool(prepared.parameters) and self._means_the_same(prepared)
                if not is_the_same and not tells:
                    self._demand_told(prepared)
                if is_the_same or not tells:
                    result = portal.outcome.result = as_told(result, columns)
                else:
                    prepared.told = None
        if result.kind == "rows":
            zone = self._statements.settings.get("timezone")
            portal.rows = Rows(result, portal.formats, zone)

    def described(self, prepared: Prepared) -> Columns | None:
        """The columns of a statement, None if it has none; the client is told them."""
        meaning = self._statements.meaning(prepared.action)
        columns = self._statements.columns(prepared.action, prepared.parameters or ())
        prepared.told = None if columns is None else Told(columns, meaning)
        return columns

    def _means_the_same(self, prepared: Prepared) -> bool:
        """Returns whether names mean what they did as the client was told the columns.

        If so, only the values of parameters make the names and types of columns other ones.
        """
        told = prepared.told
        if told is None:
            return True
        return told.meaning is not None and told.meaning == self._statements.meaning(
            prepared.action
        )

    def _demand_told(self, prepared: Prepared) -> None:
        """Refuses a statement whose columns are others by now than the client was told.

        Raises:
            PgError: they are.
        """
        told = prepared.told
        if told is not None and self.described(prepared) != told.columns:
            prepared.told = told
            raise other_columns()

    def tell(self, columns: Columns | None, formats: Sequence[int]) -> None:
        """Tells the columns of a result, if there is one."""
        if columns is None:
            self._out += codec.NO_DATA
            return
        binary = formats_of(formats, len(columns))
        told = [_column(n, t, b) for (n, t), b in zip(columns, binary, strict=True)]
        self._out += codec.row_description(told)

    def tell_rows(self, portal: Portal) -> None:
        """Tells the columns of a portal that was run."""
        assert portal.outcome is not None
        if portal.rows is None:
            self._out += codec.NO_DATA
            return
        result, prepared = portal.outcome.result, portal.prepared
        if prepared.name and prepared.told is None:  # it may run again without being described
            prepared.told = Told(list(zip(result.columns, result.types, strict=True)), None)
        self._out += _described(tuple(result.columns), portal.rows.wanted)

    def send(self, portal: Portal, most: int | None) -> None:
        """Sends rows, at most so many, and the tag once there are no more.

        Raises:
            PgError: the result is larger than the settings allow.
        """
        assert portal.outcome is not None
        count = 0
        if portal.rows is not None:
            result = portal.outcome.result
            limit = 0.0 if result.is_of_change else self._limits().result_megabytes
            try:
                count = self._send_rows(
                    portal.rows, most, limit * _MEGABYTE, is_done=result.is_of_change
                )
            except BaseException:
                result.let_go()
                raise
            if count == most:
                self._out += codec.PORTAL_SUSPENDED
                return
        self._out += codec.command_complete(portal.outcome.tag(count))
        self._log.statement(self._served, portal.prepared.text, time.perf_counter() - portal.began)
        portal.ended = True

    def _send_rows(self, rows: Rows, most: int | None, limit: float, *, is_done: bool) -> int:
        count = size = 0
        while most is None or count < most:
            if not is_done:
                self._served.demand_wanted()
            data, sent = self._read(rows, None if most is None else most - count)
            if not sent:
                break
            count, size = count + sent, size + len(data)
            if limit and size > limit:
                raise PgError(
                    TOO_LARGE,
                    f"the result has more than {limit / _MEGABYTE:g} MB: ask for less, or "
                    "raise result_megabytes in [server] of ivm.toml",
                )
            self._out += data
            self._out.flush_if_large()
        return count

    def _read(self, rows: Rows, most: int | None) -> tuple[bytes, int]:
        """The next rows' messages; reading them can be cancelled as a statement."""
        if rows.ended or rows.is_in_memory:
            return rows.next(most)
        return self._served.around(lambda: rows.next(most))

    def copy_out(self, action: CopyRows) -> None:
        """Sends the rows of a COPY."""
        began, count = time.perf_counter(), 0
        copy = CopyOut(action, self._statements)
        self._out += codec.copy_response(b"H", copy.columns, binary=copy.binary)
        pieces = copy.pieces()
        while (piece := self._served.around(lambda: next(pieces, None))) is not None:
            rows, data = piece
            count += rows
            self._out += data
            self._out.flush_if_large()
            self._served.demand_wanted()
        self._out += codec.COPY_DONE + codec.command_complete(f"COPY {count}")
        self._log.statement(self._served, action.text, time.perf_counter() - began)


@functools.lru_cache(maxsize=1024)
def _described(names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> bytes:
    """The message of a result's columns."""
    columns = [_column(n, w.type, w.binary) for n, w in zip(names, wanted, strict=True)]
    return codec.row_description(columns)


def _column(name: str, type: str, binary: bool) -> Column:
    return Column(name, *pg_type(type), binary)
