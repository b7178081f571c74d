"""What a transaction has done to the names of tables and views is seen in its session alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import pytest

import ivm
from ivm.access.roles import Grant
from ivm.errors import ConstraintError, SqlError
from ivm.serve.console.state import ConsoleState
from tests.serve.http_world import HttpWorld

Elsewhere: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls a function in another session."""

MADE = """
CREATE TABLE a (i INTEGER PRIMARY KEY); CREATE TABLE b (i INTEGER);
CREATE MATERIALIZED VIEW va AS SELECT count(*) AS n FROM a;
CREATE MATERIALIZED VIEW vb AS SELECT i FROM b;
INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1)
"""
CHANGES = [
    "CREATE TABLE q (d DATE)",
    "CREATE TABLE q (d DATE); CREATE MATERIALIZED VIEW vq AS FROM q; INSERT INTO q VALUES (NULL)",
    "CREATE TABLE a2 AS FROM a",
    "ALTER TABLE a ADD COLUMN z INTEGER",
    "DROP MATERIALIZED VIEW vb; DROP TABLE b",
    "ALTER TABLE b RENAME TO bb; CREATE TABLE b (i INTEGER)",
    "DROP MATERIALIZED VIEW vb; ALTER TABLE b RENAME TO vb",
    "CREATE OR REPLACE MATERIALIZED VIEW va AS SELECT 1 AS x FROM b",
]


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute(MADE)
        yield database


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with ThreadPoolExecutor(1) as thread:
        yield lambda act: thread.submit(act).result(20)


def names(db: ivm.Database) -> dict[str, Any]:
    shown = db.execute("SHOW TABLES").fetchall()
    views = [(view.name, view.columns, view.reads) for view in db.views()]
    state = ConsoleState(db)
    console = db._with_session(lambda session: state.told(session, Grant("admin")))
    counts = {each["name"]: each["rows"] for each in console["relations"]}
    return {"tables": db.tables(), "views": views, "shown": shown, "counts": counts}


@pytest.mark.parametrize("change", CHANGES)
def test_others_see_what_is_committed(db: ivm.Database, elsewhere: Elsewhere, change: str) -> None:
    before = elsewhere(lambda: names(db))
    assert before["counts"] == {"a": 2, "b": 1, "va": 1, "vb": 1}
    db.execute(f"BEGIN; {change}")
    own = {name for (name,) in db.execute("SHOW TABLES").fetchall()}
    assert {*[table.name for table in db.tables()], *[view.name for view in db.views()]} == own
    assert elsewhere(lambda: names(db)) == before
    db.execute("COMMIT")
    after = elsewhere(lambda: names(db))
    assert {name for (name,) in after["shown"]} == own == after["counts"].keys()
    assert after != before


@pytest.mark.parametrize("change", CHANGES[::3])
def test_a_rollback_leaves_what_there_was(
    db: ivm.Database, elsewhere: Elsewhere, change: str
) -> None:
    before = elsewhere(lambda: names(db))
    db.execute(f"BEGIN; {change}; ROLLBACK")
    assert db.tables() == before["tables"]
    assert elsewhere(lambda: names(db)) == before


def test_a_failed_transaction_sees_what_is_committed(
    db: ivm.Database, elsewhere: Elsewhere
) -> None:
    known = db.tables()
    db.execute("BEGIN; CREATE TABLE q (d DATE)")
    with pytest.raises(ConstraintError):
        db.execute("INSERT INTO a VALUES (1)")
    elsewhere(lambda: db.execute("BEGIN; CREATE TABLE other (i INTEGER)"))
    assert db.tables() == known
    elsewhere(lambda: db.execute("ROLLBACK"))


def test_a_snapshot_has_the_tables_of_its_moment(db: ivm.Database, elsewhere: Elsewhere) -> None:
    known = db.tables()
    db.execute("BEGIN READ ONLY; FROM a")
    elsewhere(lambda: db.execute("CREATE TABLE q (d DATE)"))
    assert db.tables() == known
    db.execute("COMMIT")
    assert len(db.tables()) == 3


def test_a_view_is_explained_as_it_is_committed(db: ivm.Database, elsewhere: Elsewhere) -> None:
    shown = db.execute("EXPLAIN MATERIALIZED VIEW va").fetchall()
    db.execute("BEGIN; CREATE MATERIALIZED VIEW vq AS FROM a; DROP MATERIALIZED VIEW va")
    assert elsewhere(lambda: db.execute("EXPLAIN MATERIALIZED VIEW va").fetchall()) == shown
    with pytest.raises(SqlError, match=r"there are: va, vb$"):
        elsewhere(lambda: db.execute("EXPLAIN MATERIALIZED VIEW vq"))
    assert "Scan" in str(db.execute("EXPLAIN MATERIALIZED VIEW vq").fetchall())
    db.execute("ROLLBACK")


def test_the_metrics_count_what_is_committed(db: ivm.Database) -> None:
    world = HttpWorld(db)
    with world.client() as client:
        db.execute("BEGIN; CREATE TABLE q (d DATE); DROP MATERIALIZED VIEW va")
        db.execute("CREATE MATERIALIZED VIEW vq AS FROM q")
        lines = client.get("/metrics").text.splitlines()
        db.execute("ROLLBACK")
    world.close()
    found = [line for line in lines if line.startswith("ivm_view_rows")]
    assert found == ['ivm_view_rows{view="va"} 1', 'ivm_view_rows{view="vb"} 1']
