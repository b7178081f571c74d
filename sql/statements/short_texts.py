"""What is found in a text, kept for the time when the same text comes again.

Law: what is kept depends on the text and the other arguments alone. Long texts are bulk data that
seldom come twice, and are not kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

LONGEST = 8192
"""Characters of a text that is kept."""


def kept(texts: int) -> Callable[[F], F]:
    """Keeps what a function of a text, and perhaps more, returns.

    Args:
        texts: the last texts for which it is kept.
    """

    def decorated(find: F) -> F:
        known = functools.lru_cache(maxsize=texts)(find)

        @functools.wraps(find)
        def found(text: str, *rest: Hashable) -> Any:
            return (known if len(text) <= LONGEST else find)(text, *rest)

        return cast(F, found)

    return decorated
