"""Values of every type, through every way into a table and into views, against DuckDB alone."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import ivm
from tests.support.type_values import NAMES, VALUES
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER

BEYOND = {
    "DATE": ("'5881580-07-10'", "'0044-03-15 (BC)'"),
    "INTERVAL": ("'2562046 hours'", "'2147483647 months'", "'-2147483648 days'"),
    "TIME_NS": ("'24:00:00'",),
    "TIMESTAMP": ("'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'"),
    "TIMESTAMP_NS": ("'infinity'", "'2262-04-11 23:47:16.854775806'"),
    "TIMESTAMP_S": ("'infinity'", "'-infinity'"),
    "MAP(INTEGER, UNION(a INTEGER, b VARCHAR))": ("MAP {1: 1}", "MAP {2: 'x'}"),
    "STRUCT(a INTEGER)[2]": ("[{'a': 1}, {'a': NULL}]", "[NULL, {'a': 2}]"),
    "STRUCT(a INTEGER[2])[]": ("[{'a': [1, 2]}]", "[{'a': NULL}]", "[]"),
    "STRUCT(u UNION(a INTEGER, b VARCHAR), l INTEGER[])": ("{'u': 1, 'l': [1]}",),
    "UNION(a STRUCT(x INTEGER, y BOOLEAN), b VARCHAR[])": ("{'x': 1, 'y': true}", "['k', NULL]"),
    "VARCHAR[][2]": ("[['a'], []]", "[NULL, ['x', NULL]]"),
}
ALL = tuple(dict.fromkeys((*BEYOND, *NAMES)))
SOME = ALL[:: 17 if TIER == "quick" else 1]
VIEWS = {
    "rows": "SELECT id, x FROM t",
    "texts": "SELECT id, x::VARCHAR AS s FROM t",
    "nested": "SELECT id, [x] AS l, {'x': x} AS s FROM t",
    "pairs": "SELECT l.id, r.id AS rid, l.x FROM t l JOIN t r ON l.x IS NOT DISTINCT FROM r.x",
    "groups": "SELECT x, count(*) AS n FROM t GROUP BY x",
    "ends": "SELECT id % 2 AS k, min(x) AS a, max(x) AS b FROM t GROUP BY 1",
}
"""The last two may show another one of equal values than DuckDB: VERIFY alone says of them."""
TEXTS = "SELECT id, {}::VARCHAR, typeof({}) FROM {} ORDER BY ALL"


def demand_same(db: ivm.Database, peer: duckdb.DuckDBPyConnection) -> None:
    for name, query, column in [
        ("t", "t", "x"),
        ("rows", f"({VIEWS['rows']})", "x"),
        ("texts", f"({VIEWS['texts']})", "s"),
        ("nested", f"({VIEWS['nested']})", "l"),
        ("pairs", f"({VIEWS['pairs']})", "x"),
    ]:
        found = db.execute(TEXTS.format(column, column, name)).fetchall()
        assert found == peer.execute(TEXTS.format(column, column, query)).fetchall(), name
    assert_verified(db)


@pytest.mark.cases(4)
@pytest.mark.parametrize("kind", SOME)
def test_every_way_in(kind: str, tmp_path: Path) -> None:
    values = [*VALUES.get(kind, ()), *BEYOND.get(kind, ()), "NULL"]
    cast = [f"({value})::{kind}" for value in values]
    db, peer = ivm.connect(tmp_path / "d.duckdb"), duckdb.connect()

    def both(sql: str) -> None:
        db.execute(sql)
        peer.execute(sql)

    both(f"CREATE TABLE t (id INTEGER, x {kind})")
    for name, query in VIEWS.items():
        if name != "ends" or not kind.startswith(("UNION", "MAP(INTEGER, UNION", "STRUCT(u")):
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    both("INSERT INTO t VALUES " + ", ".join(f"({i}, {v})" for i, v in enumerate(values)))
    for i, value in enumerate(cast):
        both(f"INSERT INTO t SELECT {100 + i}, {value}")
    demand_same(db, peer)
    both(f"UPDATE t SET x = {cast[0]} WHERE id % 3 = 1")
    both(f"UPDATE t SET x = CASE WHEN id < 100 THEN {cast[-2]} ELSE x END WHERE abs(id) % 5 = 2")
    both(f"BEGIN; INSERT INTO t VALUES (500, {values[0]}); INSERT INTO t SELECT 501, x FROM t")
    both(f"DELETE FROM t WHERE x IS NOT DISTINCT FROM {cast[0]} AND id < 100; COMMIT")
    demand_same(db, peer)
    db.close()
    with ivm.connect(tmp_path / "d.duckdb") as db:
        demand_same(db, peer)
        both("DELETE FROM t WHERE id % 2 = 0")
        demand_same(db, peer)
