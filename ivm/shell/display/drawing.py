"""Draws a result in the current mode, and sums it up in a few words.

Law: on a terminal every omission is reported: hidden rows in the table and below it, hidden columns
below it with the way to see them; without a terminal nothing is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ivm.session.queries.explain_read import WAYS
from ivm.session.results.result import Result
from ivm.shell.display.cell_text import csv_lines, json_lines
from ivm.shell.display.output import Output
from ivm.shell.display.table import (
    SHOWN_ROWS,
    box,
    columns_shown,
    line_by_line,
    markdown,
    shown_part,
)
from ivm.sql.compile.explain_drawing import counted

MODES = {
    "table": "a table with borders, cut to the terminal",
    "line": "a line per value, for rows too wide for a table",
    "csv": "comma-separated values with a header",
    "json": "a JSON array of objects",
    "markdown": "a Markdown table",
}


@dataclass(frozen=True)
class Drawing:
    """Lines of output, and a summary: `120 rows (40 shown)`."""

    lines: Iterator[str]
    summary: str


def draw(result: Result, table: pa.Table, mode: str, output: Output, zone: str | None) -> Drawing:
    """Draws rows.

    Args:
        result: names and types of the columns.
        table: the rows.
        mode: one of MODES.
        output: the stream of the lines.
        zone: the session's time zone, if a column needs it.
    """
    rows = counted(table.num_rows, "row")
    if mode == "csv":
        return Drawing(csv_lines(result.columns, table, result.types, zone), rows)
    if mode == "json":
        return Drawing(json_lines(result.columns, table, zone), rows)
    limit = SHOWN_ROWS if output.is_terminal and mode != "markdown" else None
    shown = shown_part(result.columns, result.types, table, limit, zone)
    if mode == "markdown":
        return Drawing(markdown(shown), rows)
    if shown.hidden:
        rows += f" ({shown.rows} shown)"
    if mode == "line":
        return Drawing(line_by_line(shown, output.paint), rows)
    seen, columns = columns_shown(shown, output.width), len(shown.names)
    if seen < columns:
        rows += f" · {columns} columns ({seen} shown, .mode line shows all)"
    return Drawing(box(shown, output.width, output.paint), rows)


def done(result: Result, table: pa.Table | None, text: str) -> str:
    """Sums up a statement without rows, "" for one that has rows.

    DuckDB answers SET and the like with an empty column, and COPY TO with a count.
    """
    if table is None:
        changed = result.kind == "count" and result.rowcount >= 0
        return f"{counted(result.rowcount, 'row')} changed" if changed else result.message or "done"
    if (result.columns, result.types, table.num_rows) == (["Success"], ["BOOLEAN"], 0):
        return "done"
    if text[:4].upper() == "COPY" and result.columns == ["Count"]:
        return f"{counted(table.column(0)[0].as_py(), 'row')} copied"
    return ""


def is_plan(result: Result, text: str) -> bool:
    """Returns whether the rows are a plan, whose line breaks have a meaning."""
    return text[:8].upper().startswith("EXPLAIN") and result.types[-1:] == ["VARCHAR"]


def plan_lines(table: pa.Table) -> Iterator[str]:
    """Yields the last column of a plan's rows, unchanged; `read_from` and its like are named."""
    columns = [column.to_pylist() for column in table.columns]
    for key, text in zip(columns[0], columns[-1], strict=True):
        named = f"{key.replace('_', ' ')}: " if key in WAYS else ""
        yield from (named + str(text).rstrip()).split("\n")
