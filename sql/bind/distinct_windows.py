"""DISTINCT aggregates over frames that reach to an end of the partition, without DISTINCT.

Law: a frame from the first row of a partition holds a value if and only if it holds the value's
first row, so f(DISTINCT x) over it is f(x) over those of its rows that are their value's first; a
frame up to the last row likewise with last rows. A row is its value's first where LAG within
partition and value finds none.
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
    """A call with DISTINCT, taken apart.

    Attributes:
        call: without DISTINCT and FILTER.
        value: what is distinct.
        condition: of the FILTER.
        neighbour: finds another row of the value before (``lag``) or behind (``lead``).
    """

    call: exp.Anonymous
    value: exp.Expr
    condition: exp.Expr | None
    neighbour: str

    def window(self, given: exp.Expr, flag: int) -> exp.Window:
        """Whether there is such a row: NULL for the value's first (last) one."""
        parts = [p.copy() for p in given.args.get("partition_by") or []]
        parts += [e.copy() for e in (self.value, self.condition) if e is not None]
        call = exp.Anonymous(this=self.neighbour, expressions=[column(flag)])
        order = given.args.get("order")
        return exp.Window(
            this=call, partition_by=parts, order=None if order is None else order.copy()
        )

    def mark(self, found: int) -> exp.Expr:
        """What tells the chosen row. Equal rows are put in order by it, so it never falls there."""
        nothing = exp.Is(this=column(found), expression=exp.Null())
        return exp.Not(this=nothing) if self.neighbour == "lag" else nothing

    def over(self, given: exp.Expr, mark: int) -> exp.Expr:
        """The call over the marked rows."""
        first = column(mark) if self.neighbour == "lead" else exp.Not(this=column(mark))
        terms = [first] if self.condition is None else [first, self.condition.copy()]
        where = exp.Where(this=exp.and_(*terms))
        whole = given.copy()
        whole.set("this", exp.Filter(this=self.call.copy(), expression=where))
        return whole


def marked(node: exp.Expr, context: Context) -> Marked | None:
    """The call of a window, if DISTINCT can be taken out of it."""
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
    """Where a frame reaches to the end of the partition: whom to ask whether a value is new."""
    if spec is None:
        return "lag"
    exclude = spec.args.get("exclude")
    if exclude is not None and exclude.name.upper() != "NO OTHERS":
        return None
    if spec.args.get("start") == "UNBOUNDED":
        return "lag"
    return "lead" if spec.args.get("end") == "UNBOUNDED" else None
