"""Aggregates computed from a group's rows in order: the rows that each needs, and its function.

Law: every function here is a function of the group's rows in the call's complete order, so its
result depends on the live rows alone. FIRST, ARG_MIN, MODE and their like read the first rows only;
HISTOGRAM and its like the distinct values of the group; the others read the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ivm.delta_ops.aggregates.collect import (
    first_struct,
    first_value,
    joined,
    listed,
    listed_structs,
)
from ivm.delta_ops.aggregates.group_rows import ALL, Grouped, RowsSpec, selects
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.delta_ops.aggregates.mode_histogram import (
    FromValueCounts,
    entropy,
    histogram,
    mode,
    product,
)
from ivm.delta_ops.aggregates.quantiles import FromRanks, continuous, discrete
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.values.column import Column
from ivm.storage.values.ordering.order import OrderKey, orderable
from ivm.storage.values.types import ColumnType

GroupedFinish: TypeAlias = Callable[[Grouped], Column]
Finish: TypeAlias = GroupedFinish | FromRanks | FromValueCounts
Plan: TypeAlias = tuple[RowsSpec, Finish]

_ARGS = [
    f"arg_{least}{nulls}" for least in ("min", "max") for nulls in ("", "_null", "_nulls_last")
]


def reads_every_row(call: AggregateSpec) -> bool:
    """Returns whether the call reads each row of a touched group."""
    found = plan_rows(call)
    return (
        found is not None
        and found[0].limit == ALL
        and not isinstance(found[1], FromRanks | FromValueCounts)
    )


def reads_whole_groups(call: AggregateSpec) -> bool:
    """Returns whether the call reads each distinct value, at least, of a touched group."""
    found = plan_rows(call)
    if found is None:
        return False
    spec, finish = found
    return spec.limit == ALL and not (isinstance(finish, FromRanks) and selects(spec))


def plan_rows(call: AggregateSpec) -> Plan | None:
    """The rows that a call reads and their function; None if the call is not known here."""
    if not isinstance(call.argument, int) or call.argument_type is None:
        return None
    types = [call.argument_type, *call.further_types, *call.order_types]
    if not all(orderable(t) for t in types):
        return None
    if call.function in _ARGS:
        return _best_argument(call)
    make = _FUNCTIONS.get(call.function)
    return None if make is None or len(call.further) >= max(len(call.fields), 1) else make(call)


class _Columns:
    """The columns kept for a call: its arguments, then the others of its order."""

    def __init__(self, call: AggregateSpec) -> None:
        assert isinstance(call.argument, int)
        assert call.argument_type is not None
        self.positions: list[int] = []
        self.types: list[ColumnType] = []
        self._append(call.argument, call.argument_type)
        pairs = zip(call.further, call.further_types, strict=True)
        self.further = [self._append(i, t) for i, t in pairs]
        keys = zip(call.order, call.order_types, strict=True)
        self.order = [
            OrderKey(self._place(k.column, t), k.descending, k.nulls_first) for k, t in keys
        ]

    def _append(self, position: int, type: ColumnType) -> int:
        self.positions.append(position)
        self.types.append(type)
        return len(self.positions) - 1

    def _place(self, position: int, type: ColumnType) -> int:
        known = position in self.positions
        return self.positions.index(position) if known else self._append(position, type)


def _spec(
    call: AggregateSpec,
    order: Sequence[OrderKey] | None = None,
    required: Sequence[int] = (),
    limit: int = ALL,
    columns: _Columns | None = None,
) -> RowsSpec:
    columns = columns or _Columns(call)
    return RowsSpec(
        tuple(columns.positions),
        tuple(columns.types),
        tuple(columns.order if order is None else order),
        tuple(required),
        call.filter,
        call.distinct,
        limit,
    )


def _shown(call: AggregateSpec) -> GroupedFinish | None:
    """The first row's argument, or its struct."""
    if call.parameters:
        return None
    if call.fields:
        return first_struct(_field_types(call), call.output)
    return first_value(call.output) if call.output == call.argument_type else None


def _field_types(call: AggregateSpec) -> list[ColumnType]:
    assert call.argument_type is not None
    return [call.argument_type, *call.further_types][: len(call.fields)]


def _first(call: AggregateSpec) -> Plan | None:
    make = _shown(call)
    if make is None:
        return None
    columns = _Columns(call)
    order = columns.order
    if call.function == "last":
        order = [OrderKey(k.column, not k.descending, not k.nulls_first) for k in order]
    required = [0] if call.function == "any_value" and not call.fields else []
    return _spec(call, order, required, 1), make


