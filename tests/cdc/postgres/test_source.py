"""Tables that follow a real PostgreSQL database: copied once, then change by change."""

from __future__ import annotations

from random import Random
from threading import Thread

import pytest

import ivm
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.log.slot import adding_loses
from ivm.cdc.sources.postgres.tables.catalog import Table
from ivm.cdc.sources.postgres.tables.described import Catalog
from tests.cdc.postgres.following import (
    ORDERS,
    OURS,
    REVENUE,
    VIEW,
    follow,
    rows,
    same,
    state,
    until,
)
from tests.support.postgres import Database
from tests.tiers import SEED


def test_a_table_is_copied_and_followed(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS, "INSERT INTO orders SELECT i, i % 7, i, 'x' FROM generate_series(1, 5000) i"
    )
    db.execute(OURS + ";" + VIEW)
    follow(db, shop)
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    shop.execute(
        "INSERT INTO orders VALUES (0, NULL, NULL, '')",
        "UPDATE orders SET amount = -amount WHERE id % 3 = 0",
        "DELETE FROM orders WHERE id % 5 = 0; UPDATE orders SET id = -id WHERE id < 100",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    assert rows(db, "FROM revenue") == sorted(shop.execute(REVENUE), key=repr)
    shop.execute("TRUNCATE orders; INSERT INTO orders VALUES (7, 1, 2, 'y')")
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)


