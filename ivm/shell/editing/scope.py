"""Finds the relations that an unfinished statement reads, and their aliases.

Limit: it reads the tokens alone, all levels of the statement together: the statement does not
parse yet, and too many columns are better than too few.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ivm.sql.statements.text.tokens import Reader, tokens
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import canonical_name

_OPENERS = {"FROM", "JOIN", "INTO", "UPDATE"}
_NOT_ALIAS = {
    *("WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "ON"),
    *("CROSS", "SEMI", "ANTI", "ASOF", "NATURAL", "POSITIONAL", "USING", "UNION", "EXCEPT", "SET"),
    *("INTERSECT", "SELECT", "VALUES", "QUALIFY", "WINDOW", "RETURNING", "DEFAULT", "BY", "OFFSET"),
    *("TABLESAMPLE", "PIVOT", "UNPIVOT", "FROM", "WHEN"),
}


@dataclass
class CompletionScope:
    """The names in an unfinished statement.

    Attributes:
        relations: the relation behind each alias (or plain name), aliases in lower case.
        queries: names of the queries of WITH.
    """

    relations: dict[str, str] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)


def scope_of(statement: str) -> CompletionScope:
    """Returns the scope of a statement, finished or not."""
    scope = CompletionScope()
    reader = Reader(tokens(statement))
    while not reader.done:
        if reader.peek() in _OPENERS:
            reader.at += 1
            _relations(reader, scope)
        elif _names_query(reader):
            scope.queries.append(reader.identifier())
        else:
            reader.at += 1
    return scope


def _names_query(reader: Reader) -> bool:
    """Returns whether `WITH name AS (` or `, name AS (` stands here."""
    if reader.at == 0 or reader.peek(1) != "AS" or reader.peek(2) not in ("(", "MATERIALIZED"):
        return False
    return reader.peek(-1) in ("WITH", "RECURSIVE", ",")


def _relations(reader: Reader, scope: CompletionScope) -> None:
    """Reads `name [[AS] alias] {, name [[AS] alias]}`; a derived table is read later."""
    while True:
        try:
            name = reader.name()
        except SqlError:
            return
        alias = canonical_name([_alias(reader, name[-1])])
        scope.relations[alias.lower()] = canonical_name(name)
        if not reader.accept(","):
            return


def _alias(reader: Reader, plain: str) -> str:
    explicit = reader.accept("AS")
    if reader.done or (not explicit and reader.peek() in _NOT_ALIAS):
        return plain
    try:
        return reader.identifier()
    except SqlError:
        return plain
