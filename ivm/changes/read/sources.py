"""The sources of a change: the relations behind FROM or USING, which one query reads.

Law: the query gives the columns of each source behind those of the one before, with a column of our
own between them; so the names of the statement mean in its rows what they mean in the statement.
Sources that neither a join nor a condition of their own connects have all their pairs in the query.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ivm.changes.values.row_expressions import Part
from ivm.sql.statements.text.tokens import Reader, Token, is_name, top_level, unquoted
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold, quote
from ivm.storage.values.types import Schema

_BETWEEN = "__ivm_between"
_JOINS = frozenset(
    [
        *("JOIN", "ASOF", "POSITIONAL", "CROSS", "INNER"),
        *("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI"),
    ]
)


class Sources(NamedTuple):
    """The relations behind FROM or USING.

    Attributes:
        aliases: by which it calls them.
        joined: the folded aliases of those that a join, or a use by another one, connects.
    """

    aliases: tuple[str, ...]
    joined: tuple[frozenset[str], ...]

    def are_connected(self, conditions: Iterable[Sequence[Token]]) -> bool:
        """Returns whether these conditions, too, leave no two groups of sources apart."""
        groups = [*self.joined, *[named_in(part, self.aliases) for part in conditions]]
        reached = {fold(self.aliases[0])}
        for _ in self.aliases:
            reached.update(*[group for group in groups if not reached.isdisjoint(group)])
        return reached.issuperset(map(fold, self.aliases))


def alias_of(tokens: Sequence[Token]) -> str | None:
    """The name of the only source; None if it has none, or there are others."""
    found = read_sources(tokens)
    return found.aliases[0] if found is not None and len(found.aliases) == 1 else None


def read_sources(tokens: Sequence[Token]) -> Sources | None:
    """Reads sources.

    Args:
        tokens: behind FROM or USING.

    Returns:
        None if one is no plain relation with an alias, or two share a column (USING, NATURAL), or
        a join stands behind a comma: in a query its ON may name what stands before the comma, in
        DELETE not.
    """
    reader = Reader(tokens)
    aliases: list[str] = []
    spans: list[Sequence[Token]] = []
    commas = 0
    try:
        while not reader.done:
            first = reader.at
            reader.accept("LATERAL")
            aliases.append(_relation(reader))
            if aliases[1:]:
                _skip_condition(reader)
            spans.append(reader.tokens[first : reader.at])
            commas += _skip_join(reader, alone=commas > 0)
    except SqlError:
        return None
    joined = [
        named_in(span, aliases) | {fold(alias)} for span, alias in zip(spans, aliases, strict=True)
    ]
    return Sources(tuple(aliases), tuple(joined)) if aliases else None


def _relation(reader: Reader) -> str:
    """Reads a relation and its alias; raises SqlError if it has none."""
    alias = "" if reader.peek() == "(" else reader.name()[-1]
    if reader.peek() == "(":
        reader.skip_parentheses()
    if reader.accept("AS") or _is_alias(reader):
        alias = reader.identifier()
    if reader.peek() == "(":
        reader.columns()
    if not alias:
        raise reader.error("expected an alias")
    return alias


def _is_alias(reader: Reader) -> bool:
    is_word = not reader.done and is_name(reader.tokens[reader.at])
    return is_word and reader.peek() not in _JOINS | {"ON", "USING", "NATURAL"}


def _skip_join(reader: Reader, *, alone: bool) -> bool:
    """Skips what stands before the next relation; returns whether it is a comma.

    DuckDB allows one behind the last relation.

    Args:
        alone: it can only be a comma.
    """
    if reader.done or reader.accept(","):
        return not reader.done
    while not alone and reader.peek() in _JOINS and reader.peek() != "JOIN":
        reader.at += 1
    reader.expect("," if alone else "JOIN")
    return False


def _skip_condition(reader: Reader) -> None:
    """Skips ON and its condition."""
    if not reader.accept("ON"):
        return
    rest = reader.tokens[reader.at :]
    for index in top_level(rest):
        following = rest[index + 1].word if index + 1 < len(rest) else ""
        if rest[index].word == "," or (rest[index].word in _JOINS and following != "("):
            reader.at += index
            return
    reader.at = len(reader.tokens)


def named_in(tokens: Sequence[Token], aliases: Sequence[str]) -> frozenset[str]:
    """The folded aliases by which some of the tokens name columns."""
    pairs = itertools.pairwise(tokens)
    named = [fold(unquoted(token)) for token, dot in pairs if dot.word == "." and is_name(token)]
    return frozenset(named).intersection(map(fold, aliases))


def listed(aliases: Sequence[str]) -> str:
    """Writes what a query selects to give the columns of all sources."""
    return between([f"{quote(alias)}.*" for alias in aliases])


def between(parts: Sequence[str]) -> str:
    """Writes the columns of several sources, in SQL, with a column of our own between them."""
    return f", true AS {_BETWEEN}, ".join(parts)


def parts_of(schema: Schema, aliases: Sequence[str]) -> tuple[Part, ...] | None:
    """The columns of each source, as expressions see them; None if they cannot be told apart."""
    if not aliases:
        return ()
    ends = [i for i, (name, _) in enumerate(schema) if name == _BETWEEN]
    if len(ends) != len(aliases) - 1:
        return None
    begins, stops = [0, *[end + 1 for end in ends]], [*ends, len(schema)]
    bounds = zip(aliases, begins, stops, strict=True)
    return tuple([(schema[begin:stop], ("", alias)) for alias, begin, stop in bounds])


def positions_in(schema: Schema) -> tuple[int, ...]:
    """The positions of the sources' columns in the query's."""
    return tuple([i for i, (name, _) in enumerate(schema) if name != _BETWEEN])
