"""Plan nodes said in Spark SQL, where every construct in them can be said equally.

Law: over inputs with the carriers of their rows, Spark's answer to `spark_body(node, …)` has the
carriers of the node's rows, as a multiset. A node with a construct that is not on the list raises
`NotTranslatableError`, with the construct; DuckDB then computes it in the workers (`frames`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.translated import translator
from ivm.spark_backfill.translation.translator import DIGITS
from ivm.spark_backfill.workers.carriers import carrier
from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Union,
    types,
    width,
)
from ivm.storage.values.types import ColumnType

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
_SUMMED = 28  # digits of a DECIMAL whose sum has ten more in Spark


def spark_body(plan: Plan, sources: Sequence[str], zone: str) -> str:
    """One node as a Spark SQL query over a table or parenthesised query per input.

    Args:
        plan: the node.
        sources: its inputs.
        zone: the time zone in which constants are computed.

    Raises:
        NotTranslatableError: Spark cannot be trusted to compute the same.
    """
    match plan:
        case Filter():
            where = translator(types(plan.input), zone).say_condition(plan.predicate)
            return f"SELECT {_columns(width(plan))} FROM {sources[0]} AS t WHERE {where}"
        case Project():
            return _project(plan, sources[0], zone)
        case Join():
            return _join(plan, sources, zone)
        case Aggregate():
            return _aggregate(plan, sources[0])
        case Distinct():
            _demand_keys(types(plan))
            return f"SELECT DISTINCT {_columns(width(plan))} FROM {sources[0]} AS t"
        case Union(negated=()):
            parts = [f"SELECT {_columns(width(plan))} FROM {s} AS t" for s in sources]
            return " UNION ALL ".join(parts)
        case _:
            raise NotTranslatableError(type(plan).__name__)


def _columns(count: int) -> str:
    return ", ".join(f"t.c{i} AS c{i}" for i in range(count)) or "1 AS nothing"


def _listed(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))


def _project(plan: Project, source: str, zone: str) -> str:
    saying = translator(types(plan.input), zone)
    said = []
    for expr, type in zip(plan.exprs, types(plan), strict=True):
        text = saying.say(expr)
        if saying.type(expr) != type:
            text = saying.cast(expr, type)
        said.append(text)
    return f"SELECT {_listed(said)} FROM {source} AS t"


def _join(plan: Join, sources: Sequence[str], zone: str) -> str:
    split = width(plan.left)
    for i in plan.left_keys:
        key = carrier(types(plan.left)[i])
        if not (key.equal or key.plain):
            raise NotTranslatableError(f"a join on a {types(plan.left)[i]}")
    conditions = [
        f"l.c{a} {'<=>' if safe else '='} r.c{b}"
        for a, b, safe in zip(plan.left_keys, plan.right_keys, plan.null_safe, strict=True)
    ]
    if plan.residual is not None:
        given = (*types(plan.left), *types(plan.right))
        names = [f"l.c{i}" if i < split else f"r.c{i - split}" for i in range(len(given))]
        conditions.append(translator(given, zone, names).say_condition(plan.residual))
    columns = [f"l.c{i}" for i in range(split)]
    if plan.kind not in ("semi", "anti"):
        columns += [f"r.c{i}" for i in range(width(plan.right))]
    joined = f"{sources[0]} AS l {_JOINS[plan.kind]} {sources[1]} AS r"
    return f"SELECT {_listed(columns)} FROM {joined} ON {' AND '.join(conditions) or 'TRUE'}"


def _demand_keys(keys: Sequence[ColumnType]) -> None:
    """Refuses keys of which Spark would show another form than DuckDB, as of 0.0 and −0.0."""
    for type in keys:
        if not carrier(type).equal:
            raise NotTranslatableError(f"a group of a {type}")


def _aggregate(plan: Aggregate, source: str) -> str:
    given = types(plan.input)
    _demand_keys([given[i] for i in plan.groups])
    items = [f"t.c{i}" for i in plan.groups]
    items += [_call(call, given) for call in plan.aggregates]
    tail = f" GROUP BY {', '.join(f't.c{i}' for i in plan.groups)}" if plan.groups else ""
    return f"SELECT {_listed(items)} FROM {source} AS t{tail}"


def _call(call: AggregateCall, given: Sequence[ColumnType]) -> str:
    if call.order or call.parameters or call.fields or len(call.arguments) > 1:
        raise NotTranslatableError(f"{call.function} with an order or parameters")
    if call.filter is not None and given[call.filter].sql != "BOOLEAN":
        raise NotTranslatableError(f"{call.function} with a FILTER that is no BOOLEAN")
    tail = "" if call.filter is None else f" FILTER (WHERE t.c{call.filter})"
    distinct = "DISTINCT " if call.distinct else ""
    if call.function == "count_star":
        return f"count(*){tail}"
    (argument,) = call.arguments
    type, column = given[argument], f"t.c{argument}"
    if call.distinct and not carrier(type).equal:
        raise NotTranslatableError(f"{call.function} of distinct values of type {type}")
    if call.function == "count":
        return f"count({distinct}{column}){tail}"
    if call.function == "sum":
        summed = f"sum({distinct}{_summand(column, type)}){tail}"
        return summed if type.is_decimal else f"CAST({summed} AS STRING)"  # as a HUGEINT travels
    if call.function in ("min", "max", "bool_and", "bool_or"):
        known = carrier(type)
        if not (known.plain and known.equal):
            raise NotTranslatableError(f"{call.function} of values of type {type}")
        return f"{call.function}({column}){tail}"
    raise NotTranslatableError(call.function)


def _summand(column: str, type: ColumnType) -> str:
    """The argument of a sum, widened such that the sum has DuckDB's type."""
    if type.sql in DIGITS:
        return f"CAST({column} AS DECIMAL({_SUMMED},0))"
    if type.is_decimal and type.precision <= _SUMMED:
        return f"CAST({column} AS DECIMAL({_SUMMED},{type.scale}))"
    raise NotTranslatableError(f"a sum of values of type {type}")
