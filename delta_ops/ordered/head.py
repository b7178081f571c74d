"""The first rows of the one partition of an ORDER BY … LIMIT, as the last step left them.

Law: while the head is full, a change all of whose rows come behind the head's last row by the first
order key alone leaves the head as it is.
"""

from __future__ import annotations

from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import concat
from ivm.storage.values.order import term_codes
from ivm.storage.values.zset import ZSet


class Head:
    """The first rows.

    Args:
        layout: of the arrangement they were found in.
        found: at most `size` live rows, in order.
        size: of a full head.
    """

    def __init__(self, layout: Layout, found: Matches, size: int) -> None:
        self.found = found
        rows = found.rows
        self._term = layout.terms[0]
        self._full = size > 0 and int(rows.weights.sum()) == size
        self._last = rows.columns[self._term.column].slice(max(len(rows) - 1, 0), len(rows))

    def stands(self, delta: ZSet) -> bool:
        """Whether the delta's rows surely come behind."""
        if not self._full:
            return False
        codes = term_codes(concat([self._last, delta.columns[self._term.column]]), self._term)
        return bool((codes[1:] > codes[0]).all())
