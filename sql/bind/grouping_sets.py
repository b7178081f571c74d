"""GROUP BY with GROUPING SETS, ROLLUP and CUBE as a list of grouping sets.

Law: ROLLUP (a, b) is (a, b), (a), (); CUBE is all subsets. The items of GROUP BY multiply: each set
of one is united with each set of the others; the items of GROUPING SETS add up. A set named twice
counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product

from sqlglot import exp

from ivm.sql.plan.expressions import structure, used
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.subqueries.parameters import reads_query

_SETS = (exp.Cube, exp.Rollup, exp.GroupingSets)
_MOST = 4096

GroupingSet = tuple[int, ...]
BindKey = Callable[[exp.Expr], exp.Expr]


def grouping_sets(
    items: Sequence[exp.Expr], bind: BindKey
) -> tuple[list[exp.Expr], list[GroupingSet] | None]:
    """The grouped expressions, each once, and the sets as positions among them.

    Args:
        items: of the GROUP BY clause.
        bind: binds one expression of it.

    Returns:
        The expressions, and the sets; None for sets if the only one is of all expressions.

    Raises:
        NotIncremental: too many sets, or a constant group with the value of another query.
    """
    if not any(isinstance(item, (*_SETS, exp.Tuple)) for item in items):
        return [bind(item) for item in items], None
    reader = _Reader(bind)
    sets = _multiplied([reader.sets(item) for item in items])
    if any(not used(group) and reads_query(group) for group in reader.groups):
        raise NotIncremental("a value of another query in GROUPING SETS, ROLLUP or CUBE")
    return reader.groups, sets


class _Reader:
    def __init__(self, bind: BindKey) -> None:
        self.groups: list[exp.Expr] = []
        self._bind = bind
        self._known: dict[object, int] = {}

    def sets(self, item: exp.Expr) -> list[GroupingSet]:
        """The sets of one item."""
        if isinstance(item, exp.GroupingSets):
            return [s for part in item.expressions for s in self.sets(part)]
        if isinstance(item, exp.Rollup):
            units = [self._unit(e) for e in item.expressions]
            return [_union(units[:n]) for n in range(len(units), -1, -1)]
        if isinstance(item, exp.Cube):
            units = [self._unit(e) for e in item.expressions]
            sizes = range(len(units), -1, -1)
            return [_union(some) for n in sizes for some in combinations(units, n)]
        return [self._unit(item)]

    def _unit(self, item: exp.Expr) -> GroupingSet:
        """The set of one expression, or of several in parentheses."""
        parts = item.expressions if isinstance(item, exp.Tuple) else [item.unnest()]
        return _union([(self._position_of(part),) for part in parts])

    def _position_of(self, item: exp.Expr) -> int:
        assert isinstance(item, exp.Expr)
        bound = self._bind(item)
        key = structure(bound)
        if key not in self._known:
            self._known[key] = len(self.groups)
            self.groups.append(bound)
        return self._known[key]


def _union(sets: Iterable[GroupingSet]) -> GroupingSet:
    return tuple(sorted({i for s in sets for i in s}))


def _multiplied(items: Sequence[list[GroupingSet]]) -> list[GroupingSet]:
    count = 1
    for sets in items:
        count *= len(sets)
    if count > _MOST:
        raise NotIncremental(f"{count} grouping sets")
    return [_union(some) for some in product(*items)]
