"""What is found in a text is kept: of many short ones, of the last long one."""

from __future__ import annotations

import pytest

from ivm.sql.statements.text.cached_by_text import LONGEST, kept
from ivm.sql.statements.text.tokens import kept_tokens


def test_short_texts_are_kept_and_of_the_long_ones_the_last() -> None:
    found = []

    @kept(texts=2, long_texts=1)
    def length(text: str, more: int = 0) -> int:
        found.append(text[:1])
        return len(text) + more

    long = [name * (LONGEST + 1) for name in "xy"]
    for text in ("a", "b", "a", "b", long[0], long[0], "a", long[1], long[0]):
        assert length(text) == len(text)
    assert found == ["a", "b", "x", "y", "x"]
    assert length("a", 1) == 2


@pytest.mark.full
def test_the_tokens_of_one_long_text_are_held() -> None:
    """They were of 64, of which each may have many megabytes."""
    texts = [f"SELECT {', '.join([str(i)] * LONGEST)}" for i in range(2)]
    first = kept_tokens(texts[0])
    assert kept_tokens(texts[0]) is first
    kept_tokens(texts[1])
    assert kept_tokens(texts[0]) is not first
