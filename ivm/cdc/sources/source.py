"""What a source is: a definition of strings, and a reader of batches with their positions.

Contract: a reader opened at the positions of a committed batch continues with the very next change:
nothing is left out, and nothing is given twice. An upstream transaction is never split over two
batches; several may share one. Everything after reading (decoding, merging, dead letters,
positions) is the same for all sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from ivm.cdc.formats.events import Decoded
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.storage.errors import IvmError
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


class SourceError(IvmError):
    """The source cannot go on until somebody acts; the message says what and how."""


@dataclass(frozen=True)
class Position:
    """How far one stream of a source has been read (a file, a partition, a slot).

    Attributes:
        offset: grows with each batch.
        detail: what else the source needs to go on from there, in a form of its own.
    """

    offset: int
    detail: str = ""


@dataclass(frozen=True)
class Kept:
    """Rows that must be ours, too, before our table follows: else their values were changed.

    Attributes:
        rows: as inserts, with their keys and some columns.
        columns: the names of these.
        error: if ours are others.
    """

    rows: Part
    columns: tuple[str, ...]
    error: SourceError


@dataclass(frozen=True)
class Upstream:
    """The columns of a table as its upstream database has them.

    Attributes:
        key: the names of its key, empty if it has none; None if it is not known.
        complete: whether it has no others, so that a column of ours may have been dropped there.
        goes_on: whether our table has been filled before, so that a new one would lack rows.
        kept: the rows by which it is seen that values are as they were; None if that is known.
        ours: SQL of the types of columns that it does not tell of, by name.
    """

    columns: tuple[UpstreamColumn, ...]
    key: tuple[str, ...] | None = None
    complete: bool = True
    goes_on: bool = False
    kept: Kept | None = field(default=None, compare=False)
    ours: Mapping[str, str] = field(default_factory=dict, hash=False)


class Part(Protocol):
    """Events of one table, in order, before they are decoded.

    Attributes:
        table: the name of our table, as a user would write it.
        upstream: the columns upstream from these events on; None if the source does not know them.
        version: the name of the column that grows with each change of a row, "" without.
        tables: see `Envelope`.
        is_exact: whether it has whole transactions, each once, and tells whole rows.
    """

    @property
    def table(self) -> str: ...

    @property
    def upstream(self) -> Upstream | None: ...

    @property
    def version(self) -> str: ...

    @property
    def tables(self) -> tuple[str, ...]: ...

    @property
    def is_exact(self) -> bool: ...

    def __len__(self) -> int:
        """The number of events."""

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """The events in columns of the table's types; called again if the table has changed.

        Args:
            cursor: may run statements; it is in no transaction.
            info: the table.
        """

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """The whole rows before events, by their numbers, as far as they are told, as inserts.

        Of the events themselves it has what tells their transactions, if the format does.

        Returns:
            None if the events tell of no rows before, but for their keys.
        """

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """Some events by few of their columns, numbered by their places among these lines.

        Args:
            cursor: see `decode`.
            key: a table of the columns of the key, and of those that are needed beside them.
            lines: the numbers of the events.
        """

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """The raw texts of events by their numbers, of which `Source.part` makes events again."""

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """The stream and the position in it of events, by their numbers."""


@dataclass(frozen=True)
class Batch:
    """What is applied in one epoch.

    Attributes:
        parts: at most one for each table.
        positions: after this batch, by stream; those that have not moved may be missing.
        time: when the newest of the changes was made upstream, if that is known.
    """

    parts: Sequence[Part]
    positions: Mapping[str, Position]
    time: datetime | None = None

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)


class Reader(Protocol):
    """An opened source, used by one thread at a time, but for `lag` and `confirm`."""

    def read(self, limit: int, timeout: float) -> Batch | None:
        """The next changes.

        Args:
            limit: about how many events; an upstream transaction that has more is read whole.
            timeout: seconds to wait for the first one.

        Returns:
            A batch as soon as there is a change, or None if none has come in time.

        Raises:
            UnavailableError: the upstream does not answer: opening again later may help.
            SourceError: somebody must act.
        """

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """Tells the upstream that everything up to here is durably committed."""

    def lag(self) -> int | None:
        """How many events the upstream has that have not been read, about; None if not known."""

    def caught_up(self) -> bool:
        """Whether everything that the upstream had at some time during the last `read` is read."""

    def close(self) -> None:
        """Lets go of the upstream; called once."""


Into = Literal["required", "optional", "none"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The options that all sources have: past a limit of dead letters a source stops.

    Attributes:
        version: the name of a column that grows with each change of a row, "" without.
        max_dead_letters: stored at a time.
        max_dead_share: of the last events, of which there are at least a thousand.
    """

    version: str = ""
    max_dead_letters: int = 10_000
    max_dead_share: float = 0.5