def _best_argument(call: AggregateSpec) -> Plan | None:
    """ARG_MIN and ARG_MAX of one row; equal values leave it to the arguments' order."""
    make = _shown(call)
    if make is None or len(call.further) != max(len(call.fields), 1):
        return None
    columns = _Columns(call)
    value = columns.further[-1]
    order = [OrderKey(value, call.function.startswith("arg_max"), False), *columns.order]
    required = {"arg_min_null": [value], "arg_max_null": [value]}.get(call.function, [0, value])
    if call.fields:  # a struct is never NULL
        required = [value]
    if call.function.endswith("_nulls_last"):
        required = []
    return _spec(call, order, required, 1), make


def _extremes(call: AggregateSpec) -> Plan | None:
    """The n least or greatest values."""
    if len(call.parameters) != 1 or not isinstance(call.parameters[0], int):
        return None
    assert call.argument_type is not None
    limit = call.parameters[0]
    make = listed(call.argument_type, call.output)
    if limit < 1 or call.distinct or make is None:
        return None
    if call.argument_type.sql == "INTERVAL":  # see DuckDB's fault `extreme_intervals`
        return None
    order = [OrderKey(0, call.function == "max", False)]
    return _spec(call, order, [0], limit), make


def _list(call: AggregateSpec) -> Plan | None:
    assert call.argument_type is not None
    if call.fields:
        make = listed_structs(_field_types(call), call.output)
    else:
        make = listed(call.argument_type, call.output)
    return None if make is None or call.parameters else (_spec(call), make)


def _string(call: AggregateSpec) -> Plan | None:
    separator = call.parameters[0] if call.parameters else ","
    if not isinstance(separator, str) or call.argument_type != call.output:
        return None
    return (_spec(call, required=[0]), joined(separator)) if call.output.is_string else None


def _median(call: AggregateSpec) -> Plan | None:
    assert call.argument_type is not None
    numeric = call.argument_type.is_integer or call.argument_type.is_float
    if numeric or call.argument_type.is_decimal:
        return _continuous(call, [0.5])
    if call.output == call.argument_type:
        make = discrete(call.argument_type, call.output, 0.5)
        return None if make is None else (_values(call), make)
    return None


def _values(call: AggregateSpec) -> RowsSpec:
    """The values that are not NULL, ascending."""
    return _spec(call, [OrderKey(0, False, False)], [0])


def _fractions(call: AggregateSpec) -> float | list[float] | None:
    if len(call.parameters) != 1:
        return None
    (given,) = call.parameters
    try:
        return [float(f) for f in given] if isinstance(given, list) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _quantile(call: AggregateSpec) -> Plan | None:
    fractions = _fractions(call)
    assert call.argument_type is not None
    if fractions is None:
        return None
    if call.function == "quantile_cont":
        return _continuous(call, fractions)
    make = discrete(call.argument_type, call.output, fractions)
    return None if make is None else (_values(call), make)


def _continuous(call: AggregateSpec, fractions: float | list[float] | None) -> Plan | None:
    assert call.argument_type is not None
    if isinstance(fractions, list) and call.function == "median":
        fractions = fractions[0]
    assert fractions is not None
    make = continuous(call.argument_type, call.output, fractions)
    return None if make is None else (_values(call), make)


def _mode(call: AggregateSpec) -> Plan | None:
    if call.output != call.argument_type or call.parameters:
        return None
    columns = _Columns(call)
    if call.distinct or len(columns.positions) > 1 or has_representatives([call.output]):
        return _spec(call, required=[0], columns=columns), mode(call.output)
    order = [OrderKey(1, True, False), *columns.order]
    spec = _spec(call, order, [0], 1, columns)
    return replace(spec, counted=True), first_value(call.output)


def _histogram(call: AggregateSpec) -> Plan | None:
    assert call.argument_type is not None
    make = None if call.parameters else histogram(call.argument_type, call.output)
    return None if make is None else (_values(call), make)


def _product(call: AggregateSpec) -> Plan | None:
    type = call.argument_type
    assert type is not None
    known = type.is_float or (type.is_integer and type.is_word)
    return (_spec(call, required=[0]), product) if known else None


def _entropy(call: AggregateSpec) -> Plan | None:
    assert call.argument_type is not None
    return _values(call), entropy(call.argument_type)


_FUNCTIONS: dict[str, Callable[[AggregateSpec], Plan | None]] = {
    "first": _first,
    "last": _first,
    "any_value": _first,
    "min": _extremes,
    "max": _extremes,
    "list": _list,
    "string_agg": _string,
    "median": _median,
    "quantile_cont": _quantile,
    "quantile_disc": _quantile,
    "mode": _mode,
    "histogram": _histogram,
    "product": _product,
    "entropy": _entropy,
}
