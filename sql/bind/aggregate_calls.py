"""The parts of aggregate calls: function, arguments, DISTINCT, FILTER, order, constant parameters.

Law: a call is a function of the weighted rows of its argument columns. Where its result depends on
an order, the order is completed by all its arguments, ascending; where it does not, an ORDER BY
inside it has no effect and is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.parse.query import verbatim
from ivm.sql.plan.built_in import call_name, chief_name, duck_text
from ivm.sql.plan.expressions import cast, structure, used
from ivm.sql.plan.nodes import Plan
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.orders import ORDERLESS, ordered, parts_of
from ivm.storage.values.types import ColumnType, type_of

_NULLS = ("", "_null", "_nulls_last")
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_PARAMETERS = {
    "min": (1, 1), "max": (1, 1), "arg_min": (2, 1), "arg_max": (2, 1), "string_agg": (1, 1),
    "quantile_cont": (1, 1), "quantile_disc": (1, 1), "approx_quantile": (1, 1),
    "reservoir_quantile": (1, 2), "approx_top_k": (1, 1), "histogram": (1, 1),
    "histogram_exact": (1, 1), "bitstring_agg": (1, 2), "lttb": (2, 1),
}  # fmt: skip
"""Function → how many columns it reads, and how many constants may follow."""

# Functions whose value does not depend on the order of the rows, but for rounding.
_SUMS = frozenset(
    [
        "sum", "avg", "favg", "kahan_sum", "sum_no_overflow", "var_pop", "var_samp", "stddev_pop",
        "stddev_samp", "sem", "covar_pop", "covar_samp", "corr", "regr_avgx", "regr_avgy",
        "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy",
        "regr_syy", "entropy", "bitstring_agg", "histogram_exact",
    ]
)  # fmt: skip
_ORDERLESS = _SUMS | ORDERLESS
# DuckDB casts the arguments of these to DOUBLE; with the cast in the plan, they sum doubles.
_OF_DOUBLES = {"product"} | _SUMS - {
    "sum", "avg", "sum_no_overflow", "entropy", "bitstring_agg", "histogram_exact"
}  # fmt: skip
# DuckDB gives a bare NULL in these the type BIGINT.
_OF_WORDS = frozenset(["sum", "avg", "bit_and", "bit_or", "bit_xor"])
# A struct constructor in these is stored as its fields.
_OF_STRUCTS = frozenset(
    ["list", "first", "last", "any_value", *[f"arg_{m}{n}" for m in ("min", "max") for n in _NULLS]]
)
_QUANTILES = frozenset(["median", "quantile_cont", "quantile_disc", "mad"])


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate call over expressions of the input.

    Attributes:
        order: (expression, descending, NULLs first) per key, complete.
        parameters: constants after the arguments, as SQL.
        fields: names under which the first arguments are packed into one struct, if any.
        given: how many keys of the order, from the first, are the user's.
    """

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool
    filter: exp.Expr | None
    order: tuple[tuple[exp.Expr, bool, bool], ...]
    parameters: tuple[str, ...]
    fields: tuple[str, ...] = ()
    given: int = 0


def read_call(node: exp.Expr, plan: Plan, context: Context) -> BoundAggregate | None:
    """Reads a call over the plan's columns; None if it must be left to DuckDB as it is."""
    condition = None
    if isinstance(node, exp.Filter):
        node, condition = node.this, node.expression.this
    if isinstance(node, exp.WithinGroup):
        node = _ordered_set(node)
    if isinstance(node, exp.IgnoreNulls):  # sqlglot's reading of ANY_VALUE
        node = node.this
    if isinstance(node, _WRAPPERS):
        return None
    call = verbatim(node)
    name = chief_name(call_name(call))
    distinct, arguments, keys = parts_of(call)
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        name, arguments = "count_star", []
    if name == "mode" and not arguments:
        arguments = [key.this for key in keys]
    columns, most = _PARAMETERS.get(name, (len(arguments), 0))
    arguments, parameters = arguments[:columns], arguments[columns:]
    if len(parameters) > most or any(used(p) for p in parameters):
        return None
    if _has_no_parts(name, distinct, arguments, keys):
        return None
    fields: tuple[str, ...] = ()
    if name in _OF_STRUCTS and not distinct and arguments:
        fields, values = _unpacked(arguments[0])
        arguments = [*values, *arguments[1:]]
    given = _with_casts(name, arguments, distinct, plan, context)
    if distinct:  # DuckDB demands that the order is of the distinct expressions, here as cast
        keys = [_moved(key, arguments, given) for key in keys]
    order = () if name in _ORDERLESS else _order(keys, given)
    texts = tuple([duck_text(p) for p in parameters])
    return BoundAggregate(name, tuple(given), distinct, condition, order, texts, fields, len(keys))


