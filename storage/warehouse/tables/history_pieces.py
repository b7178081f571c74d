"""The pieces of a history: parts of its files that can be read apart, by any process.

Law: the rows of all pieces are the rows of the files, each once. A piece is read by the same call
as the files together: where the reader takes the columns' types from the first file, that one is
named with every piece; those of lakes have the types in the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ivm.storage.identifiers import fold, literal
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows
from ivm.storage.warehouse.tables.history import History, PinnedFile, filled
from ivm.storage.warehouse.tables.history_reader import FILENAME, LAKES, is_remote

PIECE_BYTES = 64 << 20
"""The size of files, or of row groups of a file, that make one piece."""

_ROW_GROUPS = """
SELECT row_group_num_rows, system.main.sum(total_compressed_size)
FROM parquet_metadata({file}) GROUP BY row_group_id, row_group_num_rows ORDER BY row_group_id
"""


def pieces(cursor: Cursor, history: History) -> list[str] | None:
    """What follows FROM to read each piece of a history.

    Args:
        cursor: any.
        history: of a table.

    Returns:
        The pieces; None if its files are not on this machine's paths, or have columns of the names
        by which a piece is told from the rest, or if an option gives one of these another name.
    """
    if any(is_remote(file.path) for file in history.files) or FILENAME in dict(history.options):
        return None
    taken = {fold(name) for name, _ in describe(cursor, f"FROM {history.source}")}
    if not taken.isdisjoint((FILENAME, "file_row_number")):
        return None
    return list(_pieces(cursor, history))


def _pieces(cursor: Cursor, history: History) -> Iterator[str]:
    together: list[PinnedFile] = []
    for file in history.files:
        if file.size > PIECE_BYTES and history.format not in ("csv", "json"):
            for first, last in _row_ranges(cursor, file):
                yield _reading(history, [file], f"file_row_number BETWEEN {first} AND {last}")
            continue
        if together and sum(f.size for f in together) + file.size > PIECE_BYTES:
            yield _reading(history, together)
            together = []
        together.append(file)
    if together:
        yield _reading(history, together)


def _row_ranges(cursor: Cursor, file: PinnedFile) -> Iterator[tuple[int, int]]:
    """The first and last row of runs of row groups that have the size of a piece."""
    first = end = size = 0
    for count, bytes in rows(cursor, _ROW_GROUPS.format(file=literal(file.path))):
        end, size = end + count, size + bytes
        if size >= PIECE_BYTES:
            yield first, end - 1
            first, size = end, 0
    if end > first:
        yield first, end - 1


def _reading(history: History, files: Sequence[PinnedFile], rows: str = "true") -> str:
    """The query for the rows of these files alone."""
    if history.format in LAKES:
        return history.reading(files, f" WHERE {rows}")
    named = [file.path for file in files]
    first = history.files[0].path
    listed = [*([] if first in named else [first]), *named]
    if "union_by_name" in dict(history.options):  # all files have a say in the columns
        listed = [file.path for file in history.files]
    chosen = ", ".join(map(literal, named))
    call = filled(history.readers[0], listed)
    return f"({call} WHERE {FILENAME} IN ({chosen}) AND {rows})"
