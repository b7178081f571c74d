"""A table that follows its upstream's schema has nothing left to do, and keeps its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.cdc.formats.upstream_schema import UpstreamColumn, follow
from ivm.storage.errors import InputError, IvmError, SchemaMismatchError
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo, read_tables
from tests.tiers import examples


class World:
    """A table in a plain DuckDB, and what follows of an upstream for it."""

    def __init__(self, *statements: str, name: str = "orders") -> None:
        self.duck: Cursor = duckdb.connect()
        self.name = name
        for statement in statements:
            self.duck.execute(statement)

    @property
    def info(self) -> TableInfo | None:
        return read_tables(self.duck, "memory").get(self.name)

    def plan(self, columns: Sequence[UpstreamColumn], key: Sequence[str] | None = ()) -> list[str]:
        return follow(self.info, self.name, columns, key)

    def run(self, statements: Sequence[str]) -> None:
        self.duck.execute("; ".join(["BEGIN", *statements, "COMMIT"]))

    def rows(self) -> list[tuple[object, ...]]:
        return self.duck.execute(f"FROM {self.name}").fetchall()


ID, NOTE = UpstreamColumn("id", "INTEGER", False), UpstreamColumn("note", "VARCHAR")


@pytest.fixture
def orders() -> Iterator[World]:
    world = World(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, note VARCHAR)",
        "INSERT INTO orders VALUES (1, 'a'), (2, NULL)",
    )
    yield world
    world.duck.close()


def test_a_table_is_made() -> None:
    world = World(name='s."T.t"')
    columns = [UpstreamColumn("Id", "int8"), UpstreamColumn('a "b"', "numeric(10, 2)", False)]
    statements = world.plan(columns, ["ID"])
    assert statements == [
        'CREATE SCHEMA IF NOT EXISTS "s"',
        'CREATE TABLE "s"."T.t" ("Id" BIGINT, "a ""b""" DECIMAL(10,2) NOT NULL,'
        ' PRIMARY KEY ("Id"))',
    ]
    world.run(statements)
    assert world.plan(columns, ["id"]) == []


def test_a_column_is_added(orders: World) -> None:
    columns = [ID, UpstreamColumn("Paid On", "timestamptz", False), UpstreamColumn("NOTE", "text")]
    statements = orders.plan(columns, ["id"])
    assert statements == ['ALTER TABLE "orders" ADD COLUMN "Paid On" TIMESTAMP WITH TIME ZONE']
    orders.run(statements)
    assert orders.rows() == [(1, "a", None), (2, None, None)]
    assert orders.plan(columns, ["id"]) == []


def test_a_column_is_added_with_the_value_of_older_rows(orders: World) -> None:
    columns = [ID, NOTE, UpstreamColumn("n", "INTEGER", True, "CAST('7' AS INTEGER)")]
    orders.run(orders.plan(columns, ["id"]))
    assert orders.rows() == [(1, "a", 7), (2, None, 7)]
    assert orders.info is not None
    assert orders.info.defaults == {}
    assert orders.plan(columns, ["id"]) == []


@pytest.mark.parametrize(
    ("type", "keeps"), [("DECIMAL(38,3)", True), ("DOUBLE", True), ("DECIMAL(18,3)", False)]
)
def test_a_column_of_numbers_of_any_length_may_be_one_of_ours(
    orders: World, type: str, keeps: bool
) -> None:
    orders.run([f"ALTER TABLE orders ADD COLUMN n {type}"])
    columns = [ID, NOTE, UpstreamColumn("N", "VARCHAR", is_number=True)]
    if keeps:
        assert orders.plan(columns, ["id"]) == []
    else:
        with pytest.raises(SchemaMismatchError, match="upstream it is VARCHAR"):
            orders.plan(columns, ["id"])


