"""Rewrites FETCH FIRST n ROWS WITH TIES at the end of a view's query to QUALIFY.

Law: the first n rows of an order and all that tie with the last of them are the rows whose RANK in
that order is at most n. DuckDB has no WITH TIES, so the query with QUALIFY is the one that is
stored, explained and verified. As in ORDER BY, a key that is a number or a name of the select list
is a column of the result; any other key is an expression over the FROM clause.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from ivm.sql.statements.own.select_lists import Item, SelectList, select_list
from ivm.sql.statements.text.tokens import (
    Token,
    depths,
    is_name,
    split,
    text_of,
    tokens,
    top_level,
    unquoted,
)
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold

_LATER = frozenset(["QUALIFY", "UNION", "INTERSECT", "EXCEPT"])  # ranks count the rows they leave
_FETCHED = frozenset(["FIRST", "NEXT", "ROW", "ROWS"])
_CONSTANTS = frozenset(["TRUE", "FALSE", "NULL"])
_WRAPPER = "SELECT * FROM ("
_WAY = "write QUALIFY rank() OVER (ORDER BY …) <= n instead"


def without_ties_clause(query: str, offset: int) -> tuple[str, int]:
    """Rewrites a view's query that ends with WITH TIES to one with QUALIFY.

    Args:
        query: the user's text, returned unchanged if it does not end with WITH TIES.
        offset: its offset in the script, for errors.

    Returns:
        The query, and the number of characters put in front of the user's text.

    Raises:
        SqlError: the query has no ORDER BY.
        UnsupportedError: no rewriting to QUALIFY is known.
    """
    words = tokens(query)
    if [t.word for t in words[-2:]] != ["WITH", "TIES"]:
        return query, 0
    clause, top = offset + words[-2].start, top_level(words)
    order = max((i for i in top if _words(words[i : i + 2]) == ["ORDER", "BY"]), default=-1)
    limit = max((i for i in top if words[i].word in ("LIMIT", "FETCH")), default=-1)
    if not 0 < order < limit:
        raise SqlError("WITH TIES needs an ORDER BY: without one there are no ties", clause)
    if any(words[i].word == "OFFSET" for i in top if i > order):
        raise UnsupportedError(f"OFFSET beside WITH TIES: {_WAY}, with BETWEEN for <=", clause)
    count = [t.word for t in words[limit + 1 : -2] if t.word not in _FETCHED] or ["1"]
    if len(count) > 1 or not count[0].isdigit():
        raise UnsupportedError(f"WITH TIES of what is no whole number of rows: {_WAY}", clause)
    keys = [_key(part) for part in split(words[order + 2 : limit]) if part]
    if not keys or any(_words(key) == ["ALL"] for key, _ in keys):
        raise UnsupportedError("ORDER BY ALL beside WITH TIES: name the columns", clause)
    text = query[: words[order - 1].end]
    if ("DISTINCT", "ON") in itertools.pairwise([words[i].word for i in top if i < order]):
        text = query[: words[limit - 1].end]  # the order decides which row DISTINCT ON keeps
    return _ranked(query, text, words[:order], keys, count[0])


_Key = tuple[Sequence[Token], Sequence[Token]]  # an expression and its direction


def _ranked(
    query: str, text: str, head: list[Token], keys: list[_Key], count: str
) -> tuple[str, int]:
    listed = select_list(query[: head[-1].end], head)
    found = [_item(query, key, listed) for key, _ in keys]
    told = all(item is not None and (item.number or not item.value) for item in found)
    wrapped = told or not _takes_qualify(head, listed)
    ranked = []
    for (key, direction), item in zip(keys, found, strict=True):
        value = text_of(query, key)
        if not (_is_told_outside if wrapped else _is_told_inside)(key, item, listed):
            raise UnsupportedError(f"ORDER BY {value} beside WITH TIES: name the column, or {_WAY}")
        if item is not None and item.number and wrapped:
            value = f"#{item.number}"
        elif item is not None and not wrapped:
            value = f"({text_of(query, item.value)})"
        ranked.append(f"{value} {text_of(query, direction)}".rstrip())
    bound = f"QUALIFY rank() OVER (ORDER BY {', '.join(ranked)}) <= {count}"
    if wrapped:
        return f"{_WRAPPER}{text}) AS q {bound}", len(_WRAPPER)
    return f"{text} {bound}", 0


def _is_told_inside(key: Sequence[Token], item: Item | None, listed: SelectList) -> bool:
    """Returns whether the text of a key, or of its column, means the same in a QUALIFY."""
    if item is not None:
        return bool(item.value)
    names = Counter(each.name for each in listed.items)  # of two alike, QUALIFY takes the first
    return all(names[fold(unquoted(token))] < 2 for token in key if is_name(token))


def _is_told_outside(key: Sequence[Token], item: Item | None, listed: SelectList) -> bool:
    """Returns whether a key means the same among the columns of the result, or has a number."""
    names = [each.name for each in listed.items if each.name]
    if item is not None:  # what a star renames or replaces has no number
        stars = [each for each in listed.items if each.is_of_star and each.name is None]
        alone = len(stars) == 1 and all(each.is_of_star for each in listed.items)
        return bool(item.number) or alone
    if listed.is_set:
        return all(each.number for each in listed.items) and len(set(names)) == len(names)
    hidden = any(is_name(token) and fold(unquoted(token)) in names for token in key)
    has_star = any(not each.number for each in listed.items)
    return has_star and not (hidden or listed.is_open)


def _item(query: str, key: Sequence[Token], listed: SelectList) -> Item | None:
    """The column of the result that a key names, None for an expression over the FROM clause."""
    while len(key) > 2 and key[0].word == "(" and depths(key).index(0) == len(key) - 1:
        key = key[1:-1]
    if len(key) == 1 and key[0].word.isdigit():
        return listed.numbered(int(key[0].word))
    if any(token.text[0] == "#" for token in key):
        raise UnsupportedError(f"ORDER BY {text_of(query, key)}: write the number alone")
    if not any(is_name(token) and token.word not in _CONSTANTS for token in key):
        raise SqlError(
            f"ORDER BY {text_of(query, key)} orders nothing: name a column, or its number"
        )
    if len(key) == 1 and (listed.is_open or listed.is_ambiguous(unquoted(key[0]))):
        raise UnsupportedError(
            f"ORDER BY {key[0].text} beside WITH TIES, where the text does not tell the names of "
            f"all columns: {_WAY}"
        )
    if len(key) == 1 and (item := listed.named(unquoted(key[0]))) is not None:
        return item
    written = [_same(token) for token in key]
    alike = (i for i in listed.items if i.number and [_same(t) for t in i.value] == written)
    return next(alike, None)


def _takes_qualify(head: list[Token], listed: SelectList) -> bool:
    """Returns whether a QUALIFY of this query itself ranks the rows of its result."""
    words = [head[i].word for i in top_level(head)]
    if any(words[i : i + 3] == ["GROUP", "BY", "ALL"] for i in range(len(words))):
        return False
    return listed.is_written and not {*_LATER, "SAMPLE", "DISTINCT"} & {*words}


def _key(part: Sequence[Token]) -> _Key:
    end = len(part)
    if end > 2 and part[-2].word == "NULLS":
        end -= 2
    if end > 1 and part[end - 1].word in ("ASC", "DESC"):
        end -= 1
    return part[:end], part[end:]


def _words(part: Sequence[Token]) -> list[str]:
    return [token.word for token in part]


def _same(token: Token) -> str:
    """A spelling that is equal for tokens of one meaning."""
    return token.word or token.text
