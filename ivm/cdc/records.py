"""The records of change streams: the positions that each source has reached, and dead letters.

Law: a record is a row of a table of schema `_ivm`, and is changed in the epoch of the rows that it
is about. So it is logged, replayed and rolled back with them, and a view may read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ivm.catalog.broken_views import spelled
from ivm.cdc.merge.told import Displaced
from ivm.cdc.sources.source import Position
from ivm.engine.feeds.outbox_rows import packed, unpacked
from ivm.engine.tables.small_tables import Row
from ivm.engine.transactions.late_letters import LETTERS
from ivm.engine.transactions.transaction import Transaction
from ivm.session.ddl.displaced_rows import columns_of
from ivm.session.ddl.stream_positions import DISPLACED, ORIGINS, POSITIONS, SOURCES
from ivm.session.queries.query import query
from ivm.session.session import Session
from ivm.session.table_writer import FastWriter
from ivm.sql.statements.nodes.nodes import Query
from ivm.storage.errors import UnavailableError, UnsupportedError
from ivm.storage.identifiers import literal
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.tables.system_tables import OLDER_STREAM_TABLES, STREAM_TABLES
from ivm.storage.warehouse.tables.table_info import TableInfo

LETTER_KEYS = "_ivm.letter_keys"
LETTER_FACTS = "_ivm.letter_facts"
_LATER = (
    LETTER_KEYS,
    LETTER_FACTS,
    ORIGINS,
    DISPLACED,
)  # a file of an older version lacks them until sources run
_PLACE = ("source", "table", "stream", "position", "event")
LETTER = (*_PLACE, "time", "reason", "payload")
"""The columns of a dead letter."""
_KEPT = "temp._ivm_kept"


def place_of(row: Row) -> Row:
    """The place of a dead letter, by its row or one of its key or facts."""
    return row[: len(_PLACE)]


def exist(session: Session) -> bool:
    """Whether the tables of the records have been created, but for those of later versions."""
    names = {f"_ivm.{name}" for name in STREAM_TABLES}.difference(_LATER)
    return session.engine.catalog.tables.keys() >= names and not _older(session)


def _older(session: Session) -> list[str]:
    """The tables of records as older versions made them."""
    tables = session.engine.catalog.tables
    found = {name: tables.get(f"_ivm.{name}") for name in OLDER_STREAM_TABLES}
    return [n for n, info in found.items() if info and "stream" not in dict(info.schema)]


def create(session: Session) -> None:
    """Creates the tables of the records where they are lacking, in an epoch of their own.

    Raises:
        UnavailableError: the session has an open transaction.
        UnsupportedError: a view reads tables that must be made anew.
    """
    if exist(session) and (
        session.transaction is not None or session.engine.catalog.tables.keys() >= {*_LATER}
    ):
        return
    if session.transaction is not None:
        raise UnavailableError(
            "the first events or sources of a database come outside of a transaction: the tables "
            "for their positions must be made first. COMMIT or ROLLBACK, then try again"
        )
    with session.writing() as transaction:
        transaction.begin_in_duckdb()
        transaction.change_catalog()
        transaction.change_tables()
        older = _older(session)
        _refuse_readers(session, older)
        for name, columns in STREAM_TABLES.items():
            _create(session, name, columns, anew=name in older)
        session.engine.reload_tables(session.cursor)


def _refuse_readers(session: Session, older: Sequence[str]) -> None:
    readers = session.engine.catalog.version.readers([f"_ivm.{name}" for name in older])
    if readers:
        drops = "; ".join(f"DROP MATERIALIZED VIEW {spelled(view.name)}" for view in readers)
        raise UnsupportedError(
            f"the tables of the positions and dead letters get new columns: {drops} first, then "
            "create them anew"
        )


def _create(session: Session, name: str, columns: str, *, anew: bool) -> None:
    """Creates a table of records; one of an older version with the rows that it had."""
    if anew:
        run(session.cursor, f"CREATE TEMP TABLE {_KEPT} AS {OLDER_STREAM_TABLES[name]}")
        run(session.cursor, f"DROP TABLE _ivm.{name}")
    # Another thread may have been first.
    run(session.cursor, f"CREATE TABLE IF NOT EXISTS _ivm.{name} {columns}")
    if anew:
        run(session.cursor, f"INSERT INTO _ivm.{name} FROM {_KEPT}")
        run(session.cursor, f"DROP TABLE {_KEPT}")


def listed(session: Session, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query over records, as the session sees them; [] if there are none yet."""
    if not exist(session):
        return []
    return query(session, Query(sql, 0, "from"), None).fetchall()


