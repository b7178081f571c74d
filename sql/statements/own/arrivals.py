"""Reads JOIN … AS OF ARRIVAL in a view's query, which DuckDB does not know.

Law: the words stand behind each JOIN of the query outside of parentheses, or behind none. The query
that is stored has blanks in their place, so that places in it are those of the user's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ivm.sql.statements.text.tokens import Token, tokens, top_level
from ivm.storage.errors import SqlError

WORDS = "AS OF ARRIVAL"
_WORDS = WORDS.split()
_CONDITION = frozenset(["ON", "USING"])
_SETS = frozenset(["UNION", "INTERSECT", "EXCEPT"])
_CLAUSES = _SETS.union(
    ["WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "SELECT"]
)
_SIDES = frozenset(["RIGHT", "FULL", "CROSS", "NATURAL", "POSITIONAL", "ASOF", "SEMI", "ANTI"])


def without_arrival(query: str, offset: int) -> tuple[str, bool]:
    """The query with blanks for AS OF ARRIVAL, and whether it had that.

    Args:
        query: of a view.
        offset: its offset in the script, for errors.

    Raises:
        SqlError: the words stand elsewhere, or not behind all joins.
    """
    found = tokens(query) if "ARRIVAL" in query.upper() else []
    words = [token.word for token in found]
    places = [i for i in range(len(words)) if words[i : i + 3] == _WORDS]
    if not places:
        return query, False
    top = top_level(found)
    for i in top:
        if words[i] in _SETS:
            what = f"{WORDS} beside {words[i]}: each of the queries is a view of its own"
            raise SqlError(what, offset + found[i].start)
    behind = [_condition(found, top, join) for join in _joins(found, top, offset)]
    for i in places:
        if i + 3 not in behind:
            raise SqlError(
                f"{WORDS} stands before the ON or USING of a join of the query, outside of "
                "parentheses",
                offset + found[i].start,
            )
    for i in behind:
        if i - 3 not in places:
            raise SqlError(
                f"all joins of the query are {WORDS}, or none: what changes rows afterwards is "
                "joined in a view above this one, or in a subquery",
                offset + found[min(i, len(found) - 1)].start,
            )
    for i in places:
        start, end = found[i].start, found[i + 2].end
        query = f"{query[:start]}{' ' * (end - start)}{query[end:]}"
    return query, True


def with_arrival(query: str) -> str:
    """The query with AS OF ARRIVAL behind each of its joins, as the user wrote it."""
    found = tokens(query)
    top = top_level(found)
    for join in reversed(list(_joins(found, top, 0))):
        start = found[_condition(found, top, join)].start
        query = f"{query[:start].rstrip()} {WORDS} {query[start:]}"
    return query


def _joins(found: Sequence[Token], top: Sequence[int], offset: int) -> Iterator[int]:
    """The joins outside of parentheses.

    Raises:
        SqlError: there is another join than an inner or left one, or a comma in FROM.
    """
    begin = next((i for i in top if found[i].word == "FROM"), len(found))
    end = next((i for i in top if i > begin and found[i].word in _CLAUSES), len(found))
    for i in top:
        word = found[i].word
        if begin < i < end and (word in _SIDES or word == ","):
            what = "a comma" if word == "," else f"{word} JOIN"
            raise SqlError(
                f"{what} beside {WORDS}, which takes JOIN and LEFT JOIN", offset + found[i].start
            )
        if begin < i < end and word == "JOIN":
            yield i


def _condition(found: Sequence[Token], top: Sequence[int], join: int) -> int:
    """Where the condition of a join begins; behind the last token if it has none."""
    return next((i for i in top if i > join and found[i].word in _CONDITION), len(found))
