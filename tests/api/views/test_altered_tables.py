"""ALTER TABLE leaves alone what does not read the altered column, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import ivm
from ivm.catalog.version import View
from ivm.engine.tables import key_indexes
from ivm.engine.views.views import Views
from ivm.errors import UnsupportedError
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.view_oracle import assert_verified

SETUP = """
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c VARCHAR);
CREATE TABLE u (a INTEGER, "Odd name" VARCHAR);
INSERT INTO t SELECT i, i % 3, i, 'c' || i FROM range(20) r(i);
INSERT INTO u SELECT i, 'u' || i FROM range(3) r(i)
"""
VIEWS = {
    "grouped": "SELECT a, count(*) AS n, max(b) AS m FROM t GROUP BY a",
    "joined": 'SELECT id, "Odd name" FROM t JOIN u USING (a)',
    "above": "SELECT m, count(*) AS n FROM grouped GROUP BY m",
    "starred": "SELECT count(*) AS n FROM (SELECT * FROM t) WHERE a > 0",
    "recursive": "WITH RECURSIVE r(x) AS (SELECT a FROM t UNION SELECT x - 1 FROM r WHERE x > 0)"
    " SELECT x, count(*) AS n FROM r GROUP BY x",
}


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        db.execute(SETUP)
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.execute("UPDATE t SET b = b + 1 WHERE id = 3")  # their state is built
        yield db


def _state(db: ivm.Database, view: str) -> list[Any]:
    """The operators that maintain a view."""
    circuit = db._engine.maintenance.circuit
    return [circuit.node(n).operator for n in circuit.nodes_of(view)]


def _changed(db: ivm.Database) -> None:
    """Changes of all kinds, and views that follow them."""
    assert_verified(db)
    ((last,),) = db.execute("SELECT max(id) FROM t").fetchall()
    db.insert("t", [{"id": last + 1, "a": 1, "b": 500, "c": "new"}])
    db.execute("UPDATE t SET b = b + 7 WHERE id = 4")
    db.execute("INSERT INTO t(id, a) SELECT ? + i, 2 FROM range(3) r(i)", [last + 2])
    db.execute("DELETE FROM t WHERE id = 5; DELETE FROM u WHERE a = 1")
    assert_verified(db)


LEFT_ALONE = [
    "ALTER TABLE t ADD COLUMN z INTEGER",
    "ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 5",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS x TIMESTAMP DEFAULT current_timestamp::TIMESTAMP",
    "ALTER TABLE t ALTER z TYPE VARCHAR USING 'z' || z",
    "ALTER TABLE t RENAME COLUMN c TO cc",
    "ALTER TABLE t DROP COLUMN y",
    "ALTER TABLE t DROP COLUMN cc",
    "ALTER TABLE t ALTER b SET DEFAULT 5",
    "ALTER TABLE u ALTER a SET NOT NULL",
    "COMMENT ON COLUMN t.b IS 'what'",
    "CREATE INDEX by_b ON t (b)",
]


@pytest.mark.full
def test_what_does_not_read_the_column_stays(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[str] = []
    refill = Views.refill

    def told(self: Views, cursor: Cursor, view: View) -> None:
        filled.append(view.name)
        refill(self, cursor, view)

    monkeypatch.setattr(Views, "refill", told)
    feed, before = db.subscribe("grouped"), {name: _state(db, name) for name in VIEWS}
    for number, statement in enumerate(LEFT_ALONE):
        db.execute(statement)
        assert feed.poll(timeout=0) is None, statement
        db.insert("t", [{"id": 50 + number, "a": 1, "b": 1000 + number}])
        item = feed.poll(timeout=1)
        assert item is not None
        assert len(item[1]) == 2
        db.execute("UPDATE t SET a = 0 WHERE id = ?", [50 + number])
        assert feed.poll(timeout=1) is not None
        for name, operators in before.items():
            now = _state(db, name)
            assert all(x is y for x, y in zip(now, operators, strict=True)), (statement, name)
    assert filled == []
    assert_verified(db)


@pytest.mark.full
def test_what_reads_the_column_is_filled_anew(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW wide AS SELECT count(*) AS n FROM t WHERE b > 10")
    kept, state = _state(db, "joined"), _state(db, "wide")
    feed = db.subscribe("wide")
    db.execute("ALTER TABLE t ALTER b TYPE INTEGER USING b - 5")
    assert _state(db, "wide")[-1] is not state[-1]
    assert _state(db, "joined") == kept
    assert feed.poll(timeout=1) is not None
    _changed(db)
    with pytest.raises(
        UnsupportedError, match=r"grouped \(its query would give 'm' as BIGINT\): drop it first$"
    ):
        db.execute("ALTER TABLE t ALTER b TYPE BIGINT")
    db.execute("DROP MATERIALIZED VIEW above; DROP MATERIALIZED VIEW grouped")
    db.execute("ALTER TABLE t ALTER b TYPE BIGINT")
    db.execute("INSERT INTO t(id, b) VALUES (70, 1 + 4000000000)")
    _changed(db)


@pytest.mark.full
def test_a_star_keeps_its_columns(db: ivm.Database) -> None:
    """A view has the columns that it was created with: DDL that would change them is refused."""
    db.execute("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")
    with pytest.raises(UnsupportedError, match=r"every \(its query would give a new column 'z'\)"):
        db.execute("ALTER TABLE t ADD COLUMN z INTEGER")
    db.execute("ALTER TABLE u ADD COLUMN z INTEGER")
    _changed(db)


@pytest.mark.full
def test_a_name_that_the_new_column_takes_is_seen(db: ivm.Database) -> None:
    """The query means something else then, though it says the same and gives the same columns."""
    query = 'SELECT (SELECT "Odd name" FROM t WHERE t.id = u.a) AS m, u.a FROM u'
    db.execute(f"CREATE MATERIALIZED VIEW taken AS {query}")
    kept = _state(db, "grouped")
    with pytest.raises(UnsupportedError, match="would break the materialized view joined"):
        db.execute("""ALTER TABLE t ADD COLUMN "odd NAME" VARCHAR""")
    db.execute("DROP MATERIALIZED VIEW joined")
    assert ("u1", 1) in db.execute("FROM taken").fetchall()
    db.execute("""ALTER TABLE t ADD COLUMN "odd NAME" VARCHAR DEFAULT 'of t'""")
    assert set(db.execute("FROM taken").fetchall()) == {("of t", 0), ("of t", 1), ("of t", 2)}
    assert _state(db, "grouped") == kept
    _changed(db)


@pytest.mark.full
def test_rolled_back(db: ivm.Database) -> None:
    before = {name: _state(db, name) for name in VIEWS}
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (30, 2, 900, 'x')")
    db.execute("ALTER TABLE t ADD COLUMN z INTEGER")
    db.insert("t", [{"id": 31, "a": 2, "b": 901, "c": "y", "z": 4}])
    db.execute("UPDATE t SET z = 5, b = 902 WHERE id = 30")
    assert db.execute("SELECT m FROM grouped WHERE a = 2").fetchall() == [(902,)]
    db.execute("ALTER TABLE t DROP COLUMN c")
    db.execute("ROLLBACK")
    assert {name: _state(db, name) for name in VIEWS} == before
    _changed(db)
    with db.transaction():
        db.execute("INSERT INTO t VALUES (30, 2, 900, 'x')")
        db.execute("ALTER TABLE t ADD COLUMN z INTEGER")
        db.execute("INSERT INTO t VALUES (31, 2, 901, 'y', 4)")
    assert {name: _state(db, name) for name in VIEWS} == before
    _changed(db)


@pytest.mark.full(smoke=2)
@pytest.mark.parametrize("large", [False, True])
def test_the_key_index_takes_the_column_in(
    db: ivm.Database, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(key_indexes, "LARGE", 0)
    db.execute("UPDATE t SET b = 1 WHERE id = 1")
    index = db._engine.indexes.find("t", all_columns=True)
    assert index is not None
    db.execute("ALTER TABLE t ADD COLUMN z VARCHAR")
    wide = db._engine.indexes.find("t", all_columns=True)
    assert (wide is index) or large
    db.execute("UPDATE t SET z = 'z' WHERE id = 1; UPDATE t SET b = 3 WHERE id = 1")
    db.ingest("t", [{"op": "u", "after": {"id": 1, "a": 2}}, {"op": "u", "after": {"id": 2}}])
    assert db.execute("FROM t WHERE id < 3 ORDER BY id").fetchall() == [
        (0, 0, 0, "c0", None),
        (1, 2, 3, "c1", "z"),
        (2, 2, 2, "c2", None),
    ]
    db.execute("ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 9")
    db.ingest("t", [{"op": "u", "after": {"id": 2, "b": 7}}, {"op": "u", "after": {"id": 77}}])
    assert db.execute("FROM t WHERE id IN (2, 77) ORDER BY id").fetchall() == [
        (2, 2, 7, "c2", None, 9),
        (77, None, None, None, None, 9),
    ]
    _changed(db)


@pytest.mark.full
def test_beside_another_session(db: ivm.Database) -> None:
    """Another thread reads and writes while columns come and go."""
    over, failed = threading.Event(), []

    def work() -> None:
        number = 1000
        while not over.is_set():
            number += 1
            try:
                db.insert("t", [{"id": number, "a": number % 3, "b": number}])
                db.execute("UPDATE t SET b = 0 WHERE id = ?", [number - 1])
                db.execute("FROM joined").fetchall()
            except Exception as error:  # told in the other thread
                failed.append(error)
                return

    thread = threading.Thread(target=work)
    thread.start()
    for i in range(3):
        db.execute(f"ALTER TABLE t ADD COLUMN z{i} INTEGER DEFAULT {i}")
        db.execute("ALTER TABLE t DROP COLUMN c" if i == 1 else f"COMMENT ON COLUMN t.z{i} IS 'x'")
    over.set()
    thread.join()
    assert failed == []
    assert_verified(db)


@pytest.mark.parametrize(
    ("sql", "helps"),
    [
        ("DROP TABLE t", True),
        ("DROP VIEW p", False),
        ("DROP VIEW p CASCADE", False),
        ("DROP MACRO f CASCADE", False),
        ("DROP TYPE y CASCADE", False),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS FROM t", False),
        ("DROP MATERIALIZED VIEW v", True),
    ],
)
def test_cascade_is_advised_only_where_it_helps(sql: str, helps: bool) -> None:
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE t (a INTEGER); CREATE VIEW p AS FROM t; CREATE SCHEMA s; "
            "CREATE TABLE s.u (a INTEGER); CREATE MACRO f(x) AS x + 1; CREATE TYPE y AS INTEGER"
        )
        db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT f(p.a) AS a, 1::y AS b FROM p JOIN s.u USING (a)"
        )
        db.execute("CREATE MATERIALIZED VIEW w AS FROM v")
        with pytest.raises(UnsupportedError) as refused:
            db.execute(sql)
        assert ("CASCADE" in str(refused.value)) == helps
        if helps:
            db.execute(f"{sql} CASCADE")
            assert db.execute("SHOW MATERIALIZED VIEWS").fetchall() == []


@pytest.mark.parametrize("end", ["ALTER TABLE t RENAME TO u", "DROP TABLE t"])
@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (2)", "DELETE FROM t"])
def test_a_table_that_a_transaction_has_changed_can_go_in_it(end: str, change: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        db.execute("CREATE TABLE other (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM other")
        db.execute(f"BEGIN; {change}; INSERT INTO other VALUES (3); {end}; COMMIT")
        assert db.execute("FROM v").fetchall() == [(3,)]
        if "RENAME" in end:
            assert len(db.execute("FROM u").fetchall()) == (2 if "INSERT" in change else 0)
