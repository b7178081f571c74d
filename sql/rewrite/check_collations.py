"""Columns with a collation: which of them a plan hands on, and that it does nothing else with them.

Law: operators compare texts byte by byte, so a text that DuckDB would compare by a collation may go
through a plan, but no operator and no expression may look at it. A view's own columns have none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ivm.sql.plan.expressions import position, used
from ivm.sql.plan.nodes import (
    Aggregate,
    DynamicLimit,
    Filter,
    Join,
    NotIncremental,
    Plan,
    Project,
    Scan,
    TopK,
    Union,
    Unnest,
    ViewScan,
    Window,
    inputs,
    width,
)
from ivm.sql.statements.tokens import depths, tokens, unquoted
from ivm.storage.identifiers import fold

Places = frozenset[int]
_NONE: Places = frozenset()


def refuse_collations(plan: Plan) -> Plan:
    """The plan, if no collation can tell in it.

    Raises:
        NotIncremental: it looks at a column with a collation.
    """
    _collated(plan)
    return plan


def collated_names(table: str) -> set[str]:
    """Names, in lower case, of a table's columns with a collation (or computed beside one).

    Args:
        table: its CREATE TABLE, as DuckDB writes it.
    """
    words = tokens(table)
    inside = [i for i, depth in enumerate(depths(words)) if depth == 1]
    begins = [i + 1 for i in inside if words[i].word in ("(", ",")]
    entries = [words[a:b] for a, b in zip(begins, [*begins[1:], len(words)], strict=True)]
    some = any("COLLATE" in [t.word for t in entry] for entry in entries)
    marks = {"COLLATE", "GENERATED"} if some else set()
    named = [entry for entry in entries if marks & {token.word for token in entry}]
    return {fold(unquoted(entry[0])) for entry in named}


def _collated(plan: Plan) -> Places:
    """The output columns that have a collation."""
    match plan:
        case Scan():
            return frozenset(plan.collated)
        case ViewScan():
            return _NONE
        case Project():
            return _projected(plan)
        case Join():
            return _joined(plan)
        case Union() if not plan.negated:
            return _NONE.union(*[_collated(part) for part in plan.inputs])
        case Filter():
            return _beside(_collated(plan.input), used(plan.predicate))
        case TopK():
            return _beside(_collated(plan.input), [*plan.partition, *_keys(plan)])
        case DynamicLimit():
            _collated(plan.places)
            return _beside(_collated(plan.input), _keys(plan))
        case Window():
            reads = {i for call in plan.calls for e in call.expressions() for i in used(e)}
            return _beside(_collated(plan.input), [*reads, *plan.partition, *_keys(plan)])
        case Unnest():
            given = _beside(_collated(plan.input), plan.lists)
            return frozenset(i for i, place in enumerate(plan.kept) if place in given)
        case Aggregate():
            _beside(_collated(plan.input), _read(plan))
            return _NONE
        case _:
            for part in inputs(plan):
                _beside(_collated(part), range(width(part)))
            return _NONE


def _beside(given: Places, reads: Iterable[int]) -> Places:
    """The columns with a collation, none of which is read."""
    if not given.isdisjoint(reads):
        raise NotIncremental("what is done with a column that has a collation")
    return given


def _projected(plan: Project) -> Places:
    given = _collated(plan.input)
    for expr in plan.exprs:
        if position(expr) is None:
            _beside(given, used(expr))
    return frozenset(i for i, expr in enumerate(plan.exprs) if position(expr) in given)


def _joined(plan: Join) -> Places:
    split = width(plan.left)
    left = _beside(_collated(plan.left), plan.left_keys)
    right = _beside(_collated(plan.right), plan.right_keys)
    both = left | {split + i for i in right}
    _beside(both, [] if plan.residual is None else used(plan.residual))
    return left if plan.kind in ("semi", "anti") else both


def _keys(plan: TopK | DynamicLimit | Window) -> list[int]:
    return [key.column for key in plan.order]


def _read(plan: Aggregate) -> set[int]:
    reads = set(plan.groups)
    for call in plan.aggregates:
        reads |= {*call.arguments, *[key.column for key in call.order]}
        reads |= set() if call.filter is None else {call.filter}
    return reads
