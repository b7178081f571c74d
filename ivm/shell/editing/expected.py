"""Finds the kinds of text that may follow at the cursor: a pure function of the text before it.

Limit: it reads the tokens of a statement that does not parse yet, so it is a good guess, not a
grammar; in doubt it expects all parts of an expression.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ivm.shell.editing.expected_kind import Expected
from ivm.shell.editing.expected_streams import in_stream_statement
from ivm.shell.editing.script import open_sign, parts
from ivm.sql.statements.text.tokens import Token, tokens

_COMMAND_ARGUMENTS = {
    ".watch": Expected("view"),
    ".explain": Expected("view"),
    ".schema": Expected("relation"),
    ".read": Expected("file"),
    ".open": Expected("file"),
    ".mode": Expected("word", ("table", "line", "csv", "json", "markdown")),
    ".sources": Expected("word", ("start", "stop")),
    ".timer": Expected("word", ("on", "off")),
    ".help": Expected("command"),
}

_BEFORE_RELATION = {"FROM", "JOIN", "DESCRIBE", "SUMMARIZE", "PIVOT", "UNPIVOT"}
_BEFORE_TABLE = {"INTO", "UPDATE", "TRUNCATE", "COPY", "TABLE", "REFERENCES"}
_BEFORE_VIEW = {"SUBSCRIBE", "VIEW"}
_BEFORE_STATEMENT = {"EXPLAIN", "CREATE", "DROP", "WITH", "PREPARE", "COPY"}
_LISTS = {  # a comma continues the list that the last of these words began
    "FROM": (Expected("relation"),),
    "JOIN": (Expected("relation"),),
    "SELECT": (Expected("column"), Expected("function")),
    "BY": (Expected("column"), Expected("function")),
    "SET": (Expected("column"),),
}
_CLAUSE_STARTS = {"WHERE", "HAVING", "ON", "LIMIT", "VALUES", "RETURNING", "QUALIFY", *_LISTS}
_EXPRESSION = (Expected("column"), Expected("function"), Expected("clause"))
_FILE_FUNCTIONS = re.compile(r"(?:FROM|JOIN|COPY|TO|PATH|READ_\w+\s*\()\s*$", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d]\w*\Z")
COMMAND_LINE = re.compile(r"(\.\w*)(\s+)?(.*)\Z", re.DOTALL)


def expected_kinds(before: str) -> tuple[Expected, ...]:
    """Returns the kinds that may follow `before`, its unfinished word excluded."""
    last = last_part(before)
    if last.startswith("."):
        return _after_command(last)
    sign = open_sign(last)
    if sign == "'":
        return (Expected("file"),) if _FILE_FUNCTIONS.search(last[: last.rindex("'")]) else ()
    if sign not in (None, '"'):
        return ()
    done = tokens(last[: len(last) - len(word_before(last))])
    in_number = done and done[-1].word[:1].isdigit() and done[-1].end == len(last)
    return () if in_number else _after_tokens(done)


def last_part(before: str) -> str:
    """Returns the unfinished statement or command at the end of the text, or the comments there."""
    found = list(parts(before))
    if not found:
        return before
    rest = before[found[-1].offset :]
    if found[-1].is_command:
        line, newline, rest = rest.partition("\n")
        return rest if newline else line
    return rest[len(found[-1].text) :].partition(";")[2] if found[-1].closed else rest


def _after_command(line: str) -> tuple[Expected, ...]:
    found = COMMAND_LINE.match(line)
    assert found is not None
    if found[2] is None:
        return (Expected("command"),)
    argument = _COMMAND_ARGUMENTS.get(found[1].lower())
    return (argument,) if argument else ()


def word_before(before: str) -> str:
    """Returns the unfinished word or quoted name at the end, "" after a blank or a sign."""
    if open_sign(before) == '"':
        return before[before.rindex('"') :]
    found = _WORD.search(before)
    return found.group() if found else ""


def _after_tokens(done: Sequence[Token]) -> tuple[Expected, ...]:
    if not done:
        return (Expected("statement"),)
    if (found := in_stream_statement(done)) is not None:
        return found
    word = done[-1].word
    if word == ".":
        return (Expected("column", _qualifier(done)),)
    previous = done[-2].word if len(done) > 1 else ""
    if word == "VIEW" and done[0].word == "CREATE":
        return (Expected("clause"),)
    if word == "TO" and previous == "SUBSCRIBE":
        return (Expected("view"),)
    for words, kind in ((_BEFORE_VIEW, "view"), (_BEFORE_TABLE, "table")):
        if word in words and not (word == "UPDATE" and previous == "DO"):
            return (Expected(kind),)
    if word in _BEFORE_RELATION:
        return (Expected("relation"),)
    if word in ("EXISTS", "EXPLAIN", "ANALYZE", "AS") and done[0].word in _BEFORE_STATEMENT:
        return (Expected(_after_opener(done)),)
    return _inside(done)


def _after_opener(done: Sequence[Token]) -> str:
    """Returns the kind after IF EXISTS, or after a word that a statement follows."""
    if done[-1].word != "EXISTS":
        return "statement"
    if done[0].word != "DROP":
        return "clause"
    return "view" if _has(done, "VIEW") else "table"


def _has(done: Sequence[Token], word: str) -> bool:
    return any(token.word == word for token in done)


def _qualifier(done: Sequence[Token]) -> tuple[str, ...]:
    """Returns the parts of a name before a dot: ("s", "t") of `s.t.`."""
    found: list[str] = []
    at = len(done) - 1
    while at > 0 and done[at].word == ".":
        found.insert(0, _plain(done[at - 1].text))
        at -= 2
    return tuple(found)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name[:1] == '"' else name


def _inside(done: Sequence[Token]) -> tuple[Expected, ...]:
    """Returns the kinds that may follow inside a clause, at the begin of an item or after it."""
    word = done[-1].word
    if word == "::" or _declares(done):
        return (Expected("type"), Expected("clause"))
    opener = _enclosing(done)
    if opener is not None and done[opener - 1].word == "USING":
        return (Expected("column"),)
    if opener is not None and done[0].word == "INSERT" and not _has(done, "VALUES"):
        return (Expected("column"),)
    if word in (",", "SELECT", "BY", "SET", "DISTINCT"):
        return _LISTS.get(_clause(done, opener), _EXPRESSION[:2])
    if word == "(" and opener is not None and done[opener - 1].word in ("AS", "IN", "FROM", "JOIN"):
        return (Expected("statement"), *_EXPRESSION)
    return _EXPRESSION


def _declares(done: Sequence[Token]) -> bool:
    """Returns whether a type follows: `CREATE TABLE t (a `, `CAST(x AS `, `ADD COLUMN a `."""
    opener = _enclosing(done)
    if done[-1].word == "AS" and opener is not None:
        return done[opener - 1].word in ("CAST", "TRY_CAST")
    if done[0].word == "CREATE" and _has(done, "TABLE") and not _has(done, "AS"):
        return len(done) > 2 and done[-2].word in ("(", ",")
    return len(done) > 1 and done[-2].word == "COLUMN"


def _enclosing(done: Sequence[Token]) -> int | None:
    """Returns the index of the parenthesis that is open at the end, None outside all."""
    depth = 0
    for at in range(len(done) - 1, -1, -1):
        depth += (done[at].word == ")") - (done[at].word == "(")
        if depth < 0:
            return at
    return None


def _clause(done: Sequence[Token], opener: int | None) -> str:
    """Returns the word that began the clause at the end, at the same depth."""
    depth = 0
    for token in reversed(done[(opener or -1) + 1 :]):
        depth += (token.word == ")") - (token.word == "(")
        if depth == 0 and token.word in _CLAUSE_STARTS:
            return token.word
    return ""
