"""The result of one statement: its rows as Python objects, Arrow, pandas or polars.

Invariant: a result shows the snapshot of its statement. It streams from its cursor until the
session needs the cursor again (`detach`), then holds the remaining rows as an Arrow table.
Contract: if a query fails while its rows are read, every reader of the result gets the error, and
no other call.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import duckdb
import numpy.typing as npt
import pyarrow as pa

from ivm.engine.feeds.plain_arrow import plain
from ivm.session.results.held_rows import over, polars_frame, relation_of, without_rows
from ivm.storage.errors import InputError, IvmError, UnavailableError, UnsupportedError
from ivm.storage.interrupts import Deferral, begin_statement, check
from ivm.storage.warehouse.duckdb.arrow_streams import Stream, as_duckdb_errors, copying
from ivm.storage.warehouse.duckdb.carried import refuse_states
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import Translating

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Row = tuple[Any, ...]
Description = tuple[str, str, None, None, None, None, None]

BATCH = 2_048
"""The rows that DuckDB gives at a time."""
_SAID = {"rows": "no rows are left", "count": "the count was read", "done": "done"}
_READ_ON = "a loop over the rows is under way"

_FREE: contextlib.AbstractContextManager[object] = contextlib.nullcontext()


class Result:
    """Rows with named, typed columns, or a count of changed rows.

    Attributes:
        kind: "rows" for a query or RETURNING, "count" for a change, "done" for anything else.
        columns: names of the columns, in order.
        types: DuckDB type names of the columns, in order.
        rowcount: rows changed, also by a change with RETURNING; -1 where the statement changes
            none.
        message: what the statement has to say beside its rows; "" if nothing.
        held_bytes: of the stream, those that were read into memory.
    """

    def __init__(
        self,
        kind: str,
        columns: Sequence[str] = (),
        types: Sequence[str] = (),
        rowcount: int = -1,
    ) -> None:
        self.kind = kind
        self.columns = list(columns)
        self.types = list(types)
        self.rowcount = rowcount
        self.message = ""
        self.held_bytes = 0
        self._cursor: Cursor | None = None
        self._table: pa.Table | None = None
        self._counted = False
        self._ahead = deque[Row]()  # those that an iteration has read and not given yet
        self._on_end: Callable[[IvmError | None], None] | None = None
        self._reader: Any = None  # gives the rows as batches
        self._error: IvmError | None = None
        self._lock = _FREE
        self._most = 0

    @classmethod
    def streaming(
        cls,
        cursor: Cursor,
        on_end: Callable[[IvmError | None], None],
        lock: contextlib.AbstractContextManager[object],
        stream: Stream | None = None,
        most: int = 0,
    ) -> Result:
        """The open result of `cursor`.

        Args:
            cursor: has just executed a query.
            on_end: called once, when the result has been read or detached, or with the error if
                that has failed.
            lock: the session's, held while the cursor is used.
            stream: gives the rows; None if the cursor does.
            most: bytes of the stream that are held in memory at most; 0: no limit.
        """
        if stream is None:
            columns = [(name, str(type)) for name, type, *_ in cursor.description or []]
        else:
            columns = stream.columns
        result = cls("rows", [name for name, _ in columns], [type for _, type in columns])
        result._cursor, result._on_end, result._lock = cursor, on_end, lock
        result._reader = None if stream is None else stream.reader
        result._most = most
        return result

    @classmethod
    def of_table(cls, table: pa.Table, types: Sequence[str], rowcount: int = -1) -> Result:
        """A result that holds an Arrow table whose columns have the given DuckDB types."""
        result = cls("rows", table.column_names, types, rowcount)
        result._table = table
        return result

    @classmethod
    def count(cls, rows: int) -> Result:
        """The count of rows that a change touched, as DuckDB reports it."""
        result = cls("count", ("Count",), ("BIGINT",), rows)
        result._counted = True
        return result

    @property
    def in_batches(self) -> bool:
        """Whether it has not been read, and `batch` reads it with less memory than others."""
        return self._reader is not None

    @property
    def is_of_change(self) -> bool:
        """Whether it tells of a change, which has happened however it is read."""
        return self.rowcount >= 0

    def fetchall(self) -> list[Row]:
        """All remaining rows as tuples of Python values."""
        return self.fetchmany(None)

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = 1) -> list[Row]:
        """The next `size` rows (all of them if None)."""
        if size is not None:
            _demand_count(size, "fetchmany takes a number of rows", least=0)
        if not self._ahead:  # mostly so
            return self._fetch(size)
        rows = self._read_ahead(size)
        if len(rows) == size:
            return rows
        return rows + self._fetch(None if size is None else size - len(rows))

    def _read_ahead(self, size: int | None) -> list[Row]:
        """Takes of the rows that a loop has read ahead, `size` at most."""
        rows = list[Row]()
        with contextlib.suppress(IndexError):  # another thread may take the last ones
            while size is None or len(rows) < size:
                rows.append(self._ahead.popleft())
        return rows

    def _fetch(self, size: int | None) -> list[Row]:
        """The next rows of those that no loop has read ahead."""
        if self._counted and size != 0:
            self._counted = False
            return [(self.rowcount,)]
        with self._reading():
            cursor = self._source()
            if cursor is None:
                return []
            rows = _fetched(cursor, size)
            if size is None or len(rows) < size:
                self._end()
            return rows

    def arrow(self) -> pa.Table:
        """The remaining rows as an Arrow table.

        Types are DuckDB's lossless ones, but HUGEINT (what sums of integers are) is
        decimal128(38, 0) where all values fit.
        """
        self._demand_none_ahead()
        with self._reading():
            self._hold()
            table = self._held()
            if table is not None:
                self._table = table.slice(table.num_rows)
                return plain(table)
            columns = self._no_rows()
            return pa.table({}) if columns is None else plain(columns.to_arrow_table())

    def df(self) -> pd.DataFrame:
        """The remaining rows as a pandas frame."""
        with Translating():
            import pandas  # without it, nothing has been read yet
        self._demand_none_ahead()
        with self._reading():
            rows = self._source() or self._no_rows()
            if rows is None:
                return pandas.DataFrame()
            frame = rows.df()
            self._end()
            return frame

    def pl(self) -> pl.DataFrame:
        """The remaining rows as a polars frame."""
        with Translating():
            import polars  # noqa: F401 -- without it, nothing has been read yet
        self._demand_none_ahead()
        with self._reading():
            return polars_frame(self.arrow())

    fetchdf = fetch_df = to_df = df
    fetch_arrow_table = to_arrow_table = arrow

    def fetchnumpy(self) -> dict[str, npt.NDArray[Any]]:
        """The remaining rows as numpy arrays by column; those with NULLs are masked arrays."""
        self._demand_none_ahead()
        with self._reading():
            rows = self._source() or self._no_rows()
            if rows is None:
                return {}
            arrays: dict[str, npt.NDArray[Any]] = rows.fetchnumpy()
            self._end()
            return arrays

    @property
    def description(self) -> list[Description] | None:
        """The columns as PEP 249 has them, 7 values each; None without rows."""
        if self.kind == "done":
            return None
        pairs = zip(self.columns, self.types, strict=True)
        return [(name, type, None, None, None, None, None) for name, type in pairs]

    def show(self, *, max_rows: int | None = None, max_width: int | None = None) -> None:
        """Prints the remaining rows as DuckDB does; they can be read afterwards.

        Args:
            max_rows: rows shown at most, the first and the last ones.
            max_width: characters of a line.
        """
        for most in (max_rows, max_width):
            if most is not None:
                _demand_count(most, "show takes numbers of rows and characters", least=0)
        relation = self._relation()
        if relation is None:
            print(self)
        else:
            relation.show(max_rows=max_rows, max_width=max_width)

    def __repr__(self) -> str:
        if self._ahead:
            return _READ_ON
        relation = self._relation()
        return str(relation) if relation is not None else self.message or _SAID[self.kind]

    def _repr_html_(self) -> str | None:
        """A table, for notebooks."""
        relation = self._relation() if not self._ahead else None
        return None if relation is None else relation._repr_mimebundle_()["text/html"]

    def _relation(self) -> duckdb.DuckDBPyRelation | None:
        """The remaining rows, which are held in memory from here on; None if it has no columns."""
        table = self.held()
        with self._reading():
            return None if table is None else relation_of(table, self.types)

    def held(self) -> pa.Table | None:
        """The remaining rows as a lossless Arrow table, to be read afterwards, too.

        None if it has no columns.
        """
        self._demand_none_ahead()
        with self._reading():
            self._hold()
            return self._held()

    def batch(self) -> pa.Table | None:
        """The next rows as a lossless Arrow table, about `BATCH` of them; None after the last."""
        self._demand_none_ahead()
        with self._reading():
            if self._cursor is None:
                table, self._table, self._counted = self._held(), None, False
                return table if table is not None and len(table) else None
            reader = self._reader
            if reader is None:
                refuse_states(self.types)
                with copying():
                    reader = self._reader = self._cursor.to_arrow_reader(BATCH)
            with as_duckdb_errors():
                for batch in reader:
                    if len(batch):
                        return pa.Table.from_batches([batch])
            self._end()
            return None

    def __iter__(self) -> Iterator[Row]:
        """The remaining rows; those that a loop leaves are there for the next reader."""
        while True:
            try:
                row = self._ahead.popleft()
            except IndexError:
                rows = self.fetchmany(1024)
                if not rows:
                    return
                self._ahead.extend(rows)
            else:
                yield row

    def _demand_none_ahead(self) -> None:
        if self._ahead:
            raise InputError(
                "a loop over the result has read some of its rows ahead, as Python objects: read "
                "the rest by rows, with fetchall(), or use fetchone() in place of the loop"
            )

    def detach(self) -> None:
        """Reads the remaining rows into memory and releases the cursor.

        If that fails, the result's readers get the error, not the statement that needs the cursor.
        """
        if self._cursor is not None and self._on_end is not None:
            with contextlib.suppress(IvmError), self._reading():
                self._hold()

    def let_go(self) -> None:
        """Ends the result: the rows that were not read are not computed."""
        with self._lock:
            if self._cursor is not None and self._on_end is not None:
                self._error = self._let_go(
                    "the rest of the result was let go: run the statement again"
                )

    def _let_go(self, why: str) -> IvmError:
        """Ends the result, whose transaction goes on; returns what who reads on is told."""
        if self._reader is not None:
            self._reader.close()
        self._end()
        return UnavailableError(why)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Guards a reading: after an error in the block, every later reading raises it again."""
        with Deferral() as call, self._lock:
            if self._error is not None:
                raise self._error
            call.cursor = self._cursor
            try:
                if self._cursor is not None:
                    begin_statement()
                with Translating():
                    yield
                check()
            except BaseException as error:
                self._spoil(error)
                raise

    def _spoil(self, error: BaseException) -> None:
        if not isinstance(error, IvmError):
            error = UnavailableError(
                f"the result could not be read to its end ({error!r}): run the statement again"
            )
        self._error = self._error or error
        self._end(error)

    def _hold(self) -> None:
        """Reads the remaining rows into an Arrow table."""
        if self._cursor is None:
            return
        if self._reader is not None:
            self._table = self._rest()
        else:
            refuse_states(self.types)
            with copying():
                self._table = self._cursor.to_arrow_table()
        self._end()

    def _rest(self) -> pa.Table:
        """The rest of the stream."""
        found: list[pa.RecordBatch] = []
        size, schema = 0, self._reader.schema
        with as_duckdb_errors():
            for batch in self._reader:
                found.append(batch)
                size += batch.nbytes
                if self._most and size > self._most:
                    found.clear()  # the error, which is kept, holds this call
                    raise self._let_go(
                        "the rest of the result takes more than may be held in memory while its "
                        "session goes on, beside other such results: run it again and read it to "
                        "its end first, ask for less, or raise result_megabytes in [server] of "
                        "ivm.toml"
                    )
        self.held_bytes = size
        return pa.Table.from_batches(found, schema)

    def _held(self) -> pa.Table | None:
        """The rows in memory, if any; the table of a count is made at its first reading."""
        if self._counted:
            self._table = pa.table({"Count": pa.array([self.rowcount], pa.int64())})
            self._counted = False
        return self._table

    def _source(self) -> Cursor | None:
        """A cursor that holds the remaining rows."""
        if self._reader is not None:
            self._hold()
        table = None if self._cursor is not None else self._held()
        if table is not None:
            self._cursor, self._table = over(table, self.types), None
        return self._cursor

    def _no_rows(self) -> duckdb.DuckDBPyRelation | None:
        """The columns without rows; None if there are none."""
        return without_rows(self.columns, self.types) if self.columns else None

    def _end(self, error: IvmError | None = None) -> None:
        self._cursor = self._reader = None
        ended, self._on_end = self._on_end, None
        if ended is not None:
            ended(error)


def _demand_count(count: object, what: str, *, least: int) -> None:
    if not isinstance(count, Integral) or not least <= int(count) < 1 << 63:
        raise InputError(f"{what}, {least} or more, not {count!r}")


def _fetched(cursor: Cursor, size: int | None) -> list[Row]:
    try:
        return cursor.fetchall() if size is None else cursor.fetchmany(size)
    except OverflowError as error:  # a time of year 1 that is in year 0 in the session's zone
        raise UnsupportedError(
            f"a value of the result cannot be a Python object ({error}): read it with arrow(), or "
            "CAST it to VARCHAR"
        ) from error
