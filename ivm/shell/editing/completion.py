"""Completion: a pure function from the text around the cursor to suggestions.

`expected_kinds` finds the kinds of text that may follow at the cursor, and `suggest` lists the
names of these kinds. Neither touches a database or a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ivm.shell.editing.expected import COMMAND_LINE, expected_kinds, last_part, word_before
from ivm.shell.editing.expected_kind import Expected
from ivm.shell.editing.scope import CompletionScope, scope_of
from ivm.shell.editing.stream_options import options, values
from ivm.shell.editing.words import CLAUSES, STATEMENTS, TABLE_FUNCTIONS, TYPES
from ivm.storage.identifiers import canonical_name, quote, split_name


@dataclass(frozen=True)
class Column:
    name: str
    type: str


Relations = Mapping[str, Sequence[Column]]
"""Columns by the relation's name."""


@dataclass(frozen=True)
class Vocabulary:
    """The names in the database.

    Attributes:
        tables, views: columns by name (`name`, or `schema.name` outside the schema main).
        functions: names of functions.
        reserved: words that are names only in quotes, lower case.
        commands: dot commands with their dot, and their help texts.
        sources, sinks: their kinds by name.
    """

    tables: Relations = field(default_factory=dict)
    views: Relations = field(default_factory=dict)
    functions: Sequence[str] = ()
    reserved: frozenset[str] = frozenset()
    commands: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suggestion:
    """A text that replaces the `replaces` characters before the cursor."""

    text: str
    replaces: int
    kind: str
    detail: str = ""


def suggest(before: str, after: str, names: Vocabulary) -> list[Suggestion]:
    """Returns suggestions for the cursor between `before` and `after`, best first.

    Files are not among them: only `SqlCompleter` reads the disk.
    """
    last = last_part(before)
    word = _command_word(last) if last.startswith(".") else word_before(last)
    coming = "_" if last.endswith(".") else ""  # a name: what follows the cursor is none
    scope = scope_of(last + coming + after.partition(";")[0])
    found: dict[str, Suggestion] = {}
    for expected in expected_kinds(before):
        for text, detail in _listed(expected, names, scope):
            if _matches(word, text):
                shown = _spelled(text, word, expected.kind, names.reserved)
                kind = "keyword" if expected.kind in _PHRASES else expected.kind
                found.setdefault(shown.lower(), Suggestion(shown, len(word), kind, detail))
    return sorted(found.values(), key=lambda s: not _begins(word, s.text))


def _command_word(line: str) -> str:
    """Returns the part of a command line before the cursor: the command, or its argument."""
    found = COMMAND_LINE.match(line)
    assert found is not None
    return found[1] if found[2] is None else found[3]


def _begins(word: str, text: str) -> bool:
    return text.lower().lstrip('"').startswith(word.lower().lstrip('"'))


def _matches(word: str, text: str) -> bool:
    """Returns whether the text, or a word of a name with underscores, begins with `word`."""
    plain = word.lower().lstrip('"')
    lower = text.lower().lstrip('"')
    if lower == plain:
        return bool(not plain)
    return lower.startswith(plain) or (len(plain) > 1 and f"_{plain}" in lower)


_PHRASES = {"statement", "clause", "type", "word"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE)


def _spelled(text: str, word: str, kind: str, reserved: frozenset[str]) -> str:
    """Writes keywords in the case of `word`, and names in quotes where they need them."""
    if kind in ("statement", "clause", "type"):
        return text.lower() if word and word == word.lower() else text
    if kind in ("relation", "table", "view", "column", "source", "sink"):
        return ".".join(quoted(part, reserved) for part in split_name(text))
    return text


def quoted(name: str, reserved: frozenset[str] = frozenset()) -> str:
    """Writes a name as SQL, in quotes where it needs them."""
    plain = _PLAIN_NAME.match(name) and name.lower() not in reserved
    return name if plain else quote(name)


Listed = Iterator[tuple[str, str]]
"""Texts, each with its detail."""


def _listed(expected: Expected, names: Vocabulary, scope: CompletionScope) -> Listed:
    """Yields all of one kind in the database, the statement or the language."""
    match expected.kind:
        case "relation":
            yield from ((name, "with") for name in scope.queries)
            yield from (*_sized("view", names.views), *_sized("table", names.tables))
            yield from ((name, "function") for name in TABLE_FUNCTIONS if name in names.functions)
        case "table":
            yield from _sized("table", names.tables)
        case "view":
            yield from _sized("view", names.views)
        case "column":
            relations = {**names.tables, **names.views}
            if expected.of:
                yield from _qualified(expected.of, scope, relations)
            else:
                yield from _unqualified(scope, relations)
        case "function":
            yield from ((name, "function") for name in names.functions)
        case "command":
            yield from names.commands.items()
        case "source":
            yield from names.sources.items()
        case "sink":
            yield from names.sinks.items()
        case "option":
            yield from options(expected.of, names.sources, names.sinks)
        case "value":
            yield from values(expected.of, names.sources, names.sinks)
        case "type":
            yield from ((text, "type") for text in TYPES)
        case _:
            texts = {"statement": STATEMENTS, "clause": CLAUSES, "word": expected.of}
            yield from ((text, "") for text in texts.get(expected.kind, ()))


def _sized(kind: str, relations: Relations) -> Listed:
    return ((name, f"{kind}, {len(columns)} columns") for name, columns in relations.items())


def _unqualified(scope: CompletionScope, relations: Relations) -> Listed:
    """Yields the columns of the statement's relations, or of all, and the statement's aliases."""
    seen = [r for r in (_find(relations, name) for name in scope.relations.values()) if r]
    for relation in seen or relations:
        for column in relations[relation]:
            yield column.name, f"{column.type.lower()}  {relation}"
    yield from ((alias, "alias") for alias in scope.relations)


def _qualified(of: tuple[str, ...], scope: CompletionScope, relations: Relations) -> Listed:
    """Yields the columns of one relation, and the relations of one schema."""
    name = canonical_name(of)
    relation = _find(relations, scope.relations.get(name.lower(), name))
    for column in relations[relation] if relation else ():
        yield column.name, column.type.lower()
    for other in relations:
        if other.lower().startswith(name.lower() + "."):
            yield other[len(name) + 1 :], "table"


def _find(relations: Relations, name: str) -> str | None:
    plain = name.lower().removeprefix("main.")
    return next((relation for relation in relations if relation.lower() == plain), None)