def test_a_column_of_the_key_widens(orders: World) -> None:
    """Where DuckDB cannot alter a column, the table is made anew and keeps what it had."""
    orders.run(
        [
            "ALTER TABLE orders ADD COLUMN n INTEGER DEFAULT 3",
            "ALTER TABLE orders ALTER n SET NOT NULL",
            "CREATE INDEX by_note ON orders (note)",
        ]
    )
    columns = [UpstreamColumn("id", "BIGINT"), NOTE, UpstreamColumn("x", "DOUBLE")]
    orders.run(orders.plan(columns, ["id"]))
    info = orders.info
    assert info is not None
    assert info.schema[0][1].sql == "BIGINT"
    assert (info.primary_key, info.not_null, info.defaults) == ((0,), (0, 2), {2: "3"})
    assert len(info.indexes) == 1
    assert orders.rows() == [(1, "a", 3, None), (2, None, 3, None)]
    assert orders.plan(columns, ["id"]) == []


@pytest.mark.parametrize(
    ("columns", "key", "words", "way"),
    [
        (
            [ID],
            ["id"],
            "column 'note' (VARCHAR) of table 'orders' is missing upstream",
            'ALTER TABLE "orders" DROP COLUMN "note"',
        ),
        (
            [ID, UpstreamColumn("note", "INTEGER")],
            ["id"],
            "",
            None,
        ),
        (
            [ID, UpstreamColumn("note", "BLOB")],
            ["id"],
            "",
            None,
        ),
        (
            [UpstreamColumn("id", "DATE"), NOTE],
            ["id"],
            "column 'id' of table 'orders' is INTEGER, and upstream it is DATE",
            "BEGIN; ",
        ),
        ([ID, NOTE], ["note"], "is (id), but upstream it is (note)",
         'BEGIN; CREATE OR REPLACE TABLE "orders" AS SELECT * FROM "orders"; '
         'ALTER TABLE "orders" ADD PRIMARY KEY ("note"); COMMIT'),
        ([ID, NOTE], [], "but upstream it is missing",
         'CREATE OR REPLACE TABLE "orders" AS SELECT * FROM "orders"'),
        ([NOTE], None, "but upstream there is no column 'id'",
         'CREATE OR REPLACE TABLE "orders" ("note" VARCHAR)'),
        ([ID, NOTE, UpstreamColumn("k", "INTEGER")], ["id", "k"], "but upstream it is (id, k)",
         'CREATE OR REPLACE TABLE "orders" ("id" INTEGER NOT NULL, "note" VARCHAR,'
         ' "k" INTEGER, PRIMARY KEY ("id", "k"))'),
    ],
)  # fmt: skip
def test_what_cannot_follow_says_what_to_run(
    orders: World,
    columns: list[UpstreamColumn],
    key: list[str] | None,
    words: str,
    way: str | None,
) -> None:
    if way is None:  # texts hold all values, though the upstream's are others
        assert orders.plan(columns, key) == []
        return
    with pytest.raises(SchemaMismatchError) as told:
        orders.plan(columns, key)
    assert words in str(told.value)
    assert way in str(told.value)
    assert all(statement in str(told.value) for statement in told.value.statements)


def test_the_statements_of_a_mismatch_resolve_it() -> None:
    world = World(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, day TIMESTAMP, gone INTEGER, old INTEGER)",
        "INSERT INTO orders VALUES (1, '2020-02-03', 5, 6)",
    )
    columns = [ID, UpstreamColumn("day", "DATE"), UpstreamColumn("new", "INTEGER")]
    with pytest.raises(SchemaMismatchError, match="is TIMESTAMP, and upstream it is DATE") as told:
        world.plan(columns, ["id"])
    world.run(told.value.statements)
    with pytest.raises(SchemaMismatchError, match="if 'gone' was renamed, ALTER TABLE") as told:
        world.plan(columns, ["id"])
    assert told.value.statements == (
        'ALTER TABLE "orders" DROP COLUMN "gone"',
        'ALTER TABLE "orders" DROP COLUMN "old"',
    )
    world.run(['ALTER TABLE "orders" RENAME COLUMN "gone" TO "new"'])
    world.run(['ALTER TABLE "orders" ALTER COLUMN "old" SET DEFAULT NULL'])
    assert world.plan(columns, ["id"]) == []
    assert world.rows() == [(1, date(2020, 2, 3), 5, 6)]


