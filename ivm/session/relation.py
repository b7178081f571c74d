"""The rows of a query, held in memory to be read again and again.

Invariant: every reading begins at the first row; all show the snapshot of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivm.session.result import Result, Row, description_of, plain_batches

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Relation:
    """What `db.sql` gives: a result that prints, and that other statements can read by its name.

    Args:
        result: has not been read.

    Attributes:
        columns: names of the columns, in order.
        types: DuckDB type names of the columns, in order.
    """

    def __init__(self, result: Result) -> None:
        self.columns, self.types = result.columns, result.types
        self._table = result.peek()

    def fetchall(self) -> list[Row]:
        """All rows as tuples of Python values."""
        return self._result().fetchall()

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table; see `Result.arrow`."""
        return self._result().arrow()

    def to_arrow_reader(self, batch_size: int = 1_000_000) -> pa.RecordBatchReader:
        """All rows as a reader of Arrow batches of at most so many rows."""
        return plain_batches(self.arrow(), batch_size)

    def df(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        return self._result().df()

    def pl(self) -> pl.DataFrame:
        """All rows as a polars frame."""
        return self._result().pl()

    def fetchnumpy(self) -> dict[str, Any]:
        """All rows as a numpy array a column."""
        return self._result().fetchnumpy()

    to_arrow_table = fetch_arrow_table = arrow
    fetchdf = to_df = df

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """A tuple of seven a column, of which the first two are its name and its type."""
        return description_of(self.columns, self.types)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self._table.num_rows, len(self.columns)

    def show(self, **options: Any) -> None:
        """Prints the rows; see `Result.show`."""
        self._result().show(**options)

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
