"""The part of a job that runs in Spark's Python workers: DuckDB over a partition's rows.

Law: a worker gives DuckDB's answer to a body of SQL over the rows of its partition, so a node that
is computed here has one semantics. It needs no more of this package than this module.
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
NO_SIDE = -1
"""The side of a row that stands for nothing: it makes sure that a partition is looked at."""


@dataclass(frozen=True)
class Body:
    """SQL for a partition's rows.

    Attributes:
        inputs: for each input its name, and its rows as SQL over `rows__`.
        sql: a SELECT over the inputs, whose columns are carriers.
        schema: the Arrow types of these columns.
        given: the Arrow schema of `rows__`.
        settings: statements to run before.
        stored: `rows__` is read more than once.
    """

    inputs: tuple[tuple[str, str], ...]
    sql: str
    schema: pa.Schema
    given: pa.Schema
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


def _answer(connection: duckdb.DuckDBPyConnection, body: Body, batches: Batches) -> Batches:
    stream = pa.RecordBatchReader.from_batches(body.given, fitting(body.given, batches))
    connection.register("given__", stream)
    rows = "given__"
    if body.stored:
        connection.execute("CREATE TEMP TABLE rows__ AS FROM given__").fetchall()
        rows = "rows__"
    named = ", ".join(f"{name} AS ({sql.format(rows=rows)})" for name, sql in body.inputs)
    answer = connection.sql(f"WITH {named} {body.sql}").to_arrow_reader(1 << 16)
    yield from fitting(body.schema, answer)


def fitting(schema: pa.Schema, batches: Batches) -> Batches:
    """The batches in the types of the schema; Spark may send smaller ones for strings."""
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
