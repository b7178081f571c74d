"""SQL and schemas of rows as their carriers, which travel between Spark and DuckDB in its workers.

Law: columns are c0, c1, …; what is given a SELECT over carriers reads the values themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ivm.spark_backfill.workers.carriers import Carrier, carrier
from ivm.spark_backfill.workers.worker import SIDE
from ivm.sql.plan.nodes import Plan, ViewScan
from ivm.sql.plan.render import render_body
from ivm.sql.plan.walks import inputs
from ivm.storage.values.types import ColumnType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def read_back(given: Sequence[ColumnType], side: int | None) -> str:
    """SQL of an input's rows over the partition's."""
    prefix = "" if side is None else f"s{side}."
    rows = select_back(given, prefix).replace("{", "{{").replace("}", "}}")
    return f"{rows} FROM {{rows}}" + ("" if side is None else f" WHERE {SIDE} = {side}")


def linear_source(plan: Plan, base: Plan, source: str) -> str:
    """A source for what is read over linear nodes, given one for the node below them."""
    if plan is base:
        return source
    below = linear_source(inputs(plan)[0], base, source)
    return below if isinstance(plan, ViewScan) else f"({render_body(plan, [below])})"


def select_back(given: Sequence[ColumnType], prefix: str = "") -> str:
    """SELECT and a list of values, from their carriers."""
    back = [carrier(t).back(f"{prefix}c{i}") for i, t in enumerate(given)]
    return f"SELECT {listed(back) or '1'}"


def listed(items: Sequence[str]) -> str:
    """A list of columns c0, c1, …"""
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))


def ddl_of(carriers: Sequence[Carrier]) -> str:
    """The columns of carriers, as Spark's DDL."""
    return ", ".join(f"c{i} {c.spark}" for i, c in enumerate(carriers))


def struct_of(given: Sequence[ColumnType]) -> str:
    """Spark's type of a row of carriers as one value."""
    return f"STRUCT<{', '.join(f'c{i}: {carrier(t).spark}' for i, t in enumerate(given))}>"


def arrow_schema(ddl: str) -> pa.Schema:
    """The Arrow schema of columns given as Spark's DDL."""
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return in_arrow(schema)


def in_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark gives and takes for its own."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC", prefers_large_types=True)
