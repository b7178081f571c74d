"""Rows by which it is seen whether a change of a column's type has left the values as they were.

Law: rows that nobody has changed since `ALTER TABLE … TYPE` has written them anew have its `xmin`,
which the column's row in the catalog has, too. Without USING they have the values of before, and so
ours are equal. Rows that are newer come by the stream; where some are older, or all may have been
written anew once more, nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.cdc.sources.postgres.connections.server import ask
from ivm.cdc.sources.postgres.log.slot import replaced
from ivm.cdc.sources.postgres.rows.parts import Described, PostgresPart
from ivm.cdc.sources.postgres.rows.texts import inserts
from ivm.cdc.sources.postgres.tables.catalog import Table
from ivm.cdc.sources.postgres.tables.identity import Attribute, Identity, retyped
from ivm.cdc.sources.source import Kept
from ivm.storage.identifiers import quote

_MOST = 200_000  # rows that are compared; of a larger table nothing is known


def kept(
    connection: Any, before: Identity, after: Identity, now: Table, described: Described
) -> Kept | None:
    """The rows that must be here with the same values; None if all values are kept in any case.

    Args:
        connection: to the database.
        before: the table as it was.
        after: as the stream has shown it.
        now: as it is now.
        described: as it is sent.

    Raises:
        SourceError: nothing is known.
    """
    pairs = retyped(before, after)
    if not pairs or not now.identity.is_rewritten(before):
        return None
    columns = [new.name for _, new in pairs]
    error = replaced(
        now.name,
        f"has got another type for {', '.join(map(repr, columns))}, by which the rows were written "
        "anew, and the values may be others (USING)",
    )
    writers = sorted({new.written for _, new in pairs})
    names = list(dict.fromkeys([*now.key, *columns]))
    rows = _rows(connection, now, names, writers) if all(writers) else []
    unknown = not all(writers) or len(rows) > _MOST or any(is_older for _, is_older, *_ in rows)
    if not unknown and not all(is_own for is_own, *_ in rows):
        unknown = _may_be_rewritten(connection, now, writers)
    if unknown:
        raise error
    own = [values for is_own, _, *values in rows if is_own]
    arrays = [pa.array([row[i] for row in own], pa.large_string()) for i in range(len(names))]
    found = inserts(dict(zip(names, arrays, strict=True)), len(own))
    part = PostgresPart(described, found, np.arange(len(own)))
    return Kept(part, tuple(columns), error)


def may_be_filled(connection: Any, table: Table, column: Attribute) -> bool:
    """Whether rows that nobody has changed since a column was added may have values in it.

    A default that is gone does not tell of them, be it computed for each row or lost in a rewrite.
    """
    if not column.written:
        return True
    name, source = (part.replace("%", "%%") for part in (quote(column.name), table.source))
    rows = f"SELECT num_nonnulls({name}) AS filled, xmin FROM {source} LIMIT {_MOST + 1}"
    old = "age(xmin) >= age(%s::xid)"
    sql = f"""SELECT count(*), count(*) FILTER (WHERE filled > 0),
        count(*) FILTER (WHERE filled > 0 AND {old}) FROM ({rows}) r"""
    ((count, filled, before),) = ask(connection, sql, [column.written])
    if count > _MOST or before:
        return True
    return bool(filled) and _may_be_rewritten(connection, table, [column.written])


def _may_be_rewritten(connection: Any, table: Table, writers: Sequence[str]) -> bool:
    """Whether all rows may have got a new `xmin` after all these transactions.

    As by the TYPE of another column, or SET LOGGED: it changes the rows of `pg_class`, too.
    """
    latest = "(SELECT min(age(w::xid)) FROM unnest(%s::text[]) w)"
    sql = f"""SELECT coalesce(bool_or(age(xmin) < {latest}), true)
        FROM pg_class WHERE oid = ANY(%s::oid[])"""
    files = [int(file) for file in table.identity.files]
    ((newer,),) = ask(connection, sql, [list(writers), files])
    return bool(newer)


def _rows(
    connection: Any, table: Table, names: Sequence[str], writers: Sequence[str]
) -> list[tuple[Any, ...]]:
    """The rows, or more than `_MOST`: are they of a writer, are they older than all, and texts."""
    # `concat` writes a value as the stream does, which a cast to text does not always.
    texts = [f"CASE WHEN {quote(n)} IS NOT NULL THEN concat({quote(n)}) END" for n in names]
    listed, source = (part.replace("%", "%%") for part in (", ".join(texts), table.source))
    oldest = "(SELECT max(age(w::xid)) FROM unnest(%s::text[]) w)"
    sql = f"SELECT xmin::text = ANY(%s::text[]), age(xmin) > {oldest}, {listed}"
    return ask(connection, f"{sql} FROM {source} LIMIT {_MOST + 1}", [list(writers)] * 2)