class Source(Protocol):
    """A definition of a source, with all its options checked.

    Implementations are frozen dataclasses derived from `Limits` whose fields are the options, see
    `definition.py`.

    Attributes:
        kind: its name in SQL, in capitals.
        into: whether INTO names our table: it must, it can, or it never does.
        stays: why SET POSITION cannot move it, and the way out; "" of one that is `Movable`.
        max_dead_letters: see `Limits`.
        max_dead_share: see `Limits`.
    """

    kind: ClassVar[str]
    into: ClassVar[Into]
    stays: ClassVar[str]

    @property
    def max_dead_letters(self) -> int: ...

    @property
    def max_dead_share(self) -> float: ...

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """Opens it where it was left.

        Args:
            name: of the source.
            into: our table, if INTO names one.
            positions: as they were committed; empty the first time.

        Raises:
            UnavailableError: the upstream does not answer.
            SourceError: the upstream no longer has what follows the positions, or refuses.
        """

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """Events of one table again, from the payloads of dead letters."""

    def forget(self, name: str, positions: Mapping[str, Position]) -> None:
        """Removes what it has left upstream (a slot), when it is dropped.

        Args:
            name: of the source.
            positions: as they were committed; what they do not tell of may be another's.

        Raises:
            UnavailableError: the upstream does not answer; the message says what is left there.
        """


@runtime_checkable
class Movable(Source, Protocol):
    """A definition that can be read from other positions than those that were reached."""

    def moved(
        self, name: str, place: str, positions: Mapping[str, Position]
    ) -> Mapping[str, Position]:
        """The positions at a place that a user names, by stream; those that stay are left out.

        Args:
            name: of the source.
            place: as written in SET POSITION.
            positions: as they are.

        Raises:
            InputError: there is no such place.
            UnavailableError: the upstream does not answer.
            SourceError: it refuses.
        """

    def table_of(self, stream: str, into: str | None) -> str | None:
        """Our table of a stream; None if it is none of the source any more.

        Args:
            stream: among its positions.
            into: our table, if INTO names one.
        """


PartOf: TypeAlias = Callable[[Sequence[str | None]], Part]
"""Makes events of the payloads of dead letters of one table."""


@runtime_checkable
class AsksUpstream(Source, Protocol):
    """A definition whose `part` must know how the table looks upstream."""

    def asked(self, table: str) -> PartOf:
        """Asks for that, which is better done while nobody waits for the writer lock.

        Raises:
            UnavailableError: the upstream does not answer.
            SourceError: it has no such table.
        """


@runtime_checkable
class OfTables(Source, Protocol):
    """A definition that lists the tables upstream, whose first copies empty ours."""

    def ours(self) -> Sequence[str]:
        """The canonical names of our tables, unless INTO names ours."""

    def with_tables(self, tables: str, *, add: bool) -> Source:
        """The definition with more tables, or fewer.

        Args:
            tables: names with commas between them.
            add: else they are taken out.

        Raises:
            InputError: one is there already, or is not.
        """
