"""What aggregates give over no row at all.

Law: DuckDB itself is asked, over an empty relation of the same types: COUNT is 0, most are NULL.
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
    inputs,
    types,
)
from ivm.sql.plan.render import call_text
from ivm.sql.resolve.duckdb_types import typed_nulls
from ivm.sql.rewrite.carry_columns import without_groups
from ivm.sql.subqueries.parameters import is_free
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duck import Cursor, rows


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


def refuse_lost_rows(plan: Plan, query: int, cursor: Cursor, *, kept: bool) -> None:
    """Refuse a nested query of which DuckDB loses rows, so that the view gives what DuckDB does.

    DuckDB's fault `lost_empty_groups`: a correlated aggregate without groups that is NULL over no
    rows has a row there, as SQL wants it, only where that is asked for: not below a DISTINCT or a
    set operation, and else if the rows are counted or `kept`. That is no matter to what sees no
    NULLs, directly above it.

    Args:
        query: its number.
        kept: the rows are joined by an inner join, or asked for as by EXISTS; else the query is a
            value, or the right side of a left join.

    Raises:
        NotIncremental: rows may be lost.
    """
    _LostRows(query, cursor).check(plan, _KEPT if kept else _UNSEEN)


_KEPT, _UNSEEN, _LOST = range(3)
"""Whether a row of NULLs is there; or is not, but tells nothing; or is not."""


class _LostRows:
    def __init__(self, query: int, cursor: Cursor) -> None:
        self._query, self._cursor = query, cursor

    def check(self, plan: Plan, state: int, *, read: bool = True) -> None:
        """Refuse the plan if a row that it lacks in a state tells something.

        Args:
            read: its columns are, so a count in it asks for its row.
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
                state = _KEPT if state == _KEPT else _LOST
        read = not isinstance(plan, Project) or any(used(e) for e in plan.exprs)
        for part in inputs(plan):
            self.check(part, state, read=read)

    def _below_aggregate(self, plan: Aggregate | GroupRecompute, state: int, read: bool) -> int:
        if not is_free(plan, self._query):
            return state
        values = empty_values(plan, self._cursor)
        if read and not all(_is_typed_null(value) for value in values):
            return _KEPT
        if state == _LOST:
            raise NotIncremental(
                "a correlated aggregate over no rows, which has no row there in DuckDB"
            )
        return _UNSEEN if _sees_no_nulls(plan) else _LOST


def _sees_no_nulls(plan: Aggregate | GroupRecompute) -> bool:
    """Whether a row of NULLs tells the aggregate nothing."""
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
    """A column of an outer join, with the empty group's value where there is no partner.

    An aggregate that is not NULL over no rows is never NULL.
    """
    if _is_typed_null(value):
        return column(index)
    return exp.Coalesce(this=column(index), expressions=[value.copy()])
