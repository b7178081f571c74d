"""Parameters of a query: bound as constants of their types, and computed with as columns.

Law: the plan of the text with parameters = the plan with a constant for each, where that constant
is replaced. The constants are marks, values that are found again in the plan and stand nowhere in
the text. DuckDB gives a parameter the type of its Python value (the tests compare the two). A
literal that was lifted (see `literals`) is marked by a bare literal, whose place in the plan says
what type it has there (see `lifted_types`).
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ivm.reads.lifted_types import BOUNDS, type_in_place
from ivm.reads.verdicts import LiftedError
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import Filter, Plan, Project, Scan, types
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import inputs, nodes, with_inputs
from ivm.sql.statements.text.placeholders import filled, placeholders
from ivm.storage.identifiers import is_text, literal
from ivm.storage.values.column import Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import ColumnType, Schema, type_of

Values: TypeAlias = Mapping[str, Any]
"""The parameters' values by name; those without a name are called 1, 2, …"""

_MOST = 100
_DAY = datetime.date(1987, 1, 2)
_MARKS: dict[str, Callable[[int], str]] = {
    "INTEGER": lambda i: f"{1_987_650_000 + i}",
    "BIGINT": lambda i: f"{7_987_650_000_000_000_000 + i}",
    "DOUBLE": lambda i: f"{1_987_650_000 + i}.25",
    "VARCHAR": lambda i: f"ivm parameter {i}.",
    "DATE": lambda i: f"{_DAY + datetime.timedelta(i)}",
    "TIMESTAMP": lambda i: f"1987-01-02 03:04:05.000{i:03d}",
    "UUID": lambda i: f"8ceadae7-9c71-4d89-b5e1-00bd5b811d{i:02d}",
}
_NUMBERS = frozenset(("INTEGER", "BIGINT", "DOUBLE"))
_PLAIN: dict[type, str] = {
    float: "DOUBLE",
    datetime.date: "DATE",
    uuid.UUID: "UUID",
}


def named(params: object) -> Values | None:
    """The parameters by name; None for a collection that is left to DuckDB."""
    if isinstance(params, list | tuple):
        return {str(i): value for i, value in enumerate(params, 1)}
    if not isinstance(params, dict) or not all(isinstance(name, str) for name in params):
        return None
    found = {name.lower(): value for name, value in params.items()}
    return found if len(found) == len(params) else None


def duckdb_type(value: Any) -> str | None:
    """The type that DuckDB gives a parameter; None for values that are left to it."""
    kind = type(value)
    if kind is int:
        if -(1 << 31) <= value < 1 << 31:
            return "INTEGER"
        return "BIGINT" if -(1 << 63) <= value < 1 << 63 else None
    if kind is str:
        return "VARCHAR" if is_text(value) and "\0" not in value else None
    if kind is datetime.datetime:
        return "TIMESTAMP" if value.tzinfo is None else None
    return _PLAIN.get(kind)


def _column(value: Any, type: ColumnType) -> Column:
    if isinstance(value, str) and type.is_date_or_timestamp:
        value = datetime.datetime.fromisoformat(value)
        value = value.date() if type.sql == "DATE" else value
    if type.sql in _NUMBERS:
        return FixedColumn(np.array([value], type.dtype))
    return column_from_arrow(pa.array([value], type.arrow), type)


