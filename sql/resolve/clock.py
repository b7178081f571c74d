"""The functions that tell the time: in a view they read the clock, a relation that ticks.

Law: in one epoch all calls in a view tell of one instant, the column `now` of the view's row of
`_ivm.clock`, as DuckDB's calls in a transaction tell of its begin. The row's other columns are what
DuckDB makes of that instant in the view time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.plan.built_in import call_name
from ivm.sql.plan.columns import all_expressions
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.storage.identifiers import WORD, fold

CLOCK = "_ivm.clock"
"""The canonical name of the relation, which has a row for each width of ticks."""


class Told(NamedTuple):
    """What a function tells.

    Attributes:
        column: of the clock.
        type: to which its value is cast, as SQL; None if it has the type.
    """

    column: str
    type: str | None = None


_NOW, _LOCAL, _TODAY = Told("now"), Told("local"), Told("today")
TELLERS: Mapping[str, Told] = {
    "now": _NOW,
    "get_current_timestamp": _NOW,
    "transaction_timestamp": _NOW,
    "current_localtimestamp": _LOCAL,
    "today": _TODAY,
    "current_date": _TODAY,
    "current_localtime": Told("local", "TIME"),
    "get_current_time": Told("now", "TIME WITH TIME ZONE"),
}
"""The functions without arguments."""

WORDS: Mapping[str, str] = {
    "current_date": "current_date",
    "current_time": "get_current_time",
    "current_timestamp": "get_current_timestamp",
    "localtime": "current_localtime",
    "localtimestamp": "current_localtimestamp",
}
"""Those that are called without parentheses too, and what DuckDB calls for them. To its parser they
are names, which columns may have."""

AGE = "age"
"""Of one argument: the time since then until the midnight before now."""

_TIME = frozenset((*TELLERS, *WORDS, AGE))


def may_tell_time(text: str) -> bool:
    """Returns whether a word of a text may be one that tells the time."""
    return times_told(text) > 0


def times_told(text: str) -> int:
    """How often a text tells the time at most."""
    return sum([word in _TIME for word in WORD.findall(fold(text))])


DAILY = frozenset(["today", "current_date"])
"""Those whose values change at midnight alone."""

_AGED = {
    "TIMESTAMP": "midnight",  # of UTC, as DuckDB computes it
    "DATE": "midnight",
    "TIMESTAMP WITH TIME ZONE": "local_midnight",
}


def aged_from(type: str) -> Told | None:
    """What age() of a value of this type subtracts the value from; None for other types."""
    column = _AGED.get(type)
    return None if column is None else Told(column)


def is_word(node: exp.Expr) -> bool:
    """Returns whether the node is a name that tells the time if no column has it."""
    return isinstance(node, exp.Column) and not node.table and fold(node.name) in WORDS


def refuse_tellers(plan: Plan) -> None:
    """Refuses a plan in which a call is left that DuckDB would answer with its own time.

    Raises:
        NotIncremental: names it.
    """
    for expr in all_expressions(plan):
        for node in expr.find_all(exp.Func):
            name = call_name(node) if isinstance(node, exp.Expr) else ""
            alone = name == AGE and len(list(node.iter_expressions())) < 2
            if name in TELLERS or name == "ago" or alone:
                raise NotIncremental(f"{name}() in this place")
