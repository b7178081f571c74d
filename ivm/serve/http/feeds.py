"""The changefeeds of a server: one subscription a view, whose epochs all subscribers share.

Law: a subscriber gets a snapshot, or says which epoch it has, and then every later epoch once, in
order. An epoch is kept until `KEPT_EPOCHS` later ones or `KEPT_ROWS` rows have come; a subscriber
that is further behind than that is told so and cut off, and nobody waits for it.
Invariant: a feed's epochs are touched by the event loop alone; a thread of the feed hands them in.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ivm.database import Database
from ivm.engine.feeds.changefeed import Subscription
from ivm.serve.http.epochs import PART, Encoder, Message, changes, snapshot
from ivm.serve.threads import Threads
from ivm.session.session import Session
from ivm.storage.errors import IvmError, UnavailableError

KEPT_EPOCHS = 4096
KEPT_ROWS = 500_000
"""What a feed keeps for those who come back, or are slow."""
SHARED_SECONDS = 0.2
"""A snapshot serves others for so long where epochs came after it, and else until one comes."""
BEAT = 15.0
"""Seconds between signs of life to subscribers, by which it is noticed that they have left."""
_WAKE, _WAKE_EACH = 0.01, 0.0001  # seconds for which epochs are gathered, more with subscribers
_UNUSED = 300.0  # seconds after which a feed without subscribers is closed
_TAKE = 0.5  # seconds between two looks whether the feed is to end


class Encoded:
    """A message, and its bytes once somebody has asked for them."""

    __slots__ = ("_bytes", "_encoder", "_lock", "epoch", "message")

    def __init__(self, message: Message, encoder: Encoder) -> None:
        self.message = message
        self.epoch = message.epoch
        self._encoder = encoder
        self._bytes: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def known(self, form: str) -> bytes | None:
        """The bytes, if they are known."""
        return self._bytes.get(form)

    def encoded(self, form: str) -> bytes:
        """The bytes, which are made at the first question; in a thread."""
        with self._lock:
            if form not in self._bytes:
                [self._bytes[form]] = _FORMS[form](self._encoder, [self.message])
            return self._bytes[form]

    def take(self, form: str, found: bytes) -> None:
        """Takes the bytes."""
        self._bytes[form] = found


_FORMS: dict[str, Callable[[Encoder, Sequence[Message]], list[bytes]]] = {
    "sse": Encoder.sse,
    "json": Encoder.json,
    "arrow": Encoder.arrow,
}


class ViewFeed:
    """The epochs of one view.

    Args:
        database: served.
        view: canonical name.
        loop: the server's.
        alone: held while a snapshot is taken.
    """

    def __init__(
        self, database: Database, view: str, loop: asyncio.AbstractEventLoop, alone: asyncio.Lock
    ) -> None:
        self._database = database
        self._loop = loop
        self._feed: Subscription = database.subscribe(view)
        self.view = self._feed.view
        self.schema = self._feed.schema
        self.encoder = Encoder(database._engine, self.view, self.schema)
        self.opened_at = self.base = database.epoch
        self.error: IvmError | None = None
        self.ended = self.stopped = False  # by its view, or by the server
        self.forms: dict[str, int] = {}  # how many subscribers want each
        self.subscribers: set[Subscriber] = set()
        self.used = self._beaten = time.monotonic()
        self._first = 0  # the number of the first epoch that is kept
        self._kept: deque[Encoded] = deque()
        self._rows = 0
        self._coming: deque[Encoded | IvmError | None] = deque()
        self._scheduled = False
        self._changed = asyncio.Event()
        self._snapshot: list[Encoded] = []
        self._taken = -SHARED_SECONDS
        self._alone = alone
        threading.Thread(target=self._follow, name=f"feed of {self.view}", daemon=True).start()

    @property
    def version(self) -> int:
        """The last epoch in which the view has changed, or in which the feed was opened."""
        return max(self._feed.latest, self.opened_at)

    @property
    def is_over(self) -> bool:
        """Whether its view was dropped or replaced, also if that has not arrived yet."""
        return self.ended or self._feed.closed

    # -- the feed's thread ------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            while not (self._feed.ended or self.ended):
                self._take_together()
        except IvmError as error:
            self._come([error])
        except RuntimeError:  # the loop has ended
            return
        self._come([None])

    def _take_together(self) -> None:
        """Hands in the epochs that come within a moment."""
        item = self._feed.take(_TAKE)
        if item is None:
            return
        found: list[Encoded] = []
        rows, end = 0, time.monotonic() + _WAKE + _WAKE_EACH * len(self.subscribers)
        try:
            while item is not None:
                found.append(Encoded(changes(*item, self.schema), self.encoder))
                rows += len(item[1])
                left = end - time.monotonic() if rows < PART else 0
                item = self._feed.take(left) if left > 0 else None
        finally:  # also before an error
            self._hand_in(found)

    def _hand_in(self, items: Sequence[Encoded]) -> None:
        messages = [item.message for item in items]
        for form in list(self.forms):
            for item, made in zip(items, _FORMS[form](self.encoder, messages), strict=True):
                item.take(form, made)
        self._come(items)

    def _come(self, items: Sequence[Encoded | IvmError | None]) -> None:
        """Hands in, to the event loop: epochs, an error behind them, or the end."""
        self._coming.extend(items)
        if not self._scheduled:
            self._scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._arrive)
            except RuntimeError:  # the loop has ended
                self._feed.close()

    # -- the event loop ---------------------------------------------------------------------------

    def _arrive(self) -> None:
        self._scheduled = False  # before: what comes from here on schedules anew
        while self._coming:
            item = self._coming.popleft()
            if item is None:
                self.ended = True
            elif isinstance(item, IvmError):
                self.error = item
            else:
                self._kept.append(item)
                self._rows += len(item.message.rows)
        self._forget()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _forget(self) -> None:
        kept = self._kept
        while len(kept) > KEPT_EPOCHS or (self._rows > KEPT_ROWS and len(kept) > 1):
            gone = kept.popleft()
            self.base = gone.epoch
            self._first += 1
            self._rows -= len(gone.message.rows)
        for subscriber in list(self.subscribers):
            if subscriber.at < self._first:
                subscriber.cut()

    def after(self, epoch: int) -> int | None:
        """The number of the first epoch after this one; None if not all of them are kept."""
        if not self.base <= epoch <= max(self.version, self._database.epoch):
            return None
        later = 0
        for item in reversed(self._kept):
            if item.epoch <= epoch:
                break
            later += 1
        return self._first + len(self._kept) - later

    def since(self, at: int, most: int) -> list[Encoded]:
        """The epochs from a number on that have come.

        Raises:
            UnavailableError: they are not kept any more.
        """
        if at < self._first:
            raise too_slow(self.view)
        kept = self._kept
        begin = at - self._first
        return [kept[i] for i in range(begin, min(len(kept), begin + most))]

    def has_more(self, subscriber: Subscriber) -> bool:
        """Whether a subscriber does not have all that has come."""
        return subscriber.at < self._first + len(self._kept)

    async def wait(self) -> None:
        """Waits until epochs have come, or for the next sign of life."""
        await self._changed.wait()

    async def wait_at_most(self, seconds: float) -> None:
        """The same, for some time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)

    async def snapshot(self, threads: Threads) -> list[Encoded] | None:
        """The view's rows at some epoch after which all are kept; None if the feed is over."""
        if (known := self._known_snapshot()) is not None:
            return known
        async with self._alone:
            if (known := self._known_snapshot()) is not None:
                return known
            found = await threads.call(self._take_snapshot)
            self._snapshot, self._taken = found or [], time.monotonic()
            return found

    def _known_snapshot(self) -> list[Encoded] | None:
        """The last one, if it is the latest or a moment old, and all later epochs are kept."""
        if not self._snapshot or self.after(self._snapshot[0].epoch) is None:
            return None
        latest = self._snapshot[0].epoch >= self.version
        return self._snapshot if latest or time.monotonic() - self._taken < SHARED_SECONDS else None

    def _take_snapshot(self) -> list[Encoded] | None:
        engine = self._database._engine

        def rows(session: Session) -> list[Message] | None:
            with session.writing():
                if self._feed.closed:  # the view of this name may be another one
                    return None
                engine.recomputed.refresh([self.view])
                engine.broken.demand_whole(self.view)
                engine.tables.flush([self.view])
                return list(snapshot(engine.epoch, engine.tables.content(self.view)))

        with self._database.connection() as connection:
            found = connection.run(rows)
        if found is None:
            return None
        engine.log.make_durable(found[0].epoch)
        return [Encoded(message, self.encoder) for message in found]

    def look(self, now: float) -> None:
        """Gives a sign of life, or closes the feed if nobody uses it; called every second."""
        if self.subscribers:
            self.used = now
            if now - self._beaten >= BEAT:
                self._beaten = now
                self._wake()
        elif now - self.used > _UNUSED:
            self.close()

    def close(self) -> None:
        """Ends the feed."""
        self.ended = True
        self._feed.close()
        self._wake()


