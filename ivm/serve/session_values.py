"""Puts what a session knows of itself into its statements: who the user is, above all.

DuckDB has one user, so it answers `current_user` and its like with the same word for all. They are
constants of a session: where DuckDB would call the function, and where no column has the name, the
statement gets the value as a literal before it is run.

Law: whether a word is a column's name is decided by DuckDB's binder. What means the same for all
who use it (a view, a macro, a default, a constraint) has no such word: it is refused as it is
created, and one that was created elsewhere is refused as it is used.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ivm.engine.engine import Engine
from ivm.serve.asked_words import (
    USER_WORDS,
    Place,
    bound_part,
    expressions,
    places,
    valued,
    written,
)
from ivm.serve.bound_words import not_columns
from ivm.serve.definition_texts import texts_of
from ivm.serve.kept_by_meaning import KeptByMeaning
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import Name
from ivm.sql.statements.text.cached_by_text import LONGEST, kept
from ivm.sql.statements.text.tokens import is_name, kept_tokens, unquoted
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold

_PERHAPS = re.compile(rf"(?i)\b(?:{'|'.join(USER_WORDS)}|version|current_setting)\b")
_KINDS = (st.Query, st.Dml, st.Execute, st.Ddl, st.CreateView)


@dataclass(frozen=True)
class SessionValues:
    """What a session tells of itself.

    Attributes:
        user: who is logged in.
        version: of the server; None if DuckDB's is meant.
        settings: gives those that DuckDB does not have, by their names in lower case.
    """

    user: str
    version: str | None = None
    settings: Callable[[], Mapping[str, str]] = dict

    def of(self, place: Place) -> str | None:
        """The value that is asked for; None if DuckDB has it."""
        if place.name in USER_WORDS:
            return self.user
        if place.name == "version":
            return self.version
        return self.settings().get(place.argument.lower())


_decided: WeakKeyDictionary[Engine, KeptByMeaning] = WeakKeyDictionary()


def with_values(session: Session, statement: st.Statement, values: SessionValues) -> st.Statement:
    """The statement with the values of its session; itself if it asks for none.

    It is called after the check of what the user may run: DuckDB binds the statement here.

    Raises:
        UnsupportedError: such a value would be that of all users.
    """
    _demand_no_shared(session, statement)
    if isinstance(statement, st.Execute):
        return _executed(session, _written(session, statement, values), values)
    if isinstance(statement, st.Prepare):  # it gets them as it is run: names may mean others then
        return statement
    return _written(session, statement, values)


def _executed(session: Session, statement: st.Statement, values: SessionValues) -> st.Statement:
    """EXECUTE of what was prepared, with the values of its session."""
    assert isinstance(statement, st.Execute)
    prepared = session.prepared.get(statement.name.lower())
    if prepared is None:
        return statement
    told = with_values(session, prepared, values)
    return statement if told is prepared else dataclasses.replace(statement, instead=told)


def _written(session: Session, statement: st.Statement, values: SessionValues) -> st.Statement:
    if not may_ask(statement):
        return statement
    text = statement.query if isinstance(statement, st.CreateView) else statement.text
    asked = [p for p in places(kept_tokens(text)) if values.of(p) is not None]
    if isinstance(statement, st.Execute):
        found: Sequence[Place] = asked  # arguments are values, or DuckDB refuses them
    else:
        found = _found(session, text, asked) if asked else ()
    if not found:
        return statement
    if not _is_for_once(statement):
        raise _refusal(text, found[0], max(statement.text.find(text), 0))
    told = written(text, [(place, valued(place, str(values.of(place)))) for place in found])
    (replaced,) = st.parse(told)
    return dataclasses.replace(replaced, offset=statement.offset)


def with_calls(statement: st.Statement, values: SessionValues) -> st.Statement:
    """The statement with the values that it asks for by functions.

    They are no columns, so nothing is bound, and it comes before the check of what the user may
    run: not all of these functions are for all users.
    """
    asked = [(place, values.of(place)) for place in _calls(statement.text)]
    given = [(place, valued(place, value)) for place, value in asked if value is not None]
    if not given:
        return statement
    (replaced,) = st.parse(written(statement.text, given))
    return dataclasses.replace(replaced, offset=statement.offset)


@kept(texts=512)
def _calls(text: str) -> Sequence[Place]:
    asked = [p for p in places(kept_tokens(text)) if not p.may_be_column]
    return expressions(text, asked)


def may_ask(statement: st.Statement) -> bool:
    """Returns whether a statement may ask for a value of its session: most do not."""
    if not isinstance(statement, _KINDS):
        return False
    if isinstance(statement, st.Insert) and statement.is_plain:
        return False
    low = statement.text.lower()  # much faster than the expression, in long texts
    may = "user" in low or "current_" in low or "version" in low
    return may and _PERHAPS.search(low) is not None


def _is_for_once(statement: st.Statement) -> bool:
    """Returns whether the values are those of one run, also where a query makes a table."""
    if isinstance(statement, st.Ddl):
        is_table = (statement.action, statement.target) == ("create", "table")
        return is_table and bound_part(kept_tokens(statement.text)) is not None
    return not isinstance(statement, st.CreateView)


def _refusal(text: str, place: Place, begin: int) -> UnsupportedError:
    """The error of a word in a text, which begins within its statement."""
    word, at = text[place.start : place.end], begin + place.start
    return UnsupportedError(
        f"{word} at character {at + 1} means whoever asks, and what is created here means "
        f"the same for all: write the value itself, or {word} in the statements that use it",
        at,
    )


def _found(session: Session, text: str, asked: Sequence[Place]) -> Sequence[Place]:
    """The places in which DuckDB would call the function; any in a statement in error."""

    def decided() -> Sequence[Place] | None:
        return not_columns(session, text, expressions(text, asked))

    if len(text) > LONGEST:
        found = decided()
    else:
        known = _decided.setdefault(session.engine, KeptByMeaning())
        found = known.get(session, text, tuple(asked), decided)
    return expressions(text, asked) if found is None else found


def demand_own_default(session: Session, table: Name) -> None:
    """Refuses to write into a table with a default that asks who the user is.

    Raises:
        UnsupportedError: it has one.
    """
    name = fold(table[-1])
    if name in texts_of(session.engine).asking_tables:
        raise UnsupportedError(
            f"a default of {table[-1]} asks who the user is, and means the same for all: ALTER "
            "TABLE … ALTER … DROP DEFAULT, and write current_user in the statements themselves"
        )


def _demand_no_shared(session: Session, statement: st.Statement) -> None:
    """Refuses what uses a view, macro or default whose text asks who the user is."""
    if isinstance(statement, st.Dml) and statement.table is not None:
        demand_own_default(session, statement.table)
    names = texts_of(session.engine).asking
    if not names or not isinstance(statement, _KINDS):
        return
    if isinstance(statement, st.Ddl) and not _is_for_once(statement):
        return  # it may drop one
    text = statement.arguments if isinstance(statement, st.Execute) else statement.text
    for token in kept_tokens(text):
        if is_name(token) and fold(unquoted(token)) in names:
            raise UnsupportedError(
                f"{unquoted(token)} asks who the user is, and means the same for all: create it "
                "anew without current_user and its like, which stand in the statement that uses it"
            )
