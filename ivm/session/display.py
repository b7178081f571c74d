"""Rows drawn as DuckDB draws them: a box for terminals, a table for notebooks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ivm.storage.scratch import Scratch

_scratch = Scratch("SET arrow_lossless_conversion = true")


def box(table: pa.Table, **options: Any) -> str:
    """DuckDB's box of a table.

    Args:
        table: the rows.
        options: of DuckDB's `show`: max_width, max_rows, max_col_width, null_value, render_mode.
    """
    with _scratch.borrow() as connection:
        return str(connection.from_arrow(table)._box(**options)).rstrip()


def html_table(table: pa.Table) -> str:
    """DuckDB's HTML table of the first rows."""
    with _scratch.borrow() as connection:
        return str(connection.from_arrow(table)._repr_mimebundle_()["text/html"])