class Parameters:
    """The parameters of a text, and their types.

    Args:
        text: the query.
        types: DuckDB's types of its parameters by name.
        literals: the names of those that are literals which were lifted.

    Attributes:
        schema: a column for each, in order.
    """

    def __init__(self, text: str, types: Mapping[str, str], literals: Collection[str] = ()) -> None:
        self._types = dict(types)
        self._text = text
        self.schema: Schema = tuple([(name, type_of(type)) for name, type in types.items()])
        self._literals = frozenset(literals)
        self._marks = {name: self._marked(name, i) for i, name in enumerate(self._types)}
        self._literal_marks = {self._marks[name]: name for name in self._literals}
        self._learnt: dict[str, str] = {}  # the types of literals in their places
        self._found: dict[str, int] = {}

    def _marked(self, name: str, number: int) -> str:
        type = self._types[name]
        if name in self._literals and type == "BIGINT":
            type = "INTEGER"  # as DuckDB takes most literals
        return _MARKS[type](number)

    @property
    def lifted(self) -> bool:
        """Whether some are literals."""
        return bool(self._literals)

    @property
    def fit(self) -> bool:
        """Whether there is one value for each, and no mark stands in the text."""
        wanted = {name for name, _, _ in placeholders(self._text)}
        free = not any(mark in self._text for mark in self._marks.values())
        return wanted == self._types.keys() and len(wanted) < _MOST and free

    def marked(self) -> str:
        """The text with marks for parameters."""
        return filled(self._text, self._mark)

    def _mark(self, name: str) -> str:
        type, mark = self._types[name], self._marks[name]
        if name in self._literals:
            return mark if type in _NUMBERS else literal(mark)
        return f"CAST({mark if type in _NUMBERS else literal(mark)} AS {type})"

    def marks_in(self, name: str) -> bool:
        """Returns whether a mark stands in a column's name."""
        return any(mark in name for mark in self._marks.values())

    def fits(self, values: Values) -> bool:
        """Returns whether the literals are values of the types that they have in their places."""
        bounds = [(name, BOUNDS[type]) for name, type in self._learnt.items() if type in BOUNDS]
        return all(abs(values[name]) <= bound for name, bound in bounds)

    def columns(self, values: Values) -> tuple[Column, ...]:
        """The values as columns of one row."""
        return tuple([_column(values[name], type) for name, type in self.schema])

    # -- in plans -------------------------------------------------------------------------------

    def without_names(self, plan: Plan) -> Plan:
        """The plan where columns that DuckDB names after a parameter have names that none can say.

        For those who take the columns by their positions.
        """
        plan = with_inputs(plan, self.without_names)
        if not isinstance(plan, Project):
            return plan
        named = enumerate(plan.schema)
        schema = [(f"\0{i}" if self.marks_in(name) else name, type) for i, (name, type) in named]
        return replace(plan, schema=tuple(schema))

    def marks_read(self, expr: exp.Expr) -> frozenset[str]:
        """The marks that stand in an expression."""
        found = {node.name for node in _literals(expr)}
        return frozenset(found.intersection(self._marks.values()))

    def computed(self, expr: exp.Expr, *, literals: bool) -> exp.Expr:
        """An expression that reads nothing but parameters, with the columns of `schema` for them.

        Args:
            literals: it may read lifted literals, since their type does not matter.

        Raises:
            LiftedError: it reads one all the same.
        """
        if not literals and not self.marks_read(expr).isdisjoint(self._literal_marks):
            raise LiftedError
        self._found = dict.fromkeys(self._marks.values(), 0)
        return self._replaced(expr, 0)

    def widened(self, plan: Plan, computed: Collection[str]) -> Plan:
        """The plan with the parameters as further columns of the scans where they are read.

        Args:
            plan: the query's.
            computed: the marks that are read elsewhere.

        Returns:
            A plan with the same columns, over scans that have the parameters as last columns.

        Raises:
            LookupError: a parameter is read elsewhere than in filters and projections of a scan.
        """
        written = render(plan)
        self._found = dict.fromkeys(self._marks.values(), 0)
        for node in nodes(plan):
            if isinstance(node, Filter | Project):
                for expr in _exprs(node):
                    self._learn_types(expr, types(node.input))
        own = {**self._types, **self._learnt}
        self.schema = tuple([(name, type_of(type)) for name, type in own.items()])
        wide = self._widened(plan)
        counts = [(m, n, written.count(m)) for m, n in self._found.items()]
        if any(n != there or not (n or m in computed) for m, n, there in counts):
            raise LookupError("a parameter outside of WHERE and the select list")
        scans = [(s.relation, s.columns) for s in nodes(wide) if isinstance(s, Scan)]
        if len(set(scans)) < len(scans):
            raise LookupError("a parameter in a query that reads a view twice")
        return wide

    def _widened(self, plan: Plan) -> Plan:
        below, reads = plan, False
        while isinstance(below, Filter | Project):
            reads |= self._reads(below)
            below = below.input
        if not reads:
            return with_inputs(plan, self._widened)
        if not isinstance(below, Scan):
            raise LookupError("a parameter above a join or an aggregate")
        exprs = tuple([column(i) for i in range(len(plan.schema))])
        return Project(self._wide(plan), exprs, plan.schema)

    def _wide(self, plan: Plan) -> Plan:
        """A scan, filter or projection with the parameters' columns behind its own."""
        if isinstance(plan, Scan):
            return replace(plan, schema=plan.schema + self.schema)
        (below,) = inputs(plan)
        first, wide = len(below.schema), self._wide(below)
        if isinstance(plan, Filter):
            return Filter(wide, self._replaced(plan.predicate, first))
        assert isinstance(plan, Project)
        exprs = [self._replaced(e, first) for e in plan.exprs]
        exprs += [column(first + i) for i in range(len(self._types))]
        return Project(wide, tuple(exprs), plan.schema + self.schema)

    def _reads(self, plan: Filter | Project) -> bool:
        return any(self.marks_read(e) for e in _exprs(plan))

    def _learn_types(self, expr: exp.Expr, types: Sequence[ColumnType]) -> None:
        """Gives each lifted literal the type that it has in its place.

        Raises:
            LiftedError: its own type, or its value, may matter there.
        """
        for node in _literals(expr):
            name = self._literal_marks.get(node.name)
            if name is None:
                continue
            type = type_in_place(node, self._types[name], types)
            if type is None or self._learnt.setdefault(name, type) != type:
                raise LiftedError

    def _replaced(self, expr: exp.Expr, first: int) -> exp.Expr:
        """A copy of the expression with columns for the marks."""
        positions = {mark: first + i for i, mark in enumerate(self._found)}

        def swap(node: exp.Expr) -> exp.Expr:
            inner = node.this if isinstance(node, exp.Cast) else node
            if not isinstance(inner, exp.Literal) or inner.name not in positions:
                return node
            self._found[inner.name] += 1
            return column(positions[inner.name])

        return expr.copy().transform(swap, copy=False)


def _literals(expr: exp.Expr) -> Iterator[exp.Literal]:
    return (node for node in expr.find_all(exp.Literal) if isinstance(node, exp.Literal))


def _exprs(plan: Filter | Project) -> Sequence[exp.Expr]:
    return (plan.predicate,) if isinstance(plan, Filter) else plan.exprs