@pytest.mark.parametrize("extra", ["n INTEGER DEFAULT 5", "n INTEGER DEFAULT NULL",
                                   "n INTEGER GENERATED ALWAYS AS (id + 1)"])  # fmt: skip
def test_columns_of_ours_alone_stay(extra: str) -> None:
    world = World(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, {extra})")
    assert world.plan([ID], ["id"]) == []


def test_a_key_that_is_not_told_stays(orders: World) -> None:
    assert orders.plan([ID, NOTE], None) == []


@pytest.mark.parametrize(
    ("columns", "key", "words"),
    [
        ([], [], "no columns"),
        ([ID, UpstreamColumn("ID", "INTEGER")], [], "differ in case alone"),
        ([ID], ["other"], "has the column 'other'"),
        ([UpstreamColumn("id", "nothing")], [], "has the type nothing"),
        ([UpstreamColumn("id", "INTEGER[]")], ["id"], "no key can be here: give it another"),
        ([UpstreamColumn("id", "INTERVAL")], ["id"], "no key can be here: give it another"),
    ],
)
def test_an_upstream_without_an_equal(
    columns: list[UpstreamColumn], key: list[str], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        follow(None, "orders", columns, key)


TYPES = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(6,2)", "DECIMAL(12,4)", "DECIMAL(38,0)", "VARCHAR", "VARCHAR(5)", "JSON", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMPTZ", "BLOB", "BOOLEAN", "UUID", "INTEGER[]"),
    *("BIGINT[]", "ENUM('a', 'b')", "ENUM('a', 'b', 'c')"),
)
names = st.sampled_from(["a", "B", "c d", 'e"', "select"])
upstreams = st.lists(
    st.builds(UpstreamColumn, names, st.sampled_from(TYPES), st.booleans()),
    min_size=1,
    unique_by=lambda column: column.name,
)


@st.composite
def upstream(draw: st.DrawFn) -> tuple[list[UpstreamColumn], list[str]]:
    columns = draw(upstreams)
    keyed = [c.name for c in columns if "[" not in c.type]
    key = draw(st.lists(st.sampled_from(keyed), max_size=2, unique=True)) if keyed else []
    return columns, key


@given(upstream(), st.lists(upstream(), max_size=3))
@settings(max_examples=examples(30))
def test_what_is_followed_is_done(
    first: tuple[list[UpstreamColumn], list[str]],
    later: list[tuple[list[UpstreamColumn], list[str]]],
) -> None:
    """Also where a mismatch was resolved by its statements, which an empty table always takes."""
    world = World(name='"a.b".T')
    for columns, key in [first, *later]:
        for _ in range(4):
            try:
                statements = world.plan(columns, key)
            except SchemaMismatchError as mismatch:
                statements = list(mismatch.statements)
                for statement in statements:
                    world.duck.execute(statement)
            else:
                world.run(statements)
                break
        assert world.plan(columns, key) == []
        assert world.plan(columns, None) == []
    world.duck.close()


@pytest.mark.full
def test_statements_run_in_a_database_with_views() -> None:
    """A widened key makes the table anew; its views stay, and hold what they should."""
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 2)"
        )
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
        info = db._engine.catalog.tables["t"]
        columns = [UpstreamColumn("id", "BIGINT"), UpstreamColumn("n", "INT"), NOTE]
        with db.transaction():
            for statement in follow(info, "t", columns, ["id"]):
                db.execute(statement)
        db.execute("INSERT INTO t VALUES (10000000000, 2, 'x')")
        assert db.execute("FROM v").fetchall() == [(2, 2)]
        with pytest.raises(IvmError, match="Duplicate key"):
            db.execute("INSERT INTO t VALUES (1, 2, 'x')")
        assert follow(db._engine.catalog.tables["t"], "t", columns, ["id"]) == []
