"""Views and changefeeds follow random streams of changes (see `random_stream`)."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.random_sql.random_stream import run_stream
from tests.tiers import examples

pytestmark = pytest.mark.full(smoke=1)


@given(st.integers(0, 10**9))
@settings(deadline=None, max_examples=examples(3), suppress_health_check=list(HealthCheck))
def test_views_follow_random_streams(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("stream")
    run_stream(seed, folder)
    shutil.rmtree(folder)