class Letter(NamedTuple):
    """A dead letter: the event, where it was, and why it could not be applied.

    Attributes:
        event: its number in the batch, from 0.
        key: see `letter_keys`; None if it is not known.
        facts: see `MetadataPart.told`; None if the source has no metadata.
    """

    stream: str
    position: int | None
    event: int
    reason: str
    payload: str | None
    key: str | None = None
    facts: str | None = None


class Records:
    """The records of one source, within a transaction.

    Args:
        session: whose open transaction it is.
        transaction: takes the changes of the records.
        source: its name.
    """

    def __init__(self, session: Session, transaction: Transaction, source: str) -> None:
        self._session = session
        self._transaction = transaction
        self._source = source

    def position(self, stream: str) -> Position | None:
        """The position that a stream has reached, the transaction's changes included."""
        found = self._find(POSITIONS, self._source, stream)
        return None if found is None else Position(int(found[2]), str(found[3]))

    def definition(self) -> tuple[Any, ...] | None:
        """The source's row of `_ivm.sources`, the transaction's changes included."""
        return self._find(SOURCES, self._source)

    def define(self, row: Mapping[str, Any]) -> None:
        """Writes the source's row of `_ivm.sources`; columns left out stay."""
        values = {"name": [self._source], **{name: [value] for name, value in row.items()}}
        self._writer(SOURCES).upsert(*self._columns(SOURCES, values))

    def forget(self, streams: Sequence[str]) -> None:
        """Removes the source's definition and its positions of these streams."""
        self._writer(SOURCES).delete(*self._columns(SOURCES, {"name": [self._source]}))
        self._forget_tables(ORIGINS)
        self._forget_tables(DISPLACED)
        if streams:
            rows = {"source": [self._source] * len(streams), "stream": list(streams)}
            self._writer(POSITIONS).delete(*self._columns(POSITIONS, rows))

    def reach(self, positions: Mapping[str, Position]) -> None:
        """Notes that streams have reached positions with this transaction."""
        if positions:
            before = {stream: self.position(stream) for stream in positions}
            old = self._positions({s: p for s, p in before.items() if p is not None})
            every = tuple(range(len(old.columns)))
            change = TableChange(POSITIONS, old, every, self._positions(positions))
            self._transaction.add(change)

    def _forget_tables(self, records: str) -> None:
        """Removes the source's rows of records that are kept by table."""
        engine = self._session.engine
        if records in engine.catalog.tables:
            rows = engine.small.current(records, self._transaction.changes)
            own = [row[1] for row in rows if row[0] == self._source]
            if own:
                keys = {"source": [self._source] * len(own), "table": own}
                self._writer(records).delete(*self._columns(records, keys))

    def _positions(self, positions: Mapping[str, Position]) -> ZSet:
        rows = {
            "source": [self._source] * len(positions),
            "stream": list(positions),
            "position": [position.offset for position in positions.values()],
            "detail": [position.detail for position in positions.values()],
        }
        columns, count = self._columns(POSITIONS, rows)
        return ZSet(tuple([columns[i] for i in range(len(columns))]), ones(count))

    def bury(self, table: str, letters: Sequence[Letter]) -> None:
        """Adds dead letters of events of one table."""
        if letters:
            rows = self._letters(table, letters)
            rows["time"] = [datetime.now(UTC)] * len(letters)
            self._writer(LETTERS).insert(*self._columns(LETTERS, rows))
        told = [letter for letter in letters if letter.facts is not None]
        if told:
            rows = self._letters(table, told)
            kept = {name: rows[name] for name in _PLACE} | {"facts": [each.facts for each in told]}
            self._writer(LETTER_FACTS).upsert(*self._columns(LETTER_FACTS, kept))

    def take_facts(self, letters: Sequence[Row]) -> list[str | None]:
        """The facts that were kept of letters, which are removed; None where there are none.

        Args:
            letters: rows of `_ivm.dead_letters` of this source.
        """
        if LETTER_FACTS not in self._session.engine.catalog.tables:
            return [None] * len(letters)
        found = [self._find(LETTER_FACTS, *place_of(letter)) for letter in letters]
        self._remove(LETTER_FACTS, [row for row in found if row is not None])
        return [None if row is None else str(row[len(_PLACE)]) for row in found]

    def origin(self, table: str) -> str | None:
        """The table upstream whose events go into a table of ours; None if it is not known."""
        if ORIGINS not in self._session.engine.catalog.tables:
            return None
        found = self._find(ORIGINS, self._source, table)
        return None if found is None else str(found[2])

    def come_from(self, table: str, origin: str) -> None:
        """Notes whose events go into a table of ours."""
        if ORIGINS in self._session.engine.catalog.tables:
            row = {"source": [self._source], "table": [table], "origin": [origin]}
            self._writer(ORIGINS).insert(*self._columns(ORIGINS, row))

    def displaced(self, info: TableInfo) -> Displaced | None:
        """What the batch before has left of a table's rows without a place."""
        if DISPLACED not in self._session.engine.catalog.tables:
            return None
        found = self._find(DISPLACED, self._source, info.name)
        if found is None or found[2] != columns_of(info):
            return None
        return Displaced(str(found[3]), unpacked(found[4], info.schema), bool(found[5]))

    def displace(self, info: TableInfo, displaced: Displaced | None) -> None:
        """Notes what a batch leaves of a table's rows without a place."""
        if DISPLACED not in self._session.engine.catalog.tables:
            return
        row: dict[str, Any] = {"source": [self._source], "table": [info.name]}
        if displaced is not None:
            row |= {"columns": [columns_of(info)], "transaction": [displaced.transaction]}
            row |= {"rows": [packed(displaced.rows, info.schema)], "again": [displaced.again]}
            self._writer(DISPLACED).upsert(*self._columns(DISPLACED, row))
        elif self._find(DISPLACED, self._source, info.name):
            self._writer(DISPLACED).delete(*self._columns(DISPLACED, row))

    def open_letters(self, table: str) -> list[Row]:
        """The rows of `_ivm.letter_keys` of one table."""
        engine = self._session.engine
        if LETTER_KEYS not in engine.catalog.tables:
            return []
        rows = engine.small.current(LETTER_KEYS, self._transaction.changes)
        return [row for row in rows if row[:2] == (self._source, table)]

    def open(self, table: str, letters: Sequence[Letter]) -> None:
        """Notes that letters of one table are not overtaken."""
        if letters and LETTER_KEYS in self._session.engine.catalog.tables:
            rows = self._letters(table, letters)
            rows["key"] = [letter.key for letter in letters]
            kept = {name: rows[name] for name in (*_PLACE, "key")}
            self._writer(LETTER_KEYS).upsert(*self._columns(LETTER_KEYS, kept))

    def overtake(self, table: str, rows: Sequence[Row], why: str) -> None:
        """Notes that letters of one table are overtaken.

        Args:
            table: canonical name.
            rows: of `_ivm.letter_keys`.
            why: is added to their reasons.
        """
        self.close(rows)
        places = {place_of(row) for row in rows}
        of = f'source = {literal(self._source)} AND "table" = {literal(table)}'
        letters = listed(self._session, f"FROM _ivm.dead_letters WHERE {of}") if rows else []
        letters = [letter for letter in letters if place_of(letter) in places]
        if letters:
            named = dict(zip(LETTER, map(list, zip(*letters, strict=True)), strict=True))
            self.unbury(named)
            named["reason"] = [reason + why for reason in named["reason"]]
            self._writer(LETTERS).insert(*self._columns(LETTERS, named))

    def close(self, rows: Sequence[Row]) -> None:
        """Notes that letters are overtaken, or gone.

        Args:
            rows: of `_ivm.letter_keys`, of which only the key is read.
        """
        self._remove(LETTER_KEYS, rows)

    def _remove(self, table: str, rows: Sequence[Row]) -> None:
        """Removes rows of a table whose key is the place of a letter."""
        if rows:
            columns = map(list, zip(*map(place_of, rows), strict=True))
            named = dict(zip(_PLACE, columns, strict=True))
            self._writer(table).delete(*self._columns(table, named))

    def unbury(self, rows: dict[str, list[Any]]) -> None:
        """Removes dead letters.

        Args:
            rows: all their columns.
        """
        self._writer(LETTERS).delete(*self._columns(LETTERS, rows))

    def _letters(self, table: str, letters: Sequence[Letter]) -> dict[str, Any]:
        stream, position, event, reason, payload = (
            [getattr(letter, name) for letter in letters]
            for name in ("stream", "position", "event", "reason", "payload")
        )
        alike = {"source": [self._source] * len(letters), "table": [table] * len(letters)}
        own = {"stream": stream, "position": position, "event": event}
        return {**alike, **own, "reason": reason, "payload": payload}

    def _find(self, table: str, *key: Any) -> tuple[Any, ...] | None:
        return self._session.engine.small.find(table, key, self._transaction.changes)

    def _columns(self, table: str, rows: dict[str, Any]) -> tuple[dict[int, Column], int]:
        engine = self._session.engine
        reader = engine.definitions.reader(engine.catalog.tables[table])
        return reader.read(rows, self._session.cursor)

    def _writer(self, table: str) -> FastWriter:
        path = self._transaction.fast_path(table)
        if path is None:
            raise UnavailableError(
                "events cannot be ingested in a transaction that has changed tables: COMMIT first"
            )
        return FastWriter(self._transaction, path)
