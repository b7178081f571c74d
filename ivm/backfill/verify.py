"""VERIFY … USING SPARK: a view against a fresh computation on Spark, both of one epoch.

The plan is computed, not the user's text, which Spark would read otherwise. What Spark and DuckDB
make of a plan is compared by the tests.
"""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

from ivm.backfill.refuse import refuse_unfillable
from ivm.backfill.snapshot import demand_files, export_scanned, exported, pinned
from ivm.backfill.spark_call import SparkCall
from ivm.catalog.version import CatalogVersion, View
from ivm.engine.engine import Engine
from ivm.engine.verify import Verdict, compare_answers
from ivm.spark_backfill.frames import Frames
from ivm.spark_backfill.session import asking
from ivm.spark_backfill.stages import Stage, Staging, run_stage
from ivm.storage.interrupts import check, interruptible
from ivm.storage.warehouse.duckdb.duck import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_on_spark(engine: Engine, version: CatalogVersion, view: View) -> Verdict:
    """Compares a view's rows with those that Spark computes from the tables.

    Args:
        engine: of the database.
        version: of the catalog, with the view, which may be dropped meanwhile.
        view: to be compared.

    Raises:
        UnsupportedError: Spark cannot compute the view.
        UnavailableError: Spark fails.
    """
    refuse_unfillable(engine, version, view, "verified")
    assert view.plan is not None
    stored = f"FROM {version.qualified[view.name]}"
    staging = Staging(engine.unfilled.folder(uuid.uuid4().hex))
    staging.clear()
    stage = Stage(0, view.plan, view.name)
    try:
        with pinned(engine) as (cursor, epoch), interruptible(cursor):
            export_scanned(engine, version, cursor, [view.plan], staging.tables, check)
            staging.begin(epoch, [stage])
            zone = engine.warehouse.zone.name
            SparkCall(
                engine, "verification", lambda spark, _: _compute(spark, zone, staging, stage)
            ).wait()
            demand_files(engine, version, [view.plan])  # the workers have read them
            count = int(rows(cursor, f"SELECT system.main.count(*) {stored}")[0][0])
            found = compare_answers(cursor, stored, staging.query(stage), view.schema)
    finally:
        shutil.rmtree(staging.folder, ignore_errors=True)
    return Verdict(count, *found, "")


def _compute(spark: SparkSession, zone: str, staging: Staging, stage: Stage) -> None:
    frames = Frames(spark, exported(spark, [stage.plan], staging.tables), zone)
    try:
        with asking():
            run_stage(spark, frames, staging, [stage], 0)
    finally:
        frames.close()