@pytest.mark.full
def test_keys_that_are_checked_at_the_end_are_moved_in_any_order(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(
        "CREATE TABLE q (pos int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text, w int)",
        "ALTER TABLE q REPLICA IDENTITY FULL",
        "INSERT INTO q SELECT i, 'row ' || i, nullif(i % 3, 0) FROM generate_series(1, 12) i",
    )
    follow(db, shop, "q")
    random = Random(SEED)
    for _ in range(12):
        to = random.sample(range(1, 13), 12)
        moves = " ".join(f"WHEN {i} THEN {place}" for i, place in enumerate(to, 1))
        gone, left = random.randint(1, 12), random.randint(1, 12)
        shop.execute(
            random.choice(["UPDATE q SET pos = pos + 1", "UPDATE q SET pos = pos - 1"]),
            f"UPDATE q SET pos = CASE pos {moves} ELSE pos END",
            f"UPDATE q SET pos = {left} WHERE v = 'row {gone}'; UPDATE q SET w = w + 1;"
            f"DELETE FROM q WHERE v = 'row {gone}'; UPDATE q SET pos = pos + 1;"
            f"INSERT INTO q SELECT min(pos) - 1, 'row {gone}' FROM q",
        )
        until(same(db, shop, "FROM q", "SELECT * FROM q"), db)


def test_equal_rows_are_moved_to_each_others_keys(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE q (pos int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)",
        "ALTER TABLE q REPLICA IDENTITY FULL",
        "INSERT INTO q SELECT i, 'same' FROM generate_series(1, 5) i",
    )
    follow(db, shop, "q")
    shop.execute(
        "UPDATE q SET pos = pos + 1",
        "BEGIN; INSERT INTO q VALUES (2, 'same'); DELETE FROM q WHERE ctid ="
        " (SELECT max(ctid) FROM q WHERE pos = 2); INSERT INTO q VALUES (1, 'end'); COMMIT",
    )
    until(same(db, shop, "FROM q", "SELECT * FROM q"), db)


def test_retry_leaves_what_later_changes_have_overtaken(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE q (id int PRIMARY KEY, n numeric(6, 2), s text)",
        "INSERT INTO q VALUES (1, 1, 'a'), (2, 2, 'b'), (7, 7, 'c')",
    )
    follow(db, shop, "q")
    shop.execute(
        "INSERT INTO q VALUES (3, 'NaN', 'd'), (4, 'NaN', 'e'), (5, 'NaN', 'f')",
        "UPDATE q SET id = 6, n = 'NaN' WHERE id = 7",
    )
    shop.execute(
        "UPDATE q SET n = 3 WHERE id = 3", "DELETE FROM q WHERE id = 4; DELETE FROM q WHERE id = 1"
    )
    until(lambda: [row[0] for row in rows(db, "SELECT id FROM q")] == [2, 3], db)
    db.execute("ALTER TABLE q ALTER n TYPE DOUBLE")
    assert db.execute("RETRY DEAD LETTERS FOR shop").rowcount == 2
    ours = rows(db, "SELECT id, n::VARCHAR, s FROM q ORDER BY id")
    assert ours == [(2, "2.0", "b"), (3, "3.0", "d"), (5, "nan", "f"), (6, "nan", "c")]


@pytest.mark.full
def test_tables_are_made_as_they_are_upstream(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        'CREATE SCHEMA "My shop"',
        'CREATE TABLE "My shop"."Order, new" ("Id" bigint, "a.b" uuid, tags text[], at timestamptz,'
        ' twice bigint GENERATED ALWAYS AS ("Id" * 2) STORED, PRIMARY KEY ("a.b", "Id"))',
        'INSERT INTO "My shop"."Order, new" VALUES (1, \'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\','
        " '{x,NULL}', '2024-01-01 00:00+02')",
        "CREATE TABLE empty (id int PRIMARY KEY, b bytea)",
    )
    follow(db, shop, '"My shop"."Order, new", Empty')
    found = db.execute(
        'SELECT * EXCLUDE ("at"), "at"::VARCHAR FROM "My shop"."Order, new"'
    ).fetchall()
    assert [tuple(map(str, row)) for row in found] == [
        ("1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "['x', None]", "2023-12-31 22:00:00+00")
    ]
    shop.execute(
        'UPDATE "My shop"."Order, new" SET tags = \'{"a,b"}\', "Id" = 5',
        r"INSERT INTO empty VALUES (3, '\x00ff')",
    )
    until(lambda: db.execute("FROM empty").fetchall() == [(3, b"\x00\xff")], db)
    assert db.execute('SELECT "Id", tags FROM "My shop"."Order, new"').fetchall() == [(5, ["a,b"])]


@pytest.mark.full
def test_transactions_of_several_tables_are_whole(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE a (id int PRIMARY KEY, x int); CREATE TABLE b (id int PRIMARY KEY, x int)",
        "INSERT INTO a VALUES (0, 0); INSERT INTO b VALUES (0, 0)",
    )
    follow(db, shop, "a, b")
    db.execute(
        "CREATE MATERIALIZED VIEW gap AS SELECT (SELECT sum(x) FROM a) - (SELECT sum(x) FROM b)"
    )
    feed = db.subscribe("gap")
    shop.execute(*[f"UPDATE a SET x = x + {i}; UPDATE b SET x = x + {i}" for i in range(50)])
    shop.execute("TRUNCATE a, b; INSERT INTO a VALUES (1, 5); INSERT INTO b VALUES (1, 5)")
    until(lambda: db.execute("SELECT x FROM b").fetchall() == [(5,)], db)
    assert db.execute("FROM a").fetchall() == [(1, 5)]
    assert db.execute("FROM gap").fetchall() == [(0,)]
    feed.close()
    assert list(feed) == []  # it never changed


def test_rows_without_a_key_are_counted(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE log (a int, b text)",
        "ALTER TABLE log ALTER b SET STORAGE EXTERNAL",
        "ALTER TABLE log REPLICA IDENTITY FULL",
        "INSERT INTO log VALUES (1, 'x'), (1, 'x'), (1, 'x'), (NULL, NULL), (2, repeat('y', 9000))",
    )
    follow(db, shop, "log")
    until(same(db, shop, "FROM log", "SELECT * FROM log"), db)
    shop.execute(
        "DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log WHERE a = 1)",
        "UPDATE log SET a = 3 WHERE a = 2; UPDATE log SET b = '' WHERE a IS NULL",
        "INSERT INTO log VALUES (1, 'x'), (NULL, NULL)",
    )
    until(same(db, shop, "FROM log", "SELECT * FROM log"), db)


@pytest.mark.full
def test_partitions_are_one_table(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        "CREATE TABLE p (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (1, 1), (11, 1)",
    )
    follow(db, shop, "p")
    until(same(db, shop, "FROM p", "SELECT * FROM p"), db)
    shop.execute(
        "UPDATE p SET x = 2; INSERT INTO p VALUES (2, 2), (12, 2)",
        "UPDATE p SET id = 13 WHERE id = 1",
        "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (30); INSERT INTO p VALUES (25, 1)",
        "DELETE FROM p1; INSERT INTO p VALUES (3, 3)",
    )
    until(same(db, shop, "FROM p", "SELECT * FROM p"), db)
    shop.execute("TRUNCATE p; INSERT INTO p VALUES (4, 4)")
    until(same(db, shop, "FROM p", "SELECT * FROM p"), db)


@pytest.mark.full(smoke=1)
def test_large_transactions_are_one_epoch(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS)
    db.execute(OURS + ";" + VIEW)
    shop.execute(f"ALTER DATABASE \"{shop.name}\" SET logical_decoding_work_mem = '64kB'")
    follow(db, shop)
    epoch = db.epoch
    many = "INSERT INTO orders SELECT i, i % 7, 1, repeat('x', 50) FROM generate_series({}, {}) i"
    with shop.connect() as one, one.cursor() as cursor, shop.connect() as other:
        cursor.execute("BEGIN; " + many.format(1, 20000))
        cursor.execute("SAVEPOINT s; " + many.format(20001, 30000) + "; ROLLBACK TO s")
        other.cursor().execute(many.format(50001, 60000))
        cursor.execute("UPDATE orders SET amount = 2 WHERE id % 2 = 0 AND id < 50000; COMMIT")
    one.close()
    other.close()
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    assert db.epoch - epoch <= 2
    assert rows(db, "FROM revenue") == sorted(shop.execute(REVENUE), key=repr)


@pytest.mark.full
def test_values_that_were_not_sent_stay(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS, "ALTER TABLE orders ALTER t SET STORAGE EXTERNAL")
    shop.execute(
        "INSERT INTO orders SELECT i, i, i, repeat('ä', 4000) FROM generate_series(1, 9) i"
    )
    follow(db, shop)
    shop.execute(
        "INSERT INTO orders VALUES (10, 1, 1, repeat('b', 9000)); UPDATE orders SET amount = 5",
        "UPDATE orders SET id = id + 100 WHERE id < 4; UPDATE orders SET t = NULL WHERE id = 5",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)


@pytest.mark.full
def test_a_large_key_that_was_not_sent_is_that_of_the_row_before(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(
        "CREATE TABLE q (id text PRIMARY KEY, big text, n int);"
        "ALTER TABLE q ALTER id SET STORAGE EXTERNAL, ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO q SELECT repeat('k', 2200) || i, repeat('x', 9000) || i, i"
        " FROM generate_series(1, 3) i",
    )
    follow(db, shop, "q")
    shop.execute(
        "UPDATE q SET n = n + 1; UPDATE q SET id = 'short' WHERE n = 3; DELETE FROM q WHERE n = 2",
        "UPDATE q SET n = n + 5",
    )
    until(same(db, shop, "FROM q", "SELECT * FROM q"), db)
    assert db.execute("FROM _ivm.dead_letters").fetchall() == []


@pytest.mark.full
def test_a_value_that_does_not_fit_is_a_dead_letter(db: ivm.Database, shop: Database) -> None:
    shop.execute("CREATE TABLE other (x int PRIMARY KEY)")
    shop.execute("CREATE TABLE t (id int PRIMARY KEY, x numeric(5,1))")
    follow(db, shop, "other, T")
    shop.execute("INSERT INTO t VALUES (1, 1.5), (2, 'NaN'), (3, 2.5)")
    until(lambda: len(db.execute("FROM t").fetchall()) == 2, db)
    ((reason, payload),) = db.execute("SELECT reason, payload FROM _ivm.dead_letters").fetchall()
    assert reason == "x is no DECIMAL(5,1): 'NaN'"
    assert payload == '{"op": "insert", "row": {"id": "2", "x": "NaN"}}'
    db.execute("ALTER TABLE t ALTER x TYPE DOUBLE")
    db.execute("RETRY DEAD LETTERS FOR shop")
    assert db.execute("SELECT count(*) FROM t WHERE isnan(x)").fetchall() == [(1,)]
    assert db.execute("FROM _ivm.dead_letters").fetchall() == []


@pytest.mark.full
def test_others_write_while_retry_asks(
    db: ivm.Database, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("CREATE TABLE t (id int PRIMARY KEY, x numeric(5,1))")
    db.execute("CREATE TABLE own (id INTEGER PRIMARY KEY)")
    follow(db, shop, "t")
    shop.execute("INSERT INTO t VALUES (1, 'NaN')")
    until(lambda: db.execute("FROM _ivm.dead_letters").fetchall() != [], db)
    tables = Catalog.table

    def table(self: Catalog, name: TableName) -> Table:
        writer = Thread(target=db.insert, args=("own", {"id": [1]}), daemon=True)
        writer.start()
        writer.join(10)
        assert not writer.is_alive()
        return tables(self, name)

    db.execute("PAUSE SOURCE shop")
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "table", table)
        assert db.execute("RETRY DEAD LETTERS FOR shop").rowcount == 0
    assert db.execute("FROM own").fetchall() == [(1,)]
    assert len(db.execute("FROM _ivm.dead_letters").fetchall()) == 1


@pytest.mark.full
def test_tables_follow_new_columns(db: ivm.Database, shop: Database) -> None:
    shop.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'x')")
    follow(db, shop)
    db.execute(VIEW)
    shop.execute(
        "INSERT INTO orders VALUES (2, 1, 1, 'x'); ALTER TABLE orders ADD at date;"
        "INSERT INTO orders VALUES (3, 1, 1, 'x', '2024-01-01')",
        "ALTER TABLE orders ADD n int; UPDATE orders SET n = 1",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)  # before a rewrite
    shop.execute(
        "ALTER TABLE orders ALTER n TYPE bigint",
        "INSERT INTO orders VALUES (4, 1, 1, 'x', NULL, 10000000000)",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    assert rows(db, "FROM revenue") == sorted(shop.execute(REVENUE), key=repr)
    shop.execute("ALTER TABLE orders DROP t; INSERT INTO orders VALUES (5, 5, 5, NULL)")
    until(lambda: state(db)[0] == "stopped", db)
    assert "ALTER TABLE" in state(db)[1]


@pytest.mark.full
def test_rows_of_the_transaction_that_adds_a_column_come(db: ivm.Database, shop: Database) -> None:
    """Those that it has written before are told without the column."""
    shop.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'x')")
    follow(db, shop)
    shop.execute(
        "INSERT INTO orders VALUES (2, 1, 1, 'x'), (3, 1, 1, 'x'), (4, 1, 1, 'x');"
        "UPDATE orders SET amount = 2 WHERE id IN (1, 2); UPDATE orders SET id = 5 WHERE id = 3;"
        "ALTER TABLE orders ADD at date; UPDATE orders SET amount = 3 WHERE id = 4;"
        "INSERT INTO orders VALUES (6, 1, 1, 'x', '2024-01-01')",
    )
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)


@pytest.mark.full
def test_rows_older_than_a_column_have_its_default(db: ivm.Database, shop: Database) -> None:
    """PostgreSQL's stream does not tell of them."""
    shop.execute(
        "CREATE TABLE keyed (id int PRIMARY KEY, a text)",
        "INSERT INTO keyed SELECT i, 'x' FROM generate_series(1, 5) i",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts DEFAULT; INSERT INTO parts VALUES (1)",
        "CREATE TABLE bag (a int); ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag VALUES (1), (1), (2), (3)",
    )
    follow(db, shop, "keyed, parts, bag")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT a, count(*) AS n FROM keyed GROUP BY a")
    shop.execute(
        "INSERT INTO keyed VALUES (6, 'old'); UPDATE keyed SET a = 'y' WHERE id = 1;"
        "DELETE FROM bag WHERE a = 2; UPDATE bag SET a = 4 WHERE a = 3;"
        "ALTER TABLE keyed ADD n int NOT NULL DEFAULT 7, ADD day date DEFAULT '2024-01-01',"
        """ ADD words text[] DEFAULT ARRAY['a,b', NULL, 'NULL', '"'];"""
        "ALTER TABLE bag ADD b text DEFAULT 'it''s'; ALTER TABLE parts ADD n int DEFAULT 7;"
        "INSERT INTO keyed VALUES (7, 'new', 8, NULL); UPDATE keyed SET a = 'z' WHERE id = 2;"
        "INSERT INTO bag VALUES (5); INSERT INTO parts VALUES (2, 3)",
        "ALTER TABLE keyed ALTER n SET DEFAULT 9; INSERT INTO keyed VALUES (8)",
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE a = 1)",
    )
    for table in ("keyed", "parts", "bag"):
        until(same(db, shop, f"FROM {table}", f"SELECT * FROM {table}"), db)
    assert db.execute("VERIFY MATERIALIZED VIEW n").fetchall()[0][-1]
    shop.execute("ALTER TABLE keyed DROP n; DELETE FROM keyed WHERE id = 3")
    until(lambda: state(db)[0] == "stopped", db)  # the default is no reason to keep the column


