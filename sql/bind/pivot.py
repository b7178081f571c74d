"""PIVOT with fixed columns and UNPIVOT, as statements and as clauses of a FROM item.

Law: PIVOT is one aggregate per listed value, over the rows whose pivot column equals the value as a
string; the groups are the columns named, or all that nothing else reads. UNPIVOT unnests the names
of the columns and their values in parallel, and drops rows with a NULL among the values.

DuckDB deviation: where UNPIVOT has an alias with columns, these rename the first value columns, and
then the first columns. Before DuckDB 2.0.1 the columns that must not be NULL are those with the
values' names in the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from sqlglot import exp

from ivm.sql.bind.scalars import bind_scalar
from ivm.sql.bind.unnest import element_types
from ivm.sql.plan.built_in import FACTS, ours
from ivm.sql.plan.expressions import column, text, used
from ivm.sql.plan.nodes import Filter, NotIncremental, Plan, Unnest, numbered, types, width
from ivm.sql.resolve.columns_calls import bare, has_columns, spread_columns, star_columns
from ivm.sql.resolve.context import BindQuery, Context, demand_only
from ivm.sql.resolve.scope import Bound, MadeUp, Relation, Scope
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import describe, rows

_NAMED = (exp.Alias, exp.PivotAlias)
_SOURCE = "_pivot_source"
_STATEMENT = "with_ this expressions using group unpivot into order limit offset"
_CLAUSE = (
    "expressions fields unpivot include_nulls group alias columns identify_pivot_strings"
    " prefixed_pivot_columns pivot_column_naming default_on_null value_columns_first"
)


def pivoted(
    source: tuple[Plan, Scope], pivot: exp.Pivot, below: str, described: str, context: Context,
    bind: BindQuery,
) -> Bound:  # fmt: skip
    """Binds a PIVOT or UNPIVOT.

    Args:
        source: the source's plan and names.
        below: SQL of the source; DuckDB knows how its names are spelled.
        described: SQL that DuckDB describes with the names of the result.
        bind: binds a nested query.

    Raises:
        NotIncremental: its columns depend on the data, or it has no plan otherwise.
    """
    clause = bool(pivot.args.get("fields"))
    demand_only(pivot, _CLAUSE if clause else _STATEMENT, "PIVOT")
    given = _visible(source, below, context)
    unpivots = pivot.args.get("unpivot")
    found = _unpivot(given, pivot, context) if unpivots else _pivot(given, pivot, context, bind)
    names = tuple(MadeUp(name) for name, _ in describe(context.cursor, described))
    if len(names) != width(found):
        raise NotIncremental("a PIVOT with other columns than DuckDB's")
    return Bound(found, names)


def _visible(source: tuple[Plan, Scope], below: str, context: Context) -> Bound:
    """The columns that a star shows; their names become data in an UNPIVOT."""
    visible = source[1].star(None)
    names = tuple(name for name, _ in describe(context.cursor, below))
    if [fold(n) for n in names] != [fold(n) for n, _ in visible]:
        raise NotIncremental("a PIVOT of columns that are named otherwise in DuckDB")
    return Bound(context.narrow(source[0], [i for _, i in visible]), names)


def _pivot(source: Bound, pivot: exp.Pivot, context: Context, bind: BindQuery) -> Plan:
    """One SELECT over the source, which it reads as a common table expression."""
    clause = pivot.args.get("fields")
    calls = pivot.expressions if clause else pivot.args.get("using") or [_count()]
    choices = [_choice(node) for node in clause or pivot.expressions]
    calls = [c.this if isinstance(c, exp.Alias) else c for c in calls]
    ons = [on for compared, _ in choices for on in compared]
    _check_texts(ons, source, context)
    group = pivot.args.get("group")
    reads = ons + calls
    groups = group.expressions if group is not None else _others(source, reads)
    items = [exp.alias_(g.copy(), f"_group{i}") for i, g in enumerate(groups)]
    for number, values in enumerate(product(*[values for _, values in choices])):
        pairs = zip(ons, [part for value in values for part in value], strict=True)
        terms = [_reads_like(on, value) for on, value in pairs]
        for nth, call in enumerate(calls):
            filtered = _filtered(call, terms, context)
            items.append(exp.alias_(filtered, f"_pivot{number}_{nth}"))
    select = exp.select(*items).from_(exp.to_table(_SOURCE))
    if groups:
        select.set("group", exp.Group(expressions=[g.copy() for g in groups]))
    inner = replace(context, ctes={**context.ctes, _SOURCE: source})
    return bind(select, inner).plan


def _filtered(call: exp.Expr, terms: list[exp.Expr], context: Context) -> exp.Expr:
    """An expression with one aggregate, which is filtered by the terms.

    Raises:
        NotIncremental: there is not one, or it has a FILTER: DuckDB's fault `pivot_filters`.
    """
    whole = call.copy()
    found = list(context.functions.aggregates(whole))
    if len(found) != 1 or isinstance(found[0], exp.Filter):
        raise NotIncremental(f"a PIVOT of {text(call)}")
    (inner,) = found
    filtered = exp.Filter(this=inner.copy(), expression=exp.Where(this=exp.and_(*terms)))
    return whole.transform(lambda node: filtered if node is inner else node, copy=False)


def _count() -> exp.Expr:
    return ours(exp.Count(this=exp.Star()))


def _choice(node: exp.Expr) -> tuple[list[exp.Expr], list[list[exp.Expr]]]:
    """The expressions of an IN list, and the rows of constants that they are compared with."""
    if not isinstance(node, exp.In) or not node.expressions:
        raise NotIncremental("PIVOT without an IN list, whose columns depend on the data,")
    ons = _parts(node.this)
    values = [_parts(v.this if isinstance(v, _NAMED) else v) for v in node.expressions]
    inside = (exp.Column, exp.Tuple, exp.Query)
    if any(len(row) != len(ons) or any(v.find(*inside) for v in row) for row in values):
        raise NotIncremental("PIVOT with an IN list of more than constants")
    return ons, values


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The members of a row of values, or the one value."""
    node = bare(node)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _check_texts(ons: list[exp.Expr], source: Bound, context: Context) -> None:
    """Refuses types with equal values of different strings, which would be one group in DuckDB."""
    for on in ons:
        if not isinstance(on, exp.Column):
            raise NotIncremental(f"PIVOT ON {text(on)}, which is no column,")
        type = types(source.plan)[_position_of(on, source)]
        if type.is_float or type.is_interval or (type.dtype is None and not type.is_string):
            raise NotIncremental(f"PIVOT ON a column of type {type.sql}")


