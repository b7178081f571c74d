"""Monotone expressions: how a function of one column rises with it, as DuckDB computes it.

Law: nothing counts as rising that falls anywhere. So of TIMESTAMPTZ, whose days are of 23 to 25
hours, no days are added and none is truncated to.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import position, text, used

Rise: TypeAlias = Literal["strict", "weak"]
"""How a function rises: a later argument has a later value, or one that is not earlier."""

_ZONED = frozenset(["TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"])
_FIXED = frozenset(["HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"])
_DAYS = frozenset(["DAY", "WEEK"])
_MONTHS = frozenset(["MONTH", "QUARTER", "YEAR"])


def rise(expr: exp.Expr, *, zoned: bool) -> Rise | None:
    """Whether a function rises with its column ("strict"), or does not fall ("weak"); else None."""
    if isinstance(expr, exp.Paren):
        return rise(expr.this, zoned=zoned)
    if isinstance(expr, exp.Column):
        return "strict"
    argument, kind = _step(expr, zoned=zoned)
    inner = None if argument is None or kind is None else rise(argument, zoned=zoned)
    return inner and ("weak" if "weak" in (inner, kind) else "strict")


def _step(expr: exp.Expr, *, zoned: bool) -> tuple[exp.Expr | None, Rise | None]:
    """The argument with which an expression rises, all others being constants, and how."""
    match expr:
        case exp.Add():
            left, right = expr.this, expr.expression
            moving, other = (left, right) if used(left) else (right, left)
            return moving, _shift(moving, other, zoned=zoned)
        case exp.Sub():
            return expr.this, _shift(expr.this, expr.expression, zoned=zoned)
        case exp.DateBin() if not used(expr.this) and not _begins_elsewhere(expr):
            fixed = _length(expr.this, zoned=zoned)
            return expr.expression, fixed and "weak"
        case exp.Anonymous() if expr.name.lower() == "time_bucket" and len(expr.expressions) == 3:
            width, moving, origin = expr.expressions
            offset = used(width) or used(origin) or isinstance(_bare(origin), exp.Interval)
            fixed = None if offset else _length(width, zoned=zoned)
            return moving, fixed and "weak"
        case exp.TimestampTrunc() | exp.DateTrunc() if not zoned:
            return expr.this, "weak"
        case exp.Cast() if text(expr.to) in _ZONED and zoned:  # it has the type
            return expr.this, "strict"
        case exp.Cast() if text(expr.to) == "TIMESTAMP" and not (zoned or expr.args.get("safe")):
            return expr.this, "strict"
        case exp.Cast() if text(expr.to) == "DATE" and not (zoned or expr.args.get("safe")):
            return expr.this, "weak"
        case _:
            return None, None


def _begins_elsewhere(bucket: exp.DateBin) -> bool:
    """Returns whether buckets begin elsewhere by an offset or an origin."""
    return any(bucket.args.get(part) for part in ("unit", "zone", "origin"))


def _shift(moving: exp.Expr, by: exp.Expr, *, zoned: bool) -> Rise | None:
    """How a time rises with the one that a constant is added to.

    With months only days do: the 30th of January at noon and the 31st at ten come to one day.
    """
    kind = _length(by, zoned=zoned)
    whole = exp.DateBin | exp.TimestampTrunc | exp.DateTrunc
    begin = _bare(moving)
    days = isinstance(begin, whole) and _unit(_width(begin)) in _DAYS | _MONTHS
    return None if kind == "weak" and not days else kind


def column_at_least(expr: exp.Expr, value: exp.Expr, *, zoned: bool) -> tuple[int, exp.Expr] | None:
    """The column of a function, and what it is at least where the function is at least a value.

    A length of time is taken off where nothing is lost by it; a time is never before its bucket.

    Args:
        expr: the function.
        value: it may be any expression.
        zoned: whether the column is a TIMESTAMPTZ.
    """
    while (at := position(expr)) is None:
        shifted = _shifted(expr, value, zoned=zoned)
        if shifted is not None:
            expr, value = shifted
            continue
        bucket = exp.DateBin | exp.TimestampTrunc | exp.DateTrunc | exp.Anonymous
        argument, kind = _step(expr, zoned=zoned) if isinstance(expr, bucket) else (None, None)
        if argument is None or kind is None or zoned:
            return None
        expr = argument
    return at, value


def column_at_most(expr: exp.Expr, value: exp.Expr, *, zoned: bool) -> tuple[int, exp.Expr] | None:
    """The column of a function, and what it is at most where the function is at most a value.

    See `column_at_least`; of a bucket it is not told.
    """
    while (at := position(expr)) is None:
        shifted = _shifted(expr, value, zoned=zoned)
        if shifted is None:
            return None
        expr, value = shifted
    return at, value


def _shifted(expr: exp.Expr, value: exp.Expr, *, zoned: bool) -> tuple[exp.Expr, exp.Expr] | None:
    """A function and what it is compared with, without the function's last length of time."""
    match expr:
        case exp.Paren():
            return expr.this, value
        case exp.Add() if used(expr.this) and is_exact(expr.expression, zoned=zoned):
            return expr.this, exp.Sub(this=value.copy(), expression=expr.expression.copy())
        case exp.Add() if used(expr.expression) and is_exact(expr.this, zoned=zoned):
            return expr.expression, exp.Sub(this=value.copy(), expression=expr.this.copy())
        case exp.Sub() if is_exact(expr.expression, zoned=zoned):
            return expr.this, exp.Add(this=value.copy(), expression=expr.expression.copy())
    return None


