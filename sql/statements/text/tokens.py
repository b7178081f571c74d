"""DuckDB's own tokens of a script, and a cursor over them.

Invariant: offsets count characters, not bytes. Comments are not tokens. A string, a quoted name or
a dollar-quoted text is one token, so a semicolon inside it never ends a statement. A word in upper
case that begins a clause or is a part of one (FROM, WITH, BY) never is a part of an operator or a
type's name, nor a name itself: behind a dot, a dollar or AS, where DuckDB takes any word for one.
Names stand in double quotes or backticks; where a name is expected, DuckDB may take a string for it
(see `StringForNameError`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import duckdb

from ivm.sql.statements.text.blanks import encoded, plain_blanks
from ivm.sql.statements.text.cached_by_text import kept
from ivm.storage.errors import SqlError

NESTING = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}
_COMMENT, _STRING = duckdb.token_type.comment, duckdb.token_type.string_const
_QUOTES = ('"', "`")
_NO_NAME = frozenset(" \t\r\n\f\v!\"#$%&'()*+,-./0123456789:;<=>?@[\\]^`{|}~")
_CAPITALS = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_CLAUSES = frozenset(
    [
        *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "WHERE", "GROUP", "HAVING", "QUALIFY"),
        *("ORDER", "LIMIT", "OFFSET", "WINDOW", "UNION", "INTERSECT", "EXCEPT", "JOIN", "USING"),
        *("ON", "PIVOT", "UNPIVOT", "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "SET"),
        *("WHEN", "THEN", "CONFLICT", "DO", "RETURNING", "DEFAULT", "OVER", "AS", "AND", "OR"),
        *("NOT", "CASE", "END", "BETWEEN", "DISTINCT", "ALL", "BY", "FETCH", "FOR", "IN", "IS"),
        *("EXISTS", "LATERAL", "COLUMNS", "NULLS", "ASC", "DESC"),
    ]
)
_STATEMENTS = frozenset(
    [
        *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT", "INSERT", "UPDATE"),
        *("DELETE", "MERGE", "TRUNCATE", "SET", "CASE", "DEFAULT"),
    ]
)
"""The clause words that begin what a CREATE or a PREPARE has behind its AS."""
_DEFINING = frozenset(["CREATE", "PREPARE", "EXPLAIN"])
_QUERIES = frozenset(["SELECT", "FROM"])
_NAMING = frozenset([".", "$", "AS"])
_PHRASES = (("DISTINCT", "FROM"), ("WITH", "TIME", "ZONE"))
_IN_PHRASES = re.compile("distinct|zone", re.IGNORECASE)
_new = tuple.__new__  # Token() takes twice as long, and each statement has dozens
_BLANKS = " \t\r\n\f\v"


class Token(NamedTuple):
    """One token of a script.

    Attributes:
        word: the text in upper case of an unquoted word, a sign or a number, but in lower case in
            IS DISTINCT FROM and WITH TIME ZONE, and where a word of clauses is a name;
            "" of a string or a quoted name, which are never keywords.
        start: its offset in the script.
    """

    word: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens(script: str) -> list[Token]:
    """Returns the script's tokens, without comments and blanks, from DuckDB's own tokenizer.

    Raises:
        SqlError: the script holds a character that UTF-8 cannot encode.
    """
    plain = script if script.isascii() else plain_blanks(script)
    data = None if plain.isascii() else encoded(plain)
    raw = duckdb.tokenize(plain)
    if not raw:
        return []
    ends = [start for start, _ in raw[1:]]
    ends.append(len(plain) if data is None else len(data))
    result, offset, byte = list[Token](), 0, 0
    for (start, kind), end in zip(raw, ends, strict=True):
        if data is None:
            offset, text = start, plain[start:end]
        else:  # DuckDB counts in bytes
            offset += len(data[byte:start].decode())
            byte, text = start, plain[offset : offset + len(data[start:end].decode())]
        if kind is not _COMMENT:
            text = text.rstrip(_BLANKS)
            opaque = kind is _STRING or text[:1] in _QUOTES
            word = "" if opaque else text.upper() if data is None else _upper(text)
            result.append(_new(Token, (word, text, offset)))
    if any(b.word in _CLAUSES and a.word in _NAMING for a, b in pairwise(result)):
        _mark_names(result)
    if _IN_PHRASES.search(plain):
        _mark_phrases(result)
    return result


def _mark_names(found: list[Token]) -> None:
    """Makes words of clauses lower case that are names."""
    before, defines = ";", False
    for at, (word, text, start) in enumerate(found):
        if before == ";":
            defines = word in _DEFINING
        elif before in _NAMING and word in _CLAUSES and not _is_clause(word, before, defines):
            word = word.lower()
            found[at] = _new(Token, (word, text, start))
        elif word in _QUERIES:
            defines = False
        before = word


def _is_clause(word: str, before: str, defines: bool) -> bool:
    """Returns whether it begins what is defined, or the MATERIALIZED of a CTE: AS NOT …."""
    return before == "AS" and (word == "NOT" or (defines and word in _STATEMENTS))


def _upper(text: str) -> str:
    """The form that keywords have: to DuckDB no letter beyond ASCII is one of theirs."""
    return text.upper() if text.isascii() else text.translate(_CAPITALS)


def _mark_phrases(found: list[Token]) -> None:
    """Makes words of operators and types lower case that begin clauses elsewhere."""
    words = [token.word for token in found]
    for phrase in _PHRASES:
        size = len(phrase)
        for at, word in enumerate(words):
            if word == phrase[0] and tuple(words[at : at + size]) == phrase:
                for i in range(at, at + size):
                    found[i] = found[i]._replace(word=words[i].lower())


@kept(texts=64, long_texts=1)
def kept_tokens(text: str) -> Sequence[Token]:
    """The tokens of a text, kept for whoever looks at the same statement next."""
    return tuple(tokens(text))


def without_parameters(script: str) -> str:
    """The text with NULL for each parameter: DuckDB lists the names of no prepared statement."""
    if "?" not in script and "$" not in script:
        return script
    parts, done, found = [], 0, tokens(script)
    for at, token in enumerate(found):
        if token.word == "?" or (token.word == "$" and at + 1 < len(found)):
            parts.append(script[done : token.start] + "NULL")
            done = _end_of_parameter(found, at)
    return "".join([*parts, script[done:]])


def _end_of_parameter(found: list[Token], at: int) -> int:
    """The offset behind `?`, `?1`, `$1` or `$name`."""
    token = found[at]
    following = found[at + 1] if at + 1 < len(found) else None
    if following is None or following.start != token.end:
        return token.end
    return following.end if token.word == "$" or following.word.isdigit() else token.end


def open_at_end(script: str, found: Sequence[Token]) -> Token | None:
    """The comment, string or quoted name that a script does not end, None if it ends all.

    Args:
        found: the script's tokens.
    """
    start = found[-1].start if found else 0
    tail = script[start:]
    if found and "/*" not in tail and (found[-1].word or _is_closed(found[-1].text)):
        return None
    closed = tokens(f"{tail}\n;")
    if closed and closed[-1].start > len(tail):
        return None
    last = encoded(tail)[duckdb.tokenize(tail)[-1][0] :].decode()
    return Token("", last, len(script) - len(last))


def _is_closed(text: str) -> bool:
    """Returns whether a quoted token surely has its end: its quotes come in pairs."""
    return text[0] in ("'", *_QUOTES) and text.count(text[0]) % 2 == 0


def depths(tokens: Sequence[Token]) -> list[int]:
    """Counts the open parentheses after each token."""
    return list(accumulate([NESTING.get(token.word, 0) for token in tokens]))


def top_level(tokens: Sequence[Token]) -> list[int]:
    """Indexes of the tokens outside all parentheses, an outermost closing parenthesis included."""
    return [index for index, depth in enumerate(depths(tokens)) if depth == 0]


def split(tokens: Sequence[Token], between: str = ",") -> list[Sequence[Token]]:
    """Splits the tokens at each sign or word `between` outside all parentheses."""
    cuts = [index for index in top_level(tokens) if tokens[index].word == between]
    begins, ends = [0, *[cut + 1 for cut in cuts]], [*cuts, len(tokens)]
    return [tokens[begin:end] for begin, end in zip(begins, ends, strict=True)]


def text_of(script: str, tokens: Sequence[Token]) -> str:
    """The script's text from the first of the tokens to the last, "" if there are none."""
    return script[tokens[0].start : tokens[-1].end] if tokens else ""


