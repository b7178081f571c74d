"""What the console shows of watermarks: how far the rows of tables and final views have come.

Law: times are texts in UTC, as they may be infinite, or beyond what a browser counts.
"""

from __future__ import annotations

from typing import Any

from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.tables.row_times import spelled
from ivm.engine.tables.watermark_rows import Watermark
from ivm.sql.plan.nodes import Emit

_MOST = 10  # idle parts that are named


def watermark_of(engine: Engine, table: str) -> dict[str, Any] | None:
    """A table's watermark, as JSON has it; None if it has none."""
    mark = engine.watermarks.known.get(table)
    if mark is None:
        return None
    return {
        "column": mark.column,
        "at": _text(mark.at),
        "greatest": _text(mark.greatest),
        "behind": _behind(mark),
        "late": mark.late,
        "late_rows": mark.late_rows,
        "parts": None if mark.by is None else _parts(engine, mark, mark.by),
    }


def final_of(engine: Engine, view: View) -> dict[str, Any] | None:
    """The time before which a view's rows are final, None before there is one; None of others."""
    if not isinstance(view.plan, Emit):
        return None
    known = engine.watermarks.known
    marks = [known[table].at if table in known else None for table in view.plan.tables]
    reached = [at for at in marks if at is not None]
    return {"until": _text(min(reached)) if len(reached) == len(marks) else None}


def _behind(mark: Watermark) -> float | None:
    """Seconds from the watermark to the greatest time; negative if it has passed that."""
    if mark.at is None or mark.greatest is None:
        return None
    return (mark.greatest - mark.at) / 1e6


def _parts(engine: Engine, mark: Watermark, by: str) -> dict[str, Any]:
    parts = engine.watermarks.parts.get(mark.table, {})
    last = engine.watermarks.idle_before(mark)
    awaited = {name: part.greatest for name, part in parts.items() if part.seen >= last}
    idle = sorted(parts.keys() - awaited.keys())
    return {
        "by": by,
        "count": len(parts),
        "slowest": min(awaited, key=lambda name: (awaited[name], name), default=None),
        "idle_count": len(idle),
        "idle": idle[:_MOST],
    }


def _text(time: int | None) -> str | None:
    return None if time is None else spelled(time)
