"""Tables that follow real databases by Debezium's engine: copied once, then change by change."""

from __future__ import annotations

from pathlib import Path

import pytest

import ivm
from tests.cdc.debezium.following import ORDERS, follow, follows, opened, take
from tests.cdc.debezium.upstreams import Upstream, source
from tests.cdc.postgres.following import VIEW, until

pytestmark = pytest.mark.full(smoke=2)

REVENUE = "SELECT customer, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY customer"


@pytest.mark.full
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
    with ivm.connect(tmp_path / "a.duckdb") as again:
        again.start_sources()
        follows(again, upstream)
        until(lambda: again.sources()[0].caught_up, again)
        assert again.sources()[0].dead_letters == 0
        again.execute("DROP SOURCE shop")
    if upstream.connector == "postgresql":
        left = "SELECT slot_name FROM pg_replication_slots UNION SELECT pubname FROM pg_publication"
        assert upstream.execute(left) == []


def test_a_source_is_not_caught_up_while_changes_come(db: ivm.Database, upstream: Upstream) -> None:
    upstream.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, '')")
    db.execute(source(upstream))
    with opened(db) as reader:
        until(lambda: not take(reader) and reader.caught_up(), db, 120)
        upstream.execute("INSERT INTO orders VALUES (2, 1, 1, '')")
        until(lambda: take(reader) > 0, db)
        assert not reader.caught_up()
        until(lambda: not take(reader) and reader.caught_up(), db)
