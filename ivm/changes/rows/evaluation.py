"""Rows that a change needs, computed by DuckDB in a transaction that can write nothing.

Contract: an evaluation changes nothing and ends its transaction; whoever cannot use its rows lets
DuckDB run the statement. So what it reads must not be used up by reading (a pipe, a stream).
Most rows: more of them are loaded sooner by DuckDB itself, and are given up early; unless they came
so late that a second run would cost more than to go on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from ivm.changes.rows.few_rows import FewRows
from ivm.ingest.not_fast import NotFastError
from ivm.ingest.parameters import Params
from ivm.storage.interrupts import interruptible
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.arrow_streams import aside, streamed
from ivm.storage.warehouse.duckdb.carried import may_be_unfit
from ivm.storage.warehouse.duckdb.duck import Cursor, give_up, roll_back, run, temporary
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short

MOST_ROWS = 1 << 18
"""Rows above which DuckDB changes the table itself."""
_MOST_WAITED, _WAITED = 1 << 22, 0.25  # rows, after so many seconds of waiting for the first ones
_CHUNK = 1 << 15

_ROWS = "__ivm_rows"


def are_carried(types: Sequence[ColumnType]) -> bool:
    """Returns whether all values of the types are read as they are."""
    return not any(may_be_unfit(type.sql) for type in types)


def cast_to(types: Sequence[ColumnType], source: str, prefix: str = "") -> str:
    """Writes a query for the rows of another one, its columns cast to these types.

    Args:
        types: the columns wanted; the query fails if there are fewer.
        source: a query.
        prefix: a WITH clause that it may use.
    """
    names = [f"__ivm_{i}" for i in range(len(types))]
    casts = [f"CAST({n} AS {t.sql}) AS {n}" for n, t in zip(names, types, strict=True)]
    listed = f"SELECT * REPLACE ({', '.join(casts)}) FROM ({source}) AS __ivm({', '.join(names)})"
    return f"{prefix} {listed}" if prefix else listed


def evaluated(
    cursor: Cursor,
    source: str,
    params: Params,
    schema: Schema,
    few: FewRows,
    *,
    prefix: str = "",
    alone: bool = False,
) -> ZSet:
    """The rows of a query, cast to the types of some columns.

    Args:
        cursor: outside of any transaction.
        source: a query.
        params: its parameters.
        schema: of the rows.
        few: reads them, if it can.
        prefix: a WITH clause that the query may use.
        alone: the query is known to write nothing.

    Raises:
        NotFastError: it fails, writes something, or has too many rows or other columns.
        duckdb.Error: it was interrupted, or a signal ended a Python function that it calls.
    """
    with _reading(cursor, alone=alone):
        sql = f"{prefix} {source}" if prefix else source
        read = few.read(cursor, sql, params, schema)
        if read is not None:
            return read[1]
        relation = cursor.sql(cast_to([t for _, t in schema], source, prefix), params=params)
        if len(relation.columns) != len(schema):
            raise NotFastError("it gives another number of values than of columns")
        found = _read(cursor, relation, schema)
        few.learn(sql, len(found))
        return found


def described(
    cursor: Cursor, sql: str, params: Params, few: FewRows, *, alone: bool
) -> tuple[Schema, ZSet]:
    """The columns and rows of a query; NotFastError as above, or if not all values can be read."""
    with _reading(cursor, alone=alone):
        read = few.read(cursor, sql, params)
        if read is not None:
            return read
        relation = cursor.sql(sql, params=params)
        types = [type_of(str(type)) for type in relation.types]
        if not are_carried(types):
            raise NotFastError("its query has a type of which not all values can be read")
        schema = tuple(zip(relation.columns, types, strict=True))
        found = _read(cursor, relation, schema)
        few.learn(sql, len(found))
        return schema, found


def copied(cursor: Cursor, definition: str, copy: str, params: Params, schema: Schema) -> ZSet:
    """The rows that a COPY … FROM puts into a table with these columns; NotFastError as above.

    Args:
        definition: the columns, in SQL.
        copy: what follows the table's name.
    """
    with _reading(cursor), temporary(cursor, _ROWS, definition) as rows:
        run(cursor, f"COPY {rows} {copy}", params)
        return _read(cursor, cursor.sql(f"FROM {rows}"), schema)


@contextlib.contextmanager
def _reading(cursor: Cursor, *, alone: bool = False) -> Iterator[None]:
    """A read-only transaction for the block; its errors become NotFastError.

    Args:
        alone: each statement is one of its own, that writes nothing.
    """
    if not alone:
        run(cursor, "BEGIN TRANSACTION READ ONLY")
    try:
        with interruptible(cursor):
            yield
    except duckdb.Error as error:
        if is_cut_short(error):
            raise
        raise NotFastError("its query fails, or writes something") from error
    finally:
        cursor.abort() if alone else roll_back(cursor)


def _read(cursor: Cursor, relation: duckdb.DuckDBPyRelation, schema: Schema) -> ZSet:
    """The rows of a relation; NotFastError if there are too many."""
    began = time.perf_counter()
    reader = relation.to_arrow_reader(_CHUNK)
    found = aside(cursor, lambda: _bounded(reader, began))
    if found is None:
        give_up(cursor)
        raise NotFastError("its query gives very many rows")
    return from_arrow(found, schema)


def _bounded(reader: pa.RecordBatchReader, began: float) -> pa.Table | None:
    """The rows of a stream; None if there are too many."""
    batches, count, most = [], 0, MOST_ROWS
    for batch in streamed(reader):
        if not count and time.perf_counter() - began > _WAITED:
            most = _MOST_WAITED
        batches.append(batch)
        count += len(batch)
        if count > most:
            return None
    return pa.Table.from_batches(batches, reader.schema)
