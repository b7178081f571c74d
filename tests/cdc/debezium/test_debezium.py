"""Tables that follow a real database by Debezium's engine: copied once, then change by change."""

from __future__ import annotations

from pathlib import Path

import ivm
from tests.cdc.debezium.following import ORDERS, follow
from tests.cdc.postgres.following import REVENUE, VIEW, rows, same, until
from tests.support.postgres import Database

ALL = "FROM orders", "SELECT * FROM orders"


def test_a_table_is_copied_and_followed_and_left(
    tmp_path: Path, db: ivm.Database, shop: Database
) -> None:
    shop.execute(
        ORDERS, "INSERT INTO orders SELECT i, i % 7, i, 'x' FROM generate_series(1, 3000) i"
    )
    follow(db, shop)
    until(same(db, shop, *ALL), db)
    db.execute(VIEW)
    shop.execute(
        "INSERT INTO orders VALUES (0, NULL, NULL, '')",
        "UPDATE orders SET amount = -amount WHERE id % 3 = 0",
        "DELETE FROM orders WHERE id % 5 = 0; UPDATE orders SET id = -id WHERE id < 100",
    )
    until(same(db, shop, *ALL), db)
    assert rows(db, "FROM revenue") == sorted(shop.execute(REVENUE), key=repr)
    db.close()
    shop.execute("TRUNCATE orders; INSERT INTO orders VALUES (7, 1, 2, 'y')")
    shop.execute("INSERT INTO orders VALUES (8, 1, 2, 'z')")
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        opened.start_sources()
        until(same(opened, shop, *ALL), opened)
        until(lambda: opened.sources()[0].caught_up, opened)
        assert opened.sources()[0].dead_letters == 0
        opened.execute("DROP SOURCE shop")
    assert shop.execute("SELECT * FROM pg_replication_slots, pg_publication") == []
