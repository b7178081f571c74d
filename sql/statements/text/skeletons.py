"""The text of a statement without its literals, found without DuckDB's tokenizer.

Law: two texts of one skeleton have the same tokens, but for the values of strings, of integers and
of numbers with a point. A text with a comment, `$` or a letter before a quote has none: there a
quote or a digit may be no literal's.
"""

from __future__ import annotations

import re

from ivm.storage.identifiers import WORD_CHARACTER as _LETTER

_NAME = r'"(?:[^"]|"")*"'
_NUMBER = rf"(?<![$?.])(?<!{_LETTER})[0-9]+(\.[0-9]+)?(?![.'])(?!{_LETTER})"
_STRING = rf"(?<!&)(?<!{_LETTER})'(?:[^']|'')*'(?!')"
_SURE = re.compile(f"{_NAME}|{_NUMBER}|{_STRING}")
_UNSURE = re.compile(rf"--|/\*|\$|(?:&|{_LETTER})'")


def skeleton_of(text: str) -> str | None:
    """The text in which all numbers are 0 or 0., and all strings are empty; None if it has none."""
    # What makes it unsure is in no match: it would have to begin in one that began before.
    found = _SURE.sub(_shown, text)
    return None if _UNSURE.search(found) else found


def _shown(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == '"':
        return text
    if text[0] == "'":
        return "''"
    return "0." if found[1] else "0"
