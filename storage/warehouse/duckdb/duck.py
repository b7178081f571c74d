"""DuckDB calls with their results read to the end, and Z-sets registered with DuckDB as views.

DuckDB 2.0 streams: a connection with an unread result refuses the next statement, so every call
here runs its statement to its end. A value that Arrow would garble is an error (`carried`).

Law of `evaluate`: the result depends on the SQL and the registered Z-sets alone (and on the user's
tables, if the SQL names them).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from ivm.storage.identifiers import fold, quote
from ivm.storage.interrupts import check, interruptible, watch_signals
from ivm.storage.values.types import Schema, type_of
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.arrow_streams import streamed
from ivm.storage.warehouse.duckdb.carried import carried

Cursor = duckdb.DuckDBPyConnection

_POLICY = "SET current_transaction_invalidation_policy = "


def run(cursor: Cursor, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> None:
    """Runs a statement to its end and drops its result."""
    watch_signals()
    cursor.execute(sql, params)
    cursor.complete()


def give_up(cursor: Cursor) -> None:
    """Drops a result of which rows are unread: `abort` alone may wait until all are computed.

    In a transaction DuckDB forgets the interrupt only when it next executes a statement; until then
    no relation can be made over a view: DuckDB's fault `kept_interrupts`.
    """
    cursor.interrupt()
    cursor.abort()
    run(cursor, "SELECT 1")


def roll_back(cursor: Cursor) -> None:
    """Ends the cursor's transaction, if a failure has not ended it already."""
    with contextlib.suppress(duckdb.Error):
        cursor.abort()
        run(cursor, "ROLLBACK")


