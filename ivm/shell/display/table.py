"""Draws a result as a table: box drawing for people, markdown and `line` for other uses.

Law: on a terminal only the rows that are shown are ever turned into text, so a result of 10⁵ rows
costs as much to draw as one of 40. No line is wider than the terminal (unless not even two narrow
columns fit), and a column is only narrowed once every wider one is down to its width.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich.cells import cell_len

from ivm.shell.display.cell_text import Texts, texts
from ivm.shell.display.output import Paint

SHOWN_ROWS = 40
_TYPE_ROOM = 16  # a type name alone does not make its column wider than this
_RIGHT = ("INT", "DECIMAL", "FLOAT", "DOUBLE", "BIGNUM", "REAL")  # UBIGINT, HUGEINT, … too
_NULL = "NULL"
_NARROW = 10  # no column is cut below this while columns can be left out
_BORDER = 3  # blank, bar, blank
_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160))}
_CONTROLS |= {c: f"\\u{c:04x}" for c in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}  # bidi
_CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 27: "\\e"}


@dataclass(frozen=True)
class Shown:
    """The part of a result that is drawn.

    Attributes:
        names, types: of all columns.
        cells: text of the shown rows, a list a column.
        split: number of the shown rows before the omitted ones.
        hidden: number of the omitted rows.
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
    """Returns the first and last rows of a table as text, `limit` in all (all rows if None)."""
    shown, told = ([text.translate(_CONTROLS) for text in heads] for heads in (names, types))
    total = table.num_rows
    if limit is None or total <= limit:
        return Shown(shown, told, _clean(texts(table, types, zone)), total, 0)
    head = (limit + 1) // 2
    ends = pa.concat_tables([table.slice(0, head), table.slice(total - (limit - head))])
    return Shown(shown, told, _clean(texts(ends, types, zone)), head, total - limit)


def box(
    shown: Shown,
    width: int | None,
    paint: Paint,
    marked: frozenset[tuple[str | None, ...]] = frozenset(),
) -> Iterator[str]:
    """Yields a table like DuckDB's: names, types, rows; middle columns are omitted where needed.

    Args:
        shown: the rows to draw.
        width: columns of the terminal; None: endless.
        paint: colours.
        marked: texts of the rows in the colour of added rows.
    """
    kept, widths = fit([_room(shown, i) for i in range(len(shown.names))], width)
    frame = _Frame(widths, paint)
    right = [i is not None and numeric(shown.types[i]) for i in kept]
    types = [name.lower() for name in shown.types]
    yield frame.rule("┌┬┐")
    for style, heads in (("bold", shown.names), ("dim", types)):
        line = ("…" if i is None else heads[i] for i in kept)
        yield frame.line(paint(style, _centred(h, w)) for h, w in zip(line, widths, strict=True))
    yield frame.rule("├┼┤")
    for row in range(shown.rows):
        if row == shown.split and shown.hidden:
            yield frame.gap(shown.hidden)
        style = "added" if marked and tuple(c[row] for c in shown.cells) in marked else ""
        cells = ["…" if i is None else shown.cells[i][row] for i in kept]
        yield frame.line(
            paint("dim" if cell is None else style, _aligned(cell, w, to_right))
            for cell, w, to_right in zip(cells, widths, right, strict=True)
        )
    yield frame.rule("└┴┘")


class _Frame:
    """The lines of a table with columns of fixed width."""

    def __init__(self, widths: Sequence[int], paint: Paint) -> None:
        self._widths = widths
        self._paint = paint
        self._bar = paint("dim", "│")

    def rule(self, signs: str) -> str:
        bars = signs[1].join("─" * (width + 2) for width in self._widths)
        return self._paint("dim", signs[0] + bars + signs[2])

    def line(self, cells: Iterable[str]) -> str:
        """Returns a line of padded cells."""
        return f"{self._bar} {f' {self._bar} '.join(cells)} {self._bar}"

    def gap(self, hidden: int) -> str:
        """Returns the line in place of the hidden rows."""
        room = sum(self._widths) + 3 * (len(self._widths) - 1)
        text = f"… {hidden:,} rows"
        cells = [text.center(room)] if len(text) <= room else ["⋮".center(w) for w in self._widths]
        return self.line(self._paint("dim", cell) for cell in cells)


