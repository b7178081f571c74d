"""How a query can find the rows of each relation that it reads.

Law: the query has the same answer where a relation has no rows but those that one of these ways
finds. The others are dropped by a filter right above the relation, or by a join: they have no
partner in it, and rows without a partner do not stay in its result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from sqlglot import exp

from ivm.sql.plan import walks
from ivm.sql.plan.expressions import conjuncts, position
from ivm.sql.plan.nodes import Aggregate, Filter, Join, Plan, Project, Scan, types, width
from ivm.sql.scalar.lookup import Listed, Lookup, Range, is_narrow, range_of
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty, ones

Table: TypeAlias = tuple[str, tuple[int, ...]]
"""A relation and the columns of it that are scanned."""


class Origin(NamedTuple):
    """Where the values of a plan's column come from, apart from NULLs.

    Attributes:
        table: that has them.
        column: the position in the scan.
        type: of that.
    """

    table: Table
    column: int
    type: ColumnType


@dataclass
class Access:
    """How a query can find the rows of one table, by the positions of the table's columns.

    Attributes:
        lookups: columns that equal a constant or a parameter.
        ranges: columns with bounds.
        links: columns that equal those of other tables.
    """

    lookups: dict[int, Lookup] = field(default_factory=dict)
    ranges: dict[int, Range] = field(default_factory=dict)
    links: dict[int, list[Origin]] = field(default_factory=dict)

    def link(self, column: int, origin: Origin) -> None:
        """Learns what a column equals."""
        self.links.setdefault(column, []).append(origin)

    def by(self, column: int, table: Table | None) -> Lookup | Origin | None:
        """What a column equals: a constant, a parameter or a column of the table."""
        linked = [origin for origin in self.links.get(column, ()) if origin.table == table]
        return self.lookups.get(column) or next(iter(linked), None)


class Accesses:
    """The ways to the tables of a plan.

    Args:
        plan: of the query; the parameters are the last columns of its scans.

    Attributes:
        by_table: those to each; none to one that is read twice.
        lists: the values that a column is IN, each list as a table of one column.
    """

    def __init__(self, plan: Plan) -> None:
        self.by_table: dict[Table, Access] = {}
        self.lists: dict[Table, Listed] = {}
        self._seen: set[int] = set()
        self._scanned: set[Table] = set()
        twice: set[Table] = set()
        for node, terms in self._nodes(plan, twice):
            if isinstance(node, Scan):
                self._learn_terms(node, terms)
            elif isinstance(node, Join) and node.kind != "full":
                self._learn_links(node)
        self.by_table.update({table: Access() for table in twice})

    def listed(self, given: Sequence[Column]) -> dict[Table, ZSet]:
        """The rows of `lists`.

        Args:
            given: the parameters' columns of one row.
        """
        return {table: _rows(members, given) for table, members in self.lists.items()}

    def _nodes(
        self, plan: Plan, twice: set[Table], terms: Sequence[exp.Expr] = ()
    ) -> Iterator[tuple[Plan, Sequence[exp.Expr]]]:
        """The nodes of a plan, each with the terms of the filters right above it.

        Args:
            twice: takes the tables that are read more than once.
        """
        if id(plan) in self._seen:
            twice.update(table_of(node) for node in walks.nodes(plan) if isinstance(node, Scan))
            return
        self._seen.add(id(plan))
        if isinstance(plan, Scan) and table_of(plan) in self._scanned:
            twice.add(table_of(plan))
        yield plan, terms
        below = [*terms, *conjuncts(plan.predicate)] if isinstance(plan, Filter) else []
        for each in walks.inputs(plan):
            yield from self._nodes(each, twice, below)

    def _learn_terms(self, scan: Scan, terms: Sequence[exp.Expr]) -> None:
        self._scanned.add(table_of(scan))
        access = self._access(table_of(scan))
        given = types(scan), len(scan.columns)
        for term in terms:
            lookup, found = Lookup.of(term, *given), range_of(term, *given)
            members = Listed.of(term, *given)
            if lookup is not None:
                access.lookups.setdefault(scan.columns[lookup.column], lookup)
            if members is not None:
                table = f"\0in {len(self.lists)}", (0,)  # no relation has such a name
                self.lists[table] = members
                access.link(scan.columns[members.column], Origin(table, 0, members.type))
            if found is not None:
                column, range = scan.columns[found[0]], found[1]
                access.ranges[column] = access.ranges.get(column, Range()).with_term(range)

    def _learn_links(self, join: Join) -> None:
        """Learns which of two tables can be found by the other: one that stays only in pairs."""
        keys = zip(join.left_keys, join.right_keys, join.null_safe, strict=True)
        for left_key, right_key, null_safe in keys:
            left, right = _origin(join.left, left_key), _origin(join.right, right_key)
            if null_safe or left is None or right is None:
                continue
            self._link(right, left)
            if join.kind in ("inner", "semi"):
                self._link(left, right)

    def _link(self, found: Origin, by: Origin) -> None:
        fits = found.type == by.type or (is_narrow(found.type) and is_narrow(by.type))
        if fits and found.table != by.table:
            self._access(found.table).link(found.table[1][found.column], by)

    def _access(self, table: Table) -> Access:
        return self.by_table.setdefault(table, Access())


def _rows(members: Listed, given: Sequence[Column]) -> ZSet:
    values = members.values(given)
    return empty([members.type]) if values is None else ZSet((values,), ones(len(values)))


def table_of(scan: Scan) -> Table:
    """What a scan reads."""
    return scan.relation, scan.columns


def told_apart(plan: Plan) -> Plan:
    """The plan where no two scans are of the same name and columns: each may need other rows."""
    known: dict[int, Plan] = {}
    scanned = Counter[Table]()

    def look(part: Plan) -> Plan:
        if id(part) in known:
            return known[id(part)]
        image = walks.with_inputs(part, look)
        if isinstance(part, Scan):
            number = scanned[table_of(part)]
            scanned[table_of(part)] += 1
            image = replace(part, relation=f"{part.relation}\0{number}") if number else part
        known[id(part)] = image
        return image

    return look(plan)


def relation_of(scan: Scan) -> str:
    """The relation that a scan reads in a plan of `told_apart`."""
    return scan.relation.partition("\0")[0]


def _origin(plan: Plan, column: int) -> Origin | None:
    """Where a column's values come from; without a row there, all rows with its value are gone.

    Those nodes are passed that make each of their rows of rows with this value.
    """
    match plan:
        case Scan() if column < len(plan.columns):
            return Origin(table_of(plan), column, plan.schema[column][1])
        case Filter():
            return _origin(plan.input, column)
        case Project():
            at = _uncast(plan.exprs[column], types(plan.input), plan.schema[column][1])
            return None if at is None else _origin(plan.input, at)
        case Aggregate() if column < len(plan.groups):
            return _origin(plan.input, plan.groups[column])
        case Join():
            first = width(plan.left)
            inner = plan.left if column < first else plan.right
            return _origin(inner, column if column < first else column - first)
    return None


def _uncast(expr: exp.Expr, given: Sequence[ColumnType], type: ColumnType) -> int | None:
    """The position of a column, or of one cast from an integer type to one of at least its values.

    Args:
        given: the types of the columns.
        type: that of the expression.
    """
    inner = expr.this if isinstance(expr, exp.Cast) else expr
    at = position(inner)
    return at if at is None or inner is expr or _holds(type, given[at]) else None


def _holds(type: ColumnType, other: ColumnType) -> bool:
    """Returns whether both are types of integers, and all values of the other are of the first."""
    both = is_narrow(type) and is_narrow(other)
    return both and np.can_cast(str(other.dtype), str(type.dtype), "safe")
