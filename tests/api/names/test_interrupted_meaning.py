"""An interrupt says nothing of what a statement means: it comes through as itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import ivm
from ivm.engine import verify
from ivm.ingest import row_columns
from ivm.session.ddl import ddl
from ivm.session.results.state_result import StateResult
from ivm.sql.bind import bind
from ivm.storage.warehouse.duckdb.duck import run

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER); INSERT INTO t VALUES (1, 2), (2, 2)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x"


def _interrupts(*args: object, **named: object) -> Any:
    raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as opened:
        opened.execute(TABLE)
        opened.execute(VIEW)
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("module", [ddl, bind])
def test_a_change_of_the_catalog(db: ivm.Database, module: Any) -> None:
    """Bug: the statement said that it would break the view."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "describe", _interrupts)
        with pytest.raises(ivm.errors.UnavailableError, match="Interrupted"):
            db.execute("ALTER TABLE t ADD COLUMN y INTEGER")
    assert db.execute("FROM v").fetchall() == [(2, 2)]
    assert len(db.execute("FROM t").columns) == 2


@pytest.mark.full
def test_a_view_is_not_taken_for_one_that_must_be_recomputed(db: ivm.Database) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bind, "render", _interrupts)
        with pytest.raises(ivm.errors.UnavailableError, match="Interrupted"):
            db.execute(VIEW.replace(" v ", " w "))
    db.execute(VIEW.replace(" v ", " w "))
    shown = db.execute("SHOW MATERIALIZED VIEWS").arrow().to_pylist()
    assert "whole recompute" not in {row["strategy"] for row in shown}


def test_a_query_is_read_from_memory_the_next_time(db: ivm.Database) -> None:
    query = "SELECT n FROM v WHERE x = 2"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bind, "render", _interrupts)
        assert db.execute(query).fetchall() == [(2,)]
    assert isinstance(db.execute(query), StateResult)


@pytest.mark.full
def test_verify_tells_the_first_error(db: ivm.Database) -> None:
    """Bug: it told that the transaction was aborted, of which the user knows nothing."""

    def fails(cursor: Any, *args: object) -> Any:
        run(cursor, "SELECT error('the first')")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "_compare", fails)
        with pytest.raises(ivm.errors.IvmError, match="the first"):
            db.execute("VERIFY MATERIALIZED VIEW v")
    assert db.execute("VERIFY MATERIALIZED VIEW v").fetchall()[0][-1]


@pytest.mark.full
@pytest.mark.parametrize("name", ["cast_arrays", "cast_parameters"])
def test_values_are_not_said_not_to_fit(db: ivm.Database, name: str) -> None:
    db.execute("CREATE TABLE w (x INTEGER, u UNION(a INTEGER, b VARCHAR))")
    values = {"cast_arrays": {"x": ["1e2"]}, "cast_parameters": {"u": [10**30]}}[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_columns, name, _interrupts)
        with pytest.raises(ivm.errors.UnavailableError, match="Interrupted"):
            db.insert("w", values)
    assert db.execute("FROM w").fetchall() == []
