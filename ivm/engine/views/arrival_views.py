"""Views at arrival: rows that are made when a row of the first relation comes, as CREATE
MATERIALIZED VIEW … JOIN … AS OF ARRIVAL asks for them.

Law: what is joined to a row is joined once, as it is at the end of the epoch in which the row
comes; so who brings both in one transaction finds both. The rows made of one that goes go with it.
A view that is made over old rows has what they find now. One that is filled again keeps what was
made of the rows that are still there, and looks up the others.
"""

from __future__ import annotations

from ivm.sql.bind.at_arrival import at_arrival, first_relation
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import Arrived, Join, Plan, Project, Scan, width
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import with_inputs
from ivm.sql.rewrite.rewrite import rewrite


def arrived(bound: Plan, stored: Scan) -> Arrived:
    """The plan of a view at arrival.

    Args:
        bound: the plan of its query, as it is bound.
        stored: all columns of the view's table.

    Raises:
        UnsupportedError: its rows are not made one by one of those of the first relation.
    """
    return at_arrival(rewrite(bound), first_relation(bound), stored)


def refilled(plan: Arrived, table: str) -> str:
    """The statements that fill a view again; what is kept is not computed again.

    Args:
        table: that holds the view, in SQL.
    """
    names = ", ".join([f"c{i}" for i in range(width(plan))])
    gone = f"SELECT v.rowid FROM {table} AS v({names}) WHERE NOT EXISTS ({_of_origin(plan)})"
    return (
        f"DELETE FROM {table} WHERE rowid IN ({gone}); INSERT INTO {table} {render(_lacking(plan))}"
    )


def _lacking(plan: Arrived) -> Plan:
    """The plan of what is made now of the rows of which nothing has been made."""
    columns = tuple([column(i) for i in plan.key])
    known = Project(plan.stored, columns, tuple([plan.stored.schema[i] for i in plan.key]))
    keys = plan.origin_key, tuple(range(len(columns))), (True,) * len(columns)
    return _replaced(plan.present, plan.origin, Join(plan.origin, known, "anti", *keys))


def _replaced(plan: Plan, old: Plan, new: Plan) -> Plan:
    return new if plan is old else with_inputs(plan, lambda part: _replaced(part, old, new))


def orphans(plan: Arrived, table: str) -> str:
    """The query that counts the rows whose row of the first relation is not there.

    Args:
        table: that holds the view, in SQL.
    """
    names = ", ".join([f"c{i}" for i in range(width(plan))])
    return (
        f"SELECT system.main.count(*) FROM (FROM {table}) AS v({names})"
        f" WHERE NOT EXISTS ({_of_origin(plan)})"
    )


def _of_origin(plan: Arrived) -> str:
    """The query of the row that a row v is made of."""
    names = ", ".join([f"o{i}" for i in range(width(plan.origin))])
    pairs = zip(plan.origin_key, plan.key, strict=True)
    same = " AND ".join([f"o.o{a} IS NOT DISTINCT FROM v.c{b}" for a, b in pairs])
    return f"FROM ({render(plan.origin)}) AS o({names}) WHERE {same}"
