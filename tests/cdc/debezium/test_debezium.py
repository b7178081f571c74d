"""Tables that follow real databases by Debezium's engine: copied once, then change by change."""

from __future__ import annotations

from pathlib import Path

import ivm
from tests.cdc.debezium.following import ORDERS, follow, follows
from tests.cdc.debezium.upstreams import Upstream
from tests.cdc.postgres.following import VIEW, until

REVENUE = "SELECT customer, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY customer"


def test_a_table_is_copied_and_followed_and_left(
    tmp_path: Path, db: ivm.Database, upstream: Upstream
) -> None:
    values = ", ".join(f"({i}, {i % 7}, {i}, 'x')" for i in range(1, 3001))
    upstream.execute(ORDERS, f"INSERT INTO orders VALUES {values}")
    follow(db, upstream)
    follows(db, upstream)
    db.execute(VIEW)
    upstream.execute(
        "INSERT INTO orders VALUES (0, NULL, NULL, '')",
        "UPDATE orders SET amount = -amount WHERE id % 3 = 0",
        "BEGIN; DELETE FROM orders WHERE id % 5 = 0; UPDATE orders SET id = -id WHERE id < 100;"
        " COMMIT",
    )
    follows(db, upstream)
    follows(db, upstream, REVENUE)
    db.close()
    upstream.execute("TRUNCATE orders", "INSERT INTO orders VALUES (7, 1, 2, 'y')")
    upstream.execute("INSERT INTO orders VALUES (8, 1, 2, 'z')")
    with ivm.connect(tmp_path / "a.duckdb") as opened:
        opened.start_sources()
        follows(opened, upstream)
        until(lambda: opened.sources()[0].caught_up, opened)
        assert opened.sources()[0].dead_letters == 0
        opened.execute("DROP SOURCE shop")
    if upstream.connector == "postgresql":
        left = "SELECT slot_name FROM pg_replication_slots UNION SELECT pubname FROM pg_publication"
        assert upstream.execute(left) == []