class SourceText(NamedTuple):
    """One statement's text and its offset in its script."""

    script: str
    text: str
    offset: int


class Reader:
    """A cursor over the tokens of one statement; `at` is the index of the current token."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: Sequence[Token], at: int = 0) -> None:
        self.tokens = tokens
        self.at = at

    def peek(self, ahead: int = 0) -> str:
        """The word `ahead` tokens after the current one, "" after the last."""
        index = self.at + ahead
        return self.tokens[index].word if index < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Skips `words` if the next tokens are these; returns whether they are."""
        at, tokens, count = self.at, self.tokens, len(words)
        if at >= len(tokens) or tokens[at].word != words[0]:  # mostly so
            return False
        if count > 1 and tuple([token.word for token in tokens[at : at + count]]) != words:
            return False
        self.at += count
        return True

    def expect(self, *words: str) -> None:
        """Skips `words`, or raises SqlError at the first that is missing."""
        for word in words:
            if not self.accept(word):
                raise self.error(f"expected {word}")

    def error(self, reason: str) -> SqlError:
        """Returns an SqlError that names the current token."""
        if self.at >= len(self.tokens):
            return SqlError(f"syntax error at end of input: {reason}", self._end())
        here = self.tokens[self.at]
        return SqlError(f'syntax error at or near "{here.text}": {reason}', here.start)

    def _end(self) -> int:
        return self.tokens[-1].end if self.tokens else 0

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def finish(self) -> None:
        """Raises SqlError unless all tokens are read."""
        if not self.done:
            raise self.error("expected the end of the statement")

    def identifier(self) -> str:
        """Reads one name, quotes resolved.

        Raises:
            StringForNameError: a string stands in its place.
            SqlError: anything else does.
        """
        if not self.done and is_string(self.tokens[self.at]):
            before = self.tokens[self.at - 1].word if self.at else ""
            error = self.error("expected a name")
            raise StringForNameError(error, self.tokens[self.at], qualified=before == ".")
        return self.label()

    def label(self) -> str:
        """Reads the name of a column, or another that stands for no string."""
        if self.done or not is_name(self.tokens[self.at]):
            raise self.error("expected a name")
        self.at += 1
        return unquoted(self.tokens[self.at - 1])

    def name(self) -> tuple[str, ...]:
        """Reads a qualified name of any number of parts (schemas may be nested)."""
        parts = [self.identifier()]
        while self.accept("."):
            parts.append(self.identifier())
        return tuple(parts)

    def names(self) -> tuple[tuple[str, ...], ...]:
        """Reads qualified names separated by commas; DuckDB allows one behind the last."""
        found = [self.name()]
        while self.accept(",") and not self.done:
            found.append(self.name())
        return tuple(found)

    def columns(self) -> tuple[str, ...]:
        """Reads `(name, …)`, the parentheses included; DuckDB allows a comma before the last."""
        self.expect("(")
        found = [self.label()]
        while self.accept(",") and self.peek() != ")":
            found.append(self.label())
        self.expect(")")
        return tuple(found)

    def skip_parentheses(self) -> None:
        """Skips a balanced `( … )` that begins at the current token."""
        depth = 0
        while not self.done:
            word = self.peek()
            depth += (word == "(") - (word == ")")
            self.at += 1
            if depth == 0:
                return
        raise self.error("the parenthesis is not closed")

    def find(self, *words: str) -> bool:
        """Returns whether `words` stand in a row outside all parentheses at or after this token."""
        return self.index(*words) < len(self.tokens)

    def index(self, *words: str) -> int:
        """The index of the first token where `find` finds `words`, else the number of tokens."""
        tokens, wanted, depth = self.tokens, list(words), 0
        if words[0] not in [token.word for token in tokens[self.at :]]:  # mostly so
            return len(tokens)
        for at in range(self.at, len(tokens)):
            word = tokens[at].word
            depth += NESTING.get(word, 0)
            if depth == 0 and word == words[0]:
                row = [token.word for token in tokens[at : at + len(words)]]
                if row == wanted:
                    return at
        return len(tokens)


class StringForNameError(SqlError):
    """A string stands where a name is expected; in many such places DuckDB takes it for one.

    Attributes:
        token: the string.
        qualified: it stands behind a dot, where DuckDB takes its quotes, too, for the name's.
    """

    def __init__(self, error: SqlError, token: Token, *, qualified: bool) -> None:
        super().__init__(str(error), error.position)
        self.token = token
        self.qualified = qualified


def unquoted(token: Token) -> str:
    """The name that a token spells, without its quotes."""
    text = token.text
    sign = text[0]
    return text[1:-1].replace(sign * 2, sign) if sign in _QUOTES else text


def is_name(token: Token) -> bool:
    """Returns whether a token is a word or a quoted name."""
    first = token.text[:1]
    return first not in _NO_NAME if token.word else first in _QUOTES


def is_string(token: Token) -> bool:
    """Returns whether a token is a string in any quotes."""
    return not token.word and token.text[:1] not in _QUOTES
