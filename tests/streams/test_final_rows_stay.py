"""Final rows that no table tells any more stay, by whatever way a database goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.cdc.follow import follow
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.source import Upstream
from ivm.recovery import recover
from tests.support.view_oracle import verdicts

SCRIPT = """
CREATE SCHEMA s;
CREATE TABLE t (ts TIMESTAMP, k INTEGER, note VARCHAR, WATERMARK FOR ts AS ts);
CREATE MATERIALIZED VIEW v AS SELECT window_end, k, note, count(*) AS n
    FROM tumble(t, ts, INTERVAL '1 hour') GROUP BY ALL EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW s."a FROM b" (ends, total) AS
    SELECT window_end, sum(n)::BIGINT FROM v GROUP BY ALL EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s."a FROM b";
INSERT INTO t VALUES ('2026-03-02 10:10', 1, ''), ('2026-03-02 10:10', 1, NULL);
INSERT INTO t VALUES ('2026-03-02 11:10', 2, ',"');
INSERT INTO t VALUES ('2026-03-02 10:50', 7, 'late');
DELETE FROM t WHERE ts < '2026-03-02 11:00' AND k = 1
"""
NEXT = "INSERT INTO t (ts, k, note) VALUES ('2026-03-02 12:10', 3, 'x')"
VIEWS = ("v", 's."a FROM b"', "w")


def make(db: ivm.Database) -> list[list[tuple[object, ...]]]:
    """A database with final rows that its table does not tell, and these."""
    db.execute(SCRIPT)
    found = rows(db)
    assert [len(each) for each in found] == [2, 1, 1]
    return found


def rows(db: ivm.Database) -> list[list[tuple[object, ...]]]:
    return [db.execute(f"FROM {view} ORDER BY ALL").fetchall() for view in VIEWS]


def goes_on(db: ivm.Database, known: list[list[tuple[object, ...]]]) -> None:
    """Asserts that a database has these rows, and gets others by what comes."""
    assert rows(db) == known
    db.execute(NEXT)
    counts = [len(each) for each in rows(db)]
    assert counts == [3, 2, 1]
    assert all(set(old) <= set(new) for old, new in zip(known[:2], rows(db), strict=False))
    assert all(each["ok"] for each in verdicts(db))


@pytest.mark.parametrize(("options", "begun"), [("", False), (" (FORMAT parquet)", True)])
def test_an_import_has_what_the_export_has(tmp_path: Path, options: str, begun: bool) -> None:
    with ivm.connect() as db:
        known = make(db)
        db.execute(f"EXPORT DATABASE '{tmp_path / 'e'}'{options}")
    shutil.move(tmp_path / "e", tmp_path / "it's moved")
    load = f"IMPORT DATABASE '{tmp_path}/it''s moved'"
    with ivm.connect(tmp_path / "i.duckdb") as db:
        db.execute(f"BEGIN; {load}; COMMIT" if begun else load)
        goes_on(db, known)
        after = rows(db)
    with ivm.connect(tmp_path / "i.duckdb") as db:
        assert rows(db) == after


def test_a_broken_view_is_imported_with_its_rows(tmp_path: Path) -> None:
    with ivm.connect() as db:
        known = make(db)
        with db._with_session(lambda session: session.writing()):
            db._engine.broken.mark({"v"}, "it was broken")
        db.execute(f"EXPORT DATABASE '{tmp_path / 'e'}'")
    with ivm.connect() as db:
        db.execute(f"IMPORT DATABASE '{tmp_path / 'e'}'")
        with pytest.raises(ivm.IvmError, match="it was broken"):
            db.execute("FROM v")
        db.execute("REFRESH MATERIALIZED VIEW v")
        goes_on(db, known)


def copied(folder: Path) -> None:
    with ivm.connect(folder / "a.duckdb") as db:
        make(db)
        db.execute(f"ATTACH '{folder / 'b.duckdb'}' AS b; COPY FROM DATABASE a TO b; DETACH b")


def imported_by_duckdb(folder: Path) -> None:
    with ivm.connect() as db:
        make(db)
        db.execute(f"EXPORT DATABASE '{folder / 'e'}'")
    with duckdb.connect(folder / "b.duckdb") as plain:
        plain.execute(f"IMPORT DATABASE '{folder / 'e'}'")
    recover(folder / "b.duckdb", "give up")


def written_by_duckdb(folder: Path) -> None:
    with ivm.connect(folder / "b.duckdb") as db:
        make(db)
    with duckdb.connect(folder / "b.duckdb") as plain:
        plain.execute("CREATE TABLE other (i INTEGER)")


@pytest.mark.parametrize("way", [copied, imported_by_duckdb, written_by_duckdb])
def test_a_file_that_came_another_way_has_them(tmp_path: Path, way: Callable[[Path], None]) -> None:
    with ivm.connect() as db:
        known = make(db)
    way(tmp_path)
    with ivm.connect(tmp_path / "b.duckdb") as db:
        goes_on(db, known)


@pytest.mark.parametrize("wide", ["k", "note"])
def test_a_view_whose_columns_a_source_makes_wider_keeps_them(wide: str) -> None:
    columns = [UpstreamColumn("ts", "TIMESTAMP"), UpstreamColumn("k", "BIGINT")]
    if wide == "note":
        columns = [*columns[:1], UpstreamColumn("k", "INTEGER"), UpstreamColumn("new", "BLOB")]
    columns.append(UpstreamColumn("note", "VARCHAR"))
    lines = pa.array([], pa.large_string())
    upstream = Upstream(tuple(columns))
    part = JsonPart("t", lines, envelope_of("debezium"), "s", upstream=upstream)
    with ivm.connect() as db:
        known = make(db)
        db._with_session(lambda session: follow(session, part))
        goes_on(db, known)
