"""The sources of a database as rows of `_ivm.sources`, and the statements that change these rows.

Contract: a source's name is in lower case. Its row is changed in the transaction of the statement;
a job that runs it sees the change when that transaction has committed, and never between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ivm.catalog.names import name_parts
from ivm.cdc import records
from ivm.cdc.kinds import KINDS
from ivm.cdc.records import Records
from ivm.cdc.sources.definition import define, options_of
from ivm.cdc.sources.metadata import TellsFacts
from ivm.cdc.sources.source import OfTables, Position, Source
from ivm.engine.base.jobs import Job
from ivm.engine.transactions.transaction import Transaction
from ivm.session.ddl.stream_positions import SOURCES
from ivm.session.row_calls import table_info
from ivm.session.session import Session
from ivm.storage.errors import InputError, SqlError, UnsupportedError
from ivm.storage.identifiers import canonical_name, fold, literal

RUNNING, PAUSED, STOPPED = "running", "paused", "stopped"


@dataclass(frozen=True)
class StoredSource:
    """A source as it is stored.

    Attributes:
        name: in lower case.
        target: our table, if INTO names one.
        definition: its kind and options.
        state: `running` where sources are run, `paused` by a statement, or `stopped` by an error.
        reason: of the error; None without.
    """

    name: str
    definition: Source
    target: str | None = None
    state: str = RUNNING
    reason: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """Its row of `_ivm.sources`, without the name."""
        return {
            "kind": self.definition.kind,
            "target": self.target,
            "options": json.dumps(options_of(self.definition), ensure_ascii=False),
            "state": self.state,
            "reason": self.reason,
        }


def stored_source(row: tuple[Any, ...]) -> StoredSource:
    """The source of a row of `_ivm.sources`."""
    name, kind, target, options, state, reason = row
    return StoredSource(name, define(KINDS, kind, json.loads(options)), target, state, reason)


def load_all(session: Session) -> list[StoredSource]:
    """All sources by name, as the session sees them.

    Outside of transactions that needs no flush, which a full disk would refuse.
    """
    rows = None if session.transaction else session.engine.small.rows(SOURCES)
    if rows is None:
        rows = records.listed(session, "FROM _ivm.sources")
    return [stored_source(row) for row in sorted(rows)]


def load_positions(session: Session, name: str) -> dict[str, Position]:
    """The positions that a source has reached, by stream."""
    where = f"WHERE source = {literal(name)}"
    rows = records.listed(session, f"SELECT * EXCLUDE (source) FROM _ivm.positions {where}")
    return {stream: Position(offset, detail) for stream, offset, detail in rows}


def load(session: Session, name: str) -> StoredSource | None:
    """A source as the session sees it; None if there is none of this name, in lower case."""
    rows = records.listed(session, f"FROM _ivm.sources WHERE name = {literal(name)}")
    return stored_source(rows[0]) if rows else None


def count_letters(session: Session, name: str) -> int:
    """How many dead letters a source has."""
    where = f"WHERE source = {literal(name)}"
    rows = records.listed(session, f"SELECT count(*) FROM _ivm.dead_letters {where}")
    return int(rows[0][0]) if rows else 0


def find(session: Session, transaction: Transaction, name: str) -> StoredSource:
    """A source, the transaction's changes included.

    Raises:
        SqlError: there is none of this name.
    """
    row = None
    if records.exist(session):
        row = Records(session, transaction, fold(name)).definition()
    if row is None:
        raise unknown(name, [source.name for source in load_all(session)])
    return stored_source(row)


def unknown(name: str, known: Sequence[str]) -> SqlError:
    """The error of a name that no source has."""
    return SqlError(f"there is no source {name!r}; there are: {', '.join(known) or 'none yet'}")


def create(
    session: Session, name: str, definition: Source, target: str | None, *, if_not_exists: bool
) -> None:
    """Creates a source.

    Raises:
        InputError: the name is taken, or there is no table to which the events can go, or its
            first copy would empty that of another source.
    """
    demand_target(session, definition, target)
    _demand_metadata(session, definition, target)
    records.create(session)
    name = fold(name)
    with session.writing() as transaction:
        found = Records(session, transaction, name)
        if found.definition() is None:
            _demand_unused(session, name)
            _demand_apart(session, name, definition, target)
            found.define(StoredSource(name, definition, target).row)
            transaction.afterwards(lambda: session.engine.jobs.changed("source", name))
        elif not if_not_exists:
            raise SqlError(f"source {name!r} exists: DROP SOURCE {name} first, or choose a name")


def demand_target(session: Session, definition: Source, target: str | None) -> None:
    """Refuses a source whose events have no table to go to."""
    kind = definition.kind
    if target is None:
        if definition.into == "required":
            raise InputError(
                f"a source from {kind} needs a table: CREATE SOURCE … INTO table FROM …"
            )
        return
    if definition.into == "none":
        raise InputError(f"a source from {kind} names its tables in its options, not with INTO")
    if definition.into == "required" or session.engine.catalog.names.resolve(name_parts(target)):
        table_info(session, target)  # raises if it is none, or none of ours


def _demand_metadata(session: Session, definition: Source, target: str | None) -> None:
    """Refuses metadata that a table of the source cannot have; those to come are looked at then."""
    if isinstance(definition, TellsFacts) and (metadata := definition.told()):
        for table in definition.tables_of(target):
            name = session.engine.catalog.names.resolve(name_parts(table))
            if name is not None:
                metadata.demand(table_info(session, table), definition.facts)


def _demand_unused(session: Session, name: str) -> None:
    """Refuses the name of a program's stream, whose positions a source cannot read."""
    letters = f"FROM _ivm.dead_letters WHERE source = {literal(name)} AND position IS NULL"
    if load_positions(session, name) or records.listed(session, letters):
        raise InputError(
            f"{name!r} is the name of a stream that a program has sent (ingest): choose another "
            "name for the source"
        )