def _position_of(node: exp.Expr, source: Bound) -> int:
    names = [fold(name) for name in source.names]
    if names.count(fold(node.name)) != 1:
        raise NotIncremental(f"the name {node.name} in PIVOT")
    return names.index(fold(node.name))


def _others(source: Bound, exprs: list[exp.Expr]) -> list[exp.Expr]:
    """The columns that no expression reads."""
    read = {fold(c.name) for e in exprs for c in e.find_all(exp.Column)}
    return [exp.column(n, quoted=True) for n in source.names if fold(n) not in read]


def _reads_like(on: exp.Expr, value: exp.Expr) -> exp.Expr:
    sides = [exp.cast(side.copy(), "VARCHAR", dialect="duckdb") for side in (on, value)]
    return exp.NullSafeEQ(this=sides[0], expression=sides[1])


def _unpivot(source: Bound, pivot: exp.Pivot, context: Context) -> Plan:
    """The names and the values of the columns, unnested in parallel."""
    fields = pivot.args.get("fields")
    nodes = fields[0].expressions if fields else pivot.expressions
    entries = list(_entries(nodes, source, context))
    read = {i for _, parts in entries for part in parts for i in used(part)}
    rest = [i for i in range(width(source.plan)) if i not in read]
    labels = exp.Array(expressions=[exp.Literal.string(label) for label, _ in entries])
    values = [
        exp.Anonymous(this="list_value", expressions=[parts[i] for _, parts in entries])
        for i in range(len(entries[0][1]))
    ]
    below = context.project(source.plan, [*[column(i) for i in rest], labels, *values])
    lists = tuple(range(len(rest), width(below)))
    found = [*types(below)[: len(rest)], *element_types(lists, below.schema, context)]
    schema = numbered(found)
    plan: Plan = Unnest(below, tuple(range(len(rest))), lists, False, False, schema)
    names = [source.names[i] for i in rest]
    for index in () if pivot.args.get("include_nulls") else _present(pivot, names, len(values)):
        null = exp.Is(this=column(index), expression=exp.null())
        plan = Filter(plan, exp.Not(this=null))
    return plan


