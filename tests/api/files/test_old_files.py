"""Files that older versions wrote open, and their records mean what they meant."""

from __future__ import annotations

from pathlib import Path

import pytest

import ivm
from ivm.storage.warehouse.duckdb.duck import rows, run
from tests.support.crash_image import image

_FORMAT_1 = """
CREATE OR REPLACE TABLE _ivm.views AS
    SELECT name, query, columns, nullif(state, 'exact') AS broken, number FROM _ivm.views;
UPDATE _ivm.views SET broken = 'unsettled' WHERE name = 'sums';
UPDATE _ivm.meta SET value = '1' WHERE key = 'format';
"""
"""The records as format 1 had them: what was said of a view's rows stood in a column `broken`."""


@pytest.mark.full
@pytest.mark.parametrize("closed", [True, False])
def test_the_states_of_views_in_format_1(tmp_path: Path, closed: bool) -> None:
    """One view needs its rows rewritten, one is recomputed, of one every row is as it should be."""
    path, copy = tmp_path / "old.duckdb", tmp_path / "copy.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (g INTEGER, x DOUBLE)")
        db.execute("INSERT INTO t VALUES (1, 0.5), (1, 0.25)")
        db.execute("CREATE MATERIALIZED VIEW counts AS SELECT g, count(*) AS n FROM t GROUP BY g")
        db.execute("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        db.execute("CREATE MATERIALIZED VIEW mine AS SELECT current_user AS who, x FROM t")
        db.execute("FROM t, mine").fetchall()
        cursor = db._engine.warehouse.cursor()
        run(cursor, _FORMAT_1)
        run(cursor, "UPDATE sums SET s = 0.7500001")  # DuckDB's sum, before it is rewritten
        run(cursor, "UPDATE counts SET n = 7")  # would be mended if it were filled anew
        if not closed:
            db._engine.warehouse._saw_wal()
            image(path, copy)
    for _ in range(2):  # the second opening finds our format
        with ivm.connect(path if closed else copy) as db:
            assert db.execute("SELECT s FROM sums").fetchall() == [(0.75,)]
            assert db.execute("SELECT n FROM counts").fetchall() == [(7,)]
            assert len(db.execute("FROM mine").fetchall()) == 2
            found = db.execute("SELECT name, state FROM _ivm.views ORDER BY number").fetchall()
            assert found == [("counts", "exact"), ("sums", "exact"), ("mine", "recomputed")]
            written = rows(db._engine.warehouse.cursor(), "FROM _ivm.meta WHERE key = 'format'")
            assert written == [("format", "3")]


@pytest.mark.full
def test_a_view_that_format_1_recomputed_is_filled_anew(tmp_path: Path) -> None:
    """If deltas maintain it now: its rows may be out of date."""
    path = tmp_path / "old.duckdb"
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (g INTEGER)")
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("CREATE MATERIALIZED VIEW counts AS SELECT g, count(*) AS n FROM t GROUP BY g")
        cursor = db._engine.warehouse.cursor()
        run(cursor, _FORMAT_1)
        run(cursor, "UPDATE _ivm.views SET broken = 'recomputed'")
        run(cursor, "UPDATE counts SET n = 7")
    with ivm.connect(path) as db:
        assert db.execute("SELECT n FROM counts").fetchall() == [(1,)]
        assert db.execute("SELECT state FROM _ivm.views").fetchall() == [("exact",)]


_EVENTS_OF_FORMAT_2 = """
DROP TABLE _ivm.positions; DROP TABLE _ivm.dead_letters;
DROP TABLE _ivm.sources; DROP TABLE _ivm.sinks; DROP TABLE _ivm.outbox;
CREATE TABLE _ivm.positions
    (source VARCHAR, "table" VARCHAR, position BIGINT NOT NULL, PRIMARY KEY (source, "table"));
CREATE TABLE _ivm.dead_letters (source VARCHAR, "table" VARCHAR, position BIGINT, event BIGINT,
    time TIMESTAMPTZ, reason VARCHAR, payload VARCHAR);
INSERT INTO _ivm.positions VALUES ('shop', 't', 7);
INSERT INTO _ivm.dead_letters VALUES ('shop', 't', 7, 1, '2026-01-01', 'why', 'what');
UPDATE _ivm.meta SET value = '2' WHERE key = 'format';
"""
"""The records of change streams as format 2 had them."""


def _of_format_2(path: Path) -> None:
    with ivm.connect(path) as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        db.ingest("t", [])
        run(db._engine.warehouse.cursor(), _EVENTS_OF_FORMAT_2)


@pytest.mark.full
def test_positions_and_dead_letters_of_format_2_stay(tmp_path: Path) -> None:
    """They have no column `stream`; the first events after the opening find them all the same."""
    path = tmp_path / "old.duckdb"
    _of_format_2(path)
    event = {"op": "c", "after": {"k": 1}}
    for _ in range(2):
        with ivm.connect(path) as db:
            assert db.ingest("t", [event], source="shop", position=7).skipped
            letters = db.execute('SELECT "table", stream, event, reason FROM _ivm.dead_letters')
            assert letters.fetchall() == [("t", "t", 1, "why")]
    with ivm.connect(path) as db:
        assert db.ingest("t", [event], source="shop", position=8).applied == 1
        assert db.execute("FROM _ivm.positions").fetchall() == [("shop", "t", 8, "")]
        db.execute("DISCARD DEAD LETTERS FOR shop")
        assert db.execute("FROM _ivm.dead_letters").fetchall() == []


def test_a_view_of_the_positions_of_format_2_goes_first(tmp_path: Path) -> None:
    """It is kept until events come, and is refused then with the way out."""
    path = tmp_path / "old.duckdb"
    _of_format_2(path)
    with ivm.connect(path) as db:
        db.execute("CREATE MATERIALIZED VIEW p AS SELECT source, position FROM _ivm.positions")
        assert db.execute("FROM p").fetchall() == [("shop", 7)]
        with pytest.raises(ivm.errors.UnsupportedError, match="DROP MATERIALIZED VIEW p first"):
            db.ingest("t", [], source="shop", position=8)
        db.execute("DROP MATERIALIZED VIEW p")
        db.ingest("t", [], source="shop", position=8)
        assert db.execute("FROM _ivm.positions").fetchall() == [("shop", "t", 8, "")]
