"""DISTINCT aggregates over frames from the first or up to the last row, without DISTINCT.

Law: a frame from the first row of a partition holds a value if and only if it holds the value's
first row, so f(DISTINCT x) over it is f(x) over the first rows of values in it; a frame up to the
last row likewise with last rows. A row is the first of its value if LAG within partition and value
finds none before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.parse.query import verbatim
from ivm.sql.plan.built_in import chief_name
from ivm.sql.plan.expressions import column
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.orders import parts_of

_FLAGGED = frozenset(
    ["count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "bool_and"]
)


@dataclass(frozen=True)
class Marked:
    """The parts of a call with DISTINCT.

    Attributes:
        call: without DISTINCT and FILTER.
        value: its argument.
        condition: of the FILTER.
        neighbour: the function that finds a row of the value before (``lag``) or after (``lead``).
    """

    call: exp.Anonymous
    value: exp.Expr
    condition: exp.Expr | None
    neighbour: str

    def window(self, given: exp.Expr, flag: int) -> exp.Window:
        """The window function that finds the neighbour: NULL at the value's first (last) row.

        Args:
            given: the window of the call.
            flag: a column that is TRUE in all rows.
        """
        parts = [p.copy() for p in given.args.get("partition_by") or []]
        parts += [e.copy() for e in (self.value, self.condition) if e is not None]
        call = exp.Anonymous(this=self.neighbour, expressions=[column(flag)])
        order = given.args.get("order")
        return exp.Window(
            this=call, partition_by=parts, order=None if order is None else order.copy()
        )

    def mark(self, found: int) -> exp.Expr:
        """The mark of a row, by the column of `window`.

        It is FALSE, then TRUE along the rows of a value: all columns break the ties of a window's
        order, and rows that differ by the mark alone must stay in their order.
        """
        nothing = exp.Is(this=column(found), expression=exp.Null())
        return exp.Not(this=nothing) if self.neighbour == "lag" else nothing

    def over(self, given: exp.Expr, mark: int) -> exp.Expr:
        """The window of the call, with a FILTER for the first (last) rows instead of DISTINCT."""
        first = column(mark) if self.neighbour == "lead" else exp.Not(this=column(mark))
        terms = [first] if self.condition is None else [first, self.condition.copy()]
        where = exp.Where(this=exp.and_(*terms))
        made = given.copy()
        made.set("this", exp.Filter(this=self.call.copy(), expression=where))
        return made


def marked(node: exp.Expr, context: Context) -> Marked | None:
    """Reads a window's call with DISTINCT; None if it has none, or the law does not hold for it."""
    neighbour = _neighbour(node.args.get("spec"))
    if neighbour is None:
        return None
    call, condition = verbatim(node.this), None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    if not isinstance(call, exp.Anonymous):
        return None
    name = call.name.lower()
    distinct, arguments, keys = parts_of(call)
    if not distinct or len(arguments) != 1 or keys:
        return None
    if chief_name(name) not in _FLAGGED:
        return None
    plain = exp.Anonymous(this=call.name, expressions=[arguments[0].copy()])
    return Marked(plain, arguments[0], condition, neighbour)


def _neighbour(spec: exp.Expr | None) -> str | None:
    """``lag`` for a frame from the partition's first row, ``lead`` for one up to its last one."""
    if spec is None:
        return "lag"
    exclude = spec.args.get("exclude")
    if exclude is not None and exclude.name.upper() != "NO OTHERS":
        return None
    if spec.args.get("start") == "UNBOUNDED":
        return "lag"
    return "lead" if spec.args.get("end") == "UNBOUNDED" else None