def is_exact(length: exp.Expr, *, zoned: bool) -> bool:
    """Returns whether a constant length of time is as long wherever it is added."""
    return _length(length, zoned=zoned) == "strict"


def _length(expr: exp.Expr, *, zoned: bool) -> Rise | None:
    """How a time rises with the one that an interval is added to; None if that is not known."""
    expr = _bare(expr)
    if not isinstance(expr, exp.Interval) or not isinstance(expr.this, exp.Literal):
        return None
    unit = _unit(expr)
    if unit in _FIXED or (unit in _DAYS and not zoned):
        return "strict"
    return "weak" if unit in _MONTHS and not zoned else None


def _width(begin: exp.Expr) -> exp.Expr:
    """The unit, or the interval, whose beginning an expression is."""
    found = begin.this if isinstance(begin, exp.DateBin) else begin.args["unit"]
    assert isinstance(found, exp.Expr)
    return found


def _unit(width: exp.Expr) -> str:
    unit = width.args.get("unit") if isinstance(width, exp.Interval) else width
    return str(unit or "").upper().strip("'").removesuffix("S")


def time_of_window(expr: exp.Expr, *, zoned: bool) -> exp.Expr | None:
    """The time of which an expression is the end of its window; None for others.

    That end is after the time, in local time too: of one that comes twice DuckDB takes the later.
    """
    end, zone = _at_zone(expr)
    if not isinstance(end, exp.Add) or (zone is not None and not zoned):
        return None
    begin, width = _bare(end.this), _bare(end.expression)
    if not isinstance(begin, exp.DateBin) or _begins_elsewhere(begin):
        return None
    if (
        text(_bare(begin.this)) != text(width)
        or _length(width, zoned=zoned and zone is None) is None
    ):
        return None
    local, same = _at_zone(begin.expression)
    return local if zone == same else None


def _at_zone(expr: exp.Expr) -> tuple[exp.Expr, str | None]:
    """What is brought to or from a constant time zone, and the zone."""
    expr = _bare(expr)
    if not isinstance(expr, exp.AtTimeZone) or not isinstance(expr.args["zone"], exp.Literal):
        return expr, None
    return _bare(expr.this), expr.args["zone"].name


def end_of_range(expr: exp.Expr) -> exp.Expr | None:
    """Where a range that goes down ends, exclusively; None for other expressions."""
    found = _range_down(expr)
    return found and found[1]


def start_of_range(expr: exp.Expr) -> exp.Expr | None:
    """Where a range that goes down begins: with its greatest element; see `end_of_range`."""
    found = _range_down(expr)
    return found and found[0]


def _range_down(expr: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The start and the end of a range that goes down."""
    down = isinstance(expr, exp.GenerateSeries) and isinstance(expr.args.get("step"), exp.Neg)
    if not down or not expr.args.get("is_end_exclusive"):
        return None
    start, end, step = expr.args["start"], expr.args["end"], _bare(expr.args["step"].this)
    if _length(step, zoned=False) is None or not step.name.isdecimal():
        return None  # the name of an interval is that of its number, which may be negative
    return start, end


def _bare(expr: exp.Expr) -> exp.Expr:
    while isinstance(expr, exp.Paren):
        expr = expr.this
    return expr
