"""What becomes of a source when the server, the slot or the options are not as they should be."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import ivm
from ivm import errors
from ivm.cdc.sources.postgres.connections.server import refused
from tests.cdc.postgres.following import ORDERS, OURS, follow, position, same, state, until
from tests.support.postgres import Database, running

pytestmark = pytest.mark.full(smoke=6)

ALL = ("FROM orders", "SELECT * FROM orders")
SLOT_OF = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'ivm_shop'"


@pytest.mark.full
def test_a_cut_connection_is_made_again(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    for i in range(3):
        shop.execute(f"INSERT INTO orders VALUES ({i}, 1, 1, '')")
        shop.execute(f"SELECT pg_terminate_backend(({SLOT_OF}))")
        shop.execute(f"INSERT INTO orders VALUES ({i + 10}, 1, 1, '')")
        until(same(db, shop, *ALL), db)
    assert state(db) == ("running", "")


@pytest.mark.full
def test_a_server_that_stops_and_starts_is_followed_again(tmp_path: Path) -> None:
    with running() as server, ivm.connect(tmp_path / "a.duckdb") as db:
        shop = server.database("shop")
        shop.execute(ORDERS, "INSERT INTO orders VALUES (0, 0, 0, '')")
        follow(db, shop)
        for mode in ("fast", "immediate"):
            shop.execute(f"INSERT INTO orders VALUES ({len(mode)}, 1, 1, '')")
            begin = time.monotonic()
            server.stop(mode)  # which would wait for a reader that does not say what it received
            assert time.monotonic() - begin < 30
            time.sleep(0.3)
            server.start()
            shop.execute(f"UPDATE orders SET amount = {len(mode)}")
            until(same(db, shop, *ALL), db)


@pytest.mark.full
def test_a_slot_that_was_dropped_is_noticed(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    db.execute("PAUSE SOURCE shop")
    until(lambda: shop.execute(SLOT_OF) == [(None,)], db)
    shop.execute("SELECT pg_drop_replication_slot('ivm_shop')")
    shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
    db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert "is gone" in state(db)[1]
    db.execute("DROP SOURCE shop")
    follow(db, shop)
    until(same(db, shop, *ALL), db)


def test_changes_that_somebody_else_has_read_are_noticed(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    db.execute("PAUSE SOURCE shop")
    until(lambda: shop.execute(SLOT_OF) == [(None,)], db)
    shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
    shop.execute("SELECT pg_replication_slot_advance('ivm_shop', pg_current_wal_lsn())")
    db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert "somebody else has read the changes between" in state(db)[1]


RENAMES = {
    "renamed": "ALTER TABLE orders RENAME TO old; INSERT INTO old VALUES (1, 1, 1, '')",
    "made again": f"DROP TABLE orders; {ORDERS}; INSERT INTO orders VALUES (1, 1, 1, '')",
    "not published": "ALTER PUBLICATION ivm_shop DROP TABLE orders",
}


@pytest.mark.parametrize("what", RENAMES)
@pytest.mark.parametrize("runs", [True, False])
def test_a_table_that_is_another_one_is_noticed(
    db: ivm.Database, shop: Database, what: str, runs: bool
) -> None:
    shop.execute(ORDERS, "INSERT INTO orders VALUES (0, 0, 0, '')")
    follow(db, shop)
    if not runs:
        db.execute("PAUSE SOURCE shop")
        until(lambda: shop.execute(SLOT_OF) == [(None,)], db)
    shop.execute(RENAMES[what])
    if not runs:
        db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    says = "has no table" if what == "renamed" and not runs else "was renamed, dropped"
    assert says in state(db)[1]


@pytest.mark.parametrize("what", ["SET (publish = 'insert')", "SET TABLE orders WHERE (id > 5)"])
def test_a_publication_of_fewer_changes_is_noticed(
    db: ivm.Database, shop: Database, what: str
) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    shop.execute(f"ALTER PUBLICATION ivm_shop {what}", "INSERT INTO orders VALUES (0, 0, 0, '')")
    until(lambda: state(db)[0] == "stopped", db)
    assert "may be missing" in state(db)[1]


@pytest.mark.full
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_server_whose_disk_was_put_back_is_noticed(tmp_path: Path, goes_on: bool) -> None:
    """The log has grown past our position again, and the slot is there."""
    with running() as server, ivm.connect(tmp_path / "a.duckdb") as db:
        shop = server.database("shop")
        shop.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, '')")
        follow(db, shop)
        db.execute("PAUSE SOURCE shop")
        until(lambda: shop.execute(SLOT_OF) == [(None,)], db)
        if not goes_on:
            server.keep()
        db.execute("RESUME SOURCE shop")
        shop.execute("INSERT INTO orders VALUES (2, 2, 2, ''); UPDATE orders SET amount = 10")
        until(same(db, shop, *ALL), db)
        db.execute("PAUSE SOURCE shop")
        until(lambda: shop.execute(SLOT_OF) == [(None,)], db)
        if goes_on:
            server.keep()
        server.put_back()
        shop.execute(*[f"INSERT INTO orders VALUES ({i}, 1, 1, '')" for i in range(3, 60)])
        shop.execute("SELECT pg_switch_wal()", "INSERT INTO orders VALUES (99, 1, 1, '')")
        db.execute("RESUME SOURCE shop")
        if goes_on:
            return until(same(db, shop, *ALL), db)
        until(lambda: state(db)[0] == "stopped", db)
        assert "was put back to an earlier state" in state(db)[1]


@pytest.mark.parametrize("code", [None, "40P01", "55P03", "53300", "57P01"])
def test_what_passes_is_tried_again(code: str | None) -> None:
    assert isinstance(refused(code, "deadlock detected"), errors.UnavailableError)


def test_closing_does_not_wait_for_transactions_upstream(shop: Database, tmp_path: Path) -> None:
    shop.execute(ORDERS)
    dsn = shop.dsn.replace("'", "''")
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN; INSERT INTO orders VALUES (1, 1, 1, '')")  # the slot waits for it
        with ivm.connect(tmp_path / "a.duckdb") as db:
            db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables 'orders')")
            db.start_sources()
            until(lambda: db.execute("FROM _ivm.positions").fetchall() != [], db)
            time.sleep(0.5)
            begin = time.monotonic()
        assert time.monotonic() - begin < 8  # the job is given ten seconds
        cursor.execute("COMMIT")
    connection.close()


COPY_PID = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY (SELECT%' AND pid <> {}"


@pytest.mark.full
def test_a_copy_that_is_cut_or_left_begins_anew(shop: Database, tmp_path: Path) -> None:
    shop.execute(
        ORDERS,
        "INSERT INTO orders SELECT i, i, 1, repeat('x', 500) FROM generate_series(1, 300000) i",
    )
    dsn, copying = shop.dsn.replace("'", "''"), COPY_PID.format("pg_backend_pid()")
    for _ in range(2):
        with ivm.connect(tmp_path / "a.duckdb") as db:
            if not db.sources():
                db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables 'orders')")
            db.start_sources()
            until(lambda: shop.execute(copying) != [], db)
            shop.execute(f"SELECT pg_terminate_backend(pid) FROM ({copying}) c")
            until(lambda: shop.execute(copying) == [], db)
            until(lambda: shop.execute(copying) != [], db)
            begin = time.monotonic()
        assert time.monotonic() - begin < 8  # the job is given ten seconds
        assert shop.execute(copying) == []
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.start_sources()
        until(lambda: position(db) > 0, db, 120)
        assert same(db, shop, *ALL)()


@pytest.mark.full
def test_a_table_is_altered_while_a_copy_waits_for_it(db: ivm.Database, shop: Database) -> None:
    """The copy has one session for its lock and the rows: it never waits for those behind it."""
    shop.execute(
        ORDERS,
        "INSERT INTO orders VALUES (1, 1, 1, '')",
        "CREATE TABLE first (id int PRIMARY KEY, t text)",
        "INSERT INTO first SELECT i, repeat('x', 500) FROM generate_series(1, 300000) i",
    )
    waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'orders'::regclass AND NOT granted"
    dsn, tables = shop.dsn.replace("'", "''"), "tables 'first, orders', copies '1'"
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', {tables})")
    with (
        ThreadPoolExecutor() as pool,
        closing(shop.connect()) as holder,
        closing(shop.connect()) as other,
    ):
        db.start_sources()
        until(lambda: shop.execute(COPY_PID.format("pg_backend_pid()")) != [], db)
        holder.cursor().execute("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        until(lambda: shop.execute(waiting) == [(1,)], db)
        altered = pool.submit(other.cursor().execute, "ALTER TABLE orders ADD c int")
        until(lambda: shop.execute(waiting) == [(2,)], db)
        holder.cursor().execute("COMMIT")
        try:
            altered.result(60)
        finally:
            db.execute("PAUSE SOURCE shop")  # which lets go of its locks
    shop.execute("TRUNCATE first", "INSERT INTO orders VALUES (2, 2, 2, '', 2)")
    db.execute("RESUME SOURCE shop")
    until(lambda: position(db) > 0, db)
    until(same(db, shop, *ALL), db)


def test_an_idle_slot_stands_at_what_was_committed(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS, "CREATE TABLE other (x text)")
    follow(db, shop)
    begin = position(db)
    for _ in range(3):
        shop.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 9000)")
    until(lambda: position(db) > begin + (16 << 20), db)
    slot = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots"
    until(lambda: shop.execute(f"{slot} WHERE slot_name = 'ivm_shop'")[0][0] == position(db), db)


def test_a_dropped_source_leaves_nothing(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    follow(db, shop)
    db.execute("DROP SOURCE shop")
    assert shop.execute("SELECT slot_name FROM pg_replication_slots") == []
    assert shop.execute("SELECT pubname FROM pg_publication") == []


@pytest.mark.full
def test_what_a_dropped_source_could_not_remove_is_told(tmp_path: Path) -> None:
    with running() as server, ivm.connect(tmp_path / "a.duckdb") as db:
        shop = server.database("shop")
        shop.execute(ORDERS)
        follow(db, shop)
        server.stop()
        with pytest.raises(ivm.errors.UnavailableError, match=r"is dropped, but .* may be left"):
            db.execute("DROP SOURCE shop")
        assert db.sources() == []
        server.start()


def test_a_slot_and_a_publication_of_the_user_are_used(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS,
        "INSERT INTO orders VALUES (1, 1, 1, 'before')",
        "CREATE PUBLICATION mine FOR ALL TABLES WITH (publish_via_partition_root = true)",
        "SELECT pg_create_logical_replication_slot('own', 'pgoutput')",
        "INSERT INTO orders VALUES (2, 2, 2, 'after'); UPDATE orders SET amount = 7",
    )
    follow(db, shop, options=", slot 'own', publication 'mine', create_slot 'false'")
    until(same(db, shop, *ALL), db)
    shop.execute("DELETE FROM orders WHERE id = 1")
    until(same(db, shop, *ALL), db)
    db.execute("DROP SOURCE shop")
    assert shop.execute("SELECT slot_name FROM pg_replication_slots") == [("own",)]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("CREATE TABLE orders (id int)", "REPLICA IDENTITY FULL"),
        (
            "CREATE TABLE orders (id int PRIMARY KEY); ALTER TABLE orders REPLICA IDENTITY NOTHING",
            "is NOTHING. Run in PostgreSQL: ALTER TABLE",
        ),
        ("CREATE VIEW orders AS SELECT 1", "has no table"),
        (
            "CREATE TABLE orders (id int PRIMARY KEY);"
            " CREATE PUBLICATION ivm_shop FOR TABLE orders WHERE (id > 0)"
            " WITH (publish_via_partition_root = true)",
            "publishes a part of table",
        ),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, n int NOT NULL) PARTITION BY RANGE (id);"
            " CREATE TABLE part PARTITION OF orders DEFAULT; CREATE UNIQUE INDEX u ON part (n);"
            " ALTER TABLE part REPLICA IDENTITY USING INDEX u",
            "of partition part tell their rows by (n), not by the key (id)",
        ),
        (
            'CREATE TABLE orders (id int PRIMARY KEY, note text, "Note" text)',
            'the columns "note" and "Note" of PostgreSQL\'s table "public"."orders"',
        ),
    ],
)
def test_what_cannot_be_followed_is_told(
    db: ivm.Database, shop: Database, table: str, says: str
) -> None:
    shop.execute(table)
    dsn = shop.dsn.replace("'", "''")
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables 'orders')")
    db.start_sources()
    until(lambda: state(db)[0] == "stopped", db)
    assert says in state(db)[1]
    assert shop.execute("SELECT 1 FROM pg_replication_slots") == []


def test_timeouts_of_the_database_do_not_cut_a_copy(db: ivm.Database, shop: Database) -> None:
    for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
        shop.execute(f"ALTER DATABASE \"{shop.name}\" SET {name} = '50ms'")
    shop.execute("SET statement_timeout = 0", ORDERS)
    rows = "INSERT INTO orders SELECT i, 1, 1, repeat('x', 99) FROM generate_series(1, 50000) i"
    shop.execute("SET statement_timeout = 0; " + rows)
    follow(db, shop)
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(50000,)]


def test_rows_that_may_not_be_read_stop_the_source(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS,
        "CREATE PUBLICATION mine FOR TABLE orders WITH (publish_via_partition_root = true)",
        "SELECT pg_create_logical_replication_slot('own', 'pgoutput')",
        "CREATE ROLE poor LOGIN REPLICATION",
    )
    dsn = shop.dsn.replace("'", "''").replace("user=postgres", "user=poor")
    options = "tables 'orders', slot 'own', publication 'mine', create_slot 'false'"
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', {options})")
    db.start_sources()
    until(lambda: state(db)[0] == "stopped", db)
    assert "permission denied" in state(db)[1]
    db.execute("DROP SOURCE shop")
    shop.execute("DROP ROLE poor")


def test_a_copy_that_row_security_would_cut_is_refused(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS,
        "INSERT INTO orders VALUES (1, 1, 1, 'shown'), (2, 2, 2, 'hidden')",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY shown ON orders FOR SELECT USING (id = 1)",
        "CREATE ROLE poor LOGIN REPLICATION; GRANT SELECT ON orders TO poor",
        "CREATE PUBLICATION mine FOR TABLE orders WITH (publish_via_partition_root = true)",
    )
    dsn = shop.dsn.replace("'", "''").replace("user=postgres", "user=poor")
    shop.execute("SELECT pg_create_logical_replication_slot('own', 'pgoutput')")
    options = "tables 'orders', slot 'own', publication 'mine', create_slot 'false'"
    db.execute(f"{OURS}; CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', {options})")
    db.start_sources()
    until(lambda: state(db)[0] == "stopped", db)
    assert "ALTER ROLE poor BYPASSRLS" in state(db)[1]
    shop.execute("ALTER ROLE poor BYPASSRLS")
    db.execute("RESUME SOURCE shop")
    until(same(db, shop, *ALL), db)
    db.execute("DROP SOURCE shop")
    shop.execute("DROP OWNED BY poor; DROP ROLE poor")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("dsn 'host=x password=y', tables 'a'", "PGPASSWORD"),
        ("dsn 'postgresql://me:secret@host/db', tables 'a'", "PGPASSWORD"),
        ("dsn 'host', tables 'a'", "cannot be read"),
        ("dsn '', tables 'a,,b'", "lists tables"),
        ("dsn '', tables 'a, public.A'", "twice"),
        ("""dsn '', tables 'a, "A"'""", "would be one table here"),
        ("dsn '', tables 'a, main.a'", "would be one table here"),
        ("dsn '', tables 'a', copies '0'", "at least 1"),
    ],
)
def test_options_are_checked(options: str, says: str) -> None:
    with ivm.connect() as db, pytest.raises(ivm.errors.InputError, match=says) as caught:
        db.execute(f"CREATE SOURCE shop FROM POSTGRES ({options})")
    assert "secret" not in str(caught.value)
