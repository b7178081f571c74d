"""The part of a job that runs in Spark's Python workers: DuckDB over a partition's rows.

Law: a worker gives DuckDB's answer to a body of SQL over the rows of its partition, so a node that
is computed here has one semantics. The rows come from Spark, or lie in files that the worker reads.
It needs no more of this package than this module.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
SIDE = "side__"
CODE = "code__"
GIVEN = "given__"
"""The name of the rows that are given, as carriers."""
PIECE = "piece__"
"""The name of the rows of one piece of a table's files."""
_LISTED = "read_parquet($1, hive_partitioning = false)"  # see `ivm.storage.warehouse.own_parquet`
NO_SIDE = -1
"""The side of a row that stands for nothing: it makes sure that a partition is looked at."""


@dataclass(frozen=True)
class Pieces:
    """Rows that lie in files: for each number that a worker is given it reads one piece.

    Attributes:
        listed: the Parquet file that says for each number of a piece its kind and its source.
        count: of the pieces, which are numbered from 0.
        lake: SQL of the carriers of a piece's rows, over `PIECE`, for those of kind "lake".
        added: the same, for the others.
    """

    listed: str
    count: int
    lake: str
    added: str


@dataclass(frozen=True)
class Body:
    """SQL for a partition's rows.

    Attributes:
        inputs: for each input its name, and its rows as SQL over `rows__`.
        sql: a SELECT over the inputs, whose columns are carriers.
        schema: the Arrow types of these columns.
        given: the Arrow schema of the rows that Spark gives, or where they lie.
        settings: statements to run before.
        stored: the rows are read more than once; never so for those that lie in files.
    """

    inputs: tuple[tuple[str, str], ...]
    sql: str
    schema: pa.Schema
    given: pa.Schema | Pieces
    settings: tuple[str, ...]
    stored: bool


@contextlib.contextmanager
def opened(settings: Sequence[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB for one partition, which spills into a folder of its own."""
    spill = tempfile.TemporaryDirectory(prefix="ivm-spill-")
    with spill as folder, contextlib.closing(duckdb.connect()) as connection:
        given = (f"SET temp_directory = '{folder}'", "SET threads = 1", *settings)
        for statement in given:
            connection.execute(statement).fetchall()
        yield connection


def runner(body: Body) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """A function for `mapInArrow`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        with opened(body.settings) as connection:
            yield from _answer(connection, body, iter(batches))

    return run


def given(
    cursor: duckdb.DuckDBPyConnection, given: pa.Schema | Pieces, batches: Batches
) -> Iterator[str]:
    """The name of the rows, as often as there are other rows to be read under it."""
    if isinstance(given, pa.Schema):
        cursor.register(GIVEN, pa.RecordBatchReader.from_batches(given, fitting(given, batches)))
        yield GIVEN
        return
    for number in (n for batch in batches for n in batch.column(0).to_pylist()):
        listed = f"SELECT kind, source FROM {_LISTED} WHERE number = {number}"
        ((kind, source),) = cursor.execute(listed, [given.listed]).fetchall()
        rows = given.lake if kind == "lake" else given.added
        for name, sql in ((PIECE, f"FROM {source}"), (GIVEN, rows)):
            cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}").fetchall()
        yield GIVEN


def _answer(connection: duckdb.DuckDBPyConnection, body: Body, batches: Batches) -> Batches:
    for rows in given(connection, body.given, batches):
        if body.stored:
            connection.execute(f"CREATE TEMP TABLE rows__ AS FROM {rows}").fetchall()
            rows = "rows__"
        named = ", ".join(f"{name} AS ({sql.format(rows=rows)})" for name, sql in body.inputs)
        answer = connection.sql(f"WITH {named} {body.sql}").to_arrow_reader(1 << 16)
        yield from fitting(body.schema, answer)


def fitting(schema: pa.Schema, batches: Batches) -> Batches:
    """The batches in the types of the schema; Spark may send smaller ones for strings."""
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
