"""A broker for the tests of this folder, one in each process that runs some."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from ivm.cdc.sources.kafka import reader
from tests.support.kafka import Broker, missing

_NUMBERS = count()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker; without Java or Maven its tests are not run, and the summary says so."""
    lacking = missing()
    if lacking is not None:
        if os.environ.get("IVM_SERVERS") == "required":
            pytest.fail(f"Kafka cannot be started: {lacking}")
        pytest.skip(f"Kafka NOT RUN: {lacking}")
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def _quick_looks() -> Iterator[None]:
    """Sources look at their topics more often, for which fewer tests wait long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "LOOK", 0.1)
        yield


@pytest.fixture
def topic(broker: Broker) -> Callable[..., str]:
    """Makes a topic of a new name."""

    def make(partitions: int = 1, **config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return broker.create(f"shop.public.t{next(_NUMBERS)}", partitions, settings)

    return make
