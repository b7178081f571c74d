"""Columns that get facts of transactions: as PostgreSQL itself tells them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import ivm
from ivm.cdc.sources.postgres.log.messages import Commit
from ivm.cdc.sources.postgres.log.slot import adding_loses
from ivm.cdc.sources.postgres.rows.facts import carried, carrying
from tests.cdc.postgres.following import ORDERS, follow, rows, same, state, until
from tests.support.postgres import Database

FACTS = ", metadata 'committed = commit time, place = lsn, transaction_id = xid'"
LOG = "SELECT pg_current_wal_insert_lsn() - '0/0'"


def xid_of(shop: Database, change: str) -> int:
    """Runs a change; returns the number of its transaction."""
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"BEGIN; {change}")
        cursor.execute("SELECT pg_current_xact_id()::xid::text::bigint")
        ((xid,),) = cursor.fetchall()
        cursor.execute("COMMIT")
    connection.close()
    return int(xid)


def test_changes_have_the_facts_of_their_transactions(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'copied'), (2, 1, 1, 'copied')")
    follow(db, shop, options=FACTS)
    assert rows(db, "SELECT id, committed, place, transaction_id FROM orders") == [
        (1, None, None, None),
        (2, None, None, None),
    ]
    described = "SELECT column_name, column_type FROM (DESCRIBE orders) OFFSET 4"
    assert db.execute(described).fetchall() == [
        ("committed", "TIMESTAMP WITH TIME ZONE"),
        ("place", "BIGINT"),
        ("transaction_id", "BIGINT"),
    ]
    [(before,)] = shop.execute(LOG)
    begun = datetime.now(UTC)
    first = xid_of(shop, "INSERT INTO orders VALUES (3, 1, 1, 'x'), (4, 1, 1, 'x')")
    second = xid_of(shop, "UPDATE orders SET amount = 2 WHERE id IN (1, 4)")
    xid_of(shop, "DELETE FROM orders WHERE id = 2")
    [(after,)] = shop.execute(LOG)
    until(same(db, shop, "SELECT id FROM orders", "SELECT id FROM orders"), db)
    found = rows(db, "SELECT id, transaction_id FROM orders")
    assert found == [(1, second), (3, first), (4, second)]
    places = dict(rows(db, "SELECT id, place FROM orders"))
    assert before <= places[3] < places[4] == places[1] < after
    for (time,) in rows(db, "SELECT committed FROM orders"):
        assert begun - timedelta(seconds=1) < time < datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.full
def test_large_transactions_have_them_too(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    shop.execute(f"ALTER DATABASE \"{shop.name}\" SET logical_decoding_work_mem = '64kB'")
    follow(db, shop, options=FACTS)
    many = "INSERT INTO orders SELECT i, i % 7, 1, repeat('x', 50) FROM generate_series({}, {}) i"
    one = xid_of(shop, many.format(1, 20000) + "; SAVEPOINT s; " + many.format(20001, 20010))
    two = xid_of(shop, many.format(30001, 30002))
    until(same(db, shop, "SELECT id FROM orders", "SELECT id FROM orders"), db)
    counted = "SELECT transaction_id, count(*) FROM orders GROUP BY ALL"
    assert rows(db, counted) == sorted([(one, 20010), (two, 2)], key=repr)


@pytest.mark.full
def test_rows_that_exchange_their_keys_have_them(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, 'row ' || i FROM generate_series(1, 5) i",
    )
    follow(db, shop, options=FACTS)
    xid = xid_of(shop, "UPDATE orders SET id = id + 1 WHERE id > 2")
    until(same(db, shop, "SELECT id, v FROM orders", "SELECT * FROM orders"), db)
    last = xid_of(shop, "UPDATE orders SET id = 3 - id WHERE id < 3")
    until(same(db, shop, "SELECT id, v FROM orders", "SELECT * FROM orders"), db)
    assert rows(db, "SELECT id, transaction_id FROM orders") == [
        *[(1, last), (2, last)],
        *[(4, xid), (5, xid), (6, xid)],
    ]


@pytest.mark.full
def test_a_retried_change_has_the_facts_of_then(db: ivm.Database, shop: Database) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, n numeric(6, 2))")
    follow(db, shop, options=FACTS)
    xid = xid_of(shop, "INSERT INTO orders VALUES (1, 'NaN'), (2, 2)")
    until(lambda: len(rows(db, "FROM orders")) == 1, db)
    shop.execute("INSERT INTO orders VALUES (3, 3)")
    until(lambda: len(rows(db, "FROM orders")) == 2, db)
    db.execute("ALTER TABLE orders ALTER n TYPE DOUBLE")
    assert db.execute("RETRY DEAD LETTERS FOR shop").rowcount == 1
    [one, two] = rows(db, "SELECT * EXCLUDE (id, n) FROM orders WHERE id < 3")
    assert one == two
    assert one[2] == xid


@pytest.mark.full
def test_columns_follow_upstream_beside_those_of_metadata(db: ivm.Database, shop: Database) -> None:
    """A table that is there already, and a column upstream of the name of one of metadata."""
    shop.execute(ORDERS)
    db.execute("""
        CREATE TABLE orders (transaction_id UBIGINT, id INTEGER PRIMARY KEY, customer INTEGER,
            amount DECIMAL(8,2), t VARCHAR, place BIGINT, committed TIMESTAMP)
    """)
    follow(db, shop, options=FACTS)
    shop.execute(
        "ALTER TABLE orders ADD COLUMN more int; ALTER TABLE orders ADD COLUMN place text",
        "INSERT INTO orders VALUES (1, 1, 1, 'x', 7, 'none')",
    )
    until(lambda: len(rows(db, "FROM orders")) == 1, db)
    shop.execute(
        "ALTER TABLE orders ALTER id TYPE bigint",
        "INSERT INTO orders VALUES (3000000000, 1, 1, 'x', 7, 'none')",
    )
    until(lambda: len(rows(db, "FROM orders")) == 2, db)
    found = rows(db, "SELECT id, more, typeof(place), place > 0 FROM orders")
    assert found == [(1, 7, "BIGINT", True), (3000000000, 7, "BIGINT", True)]


@pytest.mark.full
def test_changes_of_an_added_table_carry_their_commits(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS,
        "CREATE TABLE pay (id int PRIMARY KEY, x int)",
        "INSERT INTO pay SELECT i, 0 FROM generate_series(1, 3000) i",
    )
    follow(db, shop, options=FACTS)
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN; UPDATE pay SET x = 1 WHERE id = 1")  # the snapshot waits for its end
        db.execute("ALTER SOURCE shop ADD TABLE public.pay")
        if adding_loses(connection.server_version):
            until(lambda: "may lose changes" in state(db)[1], db)
            return
        shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
        until(lambda: rows(db, "FROM orders") != [], db)
        cursor.execute("COMMIT")
    connection.close()
    sent = [xid_of(shop, f"UPDATE pay SET x = x + 1 WHERE id % 40 = {i}") for i in range(40)]
    created = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'pay'"
    until(lambda: rows(db, created) != [], db)
    until(same(db, shop, "SELECT id, x FROM pay", "SELECT * FROM pay"), db)
    for id, xid in rows(db, "SELECT id, transaction_id FROM pay"):
        assert xid in (None, sent[id % 40])


def test_held_messages_are_what_they_were() -> None:
    commits = [Commit(1, 2, -3, 4), Commit((1 << 64) - 1, 0, 1 << 62, (1 << 32) - 1)]
    messages = [b"Iabc", b""]
    found, told = carried(list(map(carrying, messages, commits)))
    assert (found, told, [each.xid for each in told]) == (messages, commits, [4, (1 << 32) - 1])


def test_a_table_without_a_key_is_refused(db: ivm.Database) -> None:
    db.execute("CREATE TABLE orders (id INTEGER, place BIGINT)")
    with pytest.raises(ivm.errors.InputError, match="has no primary key"):
        db.execute("""
            CREATE SOURCE shop FROM POSTGRES (dsn 'host=localhost', tables 'orders',
                metadata 'place = lsn')
        """)
    db.execute("CREATE TABLE keyed (id INTEGER PRIMARY KEY, place BIGINT)")
    db.execute("""
        CREATE SOURCE shop FROM POSTGRES (dsn 'host=localhost', tables 'keyed',
            metadata 'place = lsn')
    """)
    with pytest.raises(ivm.errors.InputError, match="has no primary key"):
        db.execute("ALTER SOURCE shop ADD TABLE orders")
