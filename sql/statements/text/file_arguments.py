"""Where a statement names the files that it reads.

Law: what stands as a relation (`FROM 'path'`, `COPY … FROM 'path'`) or in a call that does
(`read_csv('path')`, also in a list) is there; texts that are values, and paths that a macro or a
plain view has, are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ivm.sql.statements.text.cached_by_text import kept
from ivm.sql.statements.text.tokens import Token, is_string, kept_tokens
from ivm.storage.identifiers import WORD_CHARACTER, fold

_QUOTES = "'\"?$"
_READERS = ("read_", "sniff_", "parquet_", "scan_", "glob")
_MARKS = (*_READERS, "_scan")
_ARGUMENT = r"""\(\s*(?:\w+\s*(?::=|=>)\s*)?['"\[$?]"""
_MAY = re.compile(
    rf"""(?:from|join|using|lateral)\b\s*(?:['"]|[^'"(),;]*{_ARGUMENT})|,\s*['"][^'"]*/"""
)
_NAME = re.compile(rf'"|{WORD_CHARACTER}')
_RELATIONS = frozenset(("FROM", "JOIN", "USING"))
_BEFORE = frozenset((*_RELATIONS, "LATERAL", ","))
_OTHERS = frozenset(
    (
        *("SELECT", "WHERE", "ON", "SET", "VALUES", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"),
        *("QUALIFY", "WINDOW", "RETURNING", "UNION", "EXCEPT", "INTERSECT", "WHEN", "TO"),
    )
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class FileArgument(NamedTuple):
    """A literal or parameter that names a file.

    Attributes:
        start, end: of the literal in the text.
        parameter: its number from 0, or its name; None for a literal.
    """

    start: int
    end: int
    parameter: int | str | None


class _Level(NamedTuple):
    """What is known within parentheses."""

    in_call: bool = False  # that reads files
    in_from: bool = False


@kept(texts=1024)
def file_arguments(text: str) -> Sequence[FileArgument]:
    """The places of a statement's text where it names files."""
    return _Finder(kept_tokens(text)).found() if _may_name_one(text) else ()


def _may_name_one(text: str) -> bool:
    """Returns whether a text, which comes with other literals each time, is worth its tokens."""
    if not any(quote in text for quote in _QUOTES):
        return False
    folded = text.lower()
    return any(mark in folded for mark in _MARKS) or _MAY.search(folded) is not None


class _Finder:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens

    def found(self) -> list[FileArgument]:
        """The arguments, in order."""
        found, levels, marks = [], [_Level()], 0
        for i, token in enumerate(self._tokens):
            level = levels[-1]
            if token.word in _OPENING:
                levels.append(_Level(self._is_call(i, level)))
            elif token.word in _CLOSING and len(levels) > 1:
                levels.pop()
            elif token.word in _RELATIONS or token.word in _OTHERS:
                levels[-1] = level._replace(in_from=token.word in _RELATIONS)
            elif (level.in_call or self._is_relation(i, level)) and self._is_literal(i, level):
                found.append(FileArgument(token.start, token.end, None))
            parameter = self._parameter(i, marks)
            if parameter is not None and level.in_call:
                found.append(FileArgument(token.start, token.end, parameter))
            marks += token.word == "?"
        return found

    def _before(self, i: int) -> Token:
        return self._tokens[i - 1] if i > 0 else Token("", "", 0)

    def _is_relation(self, i: int, level: _Level) -> bool:
        """Returns whether what begins here stands as a relation."""
        return level.in_from and self._before(i).word in _BEFORE

    def _is_literal(self, i: int, level: _Level) -> bool:
        """Returns whether a token is a string, or a quoted name in the place of a relation."""
        token = self._tokens[i]
        return is_string(token) or (token.text[0] == '"' and not level.in_call)

    def _is_call(self, i: int, level: _Level) -> bool:
        """Returns whether the parenthesis is that of a call that reads files, or in one."""
        name = self._before(i)
        if self._tokens[i].word != "(" or _NAME.match(name.text) is None:
            return level.in_call
        called = fold(name.text.strip('"'))
        if level.in_call or called.startswith(_READERS) or called.endswith("_scan"):
            return True
        first = i - 1
        while self._before(first).word == ".":
            first -= 2
        return name.word not in _BEFORE and self._is_relation(first, level)

    def _parameter(self, i: int, marks: int) -> int | str | None:
        """The number or name of the parameter that begins here."""
        word, after = self._tokens[i].word, self._tokens[i + 1 : i + 2]
        if word not in ("?", "$"):
            return None
        named = [t.text for t in after if t.start == self._tokens[i].end and t.word != ")"]
        if word == "?":
            return int(named[0]) - 1 if named and named[0].isdigit() else marks
        if not named:
            return None
        return int(named[0]) - 1 if named[0].isdigit() else named[0]
