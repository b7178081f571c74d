"""Renders ROWS frames that exclude a row's peers, with ties broken by all columns.

Law: number the rows of a partition in the window's order completed by all columns, and let a row's
peers in the window's own order have the numbers low … high - 1. The rows of the frame below low and
from high on are the frame EXCLUDE GROUP; with the row itself they are the frame EXCLUDE TIES.
The functions named below are computed from their results over these parts; other aggregates, if
the frame is short, and NTH_VALUE from the list of the parts' values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import MAIN, duck_text
from ivm.sql.plan.calls import WindowCall
from ivm.sql.plan.expressions import position, used
from ivm.sql.plan.frame_edges import rows_edge
from ivm.storage.values.types import ColumnType

_NUMBER, _LOW, _HIGH = "number__", "low__", "high__"
_COUNTS = frozenset(["count", "count_star"])
_ALIKE = frozenset(["sum", "min", "max", "bool_and", "bool_or"])  # f(frame) = f(f(part), …)
_FIRST = frozenset(["first_value", "first", "any_value"])
_LAST = frozenset(["last_value", "last"])
_SHORT = 1000  # rows on either side up to which a frame may be listed

Over = Callable[[exp.Expr, str, bool], str]
"""Renders a call over a window of an order and a frame, with IGNORE NULLS or without."""


def splittable(
    name: str,
    aggregate: bool,
    arguments: Sequence[exp.Expr],
    frame: exp.Expr,
    given: Sequence[ColumnType],
) -> bool:
    """Returns whether a call over a ROWS frame that excludes peers can be computed from its parts.

    Args:
        name: DuckDB's chief name of the function.
        aggregate: whether the function is an aggregate.
        arguments: the call's arguments, which have no order and no DISTINCT.
        frame: its frame clause.
        given: the types of the columns.
    """
    if not _parts(frame):
        return False
    if name in _COUNTS | _ALIKE | _FIRST | _LAST:
        return len(arguments) <= 1
    argument = position(arguments[0]) if arguments else None
    if argument is None or any(used(further) for further in arguments[1:]):
        return False
    if name == "avg":
        return _is_number(given[argument])
    return (aggregate or name == "nth_value") and _is_short(frame)


def with_row_numbers(source: str, partition: str, order: str, completed: str) -> str:
    """Adds to a FROM item the row numbers that `split_text` reads.

    Args:
        source: a FROM item.
        partition: the PARTITION BY clause, or "".
        order: the window's ORDER BY clause, or "".
        completed: the ORDER BY clause with further keys that break ties.
    """
    peers = f"{partition}{order}"
    return (
        f"(SELECT *, {MAIN}row_number() OVER ({partition}{completed}) AS {_NUMBER}, "
        f"{MAIN}rank() OVER ({peers}) AS {_LOW}, "
        f"{_LOW} + {MAIN}count(*) OVER ({peers}RANGE CURRENT ROW) AS {_HIGH} FROM {source} AS t)"
    )


def split_text(call: WindowCall, over: Over) -> str:
    """Renders a `splittable` call over a FROM item of `with_row_numbers`.

    Args:
        over: renders a call with its window.
    """
    assert call.frame is not None
    function, parts = call.function, _parts(call.frame)
    name = _call(function).name.lower()
    if name in _FIRST | _LAST:
        return _chosen(call, parts if name in _FIRST else parts[::-1], over)
    if name == "avg":
        total, count = [_listed(_renamed(function, n), parts, over) for n in ("sum", "count")]
        return f"{_over_parts('sum', total)} / {_over_parts('sum', count)}"
    if name not in _COUNTS | _ALIKE:
        return _of_values(function, call.ignore_nulls, parts, over)
    listed = _listed(function, parts, over)
    value = _over_parts("sum" if name in _COUNTS else name, listed)
    return f"{value}::BIGINT" if name in _COUNTS else value  # SUM of BIGINTs is a HUGEINT


def _over_parts(name: str, listed: str) -> str:
    return f"{MAIN}list_aggregate({listed}, '{name}')"


def _of_values(call: exp.Expr, ignore_nulls: bool, parts: list[str], over: Over) -> str:
    """Renders an aggregate, or NTH_VALUE, over the list of the parts' values."""
    name, (value, *further) = _call(call).name, _call(call).expressions
    values = _renamed(call, "list")
    _call(values).set("expressions", [value.copy()])
    if ignore_nulls:
        given = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        values = exp.Filter(this=values, expression=exp.Where(this=given))
    listed = f"{MAIN}list_concat({', '.join([over(values, part, False) for part in parts])})"
    if name == "nth_value":
        return f"{listed}[{duck_text(further[0])}]"
    parameters = ", ".join([listed, f"'{name}'", *map(duck_text, further)])
    return f"{MAIN}list_aggregate({parameters})"


