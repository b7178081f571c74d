"""The thread that follows a changefeed of a served database, and what waits for its reader.

Law: as that of an open database. A lost connection is opened again behind the last epoch; if the
server has not kept all epochs since, an error is the last item: it cannot tell what is gone. The
thread refers to nothing of its reader, so that a reader who is forgotten can stop it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ivm.client.wire import Wire, error_of, segment
from ivm.engine.feeds.plain_arrow import plain
from ivm.storage.errors import InternalError, IvmError, UnavailableError

if TYPE_CHECKING:
    import httpx

PAUSE = 0.2
"""Seconds between looks at whether a feed was stopped."""
_MOST = 64  # deltas that wait for the reader; more wait at the server
_PATIENCE = 60.0
_BUSY = 503  # of a server that is being stopped, or has too many clients
Item: TypeAlias = tuple[int, pa.Table]


class Following:
    """A thread that follows a view until it is stopped, or the feed ends.

    Args:
        wire: to the server.
        view: its name.
        snapshot: whether the first delta is the rows that the view has.

    Attributes:
        items: what has come: (epoch, delta) in order; at last None, or the error that ends it.
        stopped: whether nothing more comes.

    Raises:
        IvmError: what the server tells.
    """

    def __init__(self, wire: Wire, view: str, *, snapshot: bool) -> None:
        self._wire = wire
        self._path = f"/views/{segment(view)}/changes"
        self._view = view
        self._process = os.getpid()
        self.items: queue.Queue[Item | IvmError | None] = queue.Queue(_MOST)
        self.stopped = False
        self._snapshot = snapshot
        self._epoch: int | None = None  # the last one that has come whole
        self._held: list[pa.Table] = []
        self._answer: httpx.Response | None = None
        # Guards `_answer` and the stop, which a finalizer calls at any point of any thread.
        self._changing = threading.RLock()
        try:
            reader = self._connect()
        except _lost_errors() as error:
            self._leave()
            raise wire.unreachable(error) from error
        except BaseException:
            self._leave()
            raise
        threading.Thread(target=self._run, args=(reader,), daemon=True).start()

    def stop(self) -> None:
        """Ends it; what has come can still be read. A forked child leaves it to its parent."""
        if self._process != os.getpid():
            self.stopped = True
            return
        with self._changing:
            self.stopped = True
            if self._answer is not None:
                _wake(self._answer)

    def _connect(self) -> Any:
        self._held = []  # of a snapshot that was cut
        if self._epoch is not None:
            params = {"after": str(self._epoch)}
        else:
            params = {} if self._snapshot else {"snapshot": "0"}
        answer = self._wire.stream(self._path, params)
        with self._changing:
            self._answer = answer
            if self.stopped:  # while this was under way
                _wake(answer)
        self._status = answer.status_code
        if answer.status_code != 200:
            raise error_of(answer.read(), answer.status_code)
        if "snapshot" in params:  # else the head may name a snapshot's, whose rows are to come
            self._epoch = int(answer.headers["ivm-epoch"])
        return pa.ipc.open_stream(_Bytes(answer.iter_raw()))

    def _leave(self) -> None:
        """Closes the connection; called by the thread that reads from it."""
        with self._changing:
            answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def _run(self, reader: Any) -> None:
        try:
            self._follow(reader)
        except Exception as error:  # of a peer that is no server of ours
            self._put(InternalError(f"the changefeed cannot be read: {error!r}"))
        finally:
            self._leave()

    def _follow(self, reader: Any) -> None:
        errors: tuple[type[Exception], ...] = (IvmError, *_lost_errors())
        lost: float | None = None
        while not self.stopped:
            try:
                if reader is None:
                    reader = self._connect()
                    lost = None
                while not self.stopped:
                    batch, given = reader.read_next_batch_with_custom_metadata()
                    about = {key.decode(): value.decode() for key, value in given.items()}
                    if about["type"] == "end":
                        return self._put(None)
                    self._take(batch, about)
            except errors as error:
                told = error if isinstance(error, IvmError) else self._wire.unreachable(error)
                reader, now = None, time.monotonic()
                lost = lost or now
                is_final = told is error and self._status != _BUSY
                if is_final or now - lost > _PATIENCE:
                    return self._put(told)
                self._leave()
                time.sleep(PAUSE)
        return None

    def _take(self, batch: pa.RecordBatch, about: dict[str, str]) -> None:
        epoch = int(about["epoch"])
        if about["type"] == "snapshot":
            if self._epoch is not None:
                raise UnavailableError(
                    f"the server has not kept all epochs of {self._view!r} after {self._epoch}: "
                    "subscribe again, with a snapshot"
                )
            self._held.append(pa.Table.from_batches([batch]))
            if about["last"] != "1":
                return
            table = pa.concat_tables(self._held)
            self._held = []
        else:
            table = pa.Table.from_batches([batch])
        self._epoch = epoch
        if len(table):
            self._put((epoch, plain(table)))

    def _put(self, item: Item | IvmError | None) -> None:
        while not self.stopped:
            with contextlib.suppress(queue.Full):
                self.items.put(item, timeout=PAUSE)
                return


def _lost_errors() -> tuple[type[Exception], ...]:
    """The errors of a connection that is lost, or was cut between two bytes."""
    import httpx

    return StopIteration, pa.ArrowInvalid, OSError, httpx.TransportError, httpx.StreamError


def _wake(answer: httpx.Response) -> None:
    """Ends the wait of the thread that reads; closing its socket would not."""
    connection = answer.extensions["network_stream"].get_extra_info("socket")
    with contextlib.suppress(OSError):  # it is closed already
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Bytes:
    """What comes, as a file for Arrow."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = bytearray()
        self.closed = False

    def read(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        while len(self._left) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._left += chunk
        found = bytes(self._left[:size])
        del self._left[:size]
        return found

    def close(self) -> None:
        """The connection is closed by who has opened it."""
