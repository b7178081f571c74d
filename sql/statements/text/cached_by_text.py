"""What is found in a text, kept for the time when the same text comes again.

Law: what is kept depends on the text and the other arguments alone. Long texts are bulk data that
seldom come twice, of which much would be kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

LONGEST = 8192
"""Characters of a text that is worth to be kept."""


def kept(texts: int, long_texts: int = 0) -> Callable[[F], F]:
    """Keeps what a function of a text, and perhaps more, returns.

    Args:
        texts: the last texts for which it is kept.
        long_texts: the same of longer ones; one is for whoever looks at the same statement next.
    """

    def decorated(find: F) -> F:
        short, long = functools.lru_cache(texts)(find), functools.lru_cache(long_texts)(find)

        @functools.wraps(find)
        def found(text: str, *rest: Hashable) -> Any:
            return (short if len(text) <= LONGEST else long)(text, *rest)

        return cast(F, found)

    return decorated
