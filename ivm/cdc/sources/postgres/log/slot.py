"""The publication and the replication slot of a source.

Contract: the slot keeps the server's log from the position on that was confirmed last. If it does
not, changes are lost, and the source stops: a gap is never skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ivm.cdc.sources.postgres.connections.server import ask
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.log.messages import lsn_number, lsn_text
from ivm.cdc.sources.postgres.log.place import Server, follows
from ivm.cdc.sources.postgres.log.replication import Commands
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import literal, quote

_SLOT = """
    SELECT plugin, database = current_database(), active, wal_status, confirmed_flush_lsn::text
    FROM pg_replication_slots WHERE slot_name = %s
"""
_PUBLISHED = """
    SELECT p.schemaname::text, p.tablename::text FROM pg_publication_tables p WHERE p.pubname = %s
"""
_PUBLISHES_ALL = """
    SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot
    FROM pg_publication WHERE pubname = %s
"""
_MENDED = {13: 21, 14: 18, 15: 13, 16: 9, 17: 5}  # minor by major version, see `adding_loses`
_CUT = """
    SELECT c.relname::text FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid
    JOIN pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""


def check_server(connection: Any) -> None:
    """Checks what must be set for logical replication.

    Raises:
        SourceError: it is not.
    """
    ((level, encoding, version),) = ask(
        connection,
        "SELECT current_setting('wal_level'), current_setting('server_encoding'),"
        " current_setting('server_version_num')::int",
    )
    if level != "logical":
        raise SourceError(
            f"PostgreSQL's wal_level is {level!r}; run there: ALTER SYSTEM SET wal_level = "
            "'logical', and restart the server"
        )
    if encoding == "SQL_ASCII":
        raise SourceError(
            "the database has the encoding SQL_ASCII: its texts may be no UTF-8, and cannot be "
            "told. Load it into a database with ENCODING 'UTF8'"
        )
    if version < 130000:
        raise SourceError(f"PostgreSQL 13 or newer is needed, this is {version // 10000}")


_ANEW = (
    "The tables must be copied anew: DROP SOURCE, and CREATE SOURCE with the same options; its "
    "first copy replaces what the tables have now"
)


def server(dsn: str) -> Server:
    """The server that a dsn names."""
    with closing(Commands(dsn)) as connection:
        system, timeline, *_ = connection.ask("IDENTIFY_SYSTEM")
    return Server(system, int(timeline))


def check_server_is(dsn: str, known: Server, found: Server, reached: int) -> None:
    """Raises SourceError if a server is not the one whose log was read up to a position."""
    if known.system != found.system:
        raise SourceError(
            f"this is another PostgreSQL server (system identifier {found.system}) than the one "
            f"whose changes were read ({known.system}): let the dsn name that one, or DROP SOURCE "
            "and CREATE SOURCE again, which copies the tables anew"
        )
    if known.timeline in (0, found.timeline):
        return
    history = ""
    if found.timeline > 1:
        with closing(Commands(dsn)) as connection:
            _, history = connection.ask(f"TIMELINE_HISTORY {found.timeline}")
    if not follows(known.timeline, reached, history.splitlines()):
        raise SourceError(
            f"PostgreSQL's server is on timeline {found.timeline}, whose history is not that of "
            f"timeline {known.timeline} up to {lsn_text(reached)}, which this database has "
            f"reached: it was restored to an earlier time, or is a standby that lacked changes "
            f"when it was promoted. {_ANEW}"
        )


def restored(reached: int) -> SourceError:
    """The error that a server's log has no longer the commit that was read last."""
    return SourceError(
        f"PostgreSQL's log has another history than the one whose changes were read up to "
        f"{lsn_text(reached)}: the last commit is not there, so the server was put back to an "
        f"earlier state. {_ANEW}"
    )


def unpublished(connection: Any, publication: str, tables: Sequence[TableName]) -> list[TableName]:
    """Those of these tables that are not in the publication."""
    published = {TableName(*row) for row in ask(connection, _PUBLISHED, [publication])}
    return [table for table in tables if table not in published]


_REPLACED = (
    "was renamed, dropped and made again, or taken out of the publication, so changes of it may be "
    "missing"
)


def replaced(table: TableName, why: str = _REPLACED) -> SourceError:
    """The error that a table's changes may have been missed."""
    return SourceError(
        f"PostgreSQL's table {table.sql} {why}. When it is as it should be, let it be copied anew: "
        f"ALTER SOURCE … DROP TABLE {table.sql}, RESUME SOURCE …, and when that "
        "runs ALTER SOURCE … ADD TABLE; or DROP SOURCE and CREATE SOURCE"
    )


