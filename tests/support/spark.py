"""One Spark session for all tests of a process, and what it makes of plans and expressions.

Without Java or PySpark the tests that need it are not run, and say so; where `IVM_SERVERS` is
"required", as in CI, that is a failure.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ivm.spark_backfill.files.exports import export
from ivm.spark_backfill.files.relations import Exported
from ivm.spark_backfill.frames import Frames
from ivm.spark_backfill.session import start
from ivm.spark_backfill.workers.carriers import carrier
from ivm.sql.plan.nodes import Plan, Scan, types
from ivm.sql.plan.walks import nodes
from ivm.storage.errors import UnavailableError
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows, run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

OPTIONS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


@functools.cache
def session() -> SparkSession:
    """The session, started at its first use."""
    try:
        made = start(OPTIONS)
    except UnavailableError as error:
        if os.environ.get("IVM_SERVERS") == "required":
            raise
        pytest.skip(f"Spark NOT RUN: {error}")
    atexit.register(made.stop)
    return made


class World:
    """The tables of a cursor, exported for Spark at their first use."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._place = Path(tempfile.mkdtemp(prefix="ivm-spark-"))
        self._folders: dict[str, Path] = {}

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the files."""
        shutil.rmtree(self._place)

    def frames(self, plan: Plan) -> Frames:
        """Frames over the relations that the plan scans."""
        for scan in nodes(plan):
            if isinstance(scan, Scan) and scan.relation not in self._folders:
                schema = describe(self.cursor, f"FROM {scan.relation}")
                folder = self._place / str(len(self._folders))
                columns = [(i, name) for i, (name, _) in enumerate(schema)]
                export(self.cursor, scan.relation, columns, schema, folder)
                self._folders[scan.relation] = folder
        return Frames(session(), Exported(session(), self._folders), "UTC")

    def answer(self, plan: Plan, as_text: str = "") -> Counter[str]:
        """The plan's rows as Spark computes them, in the form of `plan_oracle.multiset`."""
        return Counter(repr(row) for row in self.rows(plan, as_text))

    def rows(self, plan: Plan, as_text: str = "") -> list[tuple[Any, ...]]:
        """The plan's rows as Spark computes them; for `as_text` see `values`."""
        frames = self.frames(plan)
        try:
            found = frames.frame(plan).toArrow()
        finally:
            frames.close()
        schema = tuple((f"c{i}", t) for i, t in enumerate(types(plan)))
        return values(self.cursor, found, schema, as_text)


def values(
    cursor: Cursor, carriers: pa.Table, schema: Schema, as_text: str = ""
) -> list[tuple[Any, ...]]:
    """Rows of carriers as DuckDB's values.

    Args:
        as_text: "::VARCHAR" for values as text: Python's do not show every bit, as of an interval.
    """
    back = [carrier(t).back(f"c{i}") for i, (_, t) in enumerate(schema)]
    listed = ", ".join(f"{value}{as_text}" for value in back)
    cursor.register("spark_answer", carriers)
    try:
        return rows(cursor, f"SELECT {listed} FROM spark_answer")
    finally:
        cursor.unregister("spark_answer")


def in_utc(cursor: Cursor) -> Cursor:
    """The cursor, with the zone in which `World` computes."""
    run(cursor, "SET TimeZone = 'UTC'")
    return cursor