def test_older_rows_have_the_default_of_a_column_that_is_told_of_twice(
    db: ivm.Database, shop: Database
) -> None:
    """PostgreSQL tells the columns once for each partition, and after each change of the table."""
    shop.execute(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE p2 PARTITION OF p DEFAULT; INSERT INTO p VALUES (1), (10)",
        "CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES (1, 1)",
    )
    follow(db, shop, "p, t")
    shop.execute(
        "ALTER TABLE p ADD n int DEFAULT 7; INSERT INTO p VALUES (2, 3), (11, 3)",
        "ALTER TABLE t ADD n int DEFAULT 7; INSERT INTO t VALUES (2, 2, 2);"
        "ALTER TABLE t ADD o int DEFAULT 8; INSERT INTO t VALUES (3, 3, 3, 3)",
    )
    for table in ("p", "t"):
        until(same(db, shop, f"FROM {table}", f"SELECT * FROM {table}"), db)


def test_numbers_of_any_length_go_into_columns_made_for_them(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a numeric, b numeric(50, 2))",
        "INSERT INTO t VALUES (1, 12.3456, 1e40), (2, 'NaN', 1)",
    )
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a DECIMAL(38,3), b DOUBLE)")
    follow(db, shop, "t")
    shop.execute("INSERT INTO t VALUES (3, 7, 'NaN')")
    until(lambda: len(rows(db, "FROM t")) == 2, db)
    assert rows(db, "SELECT id, a::VARCHAR, b::VARCHAR FROM t") == [
        (1, "12.346", "1e+40"),
        (3, "7.000", "nan"),
    ]
    assert rows(db, "SELECT reason FROM _ivm.dead_letters") == [("a is no DECIMAL(38,3): 'NaN'",)]


