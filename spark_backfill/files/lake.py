"""Tables that stay in their files, read by Spark's workers themselves.

Law: the SQL of a piece gives the carriers of those of its rows that the table has; the rows that
were added since are pieces as well. So all pieces together are the table's rows in the snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from ivm.spark_backfill.files.exports import export
from ivm.spark_backfill.workers.carriers import carrier
from ivm.spark_backfill.workers.worker import PIECE, Pieces
from ivm.sql.plan.nodes import Scan
from ivm.storage.identifiers import literal, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.own_parquet import reading
from ivm.storage.warehouse.tables.history import History, rows_of
from ivm.storage.warehouse.tables.history_pieces import pieces

_LAKE, _LISTED = "lake.json", "pieces.parquet"


def export_lake(
    cursor: Cursor, history: History, schema: Schema, key: Schema, read: Collection[int], to: Path
) -> bool:
    """Writes down the pieces of a table and how they are read, and exports what changed since.

    Args:
        cursor: in its snapshot.
        history: of the table.
        schema: of the table.
        key: names and types of its key; () without one.
        read: positions of the columns that will be read.
        to: the folder, which is not there yet.

    Returns:
        Whether workers can read the files; if not, nothing is written.

    Raises:
        NotCarriedError: a column has no form in Spark.
    """
    found = pieces(cursor, history)
    if found is None:
        return False
    columns = [(i, schema[i][0]) for i in sorted(read)]
    export(cursor, f"_ivm.{history.added}", columns, schema, to / "added")
    untouched = _untouched(cursor, history, key, to / "touched")
    values = {i: carrier(schema[i][1]).out(f"h.{quote(name)}") for i, name in columns}
    table = f"({rows_of(schema, PIECE)}) AS h{untouched}"
    added = [reading([file]) for file in sorted((to / "added").iterdir())]
    _list_pieces(cursor, found, added, to / _LISTED)
    body = {"values": values, "table": table, "pieces": len(found) + len(added)}
    (to / _LAKE).write_text(json.dumps(body))
    return True


def _untouched(cursor: Cursor, history: History, key: Schema, to: Path) -> str:
    """Exports the keys that were touched, if there are any; the join that leaves their rows out."""
    touched = f"_ivm.{history.touched}"
    if not key or not rows(cursor, f"SELECT 1 FROM {touched} LIMIT 1"):
        return ""
    export(cursor, touched, [(i, name) for i, (name, _) in enumerate(key)], key, to)
    back = [f"{carrier(t).back(f'c{i}')} AS c{i}" for i, (_, t) in enumerate(key)]
    keys = f"SELECT {', '.join(back)} FROM {reading(sorted(to.iterdir()))}"
    same = " AND ".join(f"t.c{i} = h.{quote(name)}" for i, (name, _) in enumerate(key))
    return f" ANTI JOIN ({keys}) AS t ON {same}"


def _list_pieces(cursor: Cursor, found: Sequence[str], added: Sequence[str], to: Path) -> None:
    """Numbers the pieces: those of the files, then the files of the added rows."""
    every = [("lake", text) for text in found] + [("added", text) for text in added]
    listed = ", ".join(
        f"({number}, {literal(kind)}, {literal(text)})" for number, (kind, text) in enumerate(every)
    )
    listing = f"SELECT * FROM (VALUES {listed}) AS p(number, kind, source)"
    run(cursor, f"COPY ({listing}) TO {literal(str(to))} (FORMAT parquet)")


class Lake:
    """A table whose pieces were written down.

    Args:
        folder: where.
    """

    def __init__(self, folder: Path) -> None:
        self._listed = str(folder / _LISTED)
        body = json.loads((folder / _LAKE).read_text())
        self._values: dict[str, str] = body["values"]
        self._table: str = body["table"]
        self._count: int = body["pieces"]

    @staticmethod
    def is_at(folder: Path) -> bool:
        """Whether a table's pieces were written down in this folder."""
        return (folder / _LAKE).exists()

    def pieces(self, scan: Scan) -> Pieces:
        """The pieces of what is scanned, as carriers c0, c1, …"""
        lake = [f"{self._values[str(i)]} AS c{n}" for n, i in enumerate(scan.columns)]
        added = [f"c{i} AS c{n}" for n, i in enumerate(scan.columns)]
        return Pieces(
            self._listed,
            self._count,
            f"SELECT {', '.join(lake) or '1 AS nothing'} FROM {self._table}",
            f"SELECT {', '.join(added) or '1 AS nothing'} FROM {PIECE}",
        )
