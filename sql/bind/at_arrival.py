"""Plans of queries whose rows are made when a row of the first relation arrives.

Law: each row is made of one of that relation, by itself, and shows a key of it; so the rows made of
one are found again when it goes. Where there is no key it shows all columns, and of each row one is
made at most: which of equal rows goes makes no difference. What else the query reads is looked up
in the step in which the row comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ivm.sql.plan.columns import origins
from ivm.sql.plan.nodes import (
    Arrivals,
    Arrived,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    Unnest,
    ViewScan,
    width,
)
from ivm.sql.plan.unique_key import Key, unique_keys
from ivm.sql.plan.walks import inputs, with_inputs
from ivm.sql.rewrite.expand_joins import mirrored, picked
from ivm.sql.statements.own.arrivals import WORDS
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import split_name


def first_relation(plan: Plan) -> Scan | ViewScan:
    """The table or view that stands first in FROM, with all its columns.

    Args:
        plan: of the query as it is bound, before any rule.

    Raises:
        UnsupportedError: it is neither, or its rows are put together.
    """
    while not isinstance(plan, Scan | ViewScan):
        if not isinstance(plan, Project | Filter | Unnest | Join):
            raise UnsupportedError(
                f"{WORDS} makes rows of each row that arrives, by itself; GROUP BY, DISTINCT, "
                "windows, UNION and LIMIT stand in a view above this one"
            )
        plan = inputs(plan)[0]
    return plan


def at_arrival(plan: Plan, first: Scan | ViewScan, stored: Scan) -> Arrived:
    """The plan of rows that are made once.

    Args:
        plan: of the query, after all rules.
        first: the relation whose rows arrive, with all its columns.
        stored: all columns of the view's table.

    Raises:
        UnsupportedError: rows are not made one by one, or show no key of the relation.
    """
    found = [node for node in _relations(plan) if _name(node) == _name(first)]
    if len(found) != 1:
        raise UnsupportedError(
            f"{WORDS}: {_shown_name(first)} is read more than once, perhaps by a subquery that "
            "compares its columns by more than =; what it is joined with is looked up, so a view "
            "of it can stand in the other place"
        )
    (origin,) = found
    shown = _shown(plan, origin)
    made = _made(plan, origin)
    key = _key(origin, shown)
    counted = key is None
    if key is None:
        key = _whole_row(first, origin, shown, made)
    where = {below: i for i, below in sorted(shown.items(), reverse=True)}
    return Arrived(made, origin, key, tuple([where[i] for i in key]), stored, plan, counted)


def _relations(plan: Plan) -> Iterator[Scan | ViewScan]:
    """The tables and views that a query reads itself."""
    if isinstance(plan, Scan | ViewScan):
        yield plan
    else:
        for part in inputs(plan):
            yield from _relations(part)


def _name(relation: Scan | ViewScan) -> str:
    return relation.relation if isinstance(relation, Scan) else relation.name


def _shown_name(relation: Scan | ViewScan) -> str:
    return split_name(_name(relation))[-1]


def _shown(plan: Plan, origin: Plan) -> Mapping[int, int]:
    """The columns of a plan that are one relation's: position → position there."""
    if plan is origin:
        return {i: i for i in range(width(plan))}
    if isinstance(plan, ViewScan):
        return {}
    found = dict[int, int]()
    for part, own in zip(inputs(plan), origins(plan), strict=True):
        below = _shown(part, origin)
        found |= {i: below[j] for i, j in own.items() if j in below}
    return found


def _key(origin: Scan | ViewScan, shown: Mapping[int, int]) -> Key | None:
    """The shortest unique key of a relation among columns that are shown; None if there is none."""
    keys = [key for key in unique_keys(origin) if key and set(key) <= set(shown.values())]
    return min(keys, key=len, default=None)


def _whole_row(
    first: Scan | ViewScan, origin: Scan | ViewScan, shown: Mapping[int, int], made: Plan
) -> Key:
    """All columns of a relation without a key.

    Raises:
        UnsupportedError: it has a key, or a column is not shown, or of a row several may be made.
    """
    keys = [key for key in unique_keys(first) if key]
    names = [name for name, _ in first.schema]
    lacking = [names[i] for i in keys[0]] if keys else _unshown(names, origin, shown)
    why = f"{WORDS}: when a row of {_shown_name(first)} goes, the rows made of it are found by its"
    collated = isinstance(first, Scan) and bool(first.collated)
    lack = "has no PRIMARY KEY" + (" without a collation" if collated else "")
    if keys:
        raise UnsupportedError(f"{why} key: add {', '.join(lacking)} to the view's columns")
    if lacking:
        raise UnsupportedError(
            f"{why} columns, since it {lack}: add {', '.join(lacking)} to the view's"
        )
    if not _makes_one(made):
        raise UnsupportedError(
            f"{why} columns, since it {lack}, and several may be made of one: give it "
            "a key, or join what it is joined with on all of a key"
        )
    return tuple(range(width(origin)))


def _unshown(names: Sequence[str], origin: Scan | ViewScan, shown: Mapping[int, int]) -> list[str]:
    """The columns of a relation that are not read, or not shown."""
    seen = {origin.schema[i][0] for i in shown.values()}
    return [name for name in names if name not in seen]


def _makes_one(made: Plan) -> bool:
    """Returns whether of each row that arrives one is made at most."""
    match made:
        case Arrivals():
            return True
        case Project() | Filter():
            return _makes_one(made.input)
        case Join():
            known = [set(key) <= set(made.right_keys) for key in unique_keys(made.right)]
            return _makes_one(made.left) and (made.kind in ("semi", "anti") or any(known))
        case _:
            return False


def _reads(plan: Plan, origin: Plan) -> bool:
    return any(node is origin for node in _relations(plan))


def _made(plan: Plan, origin: Scan | ViewScan) -> Plan:
    """The plan over the arrivals of a relation, with lookups of all others."""
    match plan:
        case Scan() | ViewScan() if plan is origin:
            return Arrivals(plan)
        case Project() | Filter() | Unnest():
            return with_inputs(plan, lambda part: _made(part, origin))
        case Join() if plan.kind != "full" and _reads(plan.left, origin):
            return replace(plan, left=_made(plan.left, origin), lookup=True)
        case Join(kind="inner"):
            return _exchanged(plan, origin)
        case _:
            raise UnsupportedError(
                f"{WORDS} makes rows of each row that arrives, by itself, and "
                f"{type(plan).__name__} puts rows together: it stands in a view above this one"
            )


def _exchanged(plan: Join, origin: Scan | ViewScan) -> Plan:
    """An inner join whose right rows arrive, with its columns as they were."""
    split, by = width(plan.left), width(plan.right)
    joined = replace(mirrored(plan), left=_made(plan.right, origin), lookup=True)
    return picked(joined, [*range(by, by + split), *range(by)])
