"""The rows of a query, held in memory to be read again and again.

Invariant: every reading begins at the first row; all show the snapshot of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import pyarrow as pa

from ivm.session.results.result import Description, Result, Row

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Relation:
    """What `db.sql` gives; statements can read it by its variable's name.

    Args:
        result: has not been read.

    Attributes:
        columns: names of the columns, in order.
        types: DuckDB type names of the columns, in order.
    """

    def __init__(self, result: Result) -> None:
        self.columns, self.types = result.columns, result.types
        held = result.held()
        self._table = pa.table({}) if held is None else held

    def fetchall(self) -> list[Row]:
        """All rows as tuples of Python values."""
        return self._result().fetchall()

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; see `Result.arrow`."""
        return self._result().arrow()

    def df(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self._result().df()

    def pl(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return self._result().pl()

    def fetchnumpy(self) -> dict[str, npt.NDArray[Any]]:
        """All rows as numpy arrays by column; see `Result.fetchnumpy`."""
        return self._result().fetchnumpy()

    fetchdf = to_df = df
    to_arrow_table = fetch_arrow_table = arrow

    @property
    def description(self) -> list[Description] | None:
        """The columns as PEP 249 has them."""
        return self._result().description

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self), len(self.columns)

    def show(self, *, max_rows: int | None = None, max_width: int | None = None) -> None:
        """Prints the rows; see `Result.show`."""
        self._result().show(max_rows=max_rows, max_width=max_width)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._result())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return repr(self._result())

    def _repr_html_(self) -> str | None:
        return self._result()._repr_html_()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def _result(self) -> Result:
        return Result.of_table(self._table, self.types)