def _demand_apart(session: Session, name: str, definition: Source, target: str | None) -> None:
    """Refuses a source whose first copy would empty a table that another has copied."""
    if not isinstance(definition, OfTables):
        return
    mine = _ours(definition, target)
    for other in load_all(session):
        if other.name == name or not isinstance(other.definition, OfTables):
            continue
        for table in sorted(mine & _ours(other.definition, other.target)):
            raise InputError(
                f"source {other.name!r} copies into table {table!r}: the first copy of {name!r} "
                f"would empty it. DROP SOURCE {other.name} first, or name another table: "
                "CREATE SOURCE … INTO table …"
            )


def _ours(definition: OfTables, target: str | None) -> set[str]:
    names = definition.ours() if target is None else [canonical_name(name_parts(target))]
    return {fold(name) for name in names}


def set_state(session: Session, name: str, state: str) -> None:
    """Pauses or resumes a source; a resumed one has no error any more."""
    with session.writing() as transaction:
        stored = find(session, transaction, name)
        if (stored.state, stored.reason) != (state, None):
            _define(session, transaction, stored.name, {"state": state, "reason": None})


def stop(session: Session, stored: StoredSource, reason: str, is_there: Callable[[], bool]) -> None:
    """Marks a source as stopped by an error, unless a statement has changed it meanwhile.

    Args:
        session: of this thread.
        stored: the source.
        reason: the error.
        is_there: whether it was not dropped; another one may be equal to it.
    """
    with session.writing() as transaction:
        found = Records(session, transaction, stored.name)
        row = found.definition()
        if row is not None and stored_source(row) == stored and is_there():
            found.define({"state": STOPPED, "reason": reason})


def set_options(session: Session, name: str, options: Mapping[str, str]) -> None:
    """Gives a source other options; what is not named stays."""
    with session.writing() as transaction:
        stored = find(session, transaction, name)
        merged = {**options_of(stored.definition), **options}
        definition = define(KINDS, stored.definition.kind, merged)
        _demand_metadata(session, definition, stored.target)
        _define(session, transaction, stored.name, {"options": _text(definition)})


def change_tables(session: Session, name: str, tables: str, *, add: bool) -> None:
    """Adds tables to a source of several, or takes them out.

    Args:
        session: of this thread.
        name: of the source.
        tables: their names upstream, with commas between them.
        add: else they are taken out.
    """
    with session.writing() as transaction:
        stored = find(session, transaction, name)
        if not isinstance(stored.definition, OfTables):
            raise UnsupportedError(f"source {name!r} has no list of tables that could be changed")
        changed = stored.definition.with_tables(tables, add=add)
        _demand_apart(session, stored.name, changed, stored.target)
        _demand_metadata(session, changed, stored.target)
        _define(session, transaction, stored.name, {"options": _text(changed)})


def drop(session: Session, name: str, *, if_exists: bool) -> None:
    """Drops a source, and lets it remove what it has left upstream; dead letters stay."""
    with session.writing() as transaction:
        try:
            stored = find(session, transaction, name)
        except SqlError:
            if if_exists:
                return
            raise
        positions = load_positions(session, stored.name)
        Records(session, transaction, stored.name).forget(list(positions))
        jobs = session.engine.jobs
        old = jobs.find("source", stored.name)
        transaction.at_commit(lambda: jobs.disown("source", stored.name))
        transaction.afterwards(lambda: _forget(old, stored, positions))


def _forget(job: Job | None, stored: StoredSource, positions: Mapping[str, Position]) -> None:
    """Ends the job, and removes what is upstream before another source of the name begins."""
    if job is not None:
        job.join(10.0)
    stored.definition.forget(stored.name, positions)


def counted_again(session: Session, transaction: Transaction, name: str) -> None:
    """Lets the job of a source, if there is one, begin anew after other dead letters are left."""
    jobs = session.engine.jobs
    if jobs.find("source", name) is not None:
        transaction.afterwards(lambda: jobs.changed("source", name))


def _define(
    session: Session, transaction: Transaction, name: str, row: Mapping[str, str | None]
) -> None:
    Records(session, transaction, name).define(row)
    transaction.afterwards(lambda: session.engine.jobs.changed("source", name))


def _text(definition: Source) -> str:
    return json.dumps(options_of(definition), ensure_ascii=False)
