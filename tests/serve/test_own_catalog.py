"""The catalog as one session sees it: its temporary things, and what it has not committed yet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TypeAlias

import psycopg
import pytest

from tests.serve.serving import Served, psql

pytestmark = pytest.mark.full(smoke=3)

COLUMNS = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s"
CLASSES = (
    "SELECT relname, relpersistence, pg_table_is_visible(oid) FROM pg_class WHERE relname = %s"
)

Two: TypeAlias = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture
def two(shop: Served) -> Iterator[Two]:
    with (
        psycopg.connect(shop.dsn(), autocommit=True) as one,
        psycopg.connect(shop.dsn(), autocommit=True) as other,
    ):
        yield one, other


@pytest.mark.full
def test_temporary_tables_are_those_of_their_session(two: Two) -> None:
    one, other = two
    one.execute("CREATE TEMPORARY TABLE mine (a INTEGER PRIMARY KEY, b TEXT)")
    one.execute("CREATE TEMPORARY TABLE customers (z INTEGER)")
    assert one.execute(COLUMNS, ["mine"]).fetchall() == [("a", "integer"), ("b", "text")]
    assert other.execute(COLUMNS, ["mine"]).fetchall() == []
    found = one.execute(CLASSES, ["customers"]).fetchall()
    assert sorted(found) == [("customers", "p", False), ("customers", "t", True)]
    assert other.execute(CLASSES, ["customers"]).fetchall() == [("customers", "p", True)]
    kinds = "SELECT table_schema, table_type FROM information_schema.tables WHERE table_name = %s"
    assert one.execute(kinds, ["mine"]).fetchall() == [("temp", "LOCAL TEMPORARY")]
    one.execute("DROP TABLE mine; DROP TABLE temp.customers")
    assert one.execute(CLASSES, ["customers"]).fetchall() == [("customers", "p", True)]
    assert one.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'temp'").fetchall() == []


def test_what_a_transaction_has_made_is_seen_in_it_alone(two: Two) -> None:
    one, other = two
    with contextlib.suppress(psycopg.Rollback), one.transaction():
        one.execute("CREATE TABLE fresh (q NUMERIC(5, 2))")
        one.execute("CREATE MATERIALIZED VIEW sums AS SELECT sum(q) AS s FROM fresh")
        assert one.execute(COLUMNS, ["fresh"]).fetchall() == [("q", "numeric")]
        views = "SELECT matviewname FROM pg_matviews ORDER BY 1"
        assert one.execute(views).fetchall() == [("revenue",), ("sums",)]
        assert other.execute(COLUMNS, ["fresh"]).fetchall() == []
        assert other.execute(views).fetchall() == [("revenue",)]
        raise psycopg.Rollback
    assert one.execute(COLUMNS, ["fresh"]).fetchall() == []


def test_a_final_view_is_defined_as_it_was_written(two: Two) -> None:
    one, _ = two
    query = "SELECT ts FROM timed EMIT ON WINDOW CLOSE"
    one.execute("CREATE TABLE timed (ts TIMESTAMP, WATERMARK FOR ts AS ts)")
    one.execute(f"CREATE MATERIALIZED VIEW late AS {query}")
    found = one.execute("SELECT pg_get_viewdef('late'::regclass)").fetchall()
    one.execute("DROP MATERIALIZED VIEW late; DROP TABLE timed")
    assert found == [(query,)]


def test_an_index_has_the_columns_that_it_names(two: Two) -> None:
    one, _ = two
    one.execute('CREATE TABLE odd (a INTEGER, "q""x" INTEGER, "a,b" INTEGER)')
    one.execute('CREATE INDEX of_odd ON odd ("q""x", A, "a,b")')
    found = one.execute("SELECT unnest(indkey) FROM pg_index WHERE indexrelid = 'of_odd'::regclass")
    assert found.fetchall() == [(2,), (1,), (3,)]


@pytest.mark.full
def test_a_table_with_an_index_is_renamed_beside_the_catalog(two: Two) -> None:
    one, other = two
    one.execute("CREATE SCHEMA IF NOT EXISTS apart; CREATE TABLE apart.before (a INTEGER)")
    one.execute("CREATE INDEX of_before ON apart.before (a)")
    indexed = "SELECT tablename FROM pg_indexes WHERE indexname = 'of_before'"
    assert other.execute(indexed).fetchall() == [("before",)]
    one.execute("BEGIN; CREATE TABLE apart.more (a INTEGER)")
    one.execute("ALTER TABLE apart.before RENAME TO afterwards")
    assert one.execute(indexed).fetchall() == [("afterwards",)]
    with pytest.raises(psycopg.Error, match="ask again when that is over"):
        other.execute(indexed)
    commit = threading.Timer(0.5, lambda: one.execute("COMMIT"))
    commit.start()
    assert other.execute(indexed).fetchall() == [("afterwards",)]
    commit.join()
    one.execute("DROP TABLE apart.more; DROP TABLE apart.afterwards")


@pytest.mark.full
def test_psql_describes_a_temporary_table(shop: Served) -> None:
    told = psql(shop, "CREATE TEMPORARY TABLE tt (a INTEGER NOT NULL, b TEXT)", r"\d tt")
    assert 'Table "temp.tt"' in told
    assert "not null" in told


def test_a_fault_of_duckdbs_does_not_end_the_catalog(shop: Served) -> None:
    faulty, catalog = """SELECT "="(relname, oid) FROM pg_class""", "SELECT count(*) FROM pg_class"
    with psycopg.connect(shop.dsn(), autocommit=True) as one:
        before = one.execute(catalog).fetchall()
        for _ in range(2):
            with pytest.raises(psycopg.Error, match=r"by a fault|convert"):  # by the release
                one.execute(faulty)
            assert one.execute(catalog).fetchall() == before


def test_the_catalog_reads_no_file_and_keeps_its_settings(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as one:
        for call in ("enable_logging()", "glob(''.tmp/*'')", "read_text(''/etc/hostname'')"):
            with pytest.raises(psycopg.Error, match=r"locked|disabled"):
                one.execute(f"SELECT q.* FROM pg_namespace, query('FROM {call}') q".encode())
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="memory_limit"):
            one.execute("SELECT set_config('memory_limit', '1MB', false)")
        one.execute("SELECT set_config('application_name', 'x', false)")


def test_an_answer_of_the_catalog_has_a_size(shop: Served) -> None:
    large = "SELECT repeat('x', 100000) FROM pg_type, generate_series(1, 100)"
    with (
        psycopg.connect(shop.dsn(), autocommit=True) as one,
        pytest.raises(psycopg.Error, match=r"at most 256 MiB|memory"),
    ):
        one.execute(large)


def test_names_in_backticks_are_names_of_the_catalog_too(shop: Served) -> None:
    with psycopg.connect(shop.dsn(), autocommit=True) as one:
        asked = "SELECT `relname` AS `a \"b`, '`' FROM `pg_class` WHERE relname = %s"
        cursor = one.execute(asked, ["orders"])
        assert next(column.name for column in cursor.description or ()) == 'a "b'
        assert cursor.fetchall() == [("orders", "`")]
        with pytest.raises(psycopg.errors.SyntaxError) as caught:
            one.execute("SELECT relname relname relname FROM pg_class")
        assert "\x1b" not in str(caught.value)
