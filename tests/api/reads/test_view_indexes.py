"""CREATE INDEX on a materialized view: rows are looked up by its columns, and it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import ivm
from ivm.engine.views import held_views
from ivm.errors import SqlError
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_tables_by_key import read

TEXT = "SELECT id, amount FROM v WHERE customer = ? ORDER BY id"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ivm.Database:
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    opened = ivm.connect(tmp_path / "x.duckdb")
    opened.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, customer VARCHAR, amount INTEGER)")
    opened.execute("INSERT INTO t SELECT i, 'c' || i % 7, i FROM range(100) r(i)")
    opened.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE amount >= 10")
    return opened


def shown(db: ivm.Database) -> list[object]:
    result = db.execute("SHOW MATERIALIZED VIEWS")
    if "indexes" not in result.columns:
        return []
    return [row[result.columns.index("indexes")] for row in result]


@pytest.mark.full
def test_rows_are_looked_up(db: ivm.Database, tmp_path: Path) -> None:
    assert not isinstance(read(db, TEXT, ["c3"]), StateResult)
    db.execute('CREATE INDEX i ON v ("Customer")')
    assert shown(db) == ["i (customer)"]
    result = read(db, TEXT, ["c3"])
    assert isinstance(result, StateResult)
    assert result.fetchall() == [(i, i) for i in range(10, 100) if i % 7 == 3]
    listed = db.execute("SHOW MATERIALIZED VIEWS")
    (row,) = listed.fetchall()
    assert dict(zip(listed.columns, row, strict=True))["held"].startswith("90 rows, ")
    db.execute("DELETE FROM t WHERE id > 30")
    db.execute("INSERT INTO t VALUES (500, 'c3', 99), (501, 'new', 7)")
    assert db.execute(TEXT, ["c3"]).fetchall() == [(10, 10), (17, 17), (24, 24), (500, 99)]
    assert db.execute(TEXT, ["new"]).fetchall() == []
    db.close()
    with ivm.connect(tmp_path / "x.duckdb") as again:
        assert shown(again) == ["i (customer)"]
        assert isinstance(read(again, TEXT, ["c3"]), StateResult)
        again.execute("DROP INDEX I")
        assert shown(again) == []
        assert not isinstance(read(again, TEXT, ["c3"]), StateResult)


@pytest.mark.full
def test_it_goes_with_its_view_and_its_transaction(db: ivm.Database) -> None:
    db.execute("CREATE INDEX i ON v (customer, id)")
    db.execute("BEGIN")
    db.execute("CREATE INDEX j ON main.v (amount)")
    assert shown(db) == ["i (customer, id), j (amount)"]
    db.execute("ROLLBACK")
    assert shown(db) == ["i (customer, id)"]
    db.execute("CREATE INDEX IF NOT EXISTS i ON v (amount)")
    assert shown(db) == ["i (customer, id)"]
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT customer FROM t")
    assert shown(db) == []
    db.execute("CREATE INDEX i ON v (customer)")
    db.execute("DROP MATERIALIZED VIEW v")
    db.execute("CREATE INDEX i ON t (customer)")
    db.execute("DROP INDEX i")
    db.close()


@pytest.mark.full
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE UNIQUE INDEX j ON v (id)", "leave out UNIQUE, or"),
        ("CREATE INDEX j ON v USING btree (nothing)", "over its columns"),
        ("CREATE INDEX j ON v (id + 1)", r"over its columns \(id, customer, amount\)"),
        ("CREATE INDEX j ON v (nothing)", "over its columns"),
        ("CREATE INDEX j ON v (id, ID)", "once"),
        ("CREATE INDEX I ON v (amount)", "already"),
        ("CREATE INDEX mine ON v (amount)", "already"),
    ],
)
def test_what_is_refused(db: ivm.Database, statement: str, why: str) -> None:
    db.execute("CREATE INDEX i ON v (id)")
    db.execute("CREATE INDEX mine ON t (amount)")
    with pytest.raises(ivm.errors.IvmError, match=why):
        db.execute(statement)
    assert shown(db) == ["i (id)"]
    db.close()


def test_names_of_indexes_are_unique_whatever_they_are_on(db: ivm.Database) -> None:
    db.execute("CREATE INDEX i ON v (customer)")
    for statement in ("CREATE INDEX I ON t (amount)", 'CREATE INDEX "i" ON v (id)'):
        with pytest.raises(SqlError, match="there is an index"):
            db.execute(statement)
    db.execute("CREATE INDEX IF NOT EXISTS i ON t (amount)")
    db.execute("DROP INDEX i")
    with pytest.raises(SqlError):
        db.execute("DROP INDEX i")
    db.execute("CREATE INDEX i ON t (amount)")
    with pytest.raises(SqlError, match="there is an index"):
        db.execute("CREATE INDEX i ON v (customer)")


def test_they_are_exported_and_imported(db: ivm.Database, tmp_path: Path) -> None:
    db.execute("CREATE SCHEMA s; CREATE MATERIALIZED VIEW s.w AS SELECT * FROM t")
    db.execute('CREATE INDEX "odd ""name" ON s.w (customer, id); CREATE INDEX i ON v (amount)')
    db.execute(f"EXPORT DATABASE '{tmp_path / 'out'}'")
    with ivm.connect(tmp_path / "other.duckdb") as other:
        other.execute(f"IMPORT DATABASE '{tmp_path / 'out'}'")
        assert shown(other) == shown(db)
        assert shown(other) != [None, None]
