"""Plain views of other schemas: the names in their texts mean what they mean to DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ivm
from ivm.errors import IvmError
from tests.support.view_oracle import assert_verified

TWICE = """
CREATE TABLE {0}t (id INT, k INT);
CREATE TABLE {0}"T u" (id INT);
CREATE VIEW {0}pv AS SELECT id + {1} AS id FROM t;
CREATE MATERIALIZED VIEW {0}mv AS SELECT id + 2 * {1} AS id FROM {0}t
"""
"""Every name stands in two schemas."""

QUERIES = [
    "SELECT id FROM t",
    'SELECT t.id, t.k FROM t JOIN "T u" USING (id)',
    "SELECT id FROM pv",
    "SELECT id FROM mv",
    "SELECT x.id FROM pv x, mv y, main.t z",
    "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > (SELECT min(id) FROM mv)",
    'SELECT id FROM t WHERE EXISTS (FROM "T u" x WHERE x.id = t.id)',
    "WITH q AS (SELECT * FROM t) SELECT q.id FROM q",
    "WITH pv AS (SELECT id FROM t) SELECT id FROM pv",
    "SELECT DISTINCT id FROM main.pv",
    "SELECT * FROM (PIVOT t ON k IN (1, 2) USING sum(id))",
    "SELECT * FROM tm()",
    "SELECT sm(id) AS x FROM t",
]


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as made:
        made.execute("CREATE SCHEMA s1; CREATE SCHEMA s1.k")
        made.execute(TWICE.format("", 0))
        made.execute(TWICE.format("s1.", 100))
        made.execute("CREATE MACRO tm() AS TABLE SELECT id FROM t; CREATE MACRO sm(x) AS x + 1")
        made.execute("CREATE TABLE s1.k.t AS SELECT 1 AS id, 2 AS k")
        yield made


@pytest.mark.cases(2)
@pytest.mark.parametrize("schema", ["s1", "s1.k"])
def test_a_view_over_a_plain_view_of_a_schema(db: ivm.Database, schema: str) -> None:
    made = []
    for i, query in enumerate(QUERIES):
        db.execute(
            f"CREATE VIEW {schema}.p{i} AS {query}"
            if schema != "main"
            else f"CREATE VIEW p{i} AS {query}"
        )
        db.execute(f"CREATE MATERIALIZED VIEW m{i} AS SELECT * FROM {schema}.p{i}")
        made.append((f"{schema}.p{i}", f"m{i}"))
    rows = [(1, 1), (7, 2), (101, 1), (8, 1)]
    for table in ("t", "s1.t"):
        db.insert(
            table,
            {"id": [a for a, _ in rows[: len(table)]], "k": [b for _, b in rows[: len(table)]]},
        )
    for table in ('"T u"', 's1."T u"'):
        db.execute(f"INSERT INTO {table} VALUES (1), (7), ({len(table)})")
    db.execute("DELETE FROM s1.t WHERE id = 7; UPDATE t SET id = 3 WHERE id = 1")
    for plain, view in made:
        wanted, found = (sorted(db.execute(f"FROM {r}").fetchall()) for r in (plain, view))
        assert found == wanted, (plain, QUERIES[int(view[1:])])
    assert_verified(db)


@pytest.mark.full
def test_names_of_the_own_schema_have_plans(db: ivm.Database) -> None:
    db.execute("CREATE VIEW s1.p AS SELECT id FROM t JOIN mv USING (id)")
    db.execute("CREATE MATERIALIZED VIEW m AS FROM s1.p")
    (view,) = [view for view in db.views() if view.name == "m"]
    assert (view.reads, view.strategy) == (("s1.mv", "s1.t"), "indexed")


@pytest.mark.full
def test_a_schema_with_macros_of_its_own(db: ivm.Database) -> None:
    db.execute("CREATE MACRO s1.sm(x) AS x + 1000; CREATE VIEW s1.p AS SELECT sm(id) AS x FROM t")
    db.execute("CREATE MATERIALIZED VIEW m AS FROM s1.p; INSERT INTO s1.t VALUES (1, 1)")
    assert db.execute("FROM m").fetchall() == db.execute("FROM s1.p").fetchall() == [(1001,)]


@pytest.mark.full
def test_a_view_reads_what_is_not_there(db: ivm.Database) -> None:
    with pytest.raises(IvmError):
        db.execute("CREATE MATERIALIZED VIEW m AS FROM s1.nope")


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("view", "capture"),
    [
        ("SELECT a FROM n", "CREATE TABLE s1.n (a INT)"),
        ("SELECT a FROM n", "CREATE TABLE s1.n AS SELECT 5 AS a"),
        ("SELECT sum(a) AS a FROM n", 'CREATE TABLE memory.s1."N" (a INT)'),
        ("SELECT a FROM n", "CREATE VIEW s1.n AS SELECT 5 AS a"),
        ("SELECT a FROM n", "CREATE TABLE s1.o (a INT); ALTER TABLE s1.o RENAME TO n"),
        ("SELECT a FROM behind", "CREATE TABLE s1.behind (a INT)"),
        ("SELECT given(a) AS a FROM n", "CREATE MACRO s1.given(x) AS x + 1000"),
        ("SELECT a FROM n", "BEGIN; CREATE TABLE s1.n AS SELECT 8 AS a; COMMIT"),
        ("SELECT a FROM n", "BEGIN; CREATE TABLE s1.n AS SELECT 8 AS a; ROLLBACK"),
    ],
)
def test_a_name_that_comes_later_is_followed(db: ivm.Database, view: str, capture: str) -> None:
    db.execute("CREATE TABLE n (a INT); INSERT INTO n VALUES (1), (2)")
    db.execute("CREATE VIEW behind AS SELECT a FROM n; CREATE MACRO given(x) AS x")
    db.execute(f"CREATE VIEW s1.p AS {view}; CREATE MATERIALIZED VIEW m AS FROM s1.p")
    db.execute(capture)
    for change in ("INSERT INTO n VALUES (3)", "DELETE FROM main.n WHERE a = 1"):
        db.execute(change)
        wanted = sorted(db.execute("FROM s1.p").fetchall())
        assert sorted(db.execute("FROM m").fetchall()) == wanted


@pytest.mark.full
def test_a_materialized_view_does_not_take_a_name_from_below_another(db: ivm.Database) -> None:
    db.execute("CREATE TABLE n (a INT); CREATE VIEW s1.p AS SELECT a FROM n")
    db.execute("CREATE MATERIALIZED VIEW m AS FROM s1.p")
    with pytest.raises(IvmError, match="take the place of 'n' below the materialized view 'm'"):
        db.execute("CREATE MATERIALIZED VIEW s1.n AS SELECT id AS a FROM t")
    db.execute("CREATE MATERIALIZED VIEW s1.other AS SELECT id AS a FROM t")
