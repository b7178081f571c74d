"""Calls of windows of time in FROM, found by their tokens: where they stand, and their arguments.

Law: a call is what stands where a relation is expected, under one of the names without quotes, and
with an argument that is no string first. A user's own functions have other places or quotes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.text.tokens import NESTING, Reader, Token, is_name, is_string, split
from ivm.storage.errors import SqlError

_NAMES = ("tumble", "hop", "cumulate", "session")
_CALL = re.compile(rf"\b(?:{'|'.join(_NAMES)})\s*(?:\(|/\*|--)")  # a comment may stand between
_USAGE = {
    "TUMBLE": "tumble(relation, time, length[, origin or time zone])",
    "HOP": "hop(relation, time, slide, length[, origin or time zone])",
    "CUMULATE": "cumulate(relation, time, step, length[, origin or time zone])",
    "SESSION": "session(relation, time, gap[, partition_by := [columns]])",
}
_BEFORE = frozenset(["FROM", "JOIN", "LATERAL", "PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER"])
_OF_VALUES = frozenset(["EXTRACT", "TRIM", "SUBSTRING", "OVERLAY"])
"""Functions among whose arguments stands a FROM."""
_BEYOND = frozenset(
    [
        *("SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET"),
        *("SET", "BY", "RETURNING", ";"),
    ]
)
_ASSIGNED = ([":", "="], ["=", ">"], [":="], ["=>"])


class Call(NamedTuple):
    """A call.

    Attributes:
        name: in upper case.
        relation: the tokens of its first argument.
        arguments: those of the others that it needs.
        further: those that it may have besides.
        begin: of the call in the script.
        end: behind it.
    """

    name: str
    relation: Sequence[Token]
    arguments: Sequence[Sequence[Token]]
    further: Sequence[Sequence[Token]]
    begin: int
    end: int


def may_have_windows(script: str) -> bool:
    """Returns whether a script may call one of the functions."""
    text = script.lower()  # most have no such word, and a search for these takes ten times as long
    return any(name in text for name in _NAMES) and _CALL.search(text) is not None


def innermost(found: Sequence[Token]) -> list[Call]:
    """The calls that hold no other.

    Raises:
        SqlError: a call has other arguments than it takes.
    """
    calls = [
        _call(found, i) for i, t in enumerate(found) if t.word in _USAGE and _is_call(found, i)
    ]
    following = [*[call.begin for call in calls[1:]], None]
    return [
        call
        for call, begin in zip(calls, following, strict=False)
        if begin is None or begin >= call.end
    ]


def _is_call(found: Sequence[Token], at: int) -> bool:
    """Returns whether a call of ours begins here: in FROM, on something that is no string."""
    if [token.word for token in found[at + 1 : at + 2]] != ["("] or at + 2 >= len(found):
        return False
    first = found[at + 2]
    return not is_string(first) and (first.word == "(" or is_name(first)) and _is_in_from(found, at)


def _is_in_from(found: Sequence[Token], at: int) -> bool:
    """Returns whether a relation is expected here."""
    if at > 1 and found[at - 1].word == ":" and is_name(found[at - 2]):  # FROM alias: relation
        at -= 2
    while at > 1 and found[at - 1].word == "(":
        at -= 1
        if found[at - 1].word in _USAGE:
            at -= 1
    before = found[at - 1].word if at else ""
    if before == ",":
        return _lists_relations(found, at - 1)
    if before == "FROM":
        return not _is_of_values(found, at - 1)
    return before in _BEFORE or (before == "USING" and _changes(found, at - 1))


def _is_of_values(found: Sequence[Token], place: int) -> bool:
    """Returns whether a FROM is one of a function's arguments."""
    depth = 0
    for at in range(place - 1, 0, -1):
        word = found[at].word
        depth -= NESTING.get(word, 0)
        if depth < 0:
            return found[at - 1].word in _OF_VALUES
        if depth == 0 and word == "SELECT":
            return False
    return False


def _lists_relations(found: Sequence[Token], comma: int) -> bool:
    """Returns whether a comma stands between relations."""
    depth = 0
    for at in range(comma - 1, -1, -1):
        word = found[at].word
        depth -= NESTING.get(word, 0)
        if depth < 0 or (depth == 0 and word in _BEYOND):
            return False
        if depth == 0 and (word == "FROM" or (word == "USING" and _changes(found, at))):
            return True
        if depth == 0 and word == "VALUES" and found[at - 1].word not in _BEFORE:
            return False
        if depth == 0 and word == "WITH" and found[at + 1].word != "ORDINALITY":
            return False
    return False


def _changes(found: Sequence[Token], using: int) -> bool:
    """Returns whether a USING names a change's relations, and not columns or aggregates."""
    words = [token.word for token in found[:using]]
    begin = len(words) - words[::-1].index(";") if ";" in words else 0
    return "DELETE" in words[begin:] or "MERGE" in words[begin:]


def _call(found: Sequence[Token], at: int) -> Call:
    """Reads the call; Flink's TABLE and DESCRIPTOR may stand in it.

    Raises:
        SqlError: it has other arguments.
    """
    reader = Reader(found, at + 1)
    reader.skip_parentheses()
    name, close = found[at].word, reader.at - 1
    relation, *arguments = split(found[at + 2 : close])
    least = _USAGE[name].partition("[")[0].count(",") + 1
    if not least <= len(arguments) + 1 <= least + 1 or not all([relation, *arguments]):
        raise SqlError(
            f'expected {_USAGE[name]}; a function of your own is called as "{found[at].text}"(…)',
            found[at].start,
        )
    if relation[0].word == "TABLE" and len(relation) > 1:
        relation = relation[1:]
    if [token.word for token in arguments[0][:2]] == ["DESCRIPTOR", "("]:
        arguments[0] = arguments[0][2:-1]
    needed, further = arguments[: least - 1], arguments[least - 1 :]
    return Call(name, relation, needed, further, found[at].start, found[close].end)


def named(argument: Sequence[Token], name: str) -> Sequence[Token] | None:
    """The value of an argument that is given by its name; None if it is not."""
    words = [token.word for token in argument[:3]]
    if words[:1] == [name]:
        for sign in _ASSIGNED:
            if words[1 : 1 + len(sign)] == sign:
                return argument[1 + len(sign) :]
    return None
