"""A database that another process serves.

Contract: its methods do what those of a `Database` do. Each call is a session of its own, but those
of a thread's transaction, which share one. What needs the process that has the database open is
refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ivm.changes.values.batches import Many, drawn, each_row
from ivm.changes.values.batches import rows_of as many_of
from ivm.client.feed import RemoteFeed
from ivm.client.values import plain, table_of
from ivm.client.wire import ARROW, LostSessionError, Wire, segment
from ivm.ingest.parameters import Params, parameters_of
from ivm.ingest.rows import Rows
from ivm.session.results.relation import Relation
from ivm.session.results.result import Result
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.placeholders import has_names
from ivm.storage.errors import InputError, IvmError, SqlError, UnsupportedError
from ivm.storage.identifiers import literal

_LOSSLESS = f"{ARROW}; types=lossless"
_TYPES = b"ivm.types"
_SESSION = "Ivm-Session"


class RemoteDatabase:
    """A database behind a URL; use it as a context manager, or `close` it.

    Made by `ivm.connect("ivm://…")`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        verify: bool | str = True,
        timeout: float | None = None,
    ) -> None:
        self._wire = Wire(url, token, verify, timeout)
        self._local = threading.local()
        self.path = self._wire.server

    # -- SQL ------------------------------------------------------------------------------------

    def execute(self, query: str, parameters: Params = None) -> Result:
        """Runs one or more statements; see `Database.execute`.

        The result is read into memory.
        """
        if not isinstance(query, str):
            raise InputError(f"execute takes SQL as text, not {query!r}")
        given: dict[str, Any] = {"sql": query}
        with self._taking():
            values = parameters_of(parameters)
            if values:
                given["params"] = plain(values)
        return self._run(query, given)

    def executemany(self, query: str, parameters: Many) -> Result:
        """Runs one statement with each of many rows of parameters; see `Database.executemany`."""
        if not isinstance(query, str):
            raise InputError(f"executemany takes SQL as text, not {query!r}")
        with self._taking():
            found = each_row(many_of(drawn(parameters)), named=has_names(query))
            listed = [plain(row) for row in found]
        return self._run(query, {"sql": query, "many": listed})

    def sql(self, query: str, params: Params = None) -> Relation | None:
        """Runs statements, and holds the last one's rows; see `Database.sql`."""
        result = self.execute(query, params)
        return Relation(result) if result.kind == "rows" else None

    def _run(self, sql: str, given: Mapping[str, Any]) -> Result:
        statements = self._parsed(sql)
        for statement in statements:
            if self._token is None:
                _refuse_of_session(statement)
        controls = [s.action for s in statements if isinstance(s, st.TransactionControl)]
        begins = "begin" in controls and self._token is None
        if begins:
            self._open_session()
        headers = {"Content-Type": "application/json", "Accept": _LOSSLESS, **self._session()}
        try:
            content = json.dumps(given).encode()
            answer = self._wire.ask("POST", "/sql", content=content, headers=headers)
        except LostSessionError:
            self._local.session = None
            raise
        except BaseException:
            if begins and len(statements) == 1:  # no transaction has begun
                self._close_session()
            raise
        finally:
            if controls and controls[-1] != "begin":
                self._close_session()
        return _result(answer.content, answer.headers)

    @contextlib.contextmanager
    def _taking(self) -> Iterator[None]:
        """What is refused in the block ends the transaction, as if the server had refused it.

        A COMMIT that follows must not make half of it last.
        """
        try:
            yield
        except Exception as error:
            if self._token is not None:
                given = {"sql": f"SELECT error({literal(str(error))})"}
                with contextlib.suppress(IvmError):
                    self._run(given["sql"], given)
            raise

    def _parsed(self, sql: str) -> tuple[st.Statement, ...]:
        """The statements; none of what is no SQL in a transaction, which the server then ends."""
        try:
            return st.parse(sql)
        except SqlError:
            if self._token is None:
                raise
            return ()

    # -- transactions -----------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Returns whether this thread has an open transaction."""
        return self._token is not None

    def begin(self) -> RemoteDatabase:
        """Begins a transaction of this thread, as BEGIN does."""
        self.execute("BEGIN")
        return self

    def commit(self) -> RemoteDatabase:
        """Commits this thread's transaction, if there is one."""
        if self.in_transaction:
            self.execute("COMMIT")
        return self

    def rollback(self) -> RemoteDatabase:
        """Undoes this thread's transaction, as ROLLBACK does."""
        with contextlib.suppress(LostSessionError):  # the server has undone it
            self.execute("ROLLBACK")
        return self

    @contextlib.contextmanager
    def transaction(self) -> Iterator[RemoteDatabase]:
        """A `with` block that is one transaction, rolled back if the block raises."""
        self.begin()
        try:
            yield self
        except BaseException:
            if self.in_transaction:
                self.rollback()
            raise
        self.commit()

    @property
    def _token(self) -> str | None:
        """Of this thread's session; a forked process has none."""
        process, token = getattr(self._local, "session", None) or (0, None)
        return token if process == os.getpid() else None

    def _session(self) -> dict[str, str]:
        return {} if self._token is None else {_SESSION: self._token}

    def _open_session(self) -> None:
        token = self._wire.ask("POST", "/sessions").json()["session"]
        self._local.session = os.getpid(), token

    def _close_session(self) -> None:
        token, self._local.session = self._token, None
        if token is not None:
            self._wire.ask("DELETE", f"/sessions/{token}")

    # -- rows -------------------------------------------------------------------------------------

    def insert(self, table: str, rows: Rows) -> int:
        """Inserts rows; see `Database.insert`. A lost connection does not make it twice."""
        return self._write(table, rows, "insert")

    def upsert(self, table: str, rows: Rows) -> int:
        """Inserts rows, or updates those whose primary key is stored; see `Database.upsert`."""
        return self._write(table, rows, "upsert")

    def delete(self, table: str, keys: Rows) -> int:
        """Deletes rows by their key columns; see `Database.delete`."""
        return self._write(table, keys, "delete")

    def _write(self, table: str, rows: Rows, action: str) -> int:
        with self._taking():
            path, out, found = f"/tables/{segment(table)}", io.BytesIO(), table_of(rows)
            with pa.ipc.new_stream(out, found.schema) as writer:
                writer.write_table(found)
        answer = self._wire.ask(
            "POST",
            path,
            content=out.getvalue(),
            headers={"Content-Type": ARROW, **self._session()},
            params={"op": action},
            again=not self.in_transaction,
        )
        return int(answer.json()["rows"])

    # -- views ------------------------------------------------------------------------------------

    def subscribe(self, view: str, *, snapshot: bool = False) -> RemoteFeed:
        """Opens a changefeed: a blocking iterator of (epoch, delta); see `Database.subscribe`."""
        return RemoteFeed(self._wire, view, snapshot=snapshot)

    @property
    def epoch(self) -> int:
        """The number of the last committed transaction."""
        return int(self._wire.ask("GET", "/healthz").json()["epoch"])

    # -- the rest ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the connections; an open transaction of this thread is rolled back."""
        try:
            self._close_session()
        finally:
            self._wire.close()

    def __enter__(self) -> RemoteDatabase:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"{name} is for the process that has the database open: over ivm:// there are execute, "
            "executemany, sql, insert, upsert, delete, transaction, subscribe and epoch"
        )


