"""A table follows the columns upstream, as far as its views allow."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import ivm
from ivm.cdc.follow import follow
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.source import Upstream

KEPT = ("watermarks", "watermark_parts", "retention")


def part(*columns: tuple[str, str]) -> JsonPart:
    """No events, of a table with these columns upstream."""
    upstream = Upstream(tuple([UpstreamColumn(name, type) for name, type in columns]))
    lines = pa.array([], pa.large_string())
    return JsonPart("t", lines, envelope_of("debezium"), "s", upstream=upstream)


def test_a_star_of_a_view_stops_the_source_with_the_way_out() -> None:
    wide = part(("id", "INTEGER"), ("x", "INTEGER"), ("note", "VARCHAR"))
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER);
            INSERT INTO t VALUES (1, 2);
            CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t;
            CREATE MATERIALIZED VIEW every AS SELECT * FROM t
        """)
        message = (
            r"table t must follow the one upstream, by .*ADD COLUMN.*: ALTER TABLE would break the "
            r"materialized view every \(its query would give a new column 'note'\): drop it first, "
            "or replace it by one that names its columns"
        )
        with pytest.raises(ivm.errors.UnsupportedError, match=message):
            db._with_session(lambda session: follow(session, wide))
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW every AS SELECT id, x FROM t")
        db._with_session(lambda session: follow(session, wide))
        assert db.execute("FROM t").fetchall() == [(1, 2, None)]
        assert db.execute("FROM every, n").fetchall() == [(1, 2, 1)]


def test_views_of_a_column_that_becomes_wider_are_created_anew() -> None:
    with ivm.connect() as db:
        db.execute("""
            CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER);
            INSERT INTO t VALUES (1, 2), (2, 2), (3, 4);
            CREATE MATERIALIZED VIEW n (k, count) AS SELECT x, count(*) FROM t GROUP BY x;
            CREATE MATERIALIZED VIEW above AS SELECT max(k) AS most FROM n;
            CREATE MATERIALIZED VIEW other AS SELECT id FROM t;
            CREATE MATERIALIZED VIEW star AS SELECT * FROM t;
            CREATE INDEX by_k ON n (k)
        """)
        wide = part(("id", "INTEGER"), ("x", "BIGINT"))
        db._with_session(lambda session: follow(session, wide))
        db.insert("t", {"id": [4], "x": [10_000_000_000]})
        assert db.execute("FROM n ORDER BY k").fetchall() == [(2, 2), (4, 1), (10_000_000_000, 1)]
        assert db.execute("FROM above").fetchall() == [(10_000_000_000,)]
        assert db.execute("SELECT typeof(k) FROM n WHERE k = 4").fetchall() == [("BIGINT",)]
        assert [row[-1] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall()] == [True] * 4
        db.execute("DROP INDEX by_k")


@pytest.mark.full
def test_views_of_wider_columns_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.execute("""
            CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, y INTEGER);
            INSERT INTO t VALUES (1, 2, 3);
            CREATE MATERIALIZED VIEW n AS SELECT x, y, count(*) AS n FROM t GROUP BY ALL;
            CREATE MATERIALIZED VIEW above AS SELECT x FROM n;
        """)
        wide = part(("id", "BIGINT"), ("x", "BIGINT"), ("y", "BIGINT"), ("z", "INTEGER"))
        db._with_session(lambda session: follow(session, wide))
    with ivm.connect(tmp_path / "a.duckdb") as db:
        db.insert("t", {"id": [1 << 40], "x": [1 << 40], "y": [1 << 40], "z": [1]})
        assert db.execute("SELECT count(*), max(x) FROM above").fetchall() == [(2, 1 << 40)]
        assert [row[-1] for row in db.execute("VERIFY MATERIALIZED VIEWS").fetchall()] == [True] * 2


@pytest.mark.full
def test_a_view_with_a_sink_keeps_its_types_and_says_so(tmp_path: Path) -> None:
    with ivm.connect() as db:
        db.execute(f"""
            CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER);
            CREATE MATERIALIZED VIEW n AS SELECT x, count(*) AS n FROM t GROUP BY x;
            CREATE SINK out FROM n INTO FILES (path '{tmp_path}/out')
        """)
        wide = part(("id", "INTEGER"), ("x", "BIGINT"), ("y", "INTEGER"))
        with pytest.raises(ivm.errors.UnsupportedError, match="the sink out would end; DROP SINK"):
            db._with_session(lambda session: follow(session, wide))
        assert db.execute("SELECT column_name FROM (DESCRIBE t)").fetchall() == [("id",), ("x",)]
        db.execute("DROP SINK out")
        db._with_session(lambda session: follow(session, wide))
        assert db.execute("VERIFY MATERIALIZED VIEW n").fetchall()[0][-1]


def test_a_table_that_is_made_anew_keeps_its_watermark_and_its_retention() -> None:
    with ivm.connect() as db:
        db.execute(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts)"
            " WITH (watermark_by = id, retain = '1 hour' BEHIND WATERMARK)"
        )
        db.execute("INSERT INTO t VALUES (1, '2026-01-01')")
        known = [db.execute(f"FROM _ivm.{name}").fetchall() for name in KEPT]
        wide = part(("id", "BIGINT"), ("ts", "TIMESTAMP"))
        db._with_session(lambda session: follow(session, wide))
        assert [db.execute(f"FROM _ivm.{name}").fetchall() for name in KEPT] == known
        assert db.execute("SELECT watermark('t') AS w").fetchall() == [(datetime(2026, 1, 1),)]
        db.execute("INSERT INTO t VALUES (10000000000, '2026-01-02')")
