"""The clauses of a change: all that look at its parts look at these.

Law: a clause's span begins with the word that begins the clause, but the rows of an INSERT have no
such word. A clause that is not there has an empty span, at its place in a kind of change that may
have it. No clause is looked for in parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ivm.sql.statements.nodes.nodes import Name
from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import NESTING, Reader, Token, kept_tokens, top_level


class Span(NamedTuple):
    """The tokens of a statement from number `begin` to before number `end`."""

    begin: int
    end: int

    def __bool__(self) -> bool:
        """Returns whether there are any."""
        return self.begin < self.end

    @property
    def rest(self) -> Span:
        """The span without its first token."""
        return Span(min(self.begin + 1, self.end), self.end)

    def of(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """The tokens of the statement's that are in it."""
        return tokens[self.begin : self.end]


_NONE = Span(0, 0)


class Clauses(NamedTuple):
    """The clauses of a change.

    Attributes:
        verb: the number of its first token behind a WITH clause.
        table: the changed table's name as written.
        alias: by which the statement calls it, if it has one.
        target: the name and the alias.
        columns: those that an INSERT or COPY names; None for all.
        naming: "NAME" or "POSITION" of INSERT … BY; "" without.
        source: the other relations, from FROM or USING on; the rows of an INSERT; of a COPY its
            file and options, from FROM on.
        sets: SET of an UPDATE.
        condition: WHERE; ON or USING of a MERGE.
        branches: each from WHEN on.
        conflict: ON CONFLICT.
        returning: RETURNING.
    """

    verb: int
    table: Name
    alias: str | None
    target: Span
    columns: tuple[str, ...] | None = None
    naming: str = ""
    source: Span = _NONE
    sets: Span = _NONE
    condition: Span = _NONE
    branches: tuple[Span, ...] = ()
    conflict: Span = _NONE
    returning: Span = _NONE


@kept(texts=256, long_texts=1)
def clauses_of(text: str) -> Clauses:
    """The clauses of a change; the numbers are those of `kept_tokens`."""
    tokens = kept_tokens(text)
    return read_clauses(tokens, verb_of(tokens))


def verb_of(tokens: Sequence[Token]) -> int:
    """The number of a statement's first token behind its WITH clause, if it has one."""
    reader = Reader(tokens)
    if reader.peek() != "WITH":
        return 0
    while not reader.done:
        if reader.peek() != "(":
            reader.at += 1
            continue
        reader.skip_parentheses()
        # `)` ends a column list, before AS or USING KEY; or a query, before `,` or the statement.
        if reader.peek() not in ("AS", "USING", ","):
            break
    return reader.at


def read_clauses(tokens: Sequence[Token], verb: int = 0) -> Clauses:
    """Reads INSERT, UPDATE, DELETE, MERGE, TRUNCATE or COPY … FROM.

    Args:
        tokens: of the statement.
        verb: the number of its first token behind a WITH clause.

    Raises:
        SqlError: the table has no name.
    """
    return _READ[tokens[verb].word](Reader(tokens, verb))


def _update(reader: Reader) -> Clauses:
    verb = _skip(reader, "UPDATE")
    named = _target(reader, "SET")
    found = _following(reader, "SET", "FROM", "WHERE", "RETURNING")
    sets, source, condition, returning = found
    return Clauses(verb, *named, source=source, sets=sets, condition=condition, returning=returning)


def _delete(reader: Reader) -> Clauses:
    verb = _skip(reader, "DELETE", "FROM")
    named = _target(reader, "USING", "WHERE", "RETURNING")
    source, condition, returning = _following(reader, "USING", "WHERE", "RETURNING")
    return Clauses(verb, *named, source=source, condition=condition, returning=returning)


def _truncate(reader: Reader) -> Clauses:
    verb = _skip(reader, "TRUNCATE")
    reader.accept("TABLE")
    begin, table = reader.at, reader.name()
    (returning,) = _following(reader, "RETURNING")
    return Clauses(verb, table, None, Span(begin, reader.at), returning=returning)


