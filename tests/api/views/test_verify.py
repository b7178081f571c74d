"""VERIFY tells the truth: of the user's query, whatever the plan says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ivm
from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.verify import Verdict, verify_view
from ivm.errors import EvaluationError
from ivm.session.ddl import view_statements
from ivm.sql.bind.bind import bind
from ivm.sql.plan.nodes import Plan
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.view_oracle import verdicts

TOLD = {
    "SELECT id, v FROM t WHERE v > 2": None,
    "SELECT g, sum(v) AS s, avg(f) AS a FROM t GROUP BY g": None,
    "SELECT id, rank() OVER (ORDER BY v) AS r FROM t": None,
    "SELECT DISTINCT v FROM t": None,
    "SELECT mad(v) AS m, g FROM t GROUP BY g": None,
    "SELECT g, list(v ORDER BY id) AS l, first(v) AS f FROM t GROUP BY g": "the values of f",
    "SELECT id, v FROM t ORDER BY v LIMIT 7": "the values of id",
    "SELECT id, v FROM t LIMIT 7": "the values of id, v",
    "SELECT id, v, row_number() OVER (ORDER BY v) AS n FROM t":
        "which of the tied rows get which values",
    "SELECT g, list(v) AS l, string_agg(g, ',') AS s, first(v) AS f FROM t GROUP BY g":
        "the values of f; the order within l",
    "SELECT count(*) AS n FROM (SELECT id FROM t ORDER BY v LIMIT 7) WHERE id > 10":
        "the values of n",
    "SELECT id FROM (SELECT id FROM t ORDER BY v LIMIT 7) WHERE id > 10":
        "which rows, and how many",
    "SELECT current_user AS who, list(v) AS l FROM t": "the values of l",
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR, v INTEGER, f DOUBLE)")
        database.execute(
            "INSERT INTO t SELECT i, 'g' || i % 3, i % 5, i / 7 FROM range(40) AS r(i)"
        )
        yield database


def create_all(db: ivm.Database) -> None:
    for number, query in enumerate(TOLD):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")


@pytest.mark.full
def test_right_views_are_right_and_it_is_told_what_their_queries_leave_open(
    db: ivm.Database,
) -> None:
    create_all(db)
    db.execute("DELETE FROM t WHERE id % 4 = 1")
    db.execute("INSERT INTO t VALUES (100, 'b', 1, 0.5), (101, NULL, NULL, NULL)")
    found = verdicts(db)
    assert {(row["missing"], row["extra"], row["ok"]) for row in found} == {(0, 0, True)}
    assert dict(zip(TOLD, [row["left_open"] for row in found], strict=True)) == TOLD


REMOVED = "DELETE FROM {0} WHERE rowid IN (SELECT min(rowid) FROM {0})"


@pytest.mark.full
@pytest.mark.parametrize("change", [REMOVED, "INSERT INTO {0} FROM {0}"])
def test_rows_that_are_not_the_views_are_found(db: ivm.Database, change: str) -> None:
    create_all(db)
    verdicts(db)
    cursor = db._engine.warehouse.cursor()
    for number in range(len(TOLD)):
        cursor.execute(change.format(f"main.v{number}"))
    assert {verdict["ok"] for verdict in verdicts(db)} == {False}


# None of them has a plan.
RECOMPUTED = [
    "SELECT typed(id) AS x FROM t",
    "SELECT typed(sum(v)) AS x, g FROM t GROUP BY g",
    "SELECT typed(v) AS x, g FROM plain",
    "SELECT typed(v) AS x, count(*) AS n FROM above(2) GROUP BY v",
    "SELECT typed(id) AS x, sum(v) OVER (PARTITION BY g) AS s FROM t",
    "SELECT typed(v) AS x, rank() OVER (ORDER BY v) AS r FROM t",
    "SELECT typed(id) + avg(f) OVER (ORDER BY v) AS x FROM t",
    "SELECT DISTINCT typed(v) AS x FROM t UNION SELECT typed(id) FROM t",
    "SELECT typed(id) AS x, row_number() OVER (ORDER BY v) AS open FROM t",
    "SELECT list(g) AS open, typed(v) AS x FROM t GROUP BY v",
]


@pytest.mark.full
@pytest.mark.parametrize("query", RECOMPUTED)
def test_values_that_are_not_the_views_are_found_without_a_plan(
    db: ivm.Database, query: str
) -> None:
    db.execute("CREATE MACRO typed(a INTEGER) AS a + 1")
    db.execute("CREATE VIEW plain AS SELECT g, v FROM t WHERE v > 1")
    db.execute("CREATE MACRO above(a) AS TABLE SELECT v FROM t WHERE v > a")
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1] == "whole recompute"
    db.execute("UPDATE t SET v = v + 1 WHERE id % 3 = 0")
    (verdict,) = verdicts(db)
    assert (verdict["missing"], verdict["extra"]) == (0, 0)
    assert verdict.get("left_open") == ("the values of open" if "open" in query else None)
    db._engine.warehouse.cursor().execute("UPDATE main.v SET x = x + 99")
    (verdict,) = verdicts(db)
    assert not verdict["ok"]
    assert verdict["missing"] == verdict["extra"] > 0


# A plan of another query with the same columns stands for one that misreads the user's.
MISREAD = [
    ("SELECT id, v FROM t WHERE v > 2", "SELECT id, v FROM t WHERE v >= 2"),
    ("SELECT g, sum(v) AS s FROM t GROUP BY g", "SELECT g, sum(v + 1) AS s FROM t GROUP BY g"),
    ("SELECT g, avg(f) AS a FROM t GROUP BY g", "SELECT g, avg(f + 1e-6) AS a FROM t GROUP BY g"),
    ("SELECT upper(g) AS g FROM t", "SELECT g FROM t"),
    ("SELECT id, v FROM t ORDER BY v LIMIT 7", "SELECT id, v FROM t ORDER BY v DESC LIMIT 7"),
    ("SELECT id, v FROM t LIMIT 7", "SELECT id, v FROM t LIMIT 6"),
    ("SELECT id, row_number() OVER (ORDER BY v) AS n FROM t",
     "SELECT id + 1 AS id, row_number() OVER (ORDER BY v) AS n FROM t"),
    ("SELECT id, row_number() OVER (ORDER BY v, id) AS n FROM t",
     "SELECT id, row_number() OVER (ORDER BY v, id DESC) AS n FROM t"),
    ("SELECT g, list(v) AS l FROM t GROUP BY g", "SELECT g, list(v + 1) AS l FROM t GROUP BY g"),
    ("SELECT v, string_agg(g, ',') AS l FROM t GROUP BY v",
     "SELECT v, string_agg(g, ';') AS l FROM t GROUP BY v"),
    ("SELECT g, list(v ORDER BY id) AS l FROM t GROUP BY g",
     "SELECT g, list(v ORDER BY id DESC) AS l FROM t GROUP BY g"),
    ("SELECT -id AS x FROM t ORDER BY id LIMIT 3", "SELECT id AS x FROM t ORDER BY id LIMIT 3"),
]  # fmt: skip


@pytest.mark.full
def test_plans_that_misread_their_queries_are_found(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    misread = dict(MISREAD)

    def planned(query: str, *others: Any) -> Plan:
        return bind(misread[query], *others)

    monkeypatch.setattr("ivm.engine.views.view_plans.bind", planned)
    for number, (query, _) in enumerate(MISREAD):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    monkeypatch.undo()
    strategies = [row[1] for row in db.execute("SHOW MATERIALIZED VIEWS").fetchall()]
    assert "whole recompute" not in strategies
    assert {verdict["ok"] for verdict in verdicts(db)} == {False}


@pytest.mark.full
def test_the_answer_has_another_column_only_if_something_is_open(db: ivm.Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, v FROM t ORDER BY v LIMIT 7")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT id FROM v")  # reads the rows that were chosen
    assert db.execute("VERIFY MATERIALIZED VIEW w").fetchall() == [("w", 7, 0, 0, True)]
    verdicts = db.execute("VERIFY MATERIALIZED VIEWS").fetchall()
    assert verdicts == [("v", 7, 0, 0, True, "the values of id"), ("w", 7, 0, 0, True, None)]


def test_a_view_that_cannot_be_recomputed_is_told_of_alone(db: ivm.Database) -> None:
    """Bug: its error was that of the whole statement, with an excerpt of SQL that no user wrote."""
    query = "SELECT list(n::TINYINT ORDER BY id) AS n FROM small"
    db.execute("CREATE TABLE small (id INTEGER PRIMARY KEY, n INTEGER)")
    db.execute(f"CREATE MATERIALIZED VIEW fails AS {query} WHERE n < 2 OR n > 5")
    db.execute("CREATE MATERIALIZED VIEW fine AS SELECT count(*) AS n FROM small")
    db.execute("INSERT INTO small VALUES (3, 900)")
    result = db.execute("VERIFY MATERIALIZED VIEWS")
    found = dict(zip(result.columns, zip(*result.fetchall(), strict=True), strict=True))
    told = dict(zip(found["view"], zip(found["ok"], found["broken"], strict=True), strict=True))
    assert told["fine"] == (True, None)
    assert told["fails"][0] is False
    assert "value 900" in told["fails"][1]
    assert "LINE 1" not in told["fails"][1]
    with pytest.raises(EvaluationError, match="value 900"):
        db.execute("VERIFY MATERIALIZED VIEW fails")
    with db.transaction():
        db.execute("DELETE FROM small")  # it can be computed again
        assert all(row[4] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall())


def test_a_query_that_fails_is_told_of_its_view_alone(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB adds in the order of the rows, where the sum is beyond DECIMAL meanwhile."""
    most = "9" * 38
    db.execute("CREATE TABLE big (id INTEGER PRIMARY KEY, x DECIMAL(38,0))")
    for name in ("total", "other"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT sum(x) AS x, '{name}' FROM big")
    db.execute("CREATE MATERIALIZED VIEW fine AS SELECT count(*) AS n FROM t")
    db.execute(f"INSERT INTO big VALUES (1, {most})")
    with db.transaction():
        db.execute(f"INSERT INTO big VALUES (3, {most})")
        db.execute(f"INSERT INTO big VALUES (4, -{most})")
    compared: list[str] = []

    def verified(engine: Engine, cursor: Cursor, view: View) -> Verdict:
        compared.append(view.name)
        return verify_view(engine, cursor, view)

    monkeypatch.setattr(view_statements, "verify_view", verified)
    result = db.execute("VERIFY MATERIALIZED VIEWS")
    assert compared == list(db._engine.catalog.views)  # each once
    found = dict(zip(result.columns, zip(*result.fetchall(), strict=True), strict=True))
    told = dict(zip(found["view"], zip(found["ok"], found["broken"], strict=True), strict=True))
    assert told["fine"] == (True, None)
    for name in ("total", "other"):
        assert told[name][0] is False
        assert "its query fails: " in told[name][1]
    with pytest.raises(EvaluationError, match=r"view .total.: its query fails: .*Overflow"):
        db.execute("VERIFY MATERIALIZED VIEW total")
    db.execute("BEGIN")
    with pytest.raises(EvaluationError, match=r"view .(total|other).: its query fails: .*Overflow"):
        db.execute("VERIFY MATERIALIZED VIEWS")
    db.execute("ROLLBACK")
