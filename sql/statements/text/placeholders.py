"""The parameters of a statement's text: `?`, `$1` and `$name`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ivm.sql.statements.text.tokens import Token, is_name, tokens


def placeholders(text: str) -> Iterator[tuple[str, int, int]]:
    """The parameters in order: name (of `?` its number), start offset and end offset."""
    count = 0
    found = tokens(text)
    for mark, after in zip(found, (*found[1:], Token("", "", len(text))), strict=True):
        if mark.word in ("?", "$"):
            word = after.word if after.start == mark.end else ""
            named = word != "" and (word[0].isdigit() or is_name(after))
            count += not named
            name = after.text.lower() if named else str(count)
            yield name, mark.start, after.end if named else mark.end


def has_names(text: str) -> bool:
    """Returns whether a parameter of the text is a `$name`."""
    return any(not name.isdigit() for name, _, _ in placeholders(text))


def filled(text: str, written: Callable[[str], str]) -> str:
    """The text with each parameter replaced by what is written for its name."""
    found, at = "", 0
    for name, start, end in placeholders(text):
        found += f"{text[at:start]}{written(name)}"
        at = end
    return found + text[at:]