def _insert(reader: Reader) -> Clauses:
    verb = _skip(reader, "INSERT")
    if reader.accept("OR"):
        reader.at += 1
    reader.expect("INTO")
    begin, table = reader.at, reader.name()
    alias = reader.label() if reader.accept("AS") else None
    target = Span(begin, reader.at)
    # A query in parentheses has two words, or signs, without a comma between them.
    listed = reader.peek() == "(" and reader.peek(2) in (",", ")")
    columns = reader.columns() if listed else None
    naming = next((word for word in ("NAME", "POSITION") if reader.accept("BY", word)), "")
    # Without what follows, ON CONFLICT is the condition of a join by a column's name.
    met = min([reader.index("ON", "CONFLICT", word) for word in ("(", "DO")])
    behind = reader.at if met == len(reader.tokens) else met
    (returning,) = _following(Reader(reader.tokens, behind), "RETURNING")
    source = Span(reader.at, min(met, returning.begin))
    return Clauses(
        *(verb, table, alias, target, columns, naming, source),
        conflict=Span(source.end, returning.begin),
        returning=returning,
    )


def _merge(reader: Reader) -> Clauses:
    verb = _skip(reader, "MERGE", "INTO")
    named = _target(reader, "USING")
    using, returning = _following(reader, "USING", "RETURNING")
    within = Reader(reader.tokens[: using.end], using.rest.begin)
    begins = _whens(within)
    first = min([*begins, using.end])
    condition = min(within.index("ON"), within.index("USING"), first)
    branches = map(Span, begins, [*begins[1:], using.end])
    return Clauses(
        *(verb, *named),
        source=Span(using.begin, condition),
        condition=Span(condition, first),
        branches=tuple(branches),
        returning=returning,
    )


def _whens(reader: Reader) -> list[int]:
    """The tokens at which the branches of a MERGE begin."""
    words = [token.word for token in reader.tokens]
    outside = [reader.at + i for i in top_level(reader.tokens[reader.at :])]
    begins = ["WHEN", "MATCHED"], ["WHEN", "NOT", "MATCHED"]
    return [at for at in outside if any(words[at : at + len(each)] == each for each in begins)]


def _copy(reader: Reader) -> Clauses:
    verb = _skip(reader, "COPY")
    begin, table = reader.at, reader.name()
    target = Span(begin, reader.at)
    columns = reader.columns() if reader.peek() == "(" else None
    return Clauses(
        *(verb, table, None, target, columns), source=Span(reader.at, len(reader.tokens))
    )


_READ: dict[str, Callable[[Reader], Clauses]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "TRUNCATE": _truncate,
    "COPY": _copy,
}


# --- parts ---


def _skip(reader: Reader, *words: str) -> int:
    """Skips the words with which a statement begins; the number of the first."""
    first = reader.at
    reader.expect(*words)
    return first


def _target(reader: Reader, *following: str) -> tuple[Name, str | None, Span]:
    """Reads a table's name and its alias, before one of the words that may follow."""
    begin, table, alias = reader.at, reader.name(), None
    if reader.accept("AS") or not (reader.done or reader.peek() in following):
        alias = reader.label()
    return table, alias, Span(begin, reader.at)


def _following(reader: Reader, *words: str) -> list[Span]:
    """The clauses from the current token on that begin with these words, in this order."""
    begins, spans, end = _firsts(reader, words), list[Span](), len(reader.tokens)
    for word in reversed(words):
        begin = min(begins.get(word, end), end)
        spans.append(Span(begin, end))
        end = begin
    return spans[::-1]


def _firsts(reader: Reader, words: Sequence[str]) -> dict[str, int]:
    """The first token outside parentheses, from the current one on, that is each of the words."""
    found: dict[str, int] = {}
    there = [token.word for token in reader.tokens[reader.at :]]
    wanted, depth = {*words}.intersection(there), 0
    for at, word in enumerate(there if wanted else (), reader.at):
        if word in NESTING:
            depth += NESTING[word]
        elif word in wanted and not depth:
            found.setdefault(word, at)
    return found
