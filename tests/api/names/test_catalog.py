"""The catalog's names follow its tables, whoever changes it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.catalog import catalog
from ivm.catalog.catalog import Catalog
from ivm.catalog.version import CatalogVersion
from ivm.storage.warehouse.tables.table_info import TableInfo


def info(name: str) -> TableInfo:
    return TableInfo(name, f'"shop"."main"."{name}"', ())


def test_databases_attached_beside_a_new_table_do_not_hide_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = Catalog("shop")
    under_way, go_on = threading.Event(), threading.Event()

    def slow(version: CatalogVersion, **parts: Any) -> CatalogVersion:
        if not under_way.is_set():  # of the thread that attaches: it has read the tables
            under_way.set()
            assert go_on.wait(10)
        return replace(version, **parts)

    monkeypatch.setattr(catalog, "replace", slow)
    with ThreadPoolExecutor(2) as threads:
        attaching = threads.submit(tables.load_databases, ["other"])
        assert under_way.wait(10)
        creating = threads.submit(tables.load_tables, {"orders": info("orders")}, [], {})
        wait([creating], 0.5)  # it need not wait for the other, but may
        go_on.set()
        attaching.result(10)
        creating.result(10)
    assert tables.names.resolve(["orders"]) == "orders"


@pytest.mark.full
def test_of_databases_attached_and_detached_at_once_none_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ivm.connect() as db:
        db.execute("ATTACH ':memory:' AS former")
        warehouse = db._engine.warehouse
        databases, has_read, go_on = warehouse.databases, threading.Event(), threading.Event()

        def slow(*args: Any) -> list[str]:
            found = databases(*args)
            if not has_read.is_set():  # of the session that detaches
                has_read.set()
                assert go_on.wait(10)
            return found

        monkeypatch.setattr(warehouse, "databases", slow)
        with ThreadPoolExecutor(2) as threads:
            detaching = threads.submit(db.execute, "DETACH former")
            assert has_read.wait(10)
            attaching = threads.submit(db.execute, "ATTACH ':memory:' AS latter")
            wait([attaching], 0.5)  # it need not wait for the other, but may
            go_on.set()
            detaching.result(10)
            attaching.result(10)
        names = db._engine.catalog.names
        assert names.others
        assert names.path(["latter", "main", "t"]) is None
        assert names.path(["former", "t"]) == ("former", "t")  # a schema, for all that is known


@pytest.mark.full
def test_a_table_takes_the_name_of_a_view_that_was_there_at_the_opening(tmp_path: Path) -> None:
    """Bug: it was no table, and no view over it could be made until the next opening."""
    with ivm.connect(tmp_path / "t.duckdb") as db:
        db.execute("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    with ivm.connect(tmp_path / "t.duckdb") as db:
        db.execute("DROP MATERIALIZED VIEW v; CREATE TABLE v (a INT PRIMARY KEY)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT a FROM v")
        db.insert("v", [{"a": 1}])
        assert db.execute("FROM w").fetchall() == [(1,)]
