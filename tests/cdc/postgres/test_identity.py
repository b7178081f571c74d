"""What has happened to a table between two looks is followed, or it stops the source.

What PostgreSQL does not send: which column a name is of, what it rewrites by itself, and what is
not in the publication meanwhile.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import ivm
from ivm.cdc.records import Records
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.tables.described import Catalog
from ivm.cdc.sources.source import Position
from tests.cdc.postgres.following import follow, same, state, until
from tests.support.postgres import Database
from tests.tiers import some

TABLE = "CREATE TABLE t (id int PRIMARY KEY, k int, a int)"
ROWS = "INSERT INTO t VALUES (1, 1, 10), (2, 2, 20)"
SLOT_OF = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'ivm_shop'"
PUBLISHED = "publish = 'insert, update, delete, truncate'"
ANEW = "let it be copied anew: ALTER SOURCE"

STOPS = {
    "dropped and added": ("ALTER TABLE t DROP a; ALTER TABLE t ADD a int", "another column 'a'"),
    "dropped and added with a default": (
        "ALTER TABLE t DROP a, ADD a int DEFAULT 7",
        "another column 'a'",
    ),
    "a new one dropped and added": (
        "ALTER TABLE t ADD c int DEFAULT 5; INSERT INTO t VALUES (8, 8, 8);"
        "ALTER TABLE t DROP c; ALTER TABLE t ADD c int DEFAULT 6",
        "altered more than once",
    ),
    "names swapped": (
        "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME k TO a; ALTER TABLE t RENAME x TO k",
        "another column 'a'",
    ),
    "renamed, and one of the name added": (
        "ALTER TABLE t RENAME a TO b; ALTER TABLE t ADD a int",
        "another column 'a'",
    ),
    "renamed behind rows": (
        "INSERT INTO t VALUES (7); ALTER TABLE t RENAME a TO b; INSERT INTO t VALUES (8)",
        "renamed within a transaction",
    ),
    "default and rewritten": ("ALTER TABLE t ADD c int DEFAULT 5, ALTER a TYPE bigint", "new col"),
    "default and clustered": (
        "ALTER TABLE t ADD c int DEFAULT 5; CLUSTER t USING t_pkey",
        "new column 'c' and was written anew",
    ),
    "a default for each row": ("ALTER TABLE t ADD c float DEFAULT random()", "new column 'c'"),
    "a default for each row that is gone": (
        "ALTER TABLE t ADD c float DEFAULT random(); ALTER TABLE t ALTER c DROP DEFAULT",
        "new column 'c' and was written anew",
    ),
    "the same type by USING": ("ALTER TABLE t ALTER a TYPE int USING a * 2", "was altered"),
    "out of the publication and in": (
        "ALTER PUBLICATION ivm_shop DROP TABLE t; INSERT INTO t VALUES (9);"
        "ALTER PUBLICATION ivm_shop ADD TABLE ONLY t",
        "taken out of the publication",
    ),
    "published in part for a while": (
        f"ALTER PUBLICATION ivm_shop SET (publish = 'insert'); UPDATE t SET a = 0;"
        f"ALTER PUBLICATION ivm_shop SET ({PUBLISHED})",
        "of a publication that was altered",
    ),
}


def paused(db: ivm.Database, shop: Database) -> None:
    db.execute("PAUSE SOURCE shop")
    until(lambda: shop.execute(SLOT_OF) == [(None,)], db)


@pytest.mark.full
@pytest.mark.parametrize("what", some(list(STOPS), of=2))
@pytest.mark.parametrize("runs", [True, False])
def test_what_is_not_sent_stops_the_source(
    db: ivm.Database, shop: Database, what: str, runs: bool
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    if not runs:
        paused(db, shop)
    sql, says = STOPS[what]
    shop.execute(sql, "INSERT INTO t (id) VALUES (3)")
    if not runs:
        db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert says in state(db)[1]
    assert ANEW in state(db)[1]


@pytest.mark.full
def test_values_that_were_generated_stop_the_source(db: ivm.Database, shop: Database) -> None:
    shop.execute("CREATE TABLE t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED)")
    shop.execute("INSERT INTO t VALUES (1)")
    follow(db, shop, "t")
    shop.execute("ALTER TABLE t ALTER g DROP EXPRESSION", "INSERT INTO t VALUES (2, 5)")
    until(lambda: state(db)[0] == "stopped", db)
    assert "a column 'g' that was generated before" in state(db)[1]
    assert ANEW in state(db)[1]


def test_a_new_column_without_values_is_followed_through_a_rewrite(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute(
        "ALTER TABLE t ADD c int; CLUSTER t USING t_pkey", "INSERT INTO t VALUES (3, 3, 3, 3)"
    )
    until(same(db, shop, "FROM t", "SELECT * FROM t"), db)


@pytest.mark.full
@pytest.mark.parametrize(
    "statements",
    [
        ["ADD c float DEFAULT random()", "ALTER c DROP DEFAULT", "ALTER a TYPE bigint"],
        [
            "ADD c float DEFAULT random()",
            "ALTER c DROP DEFAULT",
            "ADD d int",
            "ALTER k TYPE bigint",
        ],
        ["ALTER a TYPE bigint USING a * 2", "ALTER k TYPE bigint"],
    ],
)
def test_rows_that_are_written_anew_twice_stop_the_source(
    db: ivm.Database, shop: Database, statements: list[str]
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    paused(db, shop)
    shop.execute(*[f"ALTER TABLE t {each}" for each in statements], "INSERT INTO t VALUES (3)")
    db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert ANEW in state(db)[1]


REWRITTEN = [
    ("numeric(10,2)", "1.25", "numeric(10,1)"),
    ("timestamp", "'2020-01-01 00:00:00.6'", "timestamp(0)"),
    ("char(5)", "'ab'", "text"),
    ("text", "'ab'", "char(5)"),
    ("char(5)", "'ab'", "char(8)"),
    ("time", "'00:00:00.6'", "time(0)"),
    ("interval", "'1 day 02:03:04'", "interval hour"),
    ("json", """'{"b":1, "b":3}'""", "jsonb"),
    ("money", "'12.34'", "numeric"),
    ("inet", "'10.0.0.1'", "text"),
    ("double precision", "0.123456789012", "real"),
    ("varchar(9)", "'ab  '", "varchar(3)"),
    ("int", "16777217", "real"),
]


@pytest.mark.full
@pytest.mark.parametrize(("old", "value", "new"), some(REWRITTEN, of=5))
def test_a_type_that_rewrites_values_stops_the_source(
    db: ivm.Database, shop: Database, old: str, value: str, new: str
) -> None:
    shop.execute(f"CREATE TABLE t (id int PRIMARY KEY, a {old}); INSERT INTO t VALUES (1, {value})")
    follow(db, shop, "t")
    shop.execute(f"ALTER TABLE t ALTER a TYPE {new}", "INSERT INTO t (id) VALUES (2)")
    until(lambda: state(db)[0] == "stopped", db)
    assert "so its values may have been rewritten" in state(db)[1]


KEPT = {
    "i": ("int", "7", "bigint"),
    "n": ("numeric(8,2)", "1.25", "numeric(12,3)"),
    "v": ("varchar(9)", "'ab'", "varchar(12)"),
    "w": ("varchar(9)", "'ab'", "text"),
    "l": ("int[]", "'{1,NULL}'", "bigint[]"),
    "r": ("real", "0.1", "double precision"),
    "b": ("bit(3)", "'101'", "varbit"),
    "p": ("timestamp(0)", "'2020-01-01 00:00:00.6'", "timestamp"),
    "j": ("jsonb", "'{}'", "json"),
    "e": ("small", "'s'", "text"),
}


USING = {
    "i": "TYPE bigint USING i * 2",
    "n": "TYPE numeric(12,3) USING n + 0.001",
    "w": "TYPE text USING upper(w)",
    "r": "TYPE double precision USING r + 1",
    "e": "TYPE text USING e::text || '!'",
}


@pytest.mark.full
@pytest.mark.parametrize("column", some(list(USING), of=2))
@pytest.mark.parametrize("runs", [True, False])
def test_values_that_using_computes_stop_the_source(
    db: ivm.Database, shop: Database, column: str, runs: bool
) -> None:
    old, value, _ = KEPT[column]
    shop.execute(
        "CREATE TYPE small AS ENUM ('s')", f"CREATE TABLE t (id int PRIMARY KEY, {column} {old})"
    )
    shop.execute(f"INSERT INTO t VALUES (1, NULL), (2, {value})")
    follow(db, shop, "t")
    if not runs:
        paused(db, shop)
    shop.execute(f"ALTER TABLE t ALTER {column} {USING[column]}", "INSERT INTO t VALUES (3)")
    if not runs:
        db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert "by which the rows were written anew" in state(db)[1]
    assert ANEW in state(db)[1]


@pytest.mark.full
def test_more_rows_than_are_compared_stop_the_source(
    db: ivm.Database, shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivm.cdc.sources.postgres.tables.retyped._MOST", 1)
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute("ALTER TABLE t ALTER a TYPE bigint USING a + k - id", "INSERT INTO t VALUES (3)")
    until(lambda: state(db)[0] == "stopped", db)
    assert ANEW in state(db)[1]


@pytest.mark.full
def test_rows_that_are_changed_after_their_type_come_by_the_stream(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    paused(db, shop)
    shop.execute("ALTER TABLE t ALTER a TYPE bigint USING a * 2", "UPDATE t SET a = a + 1")
    db.execute("RESUME SOURCE shop")
    until(same(db, shop, "FROM t", "SELECT * FROM t"), db)


@pytest.mark.full
@pytest.mark.parametrize("then", ["ADD c int", "ALTER k TYPE bigint"])
def test_a_type_altered_in_a_transaction_that_alters_again_stops_the_source(
    db: ivm.Database, shop: Database, then: str
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute(
        "ALTER TABLE t ALTER a TYPE bigint USING a * 2; INSERT INTO t (id) VALUES (3);"
        f"ALTER TABLE t {then}; INSERT INTO t (id) VALUES (4)"
    )
    until(lambda: state(db)[0] == "stopped", db)
    assert ANEW in state(db)[1]


@pytest.mark.full
def test_a_type_and_the_column_altered_again_stop_the_source(
    db: ivm.Database, shop: Database
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute(
        "ALTER TABLE t ALTER a TYPE bigint USING a * 2",
        "ALTER TABLE t ALTER a SET NOT NULL",
        "DELETE FROM t WHERE k = 1",
    )
    until(lambda: state(db)[0] == "stopped", db)
    assert ANEW in state(db)[1]


@pytest.mark.full
@pytest.mark.parametrize("using", ["", " USING id + 10"])
def test_a_key_of_another_type_is_followed_if_it_is_the_same(
    db: ivm.Database, shop: Database, using: str
) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute(f"ALTER TABLE t ALTER id TYPE bigint{using}", "DELETE FROM t WHERE k = 1")
    if using:
        until(lambda: state(db)[0] == "stopped", db)
        assert ANEW in state(db)[1]
    else:
        until(same(db, shop, "FROM t", "SELECT * FROM t"), db)


def test_types_that_keep_values_are_followed(db: ivm.Database, shop: Database) -> None:
    columns = ", ".join(f"{name} {old}" for name, (old, _, _) in KEPT.items())
    values = ", ".join(value for _, value, _ in KEPT.values())
    altered = ", ".join(f"ALTER {name} TYPE {new}" for name, (_, _, new) in KEPT.items())
    shop.execute(
        "CREATE TYPE small AS ENUM ('s')", f"CREATE TABLE t (id int PRIMARY KEY, {columns})"
    )
    shop.execute(f"INSERT INTO t VALUES (1, {values})")
    follow(db, shop, "t")
    shop.execute(f"ALTER TABLE t {altered}", f"INSERT INTO t VALUES (2, {values})")
    until(lambda: db.execute("SELECT 1 FROM t WHERE id = 2").fetchall() != [], db)
    texts = "SELECT id, i, n::text, v, w, l::text, r, b::text, p::text, j::text, e FROM t"
    ours = [
        [str(value).replace(", ", ",") for value in row] for row in db.execute(texts).fetchall()
    ]
    for row in shop.execute(texts):
        given = [str(value).replace("{1,NULL}", "[1,NULL]") for value in row]
        assert given in ours


@pytest.mark.full
@pytest.mark.parametrize(
    ("made", "altered"),
    [
        ("CREATE TYPE x AS ENUM ('a', 'b')", "ALTER TYPE x RENAME VALUE 'a' TO 'z'"),
        ("CREATE TYPE x AS (a int)", "ALTER TYPE x ADD ATTRIBUTE b int"),
    ],
)
def test_a_type_that_is_altered_stops_the_source(
    db: ivm.Database, shop: Database, made: str, altered: str
) -> None:
    shop.execute(made, "CREATE TABLE t (id int PRIMARY KEY, a x[])")
    follow(db, shop, "t")
    if "ENUM" in made:
        shop.execute("ALTER TYPE x ADD VALUE 'c' BEFORE 'b'", "INSERT INTO t VALUES (1, '{c}')")
        until(lambda: db.execute("FROM t").fetchall() != [], db)
    paused(db, shop)
    shop.execute(altered)
    db.execute("RESUME SOURCE shop")
    until(lambda: state(db)[0] == "stopped", db)
    assert "has a type that was altered" in state(db)[1]


@pytest.mark.full
def test_a_renamed_column_is_renamed_here_and_goes_on(db: ivm.Database, shop: Database) -> None:
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    shop.execute(
        "ALTER TABLE t RENAME a TO b",
        "INSERT INTO t VALUES (3, 3, 30)",
        "ALTER TABLE t ADD c int DEFAULT 5",
        "UPDATE t SET k = 0 WHERE id = 1",
    )
    until(lambda: state(db)[0] == "stopped", db)
    assert state(db)[1].endswith('ALTER TABLE "t" RENAME COLUMN "a" TO "b"')
    db.execute('ALTER TABLE "t" RENAME COLUMN "a" TO "b"; RESUME SOURCE shop')
    until(same(db, shop, "FROM t", "SELECT * FROM t"), db)


def test_a_table_is_copied_anew_as_the_message_says(db: ivm.Database, shop: Database) -> None:
    shop.execute(TABLE, ROWS, 'ALTER TABLE t RENAME TO "Big T"')
    shop.execute("CREATE TABLE other (id int PRIMARY KEY)")
    follow(db, shop, '"Big T", other')
    shop.execute('ALTER TABLE "Big T" DROP a, ADD a int DEFAULT 7; UPDATE "Big T" SET k = id * 9')
    until(lambda: state(db)[0] == "stopped", db)
    [name] = re.findall("DROP TABLE (.*), RESUME SOURCE", state(db)[1])
    db.execute(f"ALTER SOURCE shop DROP TABLE {name}; RESUME SOURCE shop")
    shop.execute("INSERT INTO other VALUES (1)")
    until(lambda: db.execute("FROM other").fetchall() != [], db)
    db.execute(f"ALTER SOURCE shop ADD TABLE {name}")
    until(same(db, shop, 'FROM "Big T"', 'SELECT * FROM "Big T"'), db)
    shop.execute('ALTER TABLE "Big T" ADD c int DEFAULT 5; UPDATE "Big T" SET a = 1 WHERE id = 2')
    until(same(db, shop, 'FROM "Big T"', 'SELECT * FROM "Big T"'), db)
    assert state(db) == ("running", "")


def test_a_file_of_an_older_version_goes_on(db: ivm.Database, shop: Database) -> None:
    """Its positions have the oid of the table alone: the first look is taken."""
    shop.execute(TABLE, ROWS)
    follow(db, shop, "t")
    paused(db, shop)
    session = db._session()
    with session.writing() as transaction:
        records = Records(session, transaction, "shop")
        at = records.position('copy "public"."t"')
        assert at is not None
        oid = at.detail.split(" ")[1]
        records.reach({'copy "public"."t"': Position(at.offset + 1, f"done {oid}")})
    db.execute("RESUME SOURCE shop")
    shop.execute("INSERT INTO t VALUES (3, 3, 30)")
    known = "SELECT 1 FROM _ivm.positions WHERE detail LIKE 'done %[%'"
    until(lambda: db.execute(known).fetchall() != [], db)
    shop.execute("ALTER TABLE t DROP a, ADD a int", "INSERT INTO t VALUES (4)")
    until(lambda: state(db)[0] == "stopped", db)


@pytest.mark.full
def test_a_look_does_not_wait_for_those_who_wait_for_a_copy(
    db: ivm.Database, shop: Database
) -> None:
    """Else all would wait for each other: the copy for the reader, and TRUNCATE for the copy."""
    shop.execute(
        "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE p1 PARTITION OF p DEFAULT",
    )
    name = TableName("public", "p")
    with (
        ThreadPoolExecutor() as pool,
        closing(shop.connect()) as other,
        closing(shop.connect()) as copy,
    ):
        copy.cursor().execute("BEGIN; LOCK TABLE p IN ACCESS SHARE MODE")
        emptied = pool.submit(other.cursor().execute, "TRUNCATE p1")
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
        until(lambda: shop.execute(waits) != [], db)
        with closing(Catalog(shop.dsn, None, "none")) as catalog:
            catalog.connection.execute("SET statement_timeout = '9s'")
            assert [column.name for column in catalog.table(name).columns] == ["id"]
        copy.cursor().execute("COMMIT")
        emptied.result(20)