def columns_shown(shown: Shown, width: int | None) -> int:
    """Returns how many columns `box` shows."""
    kept, _ = fit([_room(shown, i) for i in range(len(shown.names))], width)
    return sum(i is not None for i in kept)


def markdown(shown: Shown) -> Iterator[str]:
    """Yields a GitHub-flavoured markdown table of all shown rows."""
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
    """Yields a line a cell, for rows too wide for a table."""
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
    """Returns whether values of the type are aligned to the right."""
    plain = "[" not in type_name and not type_name.startswith(("STRUCT", "MAP", "ENUM", "UNION"))
    return plain and type_name != "INTERVAL" and any(part in type_name for part in _RIGHT)


def _room(shown: Shown, column: int) -> int:
    """Returns the width at which nothing of a column is cut."""
    cells = (
        4 if c is None else len(c) if c.isascii() else cell_len(c) for c in shown.cells[column]
    )
    type_room = min(len(shown.types[column]), _TYPE_ROOM)
    return max(cell_len(shown.names[column]), type_room, max(cells, default=0))


def _aligned(cell: str | None, width: int, to_right: bool) -> str:
    return pad(clip(_NULL if cell is None else cell, width), width, to_right)


def _centred(text: str, width: int) -> str:
    text = clip(text, width)
    room = width - cell_len(text)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _clean(columns: Sequence[Texts]) -> list[Texts]:
    """Escapes control characters: no value moves the cursor or breaks a line."""
    return [
        [c if c is None or c.isprintable() else c.translate(_CONTROLS) for c in column]
        for column in columns
    ]


def pad(text: str, width: int, to_right: bool) -> str:
    """Fills `text` with blanks up to `width` terminal columns."""
    blanks = " " * (width - (len(text) if text.isascii() else cell_len(text)))
    return blanks + text if to_right else text + blanks


def clip(text: str, width: int) -> str:
    """Cuts `text` to `width` terminal columns, an ellipsis as the last one."""
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


def fit(wishes: Sequence[int], width: int | None) -> tuple[list[int | None], list[int]]:
    """Chooses the columns to show and their widths.

    Args:
        wishes: the width at which nothing of each column is cut.
        width: that of the whole table with its borders; None: endless.

    Returns:
        Positions of the shown columns (None for the omitted ones in the middle) and widths.
    """
    kept: list[int | None] = list(range(len(wishes)))
    if width is None:
        return kept, list(wishes)
    while True:
        wanted = [1 if i is None else wishes[i] for i in kept]
        room = width - 1 - _BORDER * len(kept)
        least = sum(min(wish, _NARROW) for wish in wanted)
        if least <= room or len([i for i in kept if i is not None]) <= 2:
            return kept, _level(wanted, max(room, len(kept)))
        kept = _without_middle(kept)


def _without_middle(kept: list[int | None]) -> list[int | None]:
    """Removes one more column from the middle, where None marks the gap."""
    columns = [i for i in kept if i is not None]
    middle = len(columns) // 2
    return [*columns[:middle], None, *columns[middle + 1 :]]


def _level(wishes: Sequence[int], room: int) -> list[int]:
    """Cuts the widest columns to one common width so that the sum is at most `room`."""
    if sum(wishes) <= room:
        return list(wishes)
    cap = bisect_right(range(1, room + 1), room, key=lambda c: sum(min(w, c) for w in wishes))
    widths = [min(wish, cap) for wish in wishes]
    cut = [i for i, wish in enumerate(wishes) if wish > cap]
    for i in cut[: room - sum(widths)]:
        widths[i] += 1
    return widths
