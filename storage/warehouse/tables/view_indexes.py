"""The indexes that users make on materialized views, as records in `_ivm.meta`.

They are no indexes of DuckDB's: they say by which columns the rows of a view are held in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run

_PREFIX = "view_index:"


@dataclass(frozen=True)
class ViewIndex:
    """One index.

    Attributes:
        name: as written.
        view: the canonical name of the view.
        columns: names of the view's columns.
    """

    name: str
    view: str
    columns: tuple[str, ...]


def load_view_indexes(cursor: Cursor) -> Mapping[str, ViewIndex]:
    """The indexes by name."""
    return read_view_indexes(rows(cursor, "SELECT key, value FROM _ivm.meta ORDER BY key"))


def read_view_indexes(meta: Iterable[tuple[str, str]]) -> Mapping[str, ViewIndex]:
    """The indexes by name, of the rows of `_ivm.meta`."""
    found = [(key, value) for key, value in meta if key.startswith(_PREFIX)]
    parts = [(key.removeprefix(_PREFIX), json.loads(value)) for key, value in found]
    return {name: ViewIndex(name, view, tuple(columns)) for name, (view, columns) in parts}


def save_view_index(cursor: Cursor, index: ViewIndex) -> None:
    """Adds an index."""
    value = json.dumps([index.view, list(index.columns)])
    run(cursor, "INSERT INTO _ivm.meta VALUES ($1, $2)", [_PREFIX + index.name, value])


def delete_view_index(cursor: Cursor, name: str) -> None:
    """Removes an index."""
    run(cursor, "DELETE FROM _ivm.meta WHERE key = $1", [_PREFIX + name])
