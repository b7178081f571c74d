"""Where a statement asks for what its session knows of itself, by DuckDB's tokens and parser.

Law: a place is one where an expression may stand; a name behind AS, of a table or in a list of
columns is none, nor is one before a dot, unless a call follows, of which it may be the argument. A
place gets its value as a literal, and a column of the result that is nothing but the word keeps its
name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import duckdb

from ivm.sql.statements.text.tokens import Token, is_name, unquoted
from ivm.storage.identifiers import literal, quote
from ivm.storage.interrupts import check
from ivm.storage.scratch import Scratch

USER_WORDS = ("current_user", "session_user", "current_role", "user")
"""The words for who is logged in."""

_SCHEMAS = frozenset(("pg_catalog", "main", "system"))
"""In which DuckDB has its functions, and PostgreSQL its own."""
_VERBS = frozenset(("SELECT", "WITH", "FROM", "VALUES", "INSERT", "UPDATE", "DELETE", "MERGE"))
_NAMES = frozenset(("->", "=>", ":=", ":"))
"""What follows a name that is no expression, or one of a parameter."""
_CLAUSES = frozenset(
    (
        *("SELECT", "RETURNING", "FROM", "WHERE", "BY", "HAVING", "QUALIFY", "SET", "VALUES"),
        *("ON", "USING", "LIMIT", "OFFSET", "WHEN"),
    )
)
_ENDS = frozenset(
    (
        *("", ",", ")", ";", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"),
        *("UNION", "INTERSECT", "EXCEPT", "WINDOW", "QUALIFY"),
    )
)
_BEGINS = frozenset(("SELECT", "RETURNING", "DISTINCT", "ALL", ",", ")"))
_scratch = Scratch.of()


class Place(NamedTuple):
    """A place that may ask for a value.

    Attributes:
        name: of what is asked for, in lower case.
        argument: of current_setting.
        start: the offset of its first character.
        end: the offset behind its last one.
        may_be_column: it is a bare name, which a column may have.
        column: the name of the result's column that is nothing else; "" if it is a part of one.
        clause: the word that begins its clause; "" in parentheses of their own.
    """

    name: str
    argument: str
    start: int
    end: int
    may_be_column: bool
    column: str
    clause: str


def places(found: Sequence[Token]) -> Iterator[Place]:
    """The places of a statement, from left to right."""
    words = ["", *[token.word for token in found], "", "", "", ""]
    clauses = _clauses(found)
    for at, token in enumerate(found):
        name = unquoted(token).lower() if is_name(token) else ""
        if name not in USER_WORDS and name not in ("version", "current_setting"):
            continue
        first, following = at, words[at + 2]
        if words[at] == ".":
            begin = _schema_begin(found, at)
            if following != "(" or begin is None:
                continue
            first = begin
        last = _call_end(found, at) if following == "(" else at
        if last is None or (last == at and (name not in USER_WORDS or following in _NAMES)):
            continue
        if last == at and following == "." and words[at + 4] != "(":
            continue  # a table's; before a call it may be the argument
        argument = found[at + 2].text[1:-1] if name == "current_setting" else ""
        clause = clauses[first]
        whole = clause in ("SELECT", "RETURNING") and words[first] in _BEGINS
        whole = whole and words[last + 2] in _ENDS
        column = (unquoted(token) if last == at else name) if whole else ""
        start, end = found[first].start, found[last].end
        yield Place(name, argument, start, end, last == at, column, clause)


def _schema_begin(found: Sequence[Token], at: int) -> int | None:
    """The index of the first token of a function's qualified name; None if it is not DuckDB's."""
    begin = at - 2
    if begin < 0 or unquoted(found[begin]).lower() not in _SCHEMAS:
        return None
    is_longer = begin >= 2 and found[begin - 1].word == "."
    return begin - 2 if is_longer and unquoted(found[begin - 2]).lower() == "system" else begin


def _call_end(found: Sequence[Token], at: int) -> int | None:
    """The index of the parenthesis that ends a call of a function; None if it has other arguments.

    current_setting has a text, and perhaps a second argument, and the others have none.
    """
    takes_text = found[at].word == "CURRENT_SETTING"
    texts = [token.text[:1] for token in found[at + 2 : at + 3]]
    words = [token.word for token in found[at + 2 : at + 6]]
    if not takes_text:
        return at + 2 if words[:1] == [")"] else None
    if texts != ["'"]:
        return None
    if words[1:2] == [")"]:
        return at + 3
    return at + 5 if words[1:2] == [","] and words[3:4] == [")"] else None


def _clauses(found: Sequence[Token]) -> list[str]:
    """The word that begins the clause of each token; "" of one in parentheses of their own."""
    clauses, around, clause, before = list[str](), list[str](), "", ("", "")
    for token in found:
        clauses.append(clause)
        if token.word in ("(", "[", "{"):
            around.append(clause)
            clause = "BY" if before == ("DISTINCT", "ON") else ""
        elif token.word in (")", "]", "}"):
            clause = around.pop() if around else ""
        elif token.word in _CLAUSES:
            clause = token.word
        before = before[1], token.word
    return clauses


def bound_part(found: Sequence[Token]) -> int | None:
    """The offset of the query or change in a statement; None if there is none that binds alone."""
    depth = 0
    for token in found:
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word in _VERBS:
            return token.start
    return None


def expressions(text: str, asked: Sequence[Place]) -> list[Place]:
    """Those of the places at which an expression may stand.

    The places are looked at together, and by halves where one of them is none: to parse a long
    statement once for each would take hours.
    """
    check()
    if not asked or _are_expressions(text, asked):
        return list(asked)
    half = len(asked) // 2
    return [] if half == 0 else expressions(text, asked[:half]) + expressions(text, asked[half:])


def _are_expressions(text: str, asked: Iterable[Place]) -> bool:
    """Returns whether expressions may stand at places: elsewhere a cast does not parse."""
    try:
        with _scratch.borrow() as parser:
            parser.extract_statements(written(text, [(p, marked(text, p)) for p in asked]))
    except duckdb.Error:
        return False
    return True


def written(text: str, given: Iterable[tuple[Place, str]]) -> str:
    """The text with other SQL at places, which come in any order."""
    parts: list[str] = []
    done = 0
    for place, sql in sorted(given, key=lambda each: each[0].start):
        parts += [text[done : place.start], sql]
        done = place.end
    return "".join([*parts, text[done:]])


def valued(place: Place, value: str) -> str:
    """The SQL of a value at a place."""
    if place.clause == "BY":  # a literal there means nothing, or a position
        return f"CAST({literal(value)} AS VARCHAR)"
    return literal(value) + _named(place)


def marked(text: str, place: Place, *, named: bool = False) -> str:
    """SQL on a line of its own that DuckDB binds if a place has a constant, and no column."""
    asked = f"CAST({text[place.start : place.end]} AS VARCHAR)"
    return f"\nCAST(getvariable({asked}) AS VARCHAR){_named(place) if named else ''}"


def _named(place: Place) -> str:
    return f" AS {quote(place.column)}" if place.column else ""
