"""ROWS frames less a row's peers, where all columns break the ties among these.

Law: let a row stand at place p of its partition, in the window's order completed by all columns,
and its peers in the window's own order at the places low … high - 1. What a frame has before low
and from high on is the frame less the row's group, and with the row itself the frame less its ties.
The functions below are put together from their answers for these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.sql.columns import position
from ivm.sql.plan import WindowCall
from ivm.sql.window_frames import rows_edge
from ivm.storage.types import ColumnType

_PLACE, _LOW, _HIGH = "place__", "low__", "high__"
_COUNTS = frozenset(["count", "count_star"])
_ALIKE = frozenset(["sum", "min", "max", "bool_and", "bool_or"])  # of the parts' answers: the same
_FIRST = frozenset(["first_value", "first", "any_value"])
_LAST = frozenset(["last_value", "last"])

Over = Callable[[exp.Expression, str], str]
"""The text of a call over an order with a frame."""


def splittable(
    name: str,
    arguments: Sequence[exp.Expression],
    frame: exp.Expression,
    given: Sequence[ColumnType],
) -> bool:
    """Whether a call over a ROWS frame that excludes peers can be put together from parts.

    Args:
        name: DuckDB's chief name of the function.
        arguments: of the call, without an order or DISTINCT.
        frame: its frame clause.
        given: the types of the columns.
    """
    if len(arguments) > 1 or not _parts(frame):
        return False
    if name == "avg":
        place = position(arguments[0])
        return place is not None and _is_number(given[place])
    return name in _COUNTS | _ALIKE | _FIRST | _LAST


def placed(source: str, partition: str, order: str, completed: str) -> str:
    """A FROM item with the places that `split_text` reads.

    Args:
        source: a FROM item.
        partition: the PARTITION BY clause, or nothing.
        order: the window's ORDER BY clause, or nothing.
        completed: the same with what breaks the ties.
    """
    peers = f"{partition}{order}"
    return (
        f"(SELECT *, row_number() OVER ({partition}{completed}) AS {_PLACE}, "
        f"rank() OVER ({peers}) AS {_LOW}, "
        f"{_LOW} + count(*) OVER ({peers}RANGE CURRENT ROW) AS {_HIGH} FROM {source} AS t)"
    )


def split_text(call: WindowCall, over: Over) -> str:
    """A `splittable` call over a FROM item of `placed`.

    Args:
        over: the text of a call over an order and a frame.
    """
    assert call.frame is not None
    function, parts = call.function, _parts(call.frame)
    name = _call(function).name.lower()
    if name == "avg":
        total, count = [_listed(_renamed(function, n), parts, over) for n in ("sum", "count")]
        return f"list_sum({total}) / list_sum({count})"
    if name in _FIRST | _LAST:
        nulls = call.ignore_nulls or name == "any_value"
        return _chosen(function, parts if name in _FIRST else parts[::-1], nulls, over)
    listed = _listed(function, parts, over)
    return f"list_sum({listed})::BIGINT" if name in _COUNTS else f"list_{name}({listed})"


def _listed(call: exp.Expression, parts: list[str], over: Over) -> str:
    return f"[{', '.join([over(call, part) for part in parts])}]"


def _chosen(call: exp.Expression, parts: list[str], nulls: bool, over: Over) -> str:
    """The value of the first part that has one; in a struct a NULL is one."""
    whole = call.copy()
    if not nulls:
        pair = exp.PropertyEQ(this=exp.to_identifier("v"), expression=_call(whole).expressions[0])
        _call(whole).set("expressions", [exp.Struct(expressions=[pair])])
    found = f"coalesce({', '.join([over(whole, part) for part in parts])})"
    return found if nulls else f"{found}.v"


def _renamed(call: exp.Expression, name: str) -> exp.Expression:
    whole = call.copy()
    _call(whole).set("this", name)
    return whole


def _call(function: exp.Expression) -> exp.Expression:
    """The call without its FILTER."""
    return function.this if isinstance(function, exp.Filter) else function


def _is_number(type: ColumnType) -> bool:
    return type.is_integer or type.is_decimal or type.is_float


def _parts(frame: exp.Expression) -> list[str]:
    """The frame without the row's peers: before them, the row itself where it stays, behind them.

    The order is by place: equal rows may have their places in any order, but this one.
    """
    edges = [rows_edge(frame.args.get(e), frame.args.get(f"{e}_side")) for e in ("start", "end")]
    if None in edges:
        return []
    (start,), (end,) = [edge for edge in edges if edge is not None]
    parts = []
    if start is None or start < 0:
        first = "UNBOUNDED" if start is None else -start
        back = f"{_PLACE} - {_LOW} + 1"
        stop = back if end is None or end >= 0 else f"greatest({back}, {-end})"
        parts.append(f"ROWS BETWEEN {first} PRECEDING AND ({stop}) PRECEDING")
    here = (start is None or start <= 0) and (end is None or end >= 0)
    if here and frame.args["exclude"].name.upper() == "TIES":
        parts.append("ROWS BETWEEN CURRENT ROW AND CURRENT ROW")
    if end is None or end > 0:
        last = "UNBOUNDED" if end is None else end
        ahead = f"{_HIGH} - {_PLACE}"
        begin = ahead if start is None or start <= 0 else f"greatest({ahead}, {start})"
        parts.append(f"ROWS BETWEEN ({begin}) FOLLOWING AND {last} FOLLOWING")
    return [f"ORDER BY {_PLACE} {part}" for part in parts]