class Subscriber:
    """One client of a feed.

    Args:
        feed: of the view.
        form: "sse", "json" or "arrow".
        epoch: that it has, or gets with a snapshot.
        on_cut: called when the client is too slow.

    Attributes:
        was_cut: whether it is.

    Raises:
        UnavailableError: not all later epochs are kept.
    """

    def __init__(self, feed: ViewFeed, form: str, epoch: int, on_cut: Callable[[], None]) -> None:
        at = feed.after(epoch)
        if at is None:
            raise too_slow(feed.view)
        self.feed = feed
        self.form = form
        self.at = at
        self.epoch = epoch
        self._on_cut = on_cut
        self.was_cut = False
        feed.subscribers.add(self)
        feed.forms[form] = feed.forms.get(form, 0) + 1

    def cut(self) -> None:
        """Cuts the client off: it is too slow."""
        if not self.was_cut:
            self.was_cut = True
            self._on_cut()

    def leave(self) -> None:
        """The client has left."""
        self.feed.subscribers.discard(self)
        left = self.feed.forms.get(self.form, 1) - 1
        if left:
            self.feed.forms[self.form] = left
        else:
            self.feed.forms.pop(self.form, None)

    async def chunks(self, threads: Threads, most: int = 256) -> list[bytes]:
        """The bytes of the epochs that have come since the last call, encoded."""
        items = self.feed.since(self.at, most)
        self.at += len(items)
        # What had not arrived yet when the snapshot was taken may be part of it.
        later = [item for item in items if item.epoch > self.epoch]
        if later:
            self.epoch = later[-1].epoch
        return [await bytes_of(item, self.form, threads) for item in later]


