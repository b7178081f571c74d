"""The catalog's names follow its tables, whoever changes it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from ivm.catalog import catalog
from ivm.catalog.catalog import Catalog
from ivm.catalog.names import NameRules
from ivm.storage.warehouse.table_info import TableInfo


def info(name: str) -> TableInfo:
    return TableInfo(name, f'"shop"."main"."{name}"', ())


def test_databases_attached_beside_a_new_table_do_not_hide_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = Catalog("shop")
    under_way, go_on = threading.Event(), threading.Event()

    def slow(*args: Any) -> NameRules:
        if not under_way.is_set():  # of the thread that attaches: it has read the tables
            under_way.set()
            assert go_on.wait(10)
        return NameRules(*args)

    monkeypatch.setattr(catalog, "NameRules", slow)
    with ThreadPoolExecutor(2) as threads:
        attaching = threads.submit(tables.load_databases, ["other"])
        assert under_way.wait(10)
        creating = threads.submit(tables.load_tables, {"orders": info("orders")}, [])
        wait([creating], 0.5)  # it need not wait for the other, but may
        go_on.set()
        attaching.result(10)
        creating.result(10)
    assert tables.resolve(["orders"]) == "orders"
