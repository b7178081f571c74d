"""The error that names the row of a flush that DuckDB refuses.

Constraints are enforced before a commit, so this is for unforeseen refusals.

Contract: the relation that is named is refused by itself, and the row is the first one with which
DuckDB refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from ivm.storage.errors import ConstraintError
from ivm.storage.warehouse.duckdb.appender import Appenders
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.flush.flush import NetChange, Target, apply_changes

Part = tuple[str, Target, NetChange]
_SHOWN = 200  # characters of a row


class RefusedError(ConstraintError):
    """DuckDB refuses a committed row; the commits stay in the log.

    Args:
        message: names relation, row and constraint.
        relation: canonical name, or "" if only several of them together are refused.
    """

    def __init__(self, message: str, relation: str) -> None:
        super().__init__(message)
        self.relation = relation


def refused(cursor: Cursor, parts: Sequence[Part], error: duckdb.Error) -> RefusedError:
    """The error that names the row on which a flush failed.

    Args:
        cursor: outside a transaction.
        parts: the net changes of the flush.
        error: DuckDB's.
    """
    culprit = next((part for part in parts if _is_refused(cursor, part)), None)
    if culprit is None:
        return RefusedError(f"committed changes cannot be written to their tables: {error}", "")
    name, target, _ = culprit
    return RefusedError(
        f"{name!r} cannot take {_row(cursor, culprit)}, which is committed: {error}. The commits "
        f"stay in the log and other tables can be read: DROP or ALTER {target.table}, or drop the "
        "index or constraint that refuses the row",
        name,
    )


def _row(cursor: Cursor, part: Part) -> str:
    """The first inserted row with which the part is refused."""
    name, target, change = part
    low, high = 0, len(change.insert)
    while low + 1 < high:
        middle = (low + high) // 2
        if _is_refused(cursor, (name, target, _first(change, middle))):
            high = middle
        else:
            low = middle
    if not high or _is_refused(cursor, (name, target, _first(change, 0))):
        return "the deletion of its rows"
    row = change.insert.slice(low, high).to_arrow(target.schema).to_pylist()[0]
    shown = ", ".join(f"{column} = {value!r}" for column, value in row.items())
    return f"the row ({shown[:_SHOWN]}{'…' * (len(shown) > _SHOWN)})"


def _first(change: NetChange, count: int) -> NetChange:
    insert, replaced = change.insert.slice(0, count), min(change.replaced, count)
    return replace(change, insert=insert, replaced=replaced)


def _is_refused(cursor: Cursor, part: Part) -> bool:
    """Returns whether DuckDB refuses a part by itself (nothing of it stays)."""
    run(cursor, "BEGIN")
    try:
        apply_changes(cursor, [part], Appenders(cursor))
    except duckdb.ConstraintException:
        return True
    finally:
        cursor.abort()
        run(cursor, "ROLLBACK")
    return False
