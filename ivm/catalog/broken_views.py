"""Which views are broken: those that fail on a change that was committed, and all above them.

Invariant: `View.broken` is set for views that fail by themselves; the views above them follow from
that. A broken view is not maintained, and is not read, until it is filled anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from ivm.catalog.catalog import View
from ivm.storage.errors import EvaluationError
from ivm.storage.identifiers import path_of, quote

UNFILLED = "its first fill on Spark has not ended"
"""The reason of a view that was never filled; it is not maintained, and not read, until it is."""


_ANOTHER = "another program has "
FOREIGN = f"{_ANOTHER}altered tables"
"""Begins the reason of a view whose query no longer gives the columns of the table that holds it.
"""

LOST = f"{_ANOTHER}dropped the table that held it, and with it what its sinks have got"
"""Begins the reason of a view whose table is made anew, and waits for REFRESH."""


def is_foreign(reason: str | None) -> bool:
    """Returns whether a view is broken since another program has altered tables."""
    return reason is not None and reason.startswith(FOREIGN)


def broken_views(views: Mapping[str, View]) -> dict[str, str]:
    """The broken views among these, each with the lowest view to be filled anew first.

    Args:
        views: in dependency order.
    """
    listed = list(views.items())  # copied in one step: readers have no lock
    if not any(view.broken for _, view in listed):
        return {}
    found: dict[str, str] = {}
    for name, view in listed:
        below = sorted([found[lower] for lower in view.reads if lower in found])
        if below or view.broken is not None:
            found[name] = below[0] if below else name
    return found


def why_broken(views: Mapping[str, View], name: str) -> str | None:
    """Why a view cannot be read; None if it can."""
    to_blame = broken_views(views).get(name)
    if to_blame is None:
        return None
    reason = views[to_blame].broken
    return reason if to_blame == name else f"it reads {to_blame!r}, which is broken: {reason}"


def broken_error(views: Mapping[str, View], name: str) -> EvaluationError | None:
    """The error that reading a view raises; None if it is not broken."""
    to_blame = broken_views(views).get(name)
    if to_blame is None:
        return None
    if views[to_blame].broken == UNFILLED:
        return EvaluationError(
            f"the view {name!r} cannot be read yet: the first fill of {to_blame!r} on Spark has "
            "not ended. SHOW MATERIALIZED VIEWS tells how far it is, `ivm backfill` and "
            f"db.backfill() wait for it, and REFRESH MATERIALIZED VIEW {spelled(to_blame)} has "
            "DuckDB fill it now"
        )
    if (views[to_blame].broken or "").startswith(_ANOTHER):  # which tells the way out
        return EvaluationError(f"the view {name!r} is broken: {why_broken(views, name)}")
    return EvaluationError(
        f"the view {name!r} is broken: {why_broken(views, name)}. Mend the rows: then REFRESH "
        f"MATERIALIZED VIEW {spelled(to_blame)} fills it anew; or replace {to_blame!r} by a view "
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
