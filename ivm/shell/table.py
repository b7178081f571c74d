"""Draws a result as a table: box drawing for people, markdown and `line` for other uses.

Law: on a terminal only the rows that are shown are ever turned into text, so a result of 10⁵ rows
costs as much to draw as one of 40. No line is wider than the terminal (unless not even two narrow
columns fit), and a column is only narrowed once every wider one is down to its width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich.cells import cell_len

from ivm.shell.cell_text import Texts, texts
from ivm.shell.output import Paint

SHOWN_ROWS = 40
_TYPE_ROOM = 16  # a type name alone does not make its column wider than this
_RIGHT = ("INT", "DECIMAL", "FLOAT", "DOUBLE", "BIGNUM", "REAL")  # UBIGINT, HUGEINT, … too
_NULL = "NULL"
_NARROW = 10  # no column is cut below this while columns can be left out
_BORDER = 3  # blank, bar, blank
_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160))}
_CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 27: "\\e"}


@dataclass(frozen=True)
class Shown:
    """The part of a result that is drawn.

    Attributes:
        names, types: of all columns.
        cells: text of the shown rows, a list a column.
        split: shown rows that stand before the gap.
        hidden: rows left out in the gap.
    """

    names: Sequence[str]
    types: Sequence[str]
    cells: Sequence[Texts]
    split: int
    hidden: int

    @property
    def rows(self) -> int:
        return len(self.cells[0]) if self.cells else 0


def shown_part(
    names: Sequence[str],
    types: Sequence[str],
    table: pa.Table,
    limit: int | None = SHOWN_ROWS,
    zone: str | None = None,
) -> Shown:
    """The first and last rows of a table, `limit` in all, as text (all rows if None)."""
    total = table.num_rows
    if limit is None or total <= limit:
        return Shown(names, types, _clean(texts(table, zone)), total, 0)
    head = (limit + 1) // 2
    ends = pa.concat_tables([table.slice(0, head), table.slice(total - (limit - head))])
    return Shown(names, types, _clean(texts(ends, zone)), head, total - limit)


def box(
    shown: Shown,
    width: int | None,
    paint: Paint,
    marked: frozenset[tuple[str | None, ...]] = frozenset(),
) -> Iterator[str]:
    """A DuckDB-like table: names, types, rows; columns that do not fit are left out in the middle.

    Args:
        shown: what to draw.
        width: columns of the terminal; None: endless.
        paint: colours.
        marked: rows (their texts) to be drawn in the colour of added rows.
    """
    kept, widths = fit([_room(shown, i) for i in range(len(shown.names))], width)
    frame = _Frame(widths, paint)
    yield frame.rule("┌", "┬", "┐")
    yield frame.row(
        [_centred(shown.names, i, w) for i, w in zip(kept, widths, strict=True)], "bold"
    )
    types = [name.lower() for name in shown.types]
    yield frame.row([_centred(types, i, w) for i, w in zip(kept, widths, strict=True)], "dim")
    yield frame.rule("├", "┼", "┤")
    right = [i is not None and numeric(shown.types[i]) for i in kept]
    for row in range(shown.rows):
        if row == shown.split and shown.hidden:
            yield frame.gap(shown.hidden)
        style = "added" if marked and tuple(c[row] for c in shown.cells) in marked else ""
        cells = [_ELLIPSIS if i is None else shown.cells[i][row] for i in kept]
        yield frame.data(cells, right, style)
    yield frame.rule("└", "┴", "┘")


_ELLIPSIS = "…"


class _Frame:
    """The lines of a table with columns of fixed width."""

    def __init__(self, widths: Sequence[int], paint: Paint) -> None:
        self._widths = widths
        self._paint = paint
        self._bar = paint("dim", "│")

    def rule(self, left: str, middle: str, right: str) -> str:
        return self._paint("dim", left + middle.join("─" * (w + 2) for w in self._widths) + right)

    def row(self, cells: Sequence[str], style: str) -> str:
        """Cells already padded, all in one style."""
        inner = f" {self._bar} ".join(self._paint(style, cell) for cell in cells)
        return f"{self._bar} {inner} {self._bar}"

    def data(self, cells: Sequence[str | None], right: Sequence[bool], style: str) -> str:
        return self.row_of(
            self._cell(cell, width, to_right, style)
            for cell, width, to_right in zip(cells, self._widths, right, strict=True)
        )

    def row_of(self, cells: Iterator[str]) -> str:
        return f"{self._bar} " + f" {self._bar} ".join(cells) + f" {self._bar}"

    def _cell(self, cell: str | None, width: int, to_right: bool, style: str) -> str:
        text = pad(clip(_NULL if cell is None else cell, width), width, to_right)
        if cell is None:
            return self._paint("dim", text)
        return self._paint(style, text) if style else text

    def gap(self, hidden: int) -> str:
        """The line that stands for the rows left out."""
        room = sum(self._widths) + 3 * (len(self._widths) - 1)
        text = f"… {hidden:,} rows"
        if len(text) > room:
            dots = (pad("⋮".center(w), w, False) for w in self._widths)
            return self.row_of(self._paint("dim", dot) for dot in dots)
        return f"{self._bar} {self._paint('dim', text.center(room))} {self._bar}"


def columns_shown(shown: Shown, width: int | None) -> int:
    """How many columns `box` shows."""
    kept, _ = fit([_room(shown, i) for i in range(len(shown.names))], width)
    return sum(i is not None for i in kept)


def markdown(shown: Shown) -> Iterator[str]:
    """A GitHub-flavoured markdown table of all shown rows."""
    columns = [[(c or "").replace("|", "\\|") for c in column] for column in shown.cells]
    names = [name.replace("|", "\\|") for name in shown.names]
    widths = [
        max(3, *map(cell_len, (name, *column))) for name, column in zip(names, columns, strict=True)
    ]
    right = [numeric(name) for name in shown.types]
    yield _markdown_row([pad(n, w, r) for n, w, r in zip(names, widths, right, strict=True)])
    rules = ["-" * (w - r) + ":" * r for w, r in zip(widths, right, strict=True)]
    yield _markdown_row(rules)
    for row in zip(*columns, strict=True):
        yield _markdown_row([pad(c, w, r) for c, w, r in zip(row, widths, right, strict=True)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def line_by_line(shown: Shown, paint: Paint) -> Iterator[str]:
    """A line a cell, for rows too wide for a table."""
    width = max(map(cell_len, shown.names), default=0)
    for row in range(shown.rows):
        if row == shown.split and shown.hidden:
            yield paint("dim", f"… {shown.hidden:,} rows")
        if row:
            yield ""
        for name, column in zip(shown.names, shown.cells, strict=True):
            cell = column[row]
            value = paint("dim", _NULL) if cell is None else cell
            yield f"{paint('bold', pad(name, width, True))} = {value}"


def numeric(type_name: str) -> bool:
    """Whether values of the type stand at the right."""
    plain = "[" not in type_name and not type_name.startswith(("STRUCT", "MAP", "ENUM", "UNION"))
    return plain and type_name != "INTERVAL" and any(part in type_name for part in _RIGHT)


def _room(shown: Shown, column: int) -> int:
    """The width at which nothing of a column is cut."""
    cells = (
        4 if c is None else len(c) if c.isascii() else cell_len(c) for c in shown.cells[column]
    )
    type_room = min(len(shown.types[column]), _TYPE_ROOM)
    return max(cell_len(shown.names[column]), type_room, max(cells, default=0))


def _centred(texts: Sequence[str], column: int | None, width: int) -> str:
    text = clip(_ELLIPSIS if column is None else texts[column].translate(_CONTROLS), width)
    room = width - cell_len(text)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _clean(columns: Sequence[Texts]) -> list[Texts]:
    """Cells without control characters: no value moves the cursor or breaks a line."""
    return [
        [c if c is None or c.isprintable() else c.translate(_CONTROLS) for c in column]
        for column in columns
    ]


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
