"""A committed row that DuckDB refuses: it is named, the rest stays in use, DROP or ALTER heals.

Constraints are enforced before a commit, so these tests let them pass there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ivm
from ivm.errors import ConstraintError
from ivm.ingest import fast_path_rules
from ivm.ingest.table_rules import Check
from ivm.session.ddl import ddl, ddl_refusals
from ivm.storage.warehouse.tables.table_info import TableInfo
from tests.support.view_oracle import assert_verified

OTHERS = """
CREATE TABLE other (a INTEGER);
CREATE MATERIALIZED VIEW sums AS SELECT sum(a) AS s FROM other;
INSERT INTO other VALUES (1)
"""
NEGATIVE = """
CREATE TABLE t (a INTEGER CHECK (a > 0), b INTEGER);
CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t;
INSERT INTO t VALUES (1, 1);
SELECT * FROM t;
INSERT INTO t VALUES (5, 5), (-7, 2), (8, 8)
"""
TWICE = """
CREATE TABLE t (a INTEGER, b INTEGER);
CREATE MATERIALIZED VIEW v AS SELECT b FROM t;
CREATE UNIQUE INDEX u ON v (b);
INSERT INTO t VALUES (1, 1), (2, 2), (5, 1)
"""


@pytest.fixture(autouse=True)
def _let_all_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(text: str, info: TableInfo, macros: object) -> object:
        return Check(lambda columns, count: np.ones(count, np.bool_), lambda columns, rows: [])

    monkeypatch.setattr(fast_path_rules, "_check", passes)
    monkeypatch.setattr(ddl_refusals, "_refuse_on_view", lambda session, statement: None)
    monkeypatch.setattr(ddl, "change_index", lambda session, statement: None)  # one of DuckDB's


@pytest.mark.cases(4)
@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize(
    ("script", "culprit", "row", "heal", "left"),
    [
        (NEGATIVE, "t", "a = -7, b = 2", "DROP TABLE t CASCADE", None),
        (TWICE, "v", "b = 1", "DROP INDEX u", [(1, 1), (2, 2), (5, 1)]),
        (TWICE, "v", "b = 1", "DROP MATERIALIZED VIEW v", [(1, 1), (2, 2), (5, 1)]),
    ],
)
def test_a_refused_row(
    tmp_path: Path,
    script: str,
    culprit: str,
    row: str,
    heal: str,
    left: list[tuple[int, int]] | None,
    reopened: bool,
) -> None:
    file = tmp_path / "d.duckdb"
    db = ivm.connect(file)
    db.execute(OTHERS + ";" + script)
    named = rf"'{culprit}' cannot take the row \({row}\).* constraint"
    if reopened:
        with pytest.raises(ConstraintError, match=named):
            db.close()
        db = ivm.connect(file)
    for statement in (f"FROM {culprit}", "CREATE TABLE more (a INTEGER)", "ALTER TABLE t DROP b"):
        with pytest.raises(ConstraintError, match=r"cannot take|not written yet"):
            db.execute(statement)
    if not reopened:  # else the state of views has to be built from tables, which lack rows
        db.execute("INSERT INTO other VALUES (2)")
    found = db.execute("SELECT s, a FROM sums, other ORDER BY a").fetchall()
    assert found == ([(1, 1)] if reopened else [(3, 1), (3, 2)])
    db.execute(heal)
    if left is not None:
        assert db.execute("FROM t").fetchall() == left
    db.execute("INSERT INTO other VALUES (3)")
    assert_verified(db)
    db.close()
    with ivm.connect(file) as db:
        assert db.execute("FROM sums").fetchall() == [(4 if reopened else 6,)]
        assert_verified(db)


def test_an_alter_heals_what_it_allows() -> None:
    with ivm.connect() as db:
        db.execute(OTHERS)
        db.execute("CREATE TABLE t (a INTEGER NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        loose = db._lifetime.engine.definitions.fast_path("t")
        assert loose is not None
        object.__setattr__(loose, "required", ())
        db.execute("INSERT INTO t VALUES (1), (NULL)")
        with pytest.raises(ConstraintError, match=r"'t' cannot take the row \(a = None\)"):
            db.execute("FROM t")
        db.execute("ALTER TABLE t ALTER a DROP NOT NULL")
        assert db.execute("FROM t ORDER BY a").fetchall() == [(1,), (None,)]
        assert_verified(db)
