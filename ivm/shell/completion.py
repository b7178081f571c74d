"""What could be typed next: a pure function from the text around the cursor to suggestions.

`wants` says which kinds of thing may stand at the cursor, `suggest` fills the kinds in from the
names of the database. Neither touches a database or a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ivm.shell.expected import COMMAND_LINE, Want, last_part, wants, word_before
from ivm.shell.scope import CompletionScope, scope_of
from ivm.shell.words import CLAUSES, STATEMENTS, TABLE_FUNCTIONS, TYPES
from ivm.storage.identifiers import canonical_name, quote, split_name


@dataclass(frozen=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True)
class Vocabulary:
    """What there is in the database.

    Attributes:
        tables, views: columns by name (`name`, or `schema.name` outside the schema main).
        functions: names of functions.
        reserved: words that are names only in quotes, lower case.
        commands: dot commands with their dot, and what they do.
    """

    tables: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    views: Mapping[str, Sequence[Column]] = field(default_factory=dict)
    functions: Sequence[str] = ()
    reserved: frozenset[str] = frozenset()
    commands: Mapping[str, str] = field(default_factory=dict)

    @property
    def relations(self) -> dict[str, Sequence[Column]]:
        return {**self.tables, **self.views}


@dataclass(frozen=True)
class Suggestion:
    """Text to put in place of the `replaces` characters before the cursor."""

    text: str
    replaces: int
    kind: str
    detail: str = ""


def suggest(before: str, after: str, names: Vocabulary) -> list[Suggestion]:
    """Suggestions for the cursor between `before` and `after`, best first.

    Files are not among them: only the terminal's side may look at a disk (see `wants`).
    """
    last = last_part(before)
    word = _command_word(last) if last.startswith(".") else word_before(last)
    scope = scope_of(last + after.partition(";")[0])
    found: dict[str, Suggestion] = {}
    for want in wants(before):
        for text, detail in _FILL[want.kind](want, names, scope):
            if _matches(word, text):
                shown = _spelled(text, word, want.kind, names.reserved)
                kind = "keyword" if want.kind in _PHRASES else want.kind
                found.setdefault(shown.lower(), Suggestion(shown, len(word), kind, detail))
    return sorted(found.values(), key=lambda s: not _begins(word, s.text))


def _command_word(line: str) -> str:
    """What of a command line is being completed: the command, or its argument."""
    found = COMMAND_LINE.match(line)
    assert found is not None
    return found[1] if found[2] is None else found[3]


def _begins(word: str, text: str) -> bool:
    return text.lower().lstrip('"').startswith(word.lower().lstrip('"'))


def _matches(word: str, text: str) -> bool:
    """By its beginning, or for a name of several words by the beginning of one of them."""
    plain = word.lower().lstrip('"')
    lower = text.lower().lstrip('"')
    if lower == plain:
        return bool(not plain)
    return lower.startswith(plain) or (len(plain) > 1 and f"_{plain}" in lower)


_PHRASES = {"statement", "clause", "type", "word"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z", re.IGNORECASE)


def _spelled(text: str, word: str, kind: str, reserved: frozenset[str]) -> str:
    """Keywords follow the case that was begun; names are quoted where they must be."""
    if kind in ("statement", "clause", "type"):
        return text.lower() if word and word == word.lower() else text
    if kind in ("relation", "table", "view", "column"):
        return ".".join(quoted(part, reserved) for part in split_name(text))
    return text


def quoted(name: str, reserved: frozenset[str]) -> str:
    """A name as SQL, in quotes where it must be."""
    plain = _PLAIN_NAME.match(name) and name.lower() not in reserved
    return name if plain else quote(name)


Filler = Iterator[tuple[str, str]]


def _columns(want: Want, names: Vocabulary, scope: CompletionScope) -> Filler:
    relations = names.relations
    if want.of:
        yield from _qualified(want.of, relations, scope)
        return
    seen = [r for r in (_find(relations, name) for name in scope.relations.values()) if r]
    for relation in seen or relations:
        for column in relations[relation]:
            yield column.name, f"{column.type.lower()}  {relation}"
    for alias in scope.relations:
        yield alias, "alias"


def _qualified(
    of: tuple[str, ...], relations: Mapping[str, Sequence[Column]], scope: CompletionScope
) -> Filler:
    name = canonical_name(of)
    relation = _find(relations, scope.relations.get(name.lower(), name))
    for column in relations[relation] if relation else ():
        yield column.name, column.type.lower()
    for other in relations:
        if other.lower().startswith(name.lower() + "."):
            yield other[len(name) + 1 :], "table"


def _find(relations: Mapping[str, Sequence[Column]], name: str) -> str | None:
    plain = name.lower().removeprefix("main.")
    return next((relation for relation in relations if relation.lower() == plain), None)


def _relations(want: Want, names: Vocabulary, scope: CompletionScope) -> Filler:
    yield from ((name, "with") for name in scope.queries)
    yield from _views(want, names, scope)
    yield from _tables(want, names, scope)
    yield from ((name, "function") for name in TABLE_FUNCTIONS if name in names.functions)


def _tables(want: Want, names: Vocabulary, scope: CompletionScope) -> Filler:
    for name, columns in names.tables.items():
        yield name, f"table, {len(columns)} columns"


def _views(want: Want, names: Vocabulary, scope: CompletionScope) -> Filler:
    for name, columns in names.views.items():
        yield name, f"view, {len(columns)} columns"


_FILL: dict[str, Callable[[Want, Vocabulary, CompletionScope], Filler]] = {
    "statement": lambda want, names, scope: ((text, "") for text in STATEMENTS),
    "clause": lambda want, names, scope: ((text, "") for text in CLAUSES),
    "type": lambda want, names, scope: ((text, "type") for text in TYPES),
    "word": lambda want, names, scope: ((text, "") for text in want.of),
    "relation": _relations,
    "table": _tables,
    "view": _views,
    "column": _columns,
    "function": lambda want, names, scope: ((text, "function") for text in names.functions),
    "command": lambda want, names, scope: iter(names.commands.items()),
    "file": lambda want, names, scope: iter(()),
}
