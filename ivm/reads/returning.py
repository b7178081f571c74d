"""RETURNING computed by kernels: a list over changed rows as DuckDB's own.

Contract: names, types and values are those that DuckDB returns; a list that is not certain to have
them has no `Returning`, and DuckDB runs the statement. The list is bound as that of a SELECT from a
table with the same columns, in an empty database.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from ivm.delta_ops.operator import Kernel
from ivm.reads.answer import Answer, Shape
from ivm.sql.bind.bind import bind
from ivm.sql.parse.expression_text import calls
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.nodes import NotIncremental, Plan, Project, Scan
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.errors import EvaluationError
from ivm.storage.identifiers import quote
from ivm.storage.scratch import Scratch
from ivm.storage.values.column import Column
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet

_scratch = Scratch.of("SET arrow_lossless_conversion = true")


@dataclass(frozen=True)
class Returning:
    """A compiled RETURNING list.

    Attributes:
        shape: names and types of what it returns.
        steps: kernels over the rows, then over the columns of the step before.
    """

    shape: Shape
    steps: tuple[tuple[Kernel, ...], ...]

    def of(self, rows: ZSet) -> Answer | None:
        """What is returned of rows with all columns of the table; None if DuckDB must tell."""
        columns: Sequence[Column] = rows.columns
        try:
            for kernels in self.steps:
                columns = [kernel(columns, len(rows)) for kernel in kernels]
        except (EvaluationError, duckdb.Error):
            return None
        return Answer(ZSet(tuple(columns), rows.weights), self.shape)


@functools.lru_cache(maxsize=256)
def returning_of(
    text: str, kind: str, schema: Schema, table: str, alias: str | None, macros: frozenset[str]
) -> Returning | None:
    """Compiles a list.

    Args:
        text: the list after RETURNING.
        kind: "insert" (without ON CONFLICT), "update" or "delete", for what an alias hides.
        schema: of the table.
        table: its name, without schemas.
        alias: the table's alias in the statement, if it has one.
        macros: names of the user's functions and macros, in small letters.
    """
    name, renamed = f"main.{quote(table)}", "" if alias is None else f" AS {quote(alias)}"
    query = f"SELECT {text} FROM {name}{renamed}"
    listed = ", ".join([f"{quote(column)} {type.sql}" for column, type in schema])
    with _scratch.borrow() as cursor:
        try:
            cursor.execute(f"CREATE OR REPLACE TABLE {name} ({listed})")
            try:
                if calls(query, cursor) & macros:
                    return None
                plan = bind(query, DuckCatalog(cursor), cursor, _functions())
                cursor.execute(_changes(kind, name, renamed, schema) + f" RETURNING {text}")
                shown = cursor.description or []
                cursor.complete()
            finally:
                cursor.execute(f"DROP TABLE {name}")
            types, steps = [type for _, type in plan.schema], _steps(plan)
            if steps is None or [type.sql for type in types] != [str(d[1]) for d in shown]:
                return None
            shape = Shape.of(tuple(zip([d[0] for d in shown], types, strict=True)), cursor)
        except (NotIncremental, duckdb.Error):
            return None
    return None if shape is None else Returning(shape, steps)


@functools.cache
def _functions() -> FunctionList:
    """The functions of a database without any of the user's; it takes 20 ms to list them."""
    with _scratch.borrow() as cursor:
        return list_functions(cursor)


def _changes(kind: str, name: str, renamed: str, schema: Schema) -> str:
    """A statement of a kind that changes no row of an empty table."""
    if kind == "insert":
        return f"INSERT INTO {name}{renamed} FROM {name}"
    if kind == "delete":
        return f"DELETE FROM {name}{renamed}"
    column = quote(schema[0][0])
    return f"UPDATE {name}{renamed} SET {column} = {column}"


def _steps(plan: Plan) -> tuple[tuple[Kernel, ...], ...] | None:
    """The kernels of projections of a scan; None for any other plan."""
    if isinstance(plan, Scan):
        return ((*[_column(i) for i in plan.columns],),)
    if not isinstance(plan, Project):
        return None
    below, types = _steps(plan.input), [type for _, type in plan.input.schema]
    pairs = zip(plan.exprs, plan.schema, strict=True)
    kernels = [compile_scalar(expr, types, type) for expr, (_, type) in pairs]
    known = tuple([kernel for kernel in kernels if kernel is not None])
    return None if below is None or len(known) < len(kernels) else (*below, known)


def _column(position: int) -> Kernel:
    return lambda columns, count: columns[position]
