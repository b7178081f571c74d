"""The row of an aggregate without groups over no rows.

Law: its values are DuckDB's own over an empty relation of the same types: COUNT is 0, most are
NULL.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import cast, column, used
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupRecompute,
    NotIncremental,
    Plan,
    Project,
    SetOp,
    TopK,
    Union,
    types,
)
from ivm.sql.plan.render import call_text
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.sql.rewrite.carry_columns import without_groups
from ivm.sql.subqueries.parameters import is_free
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, rows


def empty_values(plan: Aggregate | GroupRecompute, cursor: Cursor) -> list[exp.Expr]:
    """The row of an aggregate without groups over no rows, as constants."""
    calls = (
        [call_text(call) for call in plan.aggregates]
        if isinstance(plan, Aggregate)
        else [duck_text(e) for e in plan.exprs]
    )
    listed = ", ".join(f"CAST({call} AS VARCHAR)" for call in calls)
    given = typed_nulls(types(plan.input))
    found = rows(cursor, f"SELECT {listed} FROM ({given}) AS t WHERE FALSE")
    return [_constant(value, type) for value, type in zip(found[0], types(plan), strict=True)]


def refuse_lost_rows(plan: Plan, query: int, cursor: Cursor, *, as_rows: bool) -> None:
    """Refuses a nested query of which DuckDB loses rows, so that the view equals DuckDB's answer.

    DuckDB's fault `lost_empty_groups`: a correlated aggregate without groups that is NULL over no
    rows has its row there, as SQL demands, only if the rows are counted or read `as_rows`, and
    never below a DISTINCT or a set operation. An aggregate directly above that ignores NULLs is
    right all the same.

    Args:
        query: its number.
        as_rows: the rows are joined by an inner join, or tested for as by EXISTS; else the query is
            a value, or the right side of a left join.

    Raises:
        NotIncremental: rows may be lost.
    """
    _LostRows(query, cursor).check(plan, _PRESENT if as_rows else _UNNOTICED)


_PRESENT, _UNNOTICED, _LOST = range(3)
"""DuckDB has the row of NULLs; or lacks it, which makes no difference; or lacks it."""


class _LostRows:
    def __init__(self, query: int, cursor: Cursor) -> None:
        self._query, self._cursor = query, cursor

    def check(self, plan: Plan, state: int, *, read: bool = True) -> None:
        """Refuses the plan if it lacks a row that makes a difference.

        Args:
            state: of a row of NULLs from the plan.
            read: its columns are read, so DuckDB keeps the row of an aggregate that has a count.
        """
        match plan:
            case Aggregate() | GroupRecompute() if without_groups(plan):
                state = self._below_aggregate(plan, state, read)
            case Distinct() | Union() | SetOp() | GroupRecompute():
                state = _LOST
            case TopK() if plan.partition:
                state = _LOST
            case Project() | Filter() | TopK():
                pass
            case _:
                state = _PRESENT if state == _PRESENT else _LOST
        read = not isinstance(plan, Project) or any(used(e) for e in plan.exprs)
        for part in inputs(plan):
            self.check(part, state, read=read)

    def _below_aggregate(self, plan: Aggregate | GroupRecompute, state: int, read: bool) -> int:
        if not is_free(plan, self._query):
            return state
        values = empty_values(plan, self._cursor)
        if read and not all(_is_typed_null(value) for value in values):
            return _PRESENT
        if state == _LOST:
            raise NotIncremental(
                "a correlated aggregate over no rows, which has no row there in DuckDB"
            )
        return _UNNOTICED if _sees_no_nulls(plan) else _LOST


def _sees_no_nulls(plan: Aggregate | GroupRecompute) -> bool:
    """Returns whether a row of NULLs makes no difference to the aggregate."""
    if isinstance(plan, GroupRecompute):
        return False
    read = [i for call in plan.aggregates for i in call.arguments]
    below = plan.input
    if isinstance(below, Project) and not all(used(below.exprs[i]) for i in read):
        return False
    return all(call.function != "list" for call in plan.aggregates)


def _is_typed_null(value: exp.Expr) -> bool:
    return isinstance(value, exp.Cast) and isinstance(value.this, exp.Null)


def _constant(value: str | None, type: ColumnType) -> exp.Expr:
    if value is None:
        return cast(exp.Null(), type)
    if not (type.is_integer or type.is_float or type.is_decimal):
        raise NotIncremental(f"an aggregate that gives {value} for no rows, in a subquery")
    return cast(exp.Literal.string(value), type)


def filled(index: int, value: exp.Expr) -> exp.Expr:
    """A column of an outer join, with the value over no rows where there is no partner.

    It may be filled by coalesce(): an aggregate that is not NULL over no rows is never NULL.
    """
    if _is_typed_null(value):
        return column(index)
    return exp.Coalesce(this=column(index), expressions=[value.copy()])
