"""Runs one statement of a suite and says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.dialect import NotTranslatedError, translate
from tests.conformance.outcome import Outcome
from tests.conformance.pair import NotDuckDBError, Pair, Rows, WrongError

Expected = Callable[[Rows], bool]


@dataclass(frozen=True)
class Step:
    """One statement of a suite.

    Attributes:
        place: where it stands.
        sql: its text.
        dialect: sqlglot's name of the SQL it is written in.
        fails: it is expected to fail in the database it was written for.
        expected: whether these are the rows expected of it; None for a statement.
    """

    place: str
    sql: str
    dialect: str
    fails: bool = False
    expected: Expected | None = None


def judge(pair: Pair, suite: str, step: Step) -> Outcome | None:
    """Run a statement in both databases; None if it has no meaning here."""
    try:
        statement = translate(step.sql, step.dialect)
        if statement is None:
            return None
        rows = pair.answer(statement)
    except (NotTranslatedError, NotDuckDBError) as reason:
        if isinstance(reason, NotTranslatedError):
            pair.lose(reason.made, str(reason))
        return Outcome(suite, step.place, "pass" if step.fails else "foreign", "", str(reason))
    except WrongError as reason:
        verdict = "pass" if step.fails else "fail"
        return Outcome(suite, step.place, verdict, "", f"{reason} IN {step.sql}")
    strategy = ""
    if statement.view:
        views = {view.name: view.strategy for view in pair.db.views()}
        strategy = views[statement.made.lower()]
        if step.fails:
            pair.undo(statement)
    right = step.expected is None or step.expected(rows)
    return Outcome(suite, step.place, "pass" if right else "as DuckDB", strategy)
