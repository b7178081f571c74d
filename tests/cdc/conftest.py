"""A database with the orders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ivm
from tests.cdc.orders import ORDERS, VIEW


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(ORDERS + ";" + VIEW)
        yield opened
