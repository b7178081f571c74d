"""Final views: the rows of a query that watermarks have passed, as CREATE MATERIALIZED VIEW … EMIT
ON WINDOW CLOSE asks for them.

Law: a row comes in the epoch in which the watermarks of all tables below the query pass it, as it
is then, and stays. What is passed is told by one column, which every one of these tables bounds
(`ivm.sql.plan.times.watermark_bounds`). A view that is made over old rows has those that are passed
by then. One that is filled again, also after an IMPORT, or in other types, keeps its rows, and gets
what was passed since the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import CatalogVersion, View
from ivm.sql.bind.bind import bind
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.expressions import cast, column, compared, replace
from ivm.sql.plan.nodes import Emit, Join, Plan, Project, Scan, filtered_by, numbered, width
from ivm.sql.plan.render import render
from ivm.sql.plan.times.watermark_bounds import Bounded, bounds
from ivm.sql.rewrite.rewrite import rewrite
from ivm.sql.statements.own.views import CLAUSES
from ivm.sql.statements.own.watermark_calls import WATERMARKS, relation_of
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import path_of, quote
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.table_info import TableInfo

_WHAT = CLAUSES["final"]
_END = "window_end"


def emitted(
    plan: Plan,
    view: View,
    version: CatalogVersion,
    cursor: Cursor,
    functions: FunctionList | None,
) -> Plan:
    """The plan of a view's final rows.

    Args:
        plan: of its query.
        view: with its columns.
        version: of the catalog.
        cursor: sees the tables and their watermarks.
        functions: those that it sees.

    Raises:
        UnsupportedError: no column tells when rows are final.
    """
    times = _times(version, cursor)
    names = BindingCatalog(version)
    found = bounds(plan, lambda scan: _time_of(scan, times.get(names.canonical(scan.relation))))
    if not found:
        table = min(view.reads - {WATERMARKS}, default="name")
        raise UnsupportedError(
            f"{_WHAT} needs a table with a watermark: ALTER TABLE {table} SET WATERMARK FOR column "
            "AS column - INTERVAL '…'"
        )
    by = _column(found, view, names)
    passed_by = {(each.relation, each.columns[by]) for each in found}
    inclusive = all(bound.inclusive for _, bound in passed_by)
    marks = [(names.canonical(relation), bound.expr) for relation, bound in passed_by]
    dates = {table for table, column in times.items() if _is_date(version.tables[table], column)}
    relations = [relation_of(path_of(table)) for table, _ in marks]
    given = rewrite(bind(_one_row(relations), names, cursor, functions))
    exprs = [_over(i, expr, dated=table in dates) for i, (table, expr) in enumerate(marks)]
    made = rewrite(_least(given, exprs, plan.schema[by]))
    stored = stored_rows(version, view)
    tables = tuple(sorted({names.canonical(each.relation) for each in found}))
    return Emit(plan, made, by, inclusive, stored, tables)


def _times(version: CatalogVersion, cursor: Cursor) -> Mapping[str, str]:
    """The columns that tell the time of rows, by the tables that have a watermark."""
    if WATERMARKS not in version.tables:
        return {}
    return dict(rows(cursor, f'SELECT "table", "column" FROM {WATERMARKS}'))


def _time_of(scan: Scan, column: str | None) -> int | None:
    """See `ivm.sql.plan.times.watermark_bounds.Times`."""
    if column is None:
        return None
    return next((i for i, (name, _) in enumerate(scan.schema) if name == column), -1)


def _column(found: Sequence[Bounded], view: View, names: BindingCatalog) -> int:
    """The column that tells when rows are final: window_end, or the first.

    Raises:
        UnsupportedError: there is none that all watermarks bound.
    """
    common = set(range(len(view.schema))).intersection(*[each.columns for each in found])
    if common:
        last = [i for i in common if view.schema[i][0].lower() == _END]
        return min(last or common)
    known = {
        names.canonical(each.relation): ", ".join(view.schema[i][0] for i in sorted(each.columns))
        for each in found
    }
    told = "; ".join(
        f"the watermark of {table} bounds {columns or 'no column'}"
        for table, columns in sorted(known.items())
    )
    way = (
        "Group or join by a window of time (window_end), or by date_trunc() or time_bucket() of it"
        if len(found) == 1
        else "Join streams by a window of time, or say how far apart their times may be: "
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL '1 hour'"
    )
    raise UnsupportedError(
        f"{_WHAT} needs a column of the result that tells when a row is final: {told}. {way}"
    )


def _one_row(relations: Sequence[str]) -> str:
    """The query of watermarks, side by side."""
    chosen = ", ".join([f"r{i}.watermark" for i in range(len(relations))])
    return f"SELECT {chosen} FROM {', '.join([f'{r} AS r{i}' for i, r in enumerate(relations)])}"


def _over(index: int, expr: exp.Expr, *, dated: bool) -> exp.Expr:
    """A bound, over one of several watermarks; that of dates is a date.

    What makes timestamps of dates (casts, additions of no time) is left out of others.
    """
    mark = exp.cast(column(index), "DATE") if dated else column(index)
    made = expr.copy() if dated else expr.copy().transform(_of_timestamps)
    return replace(made, lambda _: mark.copy())


def _of_timestamps(node: exp.Expr) -> exp.Expr:
    """A step of a bound, or what it is of where that is a timestamp of the same type."""
    nothing = isinstance(node, exp.Add) and isinstance(node.expression, exp.Interval)
    same = isinstance(node, exp.Cast) and node.to.this != exp.DType.DATE
    if (same and node.this.find(exp.Column)) or (nothing and node.expression.name == "0"):
        return _of_timestamps(node.this.unnest())
    return node


def _least(plan: Plan, exprs: Sequence[exp.Expr], passed: tuple[str, ColumnType]) -> Plan:
    """The plan of the least of some bounds; it has no row or NULL while a watermark is unknown.

    Args:
        plan: of the watermarks.
        exprs: the bounds, each over one of them.
        passed: name and type of the column that the bound passes.
    """
    bounds = tuple([_of_type(expr, passed[1]) for expr in exprs])
    values = Project(plan, bounds, numbered([passed[1]] * len(exprs)))
    if len(exprs) == 1:
        return values
    known = [exp.Not(this=exp.Is(this=column(i), expression=exp.Null())) for i in range(len(exprs))]
    least: exp.Expr = column(0)
    for i in range(1, len(exprs)):
        smaller = exp.If(this=compared(exp.LT, least.copy(), column(i)), true=least)
        least = exp.Case(ifs=[smaller], default=column(i))
    return Project(filtered_by(values, known), (least,), (passed,))


def _of_type(expr: exp.Expr, type: ColumnType) -> exp.Expr:
    """A bound in the type of the column: it has that by itself where no date is made of it."""
    return cast(expr, type) if type.sql == "DATE" or expr.find(exp.Cast) else expr


def _is_date(info: TableInfo, name: str) -> bool:
    at = info.position(name)
    return at is not None and info.schema[at][1].sql == "DATE"


def stored_rows(version: CatalogVersion, view: View) -> Scan:
    """All columns of the table that holds a view."""
    name = ".".join([quote(part) for part in (version.database, *path_of(view.name))])
    return Scan(name, tuple(range(len(view.schema))), view.schema)


def refuse_another_bound(before: View, after: View, offset: int) -> None:
    """Refuses a change after which the rows of a final view would wait for something else.

    Args:
        before: the view as it is.
        after: the same, bound anew.
        offset: of the statement.

    Raises:
        UnsupportedError: its column, or the tables whose watermarks it waits for, are others.
    """
    old, new = before.plan, after.plan
    if not isinstance(old, Emit) or not isinstance(new, Emit):
        return
    told = [(p.tables, p.by, p.inclusive, render(p.bound)) for p in (old, new)]
    if told[0] != told[1]:
        raise UnsupportedError(
            f"the rows of the final view {before.name!r} would wait for another watermark: drop it "
            "first, and make it again",
            offset,
        )


def passed(plan: Emit) -> Plan:
    """The plan of the rows that are passed as the tables are now."""
    count = width(plan.input)
    sign = exp.LTE if plan.inclusive else exp.LT
    condition = compared(sign, column(plan.by), column(count))
    joined = Join(plan.input, plan.bound, "inner", residual=condition)
    return Project(joined, tuple([column(i) for i in range(count)]), plan.schema)


def refilled(plan: Emit, table: str) -> str:
    """The statement that fills a view again: it keeps its rows, and gets those behind the last.

    Args:
        table: that holds the view, in SQL.
    """
    names = ", ".join(f"c{i}" for i in range(width(plan)))
    last = f"(SELECT system.main.max({quote(plan.stored.schema[plan.by][0])}) FROM {table})"
    return (
        f"INSERT INTO {table} SELECT * FROM ({render(passed(plan))}) AS q({names})"
        f" WHERE {last} IS NULL OR c{plan.by} > {last}"
    )


def answer(view: View, plan: Emit) -> str:
    """The query of the rows that are passed as the tables are now, over the user's own text."""
    names = ", ".join([f"c{i}" for i in range(width(plan))])
    sign = "<=" if plan.inclusive else "<"
    return (
        f"SELECT * FROM ({view.query}) AS q({names}) WHERE c{plan.by} {sign} ({render(plan.bound)})"
    )