def rows(cursor: Cursor, sql: str, params: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """All rows of a query as Python tuples (for catalogs and tests, not for data)."""
    watch_signals()
    return cursor.execute(sql, params).fetchall()


def table(
    cursor: Cursor, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None
) -> pa.Table:
    """All rows of a query as an Arrow table."""
    watch_signals()
    return carried(cursor.sql(sql, params=params)).to_arrow_table()


def chunks(cursor: Cursor, sql: str, schema: Schema, size: int = 1 << 20) -> Iterator[ZSet]:
    """A query's rows as Z-sets of at most `size` rows, each row with weight 1.

    Args:
        cursor: not used for anything else until the iterator ends.
        sql: a SELECT whose columns have the schema's types.
        schema: names and types of its columns.
        size: rows a chunk.
    """
    with interruptible(cursor):
        for batch in streamed(carried(cursor.sql(sql)).to_arrow_reader(size)):
            yield from_arrow(batch, schema).dictionary_encoded()
            check()


@contextlib.contextmanager
def lenient(cursor: Cursor) -> Iterator[None]:
    """Lets the cursor's transaction survive statements in the block that do not parse or bind."""
    run(cursor, f"{_POLICY}'SYNTACTIC_ERRORS_DO_NOT_INVALIDATE'")
    try:
        yield
    finally:
        run(cursor, f"{_POLICY}'STANDARD_POLICY'")


@contextlib.contextmanager
def temporary(cursor: Cursor, name: str, definition: str, params: Any = None) -> Iterator[str]:
    """Creates a temporary table for the block, and yields its quoted name.

    If the block fails in a way that aborts the transaction, the table goes with the transaction.
    """
    run(cursor, f"CREATE OR REPLACE TEMP TABLE {quote(name)} {definition}", params)
    try:
        yield f"temp.main.{quote(name)}"
    finally:
        with contextlib.suppress(duckdb.TransactionException):
            run(cursor, f"DROP TABLE temp.main.{quote(name)}")


def describe(cursor: Cursor, query: str, params: Any = None) -> Schema:
    """Names and types of a query's result, as DuckDB binds it (the query is not run)."""
    found = rows(cursor, f"DESCRIBE {query}", params)
    names = [name for name, *_ in found]
    if any(_is_spelled_otherwise(name, query) for name in names):
        names = _names_within(cursor, query, params, names)
    return tuple((name, type_of(sql)) for name, (_, sql, *_) in zip(names, found, strict=True))


def _is_spelled_otherwise(name: str, query: str) -> bool:
    """Returns whether a query may have a name in other capitals, too."""
    word = re.compile(rf"(?<!\w){re.escape(fold(name))}(?!\w)")
    return any(query[m.start() : m.end()] != name for m in word.finditer(fold(query)))


def _names_within(cursor: Cursor, query: str, params: Any, told: Sequence[str]) -> list[str]:
    """The names that a query has within a CTE, where equal ones are numbered, without the numbers.

    Of `SELECT v AS V` DESCRIBE tells the name of the column that is read, but not so there:
    DuckDB's fault `described_names`.
    """
    whole = f"WITH __ivm_described AS ({query.rstrip().rstrip(';')}\n) FROM __ivm_described"
    within = [str(name) for name, *_ in rows(cursor, f"DESCRIBE {whole}", params)]
    return [_name_of(a, b, query) for a, b in zip(told, within, strict=True)]


def _name_of(told: str, within: str, query: str) -> str:
    """The name of a column that DESCRIBE tells so, and so within a CTE."""
    without_number, _, number = within.rpartition("_")
    if number.isdecimal() and fold(without_number) == fold(told):
        return without_number
    return within if fold(told) == fold(within) or _is_spelled_otherwise(told, query) else told


@contextlib.contextmanager
def registered(cursor: Cursor, inputs: Mapping[str, tuple[ZSet, Schema]]) -> Iterator[None]:
    """Lets the cursor's SQL read each Z-set's columns (not weights) under the given name.

    Columns have the schema's names and DuckDB types; rows keep their order.
    """
    try:
        for name, (batch, schema) in inputs.items():
            _register(cursor, name, batch, schema)
        yield
    except BaseException:  # a failed statement aborts the transaction, and the names go with it
        with contextlib.suppress(duckdb.TransactionException):
            _take_all_back(cursor, inputs)
        raise
    _take_all_back(cursor, inputs)


def _take_all_back(cursor: Cursor, inputs: Mapping[str, tuple[ZSet, Schema]]) -> None:
    for name, (_, schema) in inputs.items():
        _take_back(cursor, name, schema)


_CAST_BACK = ("ENUM(", "JSON", "TUPLE(", '"NULL"')


def _loses_type(schema: Schema) -> bool:
    """Returns whether some type is lost on export, so that its values must be cast back.

    ENUMs and nested JSON leave as VARCHAR, tuples as structs, a bare NULL as INTEGER. It is mostly
    DuckDB's fault `types_through_arrow`.
    """
    return any(name in t.sql for _, t in schema for name in _CAST_BACK)


def _register(cursor: Cursor, name: str, batch: ZSet, schema: Schema) -> None:
    if not _loses_type(schema):
        cursor.register(name, batch.to_arrow(schema))
        return
    cursor.register(f"{name}__plain", batch.to_arrow(schema))
    casts = ", ".join(f"{quote(n)}::{t.sql} AS {quote(n)}" for n, t in schema)
    run(
        cursor,
        f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS"
        f" SELECT {casts} FROM {quote(name + '__plain')}",
    )


def _take_back(cursor: Cursor, name: str, schema: Schema) -> None:
    if not _loses_type(schema):
        cursor.unregister(name)
        return
    run(cursor, f"DROP VIEW IF EXISTS temp.main.{quote(name)}")
    cursor.unregister(f"{name}__plain")


def evaluate(
    cursor: Cursor, sql: str, inputs: Mapping[str, tuple[ZSet, Schema]], output: Schema
) -> ZSet:
    """Runs a query over registered Z-sets.

    Args:
        cursor: any cursor with `arrow_lossless_conversion` on.
        sql: a SELECT naming the keys of `inputs` as tables.
        inputs: Z-sets by name; their weights are not seen.
        output: the result's types, as `describe` gave them for the same SQL.

    Returns:
        The result rows, each with weight 1, in the query's order.

    Raises:
        duckdb.Error: the query fails on these rows (overflow, bad cast).
    """
    with registered(cursor, inputs):
        return from_arrow(table(cursor, sql), output)
