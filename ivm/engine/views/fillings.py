"""Fillings: the SQL that fills a view, at first, and again where rows stay that its query lost.

Law: a view that is filled has its query's answer. One whose rows stay (`View.stays`) that is filled
again keeps them, and gets what is lacking: see `final_views` and `arrival_views`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ivm.catalog.version import View
from ivm.engine.views import arrival_views, final_views
from ivm.sql.plan.nodes import Arrived, Emit
from ivm.sql.plan.render import render

Kept: TypeAlias = Callable[[str], str]
"""Gives the statement that puts rows which a view keeps into its new table, named in SQL."""


def answer(view: View) -> str:
    """The SQL whose answer the view must equal: that of its plan, whose orders are complete."""
    match view.plan:
        case Emit():
            return render(final_views.passed(view.plan))
        case Arrived():
            return render(view.plan.present)
        case None:
            return view.query
        case _:
            return render(view.plan)


def filling_again(view: View, table: str) -> str:
    """The statements that fill a view again.

    Args:
        view: with its plan.
        table: that holds it, in SQL.
    """
    match view.plan:
        case Emit():
            return final_views.refilled(view.plan, table)
        case Arrived():
            return arrival_views.refilled(view.plan, table)
        case _:
            return f"DELETE FROM {table}; INSERT INTO {table} {answer(view)}"
