"""Which views are broken: those that fail on a change that was committed, and all above them.

Invariant: `View.broken` is set for views that fail by themselves; the views above them follow from
that. A broken view is not maintained, and is not read, until it is filled anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import duckdb

from ivm.catalog.version import View
from ivm.storage.errors import EvaluationError
from ivm.storage.identifiers import path_of, quote

UNFILLED = "its first fill on Spark has not ended"
"""The reason of a view that was never filled; it is not maintained, and not read, until it is."""


_ANOTHER = "another program has "
FOREIGN = f"{_ANOTHER}altered tables"
"""Begins the reason of a view whose query no longer gives the columns of the table that holds it.
"""
UNFIT_HERE = "it cannot be maintained by ivmdb"
"""Begins the reason of one of which no other program has altered anything, but the versions of this
package or of DuckDB are not those that made it."""

LOST = f"{_ANOTHER}dropped the table that held it, and with it what its sinks have got"
"""Begins the reason of a view whose table is made anew, and waits for REFRESH."""


def is_unfit(reason: str | None) -> bool:
    """Returns whether a view is broken since its query fails, or gives other columns."""
    return reason is not None and reason.startswith((FOREIGN, UNFIT_HERE))


class ToBlame(NamedTuple):
    """The lowest view to be filled anew before a broken one can be read, and its reason."""

    view: str
    reason: str


def broken_views(views: Mapping[str, View]) -> dict[str, ToBlame]:
    """The broken views among these, with what is to blame.

    Args:
        views: in dependency order.
    """
    found: dict[str, ToBlame] = {}
    if all(view.broken is None for view in views.values()):
        return found
    for name, view in views.items():
        reason = view.broken  # looked at once: readers have no lock
        below = sorted([found[lower] for lower in view.reads if lower in found])
        if below:
            found[name] = below[0]
        elif reason is not None:
            found[name] = ToBlame(name, reason)
    return found


def why_broken(views: Mapping[str, View], name: str) -> str | None:
    """Why a view cannot be read; None if it can."""
    to_blame = broken_views(views).get(name)
    return None if to_blame is None else _why(name, to_blame)


def _why(name: str, to_blame: ToBlame) -> str:
    view, reason = to_blame
    return reason if view == name else f"it reads {view!r}, which is broken: {reason}"


def broken_error(name: str, to_blame: ToBlame) -> EvaluationError:
    """The error that reading a broken view raises."""
    view, reason = to_blame
    if reason == UNFILLED:
        return EvaluationError(
            f"the view {name!r} cannot be read yet: the first fill of {view!r} on Spark has "
            "not ended. SHOW MATERIALIZED VIEWS tells how far it is, `ivm backfill` and "
            f"db.backfill() wait for it, and REFRESH MATERIALIZED VIEW {spelled(view)} has "
            "DuckDB fill it now"
        )
    if reason.startswith((_ANOTHER, UNFIT_HERE)):  # which tell the way out
        return EvaluationError(f"the view {name!r} is broken: {_why(name, to_blame)}")
    return EvaluationError(
        f"the view {name!r} is broken: {_why(name, to_blame)}. Mend the rows: then REFRESH "
        f"MATERIALIZED VIEW {spelled(view)} fills it anew; or replace {view!r} by a view "
        "that takes them (TRY_CAST, CASE, WHERE)"
    )


def spelled(name: str) -> str:
    """A canonical name as SQL, without quotes where they can be left out."""
    path = path_of(name)
    parts = path[1:] if len(path) == 2 and path[0] == "main" else path
    return ".".join([part if _is_plain(part) else quote(part) for part in parts])


def _is_plain(name: str) -> bool:
    """Returns whether a name is the same with and without quotes."""
    return name.isidentifier() and duckdb.tokenize(name)[0][1] == duckdb.token_type.identifier