def _listed(call: exp.Expr, parts: list[str], over: Over) -> str:
    return f"[{', '.join([over(call, part, False) for part in parts])}]"


def _chosen(call: WindowCall, parts: list[str], over: Over) -> str:
    """Renders the value of the first part that has a row, or a non-NULL value with IGNORE NULLS."""
    function = call.function.copy()
    inner = _call(function)
    nulls = call.ignore_nulls or inner.name.lower() == "any_value"
    if not nulls:  # in a struct, a NULL value differs from the NULL of a part without rows
        pair = exp.PropertyEQ(this=exp.to_identifier("v"), expression=inner.expressions[0])
        inner.set("expressions", [exp.Struct(expressions=[pair])])
    found = f"coalesce({', '.join([over(function, part, call.ignore_nulls) for part in parts])})"
    return found if nulls else f"{found}.v"


def _renamed(call: exp.Expr, name: str) -> exp.Expr:
    function = call.copy()
    _call(function).set("this", name)
    return function


def _call(function: exp.Expr) -> exp.Expr:
    """The call without its FILTER."""
    return function.this if isinstance(function, exp.Filter) else function


def _edges(frame: exp.Expr) -> list[tuple[int | None] | None]:
    return [rows_edge(frame.args.get(e), frame.args.get(f"{e}_side")) for e in ("start", "end")]


def _is_short(frame: exp.Expr) -> bool:
    """Returns whether a frame with constant bounds ends within `_SHORT` rows on both sides."""
    edges = [edge[0] for edge in _edges(frame) if edge is not None]
    return all(edge is not None and abs(edge) <= _SHORT for edge in edges)


def _is_number(type: ColumnType) -> bool:
    return type.is_integer or type.is_decimal or type.is_float


def _parts(frame: exp.Expr) -> list[str]:
    """The frames before the row's peers, of the row itself where it is not excluded, and after
    them; none if the bounds are no constants.

    They are ordered by the rows' numbers: an order of the columns would break ties among equal rows
    anew, and could differ.
    """
    edges = _edges(frame)
    if None in edges:
        return []
    (start,), (end,) = [edge for edge in edges if edge is not None]
    parts = []
    if start is None or start < 0:
        first = "UNBOUNDED" if start is None else -start
        back = f"{_NUMBER} - {_LOW} + 1"
        stop = back if end is None or end >= 0 else f"{MAIN}greatest({back}, {-end})"
        parts.append(f"ROWS BETWEEN {first} PRECEDING AND ({stop}) PRECEDING")
    here = (start is None or start <= 0) and (end is None or end >= 0)
    if here and frame.args["exclude"].name.upper() == "TIES":
        parts.append("ROWS BETWEEN CURRENT ROW AND CURRENT ROW")
    if end is None or end > 0:
        last = "UNBOUNDED" if end is None else end
        ahead = f"{_HIGH} - {_NUMBER}"
        begin = ahead if start is None or start <= 0 else f"{MAIN}greatest({ahead}, {start})"
        parts.append(f"ROWS BETWEEN ({begin}) FOLLOWING AND {last} FOLLOWING")
    return [f"ORDER BY {_NUMBER} {part}" for part in parts]