async def bytes_of(item: Encoded, form: str, threads: Threads) -> bytes:
    """The bytes of a message; encoded in a thread if nobody has asked for them before."""
    known = item.known(form)
    return known if known is not None else await threads.call(lambda: item.encoded(form))


def too_slow(view: str) -> UnavailableError:
    """The error of a subscriber that is too far behind."""
    return UnavailableError(
        f"the changefeed of {view!r} was read too slowly: more epochs waited than are kept "
        f"({KEPT_EPOCHS:,}, or {KEPT_ROWS:,} rows). Subscribe again, which begins with a snapshot"
    )


class Hub:
    """The feeds of all views; the event loop calls it.

    Feeds are opened, and snapshots taken, one after another: each waits in a thread until no
    transaction is open, whose own next statement needs a thread, too.

    Args:
        database: served.
        threads: of the server.
    """

    def __init__(self, database: Database, threads: Threads) -> None:
        self.database = database
        self.threads = threads
        self._feeds: dict[str, ViewFeed] = {}
        self._coming: dict[str, asyncio.Future[ViewFeed]] = {}
        self._alone = asyncio.Lock()

    def __iter__(self) -> Iterator[ViewFeed]:
        return iter(list(self._feeds.values()))

    @property
    def size(self) -> int:
        """The number of subscribers."""
        return sum(len(feed.subscribers) for feed in self._feeds.values())

    async def feed(self, view: str, patience: float | None = None) -> ViewFeed:
        """The feed of a view, by its canonical name; opened if nobody has asked for it.

        Raises:
            SqlError: there is no such view.
            TimeoutError: it is not open after `patience` seconds; it will be for who comes later.
        """
        found = self._feeds.get(view)
        if found is None or found.is_over:
            coming = self._coming.get(view) or self._open(view)
            found = await asyncio.wait_for(asyncio.shield(coming), patience)
        found.used = time.monotonic()
        return found

    def _open(self, view: str) -> asyncio.Future[ViewFeed]:
        def end(coming: asyncio.Future[ViewFeed]) -> None:
            del self._coming[view]
            if not coming.cancelled():
                coming.exception()  # perhaps nobody waits for it any more

        found = self._coming[view] = asyncio.ensure_future(self._opened(view))
        found.add_done_callback(end)
        return found

    async def _opened(self, view: str) -> ViewFeed:
        loop = asyncio.get_running_loop()
        async with self._alone:
            found = await self.threads.call(
                lambda: ViewFeed(self.database, view, loop, self._alone)
            )
        self._feeds[view] = found
        return found

    def look(self, now: float) -> None:
        """Closes feeds that nobody uses; called now and then."""
        for view, feed in list(self._feeds.items()):
            feed.look(now)
            if feed.ended and not feed.subscribers:
                del self._feeds[view]

    def close(self) -> None:
        """Ends all feeds, as the server stops; their subscribers come back when it is there."""
        for feed in self._feeds.values():
            feed.stopped = True
            feed.close()
