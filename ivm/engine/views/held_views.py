"""The views whose rows are held in memory, by which queries are answered without DuckDB.

Contract: all views that are asked for at once are given at the epoch of the last commit. A commit
only passes on its deltas, and waits for no reader: readers add them up. Rows that nobody reads
while as many rows change as are held are dropped, and so are, beyond `MOST_BYTES` in all, those
that were read longest ago; they are loaded again when they are asked for. Rows of a large view are
loaded in a thread, while DuckDB answers.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from ivm.catalog.version import Meaning
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.view_contents import Content, KeyedContent, WholeContent
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.log.commit import Commit
from ivm.storage.values.zset import ZSet

MOST_ROWS = 20_000
"""Rows of a view that is held whole: of more, DuckDB reads what a query wants in less time."""
LARGE = 50_000
"""Rows from which a view is loaded in a thread: in that of a reader it would take 10 ms or more."""
MOST_BYTES = 1 << 30
"""Bytes of all rows held; the view that was read last is held even if it alone has more."""
_OFTEN = 1024
"""Readings after which the bytes are counted anew, since deltas add to them."""

Key: TypeAlias = tuple[int, ...]
"""Positions of the columns by which rows are arranged; () for rows that are held whole."""


class TooManyRowsError(Exception):
    """A view has more rows than may be held."""


class _StoppedError(Exception):
    """The database is being closed."""


class HeldViews:
    """The contents of views that are held; for one writer and any number of readers.

    Args:
        tables: the views as stored, and their pending deltas.
        meaning: equal as long as names mean the same views with the same columns; None while that
            changes.

    Attributes:
        publishing: held by a commit while its deltas become visible, here and for flushes; if
            DuckDB makes it, from before that on.
    """

    def __init__(self, tables: StoredTables, meaning: Callable[[], Meaning | None]) -> None:
        self._tables = tables
        self._meaning = meaning
        self.publishing = threading.RLock()
        self._adding = threading.Lock()  # of readers; acquired before `publishing`
        self._loading = threading.Lock()  # acquired before all others
        self._held: dict[str, dict[Key, Content]] = {}
        self._counts: dict[str, int] = {}  # rows of views when they were last found too many
        self._threads: set[threading.Thread] = set()
        self._stopped = False
        self._readings = itertools.count(1)

    # -- the writer's side ----------------------------------------------------------------------

    def follow(self, commit: Commit) -> None:
        """Takes the deltas of a commit; the caller holds `publishing`."""
        epoch, deltas = commit.epoch, commit.deltas
        for name in self._held.keys() & deltas.keys():
            for key, content in list(self._held[name].items()):
                if not content.wait(epoch, deltas[name]):
                    del self._held[name][key]
        for name in self._counts.keys() & deltas.keys():
            self._counts[name] += int(deltas[name].weights.sum())

    def forget(self, names: Collection[str] | None = None) -> None:
        """Drops contents, default all: their tables are written otherwise than by deltas."""
        with self.publishing:
            for name in list(self._held if names is None else names):
                self._held.pop(name, None)
                self._counts.pop(name, None)

    def close(self) -> None:
        """Ends the loading that is under way."""
        self._stopped = True
        for thread in list(self._threads):
            thread.join()

    # -- the readers' side ----------------------------------------------------------------------

    def whole(self, names: Sequence[str], meaning: Meaning) -> list[ZSet] | None:
        """The rows of views at the epoch of the last commit, each row with weight 1.

        Args:
            names: of incremental views that are not broken.
            meaning: under which they were found.

        Returns:
            None if they cannot be had now: others are loading, or names have another meaning.

        Raises:
            TooManyRowsError: one has too many rows.
            UnavailableError: that commit cannot be made durable, or memory differs from the log.
        """
        wanted = [(name, ()) for name in names]
        if not self._ready(wanted, meaning, MOST_ROWS):
            return None
        with self._adding:
            contents = self._up_to_date(wanted, meaning)
            if contents is None:
                return None
            rows = [content.rows for content in contents]  # type: ignore[attr-defined]
        if any(len(each) > 2 * MOST_ROWS for each in rows):
            self.forget(names)
            raise TooManyRowsError
        self._tables.log.sync(self._epoch)  # nothing is shown that a crash could undo
        return rows

    def by_key(
        self,
        name: str,
        key: Key,
        find: Callable[[Arrangement], ZSet | None],
        meaning: Meaning,
        most: int,
    ) -> ZSet | None:
        """The rows of a view that are found by a key at the epoch of the last commit.

        Args:
            name: of the view, see `whole`.
            key: positions of the key's columns.
            find: finds them; None if there are too many.
            meaning: see `whole`.
            most: rows that the view may have.

        Returns:
            None as `whole`, or as `find`.
        """
        wanted = [(name, key)]
        if not self._ready(wanted, meaning, most):
            return None
        with self._adding:
            contents = self._up_to_date(wanted, meaning)
            if contents is None:
                return None
            (content,) = contents
            rows, epoch = content.rows, self._epoch  # type: ignore[attr-defined]
        found = find(rows)
        self._tables.log.sync(epoch)
        return found

    def _up_to_date(
        self, wanted: Sequence[tuple[str, Key]], meaning: Meaning
    ) -> list[Content] | None:
        """The contents with all deltas of the last epoch; the caller holds `_adding`."""
        with self.publishing:
            self._tables.log.demand_readable()
            contents = [self._held.get(name, {}).get(key) for name, key in wanted]
            found = [c for c in contents if c is not None and c.epoch >= 0]
            if len(found) < len(wanted) or meaning != self._meaning():
                return None
            taken = [content.take() for content in found]
            self._epoch = self._tables.pending.epoch
            turn = next(self._readings)
            for content in found:
                content.turn = turn
            if not turn % _OFTEN:
                self._bound()
        try:
            for content, deltas in zip(found, taken, strict=True):
                content.add(deltas)
        except BaseException:
            self.forget([name for name, _ in wanted])  # deltas that were taken may not be added
            raise
        return found

    def _ready(self, wanted: Sequence[tuple[str, Key]], meaning: Meaning, most: int) -> bool:
        """Returns whether the contents are loaded, after loading those that are not."""
        held = self._held
        if all(key in held.get(name, ()) for name, key in wanted):
            return True
        if not self._loading.acquire(blocking=False):
            return False  # DuckDB answers meanwhile
        try:
            lacking = [(name, key) for name, key in wanted if key not in held.get(name, {})]
            loaded = [self._is_loaded(name, key, meaning, most) for name, key in lacking]
            return all(loaded)
        finally:
            self._loading.release()

    def _is_loaded(self, name: str, key: Key, meaning: Meaning, most: int) -> bool:
        """Loads a view, or has a thread load it; returns whether it is loaded."""
        count = self._counts.get(name, 0)
        if count > most:
            raise TooManyRowsError
        view = meaning.version.views[name]
        content = KeyedContent(view.schema, key) if key else WholeContent(view.schema, view.key)
        with self.publishing:
            self._held.setdefault(name, {})[key] = content  # from here on it gets the deltas
        if not key or count < LARGE or self._stopped:
            self._load(name, key, content, meaning, most)
            return True
        self._load_beside(name, key, content, meaning, most)
        return False

    def _load_beside(
        self, name: str, key: Key, content: Content, meaning: Meaning, most: int
    ) -> None:
        def load() -> None:
            try:
                self._load(name, key, content, meaning, most)
            except Exception:  # the next reader loads it, and meets the error
                with self.publishing:
                    self._counts.pop(name, None)
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=load, name="ivm-load", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _load(self, name: str, key: Key, content: Content, meaning: Meaning, most: int) -> None:
        """Loads a view's rows; those of another meaning of its name are dropped."""
        try:
            with self._tables.as_of_an_epoch(name, meaning.version) as (epoch, count, chunks):
                if meaning != self._meaning():  # perhaps another view's, in other columns
                    with self.publishing:
                        return self._drop(name, key, content)
                with self.publishing:
                    self._counts[name] = count
                if count > most:
                    raise TooManyRowsError
                content.load(epoch, count, self._unless_stopped(chunks))
        except BaseException:
            with self.publishing:
                self._drop(name, key, content)
            raise
        with self.publishing:
            if meaning != self._meaning():
                self._drop(name, key, content)
            content.turn = next(self._readings)
            self._bound()

    def _unless_stopped(self, chunks: Iterator[ZSet]) -> Iterator[ZSet]:
        for chunk in chunks:
            if self._stopped:
                raise _StoppedError
            yield chunk

    def _drop(self, name: str, key: Key, content: Content) -> None:
        """Drops one content if it is still the one that is held; the caller holds `publishing`."""
        if self._held.get(name, {}).get(key) is content:
            del self._held[name][key]

    def _bound(self) -> None:
        """Drops contents beyond `MOST_BYTES`; the caller holds `publishing`."""
        held = [(n, k, c) for n, by_key in self._held.items() for k, c in by_key.items()]
        loaded = sorted(
            [each for each in held if each[2].epoch >= 0], key=lambda each: -each[2].turn
        )
        total = 0
        for place, (name, key, content) in enumerate(loaded):
            total += content.nbytes
            if place and total > MOST_BYTES:
                self._drop(name, key, content)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes of the views that are held, by name."""
        with self._adding:
            with self.publishing:
                held = [(n, c) for n, contents in self._held.items() for c in contents.values()]
            sizes: dict[str, tuple[int, int]] = {}
            for name, content in held:
                rows, size = sizes.get(name, (0, 0))
                sizes[name] = max(rows, content.count), size + content.nbytes
            return sizes