@pytest.mark.parametrize("paused", [True, False])
def test_a_table_that_is_gone_here_is_not_made_anew_without_its_rows(
    db: ivm.Database, shop: Database, paused: bool
) -> None:
    shop.execute(ORDERS, "INSERT INTO orders VALUES (1, 1, 1, 'x'), (2, 1, 1, 'x')")
    follow(db, shop)
    if paused:
        db.execute("PAUSE SOURCE shop")
    db.execute("ALTER TABLE orders RENAME TO old")
    shop.execute("UPDATE orders SET amount = 2 WHERE id = 1")
    for _ in range(2):
        db.execute("RESUME SOURCE shop")
        until(lambda: state(db)[0] == "stopped", db)
        assert "would lack the rows" in state(db)[1]
    db.execute("ALTER TABLE old RENAME TO orders; RESUME SOURCE shop")
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    db.execute("DROP TABLE orders; DROP SOURCE shop")
    follow(db, shop)
    assert same(db, shop, "FROM orders", "SELECT * FROM orders")()


@pytest.mark.full
def test_a_table_is_added_while_the_stream_goes_on(db: ivm.Database, shop: Database) -> None:
    shop.execute(
        ORDERS,
        "CREATE TABLE pay (id int PRIMARY KEY, x int, s text)",
        "ALTER TABLE pay ALTER s SET STORAGE EXTERNAL",
        "INSERT INTO pay SELECT i, 0, repeat('s', 3000) FROM generate_series(1, 3000) i",
    )
    follow(db, shop)
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN; UPDATE pay SET x = 1 WHERE id = 1")  # the snapshot waits for its end
        db.execute("ALTER SOURCE shop ADD TABLE public.pay")
        if adding_loses(connection.server_version):
            until(lambda: "may lose changes" in state(db)[1], db)
            return
        shop.execute("UPDATE pay SET x = x + 1 WHERE id % 2 = 0; DELETE FROM pay WHERE id % 7 = 0")
        shop.execute("INSERT INTO orders VALUES (1, 1, 1, '')")
        until(lambda: db.execute("FROM orders").fetchall() != [], db)
        assert state(db)[0] == "running"
        cursor.execute("COMMIT")
    connection.close()
    for i in range(40):
        shop.execute(f"UPDATE pay SET x = x + 1, id = -id WHERE id % 40 = {i}")
    created = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'pay'"
    until(lambda: db.execute(created).fetchall() != [], db)
    until(same(db, shop, "FROM pay", "SELECT * FROM pay"), db)
    db.execute("ALTER SOURCE shop DROP TABLE public.pay")
    shop.execute("DELETE FROM pay WHERE id % 3 = 0; INSERT INTO orders VALUES (2, 2, 2, '')")
    until(same(db, shop, "FROM orders", "SELECT * FROM orders"), db)
    db.execute("ALTER SOURCE shop ADD TABLE public.pay")
    until(same(db, shop, "FROM pay", "SELECT * FROM pay"), db)


def test_dropping_a_source_that_has_not_begun_leaves_the_slot_of_another(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(ORDERS, "SELECT pg_create_logical_replication_slot('ivm_shop', 'pgoutput')")
    dsn = shop.dsn.replace("'", "''")
    db.execute(f"CREATE SOURCE shop FROM POSTGRES (dsn '{dsn}', tables 'orders')")
    db.start_sources()
    until(lambda: state(db)[0] == "stopped", db)
    db.execute("DROP SOURCE shop")
    left = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert shop.execute(left) == [("ivm_shop",)]
