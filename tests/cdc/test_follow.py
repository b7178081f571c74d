"""A table follows the columns upstream, as far as its views allow."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ivm
from ivm.cdc.follow import follow
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.source import Upstream


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