def _ordered_set(node: exp.WithinGroup) -> exp.Expr:
    """`f(q) WITHIN GROUP (ORDER BY x)` as the plain call f(x, q ORDER BY x) that it means."""
    plain = verbatim(node)
    if isinstance(plain, exp.WithinGroup) and call_name(plain.this) == "mode":
        order = exp.Order(expressions=[key.copy() for key in plain.expression.expressions])
        return exp.Anonymous(this="mode", expressions=[order])
    return plain


def _has_no_parts(
    name: str, distinct: bool, arguments: list[exp.Expr], keys: list[exp.Ordered]
) -> bool:
    """Returns whether a call is left to DuckDB: several distinct columns, a quantile by a key."""
    if any(isinstance(a, (exp.Star, exp.Order, exp.Distinct)) for a in arguments):
        return True
    if name in _QUANTILES and keys:
        own = len(keys) == 1 and structure(keys[0].this) == structure(arguments[0])
        return not own or bool(keys[0].args.get("desc"))
    return bool(distinct or keys) if name == "count_star" else distinct and len(arguments) != 1


def _unpacked(argument: exp.Expr) -> tuple[tuple[str, ...], list[exp.Expr]]:
    """The names and values of a struct constructor's fields; any other value without names."""
    packs = isinstance(argument, exp.Struct) or call_name(argument) == "struct_pack"
    pairs = argument.expressions
    if not packs or not pairs or not all(isinstance(pair, exp.PropertyEQ) for pair in pairs):
        return (), [argument]
    return tuple([pair.name for pair in pairs]), [pair.expression for pair in pairs]


def _order(
    keys: list[exp.Ordered], arguments: list[exp.Expr]
) -> tuple[tuple[exp.Expr, bool, bool], ...]:
    listed = {structure(k.this) for k in keys}
    keys = keys + [ordered(a) for a in arguments if structure(a) not in listed]
    return tuple(
        [(k.this, bool(k.args.get("desc")), bool(k.args.get("nulls_first"))) for k in keys]
    )


def _moved(key: exp.Ordered, arguments: list[exp.Expr], given: list[exp.Expr]) -> exp.Ordered:
    """The key over the argument with its cast."""
    for old, new in zip(arguments, given, strict=True):
        if structure(key.this) == structure(old):
            return exp.Ordered(**{**key.args, "this": new.copy()})
    return key


def _with_casts(
    name: str, arguments: list[exp.Expr], distinct: bool, plan: Plan, context: Context
) -> list[exp.Expr]:
    """The arguments with DuckDB's implicit casts."""
    if name == "string_agg" and not distinct:
        found = context.types(arguments, plan)
        pairs = zip(arguments, found, strict=True)
        return [a if t.is_string else cast(a, type_of("VARCHAR")) for a, t in pairs]
    if name in _OF_WORDS:
        return [cast(a, type_of("BIGINT")) if isinstance(a, exp.Null) else a for a in arguments]
    if name not in _OF_DOUBLES:
        return arguments
    pairs = zip(arguments, context.types(arguments, plan), strict=True)
    return [a if _is_double(t) else cast(a, type_of("DOUBLE")) for a, t in pairs]


def _is_double(type: ColumnType) -> bool:
    """Returns whether the operators take values of the type as doubles."""
    return type.is_float or (type.is_integer and type.is_word)
