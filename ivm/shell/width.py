"""Widths: how much room text takes on a terminal, and how columns share a line.

Law: `fit` returns widths whose table is no wider than the line (unless not even two narrow columns
fit); a column is only narrowed once every wider one is down to its width.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

_NARROW = 10  # no column is cut below this while columns can be left out
_BORDER = 3  # blank, bar, blank


def pad(text: str, width: int, to_right: bool) -> str:
    """`text` with blanks up to `width` terminal columns."""
    blanks = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return blanks + text if to_right else text + blanks


def clip(text: str, width: int) -> str:
    """`text` cut to `width` terminal columns, an ellipsis as the last one."""
    if len(text) * 2 <= width or (len(text) <= width and text.isascii()):
        return text
    if cell_len(text) <= width:
        return text
    kept, room = 0, width - 1
    for char in text:
        room -= cell_len(char)
        if room < 0:
            break
        kept += 1
    return text[:kept] + "…"


def fit(rooms: Sequence[int], width: int | None) -> tuple[list[int | None], list[int]]:
    """Which columns to show, and how wide each.

    Args:
        rooms: the width each column would like.
        width: of the whole table with its borders; None: endless.

    Returns:
        Positions of the columns kept (None stands for those left out in the middle) and widths.
    """
    kept: list[int | None] = list(range(len(rooms)))
    if width is None:
        return kept, list(rooms)
    while True:
        wishes = [1 if i is None else rooms[i] for i in kept]
        room = width - 1 - _BORDER * len(kept)
        least = sum(min(wish, _NARROW) for wish in wishes)
        if least <= room or len([i for i in kept if i is not None]) <= 2:
            return kept, _level(wishes, max(room, len(kept)))
        kept = _without_middle(kept)


def _without_middle(kept: list[int | None]) -> list[int | None]:
    """One column less, taken from the middle, where None stands for all that are gone."""
    columns = [i for i in kept if i is not None]
    middle = len(columns) // 2
    return [*columns[:middle], None, *columns[middle + 1 :]]


def _level(wishes: Sequence[int], room: int) -> list[int]:
    """Cut the widest columns to one common width so that the sum is at most `room`."""
    if sum(wishes) <= room:
        return list(wishes)
    low, high = 1, max(wishes)
    while low < high:
        cap = (low + high + 1) // 2
        if sum(min(wish, cap) for wish in wishes) <= room:
            low = cap
        else:
            high = cap - 1
    widths = [min(wish, low) for wish in wishes]
    spare = room - sum(widths)
    for i, wish in enumerate(wishes):
        if spare > 0 and wish > widths[i]:
            widths[i] += 1
            spare -= 1
    return widths
