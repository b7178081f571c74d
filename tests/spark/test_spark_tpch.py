"""TPC-H on Spark: all 22 views are filled, right, and follow; their plans meet every said rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.spark.fills import measure
from benchmarks.tpch import tpch
from benchmarks.tpch.tpch_queries import QUERIES
from tests.support.spark import session

pytestmark = pytest.mark.full(smoke=1)


@pytest.mark.full
def test_all_views_are_filled_and_follow(tmp_path: Path) -> None:
    session()  # or it is not run
    tpch.generate(tmp_path / "parquet", 0.01)
    tpch.load(tmp_path / "parquet", tmp_path / "spark.duckdb")
    measure(tmp_path, list(QUERIES))  # ends the program where a view is wrong
