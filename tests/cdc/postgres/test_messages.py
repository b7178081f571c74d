"""The messages of a real server are cut into the changes that were made, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ivm.cdc.sources.postgres.rows.texts import from_payloads, joined
from tests.cdc.postgres.received import SLOT, Received
from tests.support.postgres import Database

TABLE = "CREATE TABLE t (id integer PRIMARY KEY, g integer, s text)"
PUBLICATION = "CREATE PUBLICATION p FOR ALL TABLES"


def changes(shop: Database, name: str = "t") -> list[dict[str, Any]]:
    """The changes of a table as their payloads have them."""
    texts = Received(shop).texts(name)
    payloads = texts.payloads(range(len(texts)))
    again = from_payloads(payloads)
    assert again.payloads(range(len(again))) == payloads
    return [json.loads(payload) for payload in payloads]


@pytest.mark.full
def test_a_row_before_is_told_where_the_key_has_changed(shop: Database) -> None:
    shop.execute(TABLE, PUBLICATION, SLOT)
    shop.execute(
        "INSERT INTO t VALUES (1, NULL, ''), (2, 5, 'x')",
        "UPDATE t SET id = 3 WHERE id = 1; UPDATE t SET g = 6 WHERE id = 2; DELETE FROM t",
    )
    assert changes(shop) == [
        {"op": "insert", "row": {"id": "1", "g": None, "s": ""}},
        {"op": "insert", "row": {"id": "2", "g": "5", "s": "x"}},
        {
            "op": "update",
            "row": {"id": "3", "g": None, "s": ""},
            "old": {"id": "1", "g": None, "s": None},
        },
        {"op": "update", "row": {"id": "2", "g": "6", "s": "x"}},
        {"op": "delete", "row": {"id": "3", "g": None, "s": None}},
        {"op": "delete", "row": {"id": "2", "g": None, "s": None}},
    ]


@pytest.mark.full
def test_large_values_that_have_not_changed_are_not_sent(shop: Database) -> None:
    shop.execute(TABLE, "ALTER TABLE t ALTER s SET STORAGE EXTERNAL", PUBLICATION, SLOT)
    shop.execute("INSERT INTO t VALUES (1, 1, repeat('ä', 5000))", "UPDATE t SET g = 2")
    first, second = changes(shop)
    assert first["row"]["s"] == "ä" * 5000
    assert second == {"op": "update", "row": {"id": "1", "g": "2"}}


def test_whole_rows_before_are_told_under_full_identity(shop: Database) -> None:
    shop.execute(TABLE, "ALTER TABLE t REPLICA IDENTITY FULL", PUBLICATION, SLOT)
    shop.execute("INSERT INTO t VALUES (1, 1, 'a')", "UPDATE t SET g = 2; DELETE FROM t")
    assert changes(shop)[1:] == [
        {
            "op": "update",
            "row": {"id": "1", "g": "2", "s": "a"},
            "old": {"id": "1", "g": "1", "s": "a"},
        },
        {"op": "delete", "row": {"id": "1", "g": "2", "s": "a"}},
    ]


def test_what_was_rolled_back_is_not_there(shop: Database) -> None:
    # Each transaction is larger than the memory for decoding, so it is streamed before its end.
    shop.execute(TABLE, PUBLICATION, SLOT)
    many = "SELECT i, 0, repeat('x', 100) FROM generate_series({}, {}) i"
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN; INSERT INTO t " + many.format(1, 2000))
        cursor.execute("SAVEPOINT a; INSERT INTO t " + many.format(2001, 4000))
        cursor.execute("SAVEPOINT b; INSERT INTO t " + many.format(4001, 6000))
        cursor.execute("ROLLBACK TO a; INSERT INTO t " + many.format(6001, 8000))
        cursor.execute("RELEASE a; COMMIT")
        cursor.execute("BEGIN; INSERT INTO t " + many.format(8001, 10000))
        cursor.execute("ROLLBACK; INSERT INTO t VALUES (0, 0, '')")
    connection.close()
    found = [int(change["row"]["id"]) for change in changes(shop)]
    assert found == [*range(1, 2001), *range(6001, 8001), 0]


def test_a_table_that_changes_its_columns_within_a_transaction(shop: Database) -> None:
    shop.execute(TABLE, PUBLICATION, SLOT)
    shop.execute(
        "INSERT INTO t VALUES (1, 1, 'a'); ALTER TABLE t DROP g; ALTER TABLE t ADD h text;"
        "INSERT INTO t VALUES (2, 'b', 'h')"
    )
    received = Received(shop)
    parts = received.runs("t")
    whole = joined(parts)
    assert [json.loads(p)["row"] for p in whole.payloads(range(2))] == [
        {"id": "1", "g": "1", "s": "a"},
        {"id": "2", "s": "b", "h": "h"},
    ]