def _refuse_of_session(statement: st.Statement) -> None:
    """Refuses what a session would keep, where each call has its own."""
    keeps = isinstance(statement, st.Prepare) or (
        isinstance(statement, st.Ddl)
        and (
            statement.temporary
            or (statement.action in ("set", "reset") and statement.target != "global")
        )
    )
    if keeps:
        raise UnsupportedError(
            "each call over ivm:// is a session of its own, outside of a transaction: what is "
            "temporary or set would be gone at once. Do it in a transaction()",
            statement.offset,
        )


def _result(content: bytes, headers: Mapping[str, str]) -> Result:
    kind = headers.get("ivm-kind", "rows")
    if kind == "count":
        return Result.count(int(headers["ivm-rowcount"]))
    if kind == "done" or not content:
        return Result("done")
    table = pa.ipc.open_stream(content).read_all()
    types = json.loads(table.schema.metadata[_TYPES])
    count = int(headers.get("ivm-rowcount", -1))
    return Result.of_table(table.replace_schema_metadata(None), types, count)


def connect(
    url: str,
    *,
    token: str | None = None,
    verify: bool | str = True,
    timeout: float | None = None,
) -> RemoteDatabase:
    """Opens a database that another process serves over HTTP.

    Args:
        url: `ivm://user:password@host:port`, or `ivms://…` for TLS.
        token: made by CREATE TOKEN, in place of user and password.
        verify: whether certificates are verified; or the path of those that are trusted.
        timeout: seconds that an answer may take; default no limit.

    Raises:
        InputError: it is no such URL.
        UnavailableError: the package for HTTP is missing.
    """
    return RemoteDatabase(url, token=token, verify=verify, timeout=timeout)