def _present(pivot: exp.Pivot, rest: list[str], count: int) -> list[int]:
    """The positions of the columns of an UNPIVOT whose NULLs drop the row (see above).

    Args:
        rest: names of the columns before that of the names and the `count` columns of values.
    """
    alias = pivot.args.get("alias")
    given = [node.name for node in alias.columns] if alias is not None else []
    if not given or not _drops_nulls_by_names():
        return [len(rest) + 1 + i for i in range(count)]
    values = [part.name for node in pivot.expressions for part in _parts(node)]
    values = [*given[:count], *values[len(given) :]]
    names = [*rest, pivot.args["fields"][0].this.name, *values]
    names = [fold(name) for name in [*given, *names[len(given) :]]]
    return [names.index(fold(value)) for value in values]


@functools.cache
def _drops_nulls_by_names() -> bool:
    """Returns whether the DuckDB at hand takes a column for the values by its new name."""
    renamed = "(SELECT 1 AS k, NULL AS a) UNPIVOT (v FOR n IN (a)) AS p(k)"
    with FACTS.borrow() as facts:
        return rows(facts, f"SELECT count(*) FROM {renamed}") == [(1,)]


def _entries(
    nodes: list[exp.Expr], source: Bound, context: Context
) -> Iterator[tuple[str, list[exp.Expr]]]:
    """The name of each unpivoted expression (or tuple of them), and its bound parts."""
    scope = _scope(source)
    for node in nodes:
        label = node.args["alias"].name if isinstance(node, (exp.Alias, exp.PivotAlias)) else None
        bare = node.this if label is not None else node
        chosen = star_columns(bare, scope)
        if chosen is None and has_columns(bare):
            chosen = [(n or "", _bare(e)) for n, e in spread_columns(bare, scope)]
        if chosen is not None:
            if label is not None:
                raise NotIncremental("UNPIVOT of a star with an alias")
            for name, index in chosen:
                yield name, [column(index)]
            continue
        while isinstance(bare, exp.Paren):
            bare = bare.this
        parts = _parts(bare)
        columns = [part for part in parts if isinstance(part, exp.Column) and not part.table]
        if label is None and len(columns) < len(parts):
            raise NotIncremental(f"UNPIVOT of {text(bare)}, which has no name,")
        bound = [bind_scalar(part, scope, context.functions) for part in parts]
        yield label or "_".join(source.names[_position_of(part, source)] for part in columns), bound


def _bare(node: exp.Expr) -> int:
    """The position of a column that is COLUMNS(…) by itself.

    Raises:
        NotIncremental: it stands in an expression.
    """
    if not isinstance(node, exp.PositionalColumn):
        raise NotIncremental("UNPIVOT of an expression with COLUMNS(…)")
    return int(node.this.name)


def _scope(source: Bound) -> Scope:
    """The source's columns as one relation."""
    return Scope([Relation((), tuple((n, i) for i, n in enumerate(source.names)))])