def publish(
    connection: Any, publication: str, tables: Sequence[TableName], *, create: bool, streams: bool
) -> None:
    """Makes the publication, or adds to it the tables that it lacks.

    Args:
        connection: to the database.
        publication: its name.
        tables: to be published.
        create: it is ours to make and to change.
        streams: the stream has begun.

    Raises:
        SourceError: it lacks tables, and cannot be changed.
    """
    exists = ask(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", [publication])
    if exists:
        check_publication(connection, publication, streams=streams)
    lacking = [f"ONLY {table.sql}" for table in unpublished(connection, publication, tables)]
    listed = ", ".join(lacking)
    if not create and lacking:
        raise SourceError(
            f"PostgreSQL's publication {publication!r} does not publish {listed}; run there: "
            f"{'ALTER' if exists else 'CREATE'} PUBLICATION {quote(publication)} "
            f"{'ADD' if exists else 'FOR'} TABLE {listed}"
        )
    if not exists:
        ask(
            connection,
            f"CREATE PUBLICATION {quote(publication)} FOR TABLE {listed}"
            " WITH (publish_via_partition_root = true)",
        )
    elif lacking:
        if streams and adding_loses(connection.info.server_version):
            raise _adding_refused(connection.info.server_version)
        ask(connection, f"ALTER PUBLICATION {quote(publication)} ADD TABLE {listed}")


def adding_loses(version: int) -> bool:
    """Whether a server of this version may not send changes of a table added to a publication.

    It is PostgreSQL's fault: a transaction that was open then lets the sender remember the table as
    not published. The minor versions of May 2025 have it mended in all branches, and 18 from its
    beginning: "Avoid data loss when DDL operations that don't take a strong lock affect tables that
    are being logically replicated", https://www.postgresql.org/docs/release/17.5/
    """
    return version % 10000 < _MENDED.get(version // 10000, 0)


def _adding_refused(version: int) -> SourceError:
    major, minor = divmod(version, 10000)
    return SourceError(
        f"PostgreSQL {major}.{minor} may lose changes of a table that is added to a publication "
        f"while transactions are open (mended in {major}.{_MENDED[major]}). Update the server, or "
        "DROP SOURCE and CREATE SOURCE with all tables"
    )


def check_publication(connection: Any, publication: str, *, streams: bool) -> None:
    """Checks that a publication publishes all changes of its tables.

    Args:
        connection: to the database.
        publication: its name; one that is gone publishes no tables, see `unpublished`.
        streams: the stream has begun, so that changes may be missing already.

    Raises:
        SourceError: it does not.
    """
    again = ". Changes may be missing: then DROP SOURCE and CREATE SOURCE" if streams else ""
    if ask(connection, _PUBLISHES_ALL, [publication]) == [(False,)]:
        raise SourceError(
            f"PostgreSQL's publication {publication!r} does not publish all changes; run there: "
            f"ALTER PUBLICATION {quote(publication)} SET (publish = 'insert, update, delete, "
            f"truncate', publish_via_partition_root = true){again}"
        )
    if connection.info.server_version >= 150000 and (cut := ask(connection, _CUT, [publication])):
        raise SourceError(
            f"PostgreSQL's publication {publication!r} publishes a part of table {cut[0][0]!r} "
            f"alone (WHERE or a list of columns): name a publication of the whole table{again}"
        )


def slot_position(connection: Any, slot: str) -> int:
    """The position up to which the slot was confirmed.

    Raises:
        SourceError: there is no such slot.
    """
    return check_slot(connection, slot, 0)


def demand_no_slot(connection: Any, slot: str) -> None:
    """Raises SourceError if there is a slot of this name, which somebody else may read."""
    if ask(connection, _SLOT, [slot]):
        raise SourceError(
            f"PostgreSQL already has a replication slot {slot!r}. If nobody reads it, run there: "
            f"SELECT pg_drop_replication_slot({literal(slot)}); else name another one: "
            "(…, slot 'NAME')"
        )


def drop_slot(connection: Any, slot: str) -> None:
    """Drops the slot if it is there.

    Raises:
        UnavailableError: it is being read.
    """
    found = ask(connection, _SLOT, [slot])
    if found and found[0][2]:
        ask(
            connection,
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s AND active",
            [slot],
        )
        raise UnavailableError(f"PostgreSQL's replication slot {slot!r} is still in use")
    if found:
        ask(connection, "SELECT pg_drop_replication_slot(%s)", [slot])


def check_slot(connection: Any, slot: str, reached: int) -> int:
    """Checks that the slot has all that follows a position.

    Returns:
        The position up to which it was confirmed.

    Raises:
        SourceError: it has not, or is another one.
    """
    found = ask(connection, _SLOT, [slot])
    if not found:
        raise SourceError(
            f"PostgreSQL's replication slot {slot!r} is gone, and with it the changes after "
            f"{lsn_text(reached)}. {_ANEW}"
        )
    plugin, is_here, _, status, confirmed = found[0]
    if plugin != "pgoutput" or not is_here:
        raise SourceError(
            f"PostgreSQL's replication slot {slot!r} is of another "
            f"{'database' if not is_here else 'kind'}: name another one, (…, slot 'NAME')"
        )
    if status == "lost":
        raise SourceError(
            f"PostgreSQL has removed the log that its replication slot {slot!r} needs (see "
            f"max_slot_wal_keep_size): changes after {lsn_text(reached)} are lost. {_ANEW}"
        )
    if confirmed is not None and lsn_number(confirmed) > reached > 0:
        raise SourceError(
            f"PostgreSQL's replication slot {slot!r} stands at {confirmed}, and this database has "
            f"reached {lsn_text(reached)}: somebody else has read the changes between, or this "
            f"file is an older copy. {_ANEW}"
        )
    ((behind,),) = ask(
        connection, "SELECT pg_current_wal_flush_lsn() < %s::pg_lsn", [lsn_text(reached)]
    )
    if behind:
        raise SourceError(
            f"PostgreSQL's log ends before {lsn_text(reached)}, which this database has reached: "
            f"the server was restored from a backup. {_ANEW}"
        )
    return 0 if confirmed is None else lsn_number(confirmed)
