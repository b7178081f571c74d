"""INSERT with ON CONFLICT and RETURNING does what DuckDB does, with and without DuckDB."""

from __future__ import annotations

import uuid
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.change_ways import demand_fast, demand_native, demand_refused, run_history
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT DEFAULT 7, s VARCHAR DEFAULT 'd',
                x DOUBLE CHECK (x < 1000), m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE pair (a VARCHAR, b UTINYINT, v INTEGER, PRIMARY KEY (a, b));
CREATE TABLE keys (k INTEGER PRIMARY KEY);
CREATE TABLE plain (k INTEGER, v VARCHAR);
INSERT INTO t SELECT i, i, 's' || i, i / 2, i FROM range(6) r(i);
INSERT INTO pair VALUES ('x', 1, 10), ('x', 2, 20), ('it''s', 1, 30);
INSERT INTO keys VALUES (1), (2);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1;
CREATE MATERIALIZED VIEW w AS SELECT t.s, v, b FROM t JOIN pair ON n = b
"""
NAMES = ("t", "pair", "keys", "plain")
FAST: list[tuple[str, Any]] = [
    ("INSERT OR REPLACE INTO t VALUES (1, 2, 'new', 3, 4), (9, 9, NULL, NULL, 9)", None),
    ("INSERT OR REPLACE INTO t (s, id) VALUES ('new', 1), ('newer', 1), ('q', 12)", None),
    ("INSERT OR REPLACE INTO t (id, n) VALUES (?, ?) RETURNING *", [3, 5]),
    ("INSERT OR IGNORE INTO t (id, m) VALUES (1, 5), (70, 6), (70, NULL) RETURNING id, m", None),
    ("INSERT OR IGNORE INTO t (id, m) VALUES (1, NULL), (2, NULL)", None),
    ("INSERT OR IGNORE INTO keys VALUES (1), (5), (5) RETURNING k", None),
    ("INSERT INTO t (id) VALUES (1), (21) ON CONFLICT DO NOTHING", None),
    ("INSERT INTO t (id) VALUES (1), (21) ON CONFLICT (id) DO NOTHING RETURNING *", None),
    (
        "INSERT INTO t (id, n, x) VALUES (2, 3, 4), (2, 90, 1), (31, 1, 1), (0, 0, 0)"
        " ON CONFLICT (ID) DO UPDATE SET n = t.n + Excluded.n, s = s || '+', x = excluded.x"
        " RETURNING *, n * 2 AS twice, upper(s)",
        None,
    ),
    (
        "INSERT INTO t AS u (id, n) VALUES (?, ?), (?, ?) ON CONFLICT DO UPDATE"
        " SET n = u.n + ?, m = ? WHERE excluded.n > u.n AND u.s <> ? RETURNING u.id, n",
        [1, 5, 2, 1, 3, 2.5, "none"],
    ),
    (
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 5), (9, 9) ON CONFLICT (id) DO UPDATE"
        " SET n = excluded.n WHERE t.n IS DISTINCT FROM excluded.n RETURNING *",
        None,
    ),
    (
        "INSERT INTO t (id, m) VALUES ($id, $m) ON CONFLICT (id) DO UPDATE SET m = t.m + $m",
        {"id": 4, "m": 3},
    ),
    ("INSERT INTO t (id, x) VALUES (1, 5000) ON CONFLICT DO UPDATE SET x = 5", None),
    ("INSERT INTO t (id, m) VALUES (1, NULL) ON CONFLICT DO UPDATE SET m = 5 WHERE false", None),
    (
        "INSERT INTO pair VALUES ('x', 2, 5), ('y', 1, 6) ON CONFLICT (b, a)"
        " DO UPDATE SET v = pair.v + excluded.v RETURNING *",
        None,
    ),
    ("INSERT INTO t (id, n) VALUES (1, 1) ON CONFLICT DO UPDATE SET (n, s) = (1, 'a')", None),
    ("INSERT INTO t (id) VALUES (41), (42) RETURNING id + 1, n, s, 'x'", None),
    ("INSERT INTO plain VALUES (1, 'a'), (1, NULL) RETURNING *", None),
    ("INSERT INTO plain AS p (v) VALUES (?) RETURNING v || '!', k IS NULL", ["x"]),
    ("UPDATE t SET n = NULL WHERE id = 2 RETURNING id, n", None),
    ("DELETE FROM t WHERE id IN (4, 5) RETURNING *", None),
]
NATIVE: list[tuple[str, Any]] = [
    ("INSERT INTO t (id) VALUES (1 + 1), (2) ON CONFLICT DO NOTHING", None),
    ("INSERT OR REPLACE INTO t (id) VALUES (1), (77)", None),
    ("INSERT OR REPLACE INTO keys VALUES (1), (7)", None),
    ("INSERT INTO t (id, n) VALUES (1, 1) ON CONFLICT DO UPDATE SET n = DEFAULT", None),
    ("INSERT INTO t (id, n) VALUES (1, 1) ON CONFLICT DO UPDATE SET id = 100", None),
    ("INSERT INTO t (id) VALUES (81) RETURNING [id]", None),
    ("INSERT OR REPLACE INTO t BY NAME VALUES (1, 2, 'new', 3, 4)", None),
]
WRONG: list[tuple[str, Any]] = [
    ("INSERT INTO plain AS p (v) VALUES ('x') RETURNING p.v", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET n = (SELECT max(b) FROM pair)", None),
    ("INSERT INTO t (id) VALUES (1) RETURNING id", None),
    ("INSERT INTO t (id) VALUES (NULL) ON CONFLICT DO NOTHING", None),
    ("INSERT INTO t (id, m) VALUES (1, 1), (91, NULL) ON CONFLICT DO UPDATE SET m = 1", None),
    ("INSERT INTO t (id, x) VALUES (1, 1) ON CONFLICT DO UPDATE SET x = 5000", None),
    ("INSERT INTO t (id, n) VALUES (1, 1) ON CONFLICT DO UPDATE SET n = t.n + 127", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET m = NULL", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT (n) DO NOTHING", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET nope = 1", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET n = nope", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET n = 1, n = 2", None),
    ("INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET (n, s) = (1, 'a', 3)", None),
    ("INSERT INTO t AS u (id) VALUES (1) ON CONFLICT DO UPDATE SET n = t.n", None),
    ("INSERT INTO t (id) VALUES (95) RETURNING nope", None),
    ("INSERT INTO t (id) VALUES (95) RETURNING excluded.id", None),
    ("INSERT INTO t (id) VALUES (95) RETURNING count(*)", None),
    ("INSERT INTO t (id) VALUES (95) RETURNING (SELECT 1)", None),
    ("INSERT INTO t (id) VALUES (?) ON CONFLICT DO UPDATE SET n = ?", [95]),
    ("INSERT INTO t (id) VALUES (?) ON CONFLICT DO UPDATE SET n = ?", [95, 1, 2]),
    # What is set is computed for every row, whether or not its key is stored.
    (
        "INSERT INTO t (id, n) VALUES (96, 1) ON CONFLICT DO UPDATE SET n = 1 // (excluded.n - 1)",
        None,
    ),
    ("INSERT INTO t (id, n) VALUES (2, 5), (96, 1) ON CONFLICT (id) DO UPDATE SET n = 200", None),
    ("INSERT INTO t (id) VALUES (96) ON CONFLICT DO UPDATE SET n = ?", ["x"]),
    ("INSERT INTO t (id, s) VALUES (96, 'x') ON CONFLICT DO UPDATE SET n = excluded.s", None),
    ("INSERT INTO t (id, m) VALUES (96, 9) ON CONFLICT DO UPDATE SET n = exp(excluded.m)", None),
    (
        "INSERT INTO t (id, n) VALUES (1, 100) ON CONFLICT DO UPDATE SET n = 200 WHERE false",
        None,
    ),
    ("INSERT INTO plain VALUES (1, 'a') ON CONFLICT DO NOTHING", None),
    ("INSERT OR REPLACE INTO plain VALUES (1, 'a')", None),
    ("INSERT INTO t (id) VALUES (95) ON CONFLICT DO UPDATE SET n = 5 WHERE nope", None),
    ("INSERT INTO t (id) VALUES (95) ON CONFLICT DO NOTHING WHERE true", None),
]


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEWS, NAMES, path)


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize(("sql", "params"), FAST)
def test_no_duckdb_is_needed(sql: str, params: Any) -> None:
    demand_fast(twin(), sql, params)


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(sql: str, params: Any) -> None:
    demand_native(twin(), sql, params)


@pytest.mark.full
@pytest.mark.cases(10)
@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(sql: str, params: Any) -> None:
    demand_refused(twin(), sql, params, "INSERT OR REPLACE INTO t (id, n) VALUES (1, 3)")


statements = st.lists(st.sampled_from([*FAST, *FAST, *NATIVE, *WRONG]), max_size=8)


@pytest.mark.full
@settings(max_examples=examples(25), deadline=None)
@given(history=st.lists(st.tuples(st.booleans(), statements), max_size=4))
def test_any_history_leaves_what_duckdb_has(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bool, Any]]
) -> None:
    run_history(twin(tmp_path_factory.mktemp("twin") / "t.duckdb"), history)


KEYS: dict[str, st.SearchStrategy[Any]] = {
    "INTEGER": st.integers(-3, 3),
    "HUGEINT": st.integers(-3, 3),
    "DECIMAL(9,2)": st.decimals("-2", "2", places=2),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan")]),
    "VARCHAR": st.sampled_from(["", "a", "A", "ä", "it's"]),
    "DATE": st.sampled_from([date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]),
    "TIMESTAMP": st.sampled_from([datetime(1969, 12, 31, 23), datetime(2024, 2, 29, 1, 2, 3, 4)]),
    "UUID": st.integers(0, 3).map(lambda i: uuid.UUID(int=i << 120)),
    "BOOLEAN": st.booleans(),
    "BLOB": st.sampled_from([b"", b"a", b"\0"]),
}


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize("type", KEYS)
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_keys_of_every_type(type: str, data: st.DataObject) -> None:
    key = KEYS[type]
    table = f"CREATE TABLE t (v INTEGER, k {type} PRIMARY KEY, w INTEGER DEFAULT 3)"
    both = Twin(table, "CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS v, sum(w) AS w FROM t")
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.integers(0, 4))
        keys = data.draw(st.lists(key, min_size=1, max_size=4))
        given = [value for one in keys for value in (data.draw(st.integers(0, 9)), one)]
        cells = ", ".join(["(?, ?)"] * len(keys))
        insert = f"INTO t (v, k) VALUES {cells}"
        listed = ", ".join("?" * len(keys))
        sql, params = [
            (f"INSERT OR REPLACE {insert} RETURNING *", given),
            (f"INSERT {insert} ON CONFLICT DO UPDATE SET w = t.v + excluded.v", given),
            (f"INSERT OR IGNORE {insert} RETURNING k", given),
            (f"UPDATE t SET v = v + 1, w = ? WHERE k IN ({listed}) RETURNING v, k", [5, *keys]),
            ("DELETE FROM t WHERE k = ? AND v > ? RETURNING *", [keys[0], 3]),
        ][kind]
        with watched() as seen:
            both.run(sql, params)
            assert seen == []
    both.check()


WAYS = {
    "INSERT INTO t VALUES (50, 2, 'new', 3, 4)": "fast path: literals",
    "INSERT OR REPLACE INTO t VALUES (?, 2, 'new', 3, 4) RETURNING *": "key index (id)",
    "UPDATE t SET n = n + 1 WHERE id IN (1, 2) AND n = 3": "(id), 1 further conditions",
    "DELETE FROM pair WHERE a = 'x' AND b = 1": "rows are found in the key index (a, b)",
    "INSERT INTO t (id) SELECT 51": "fast path: its rows are given by memory",
    "INSERT INTO t BY NAME SELECT 51 AS id": "keys are looked up in the key index (id)",
    "INSERT INTO t (id) VALUES (1 + 50), (52)": "DuckDB, captured: its rows are VALUES",
    "UPDATE t SET n = 1 FROM pair WHERE id = v": "the rows of pair are given by DuckDB (it does",
    "UPDATE t SET n = 1 FROM pair, keys WHERE id = v": "DuckDB finds the rows",
    "UPDATE t SET n = 1 FROM pair p, keys q WHERE id = p.v AND id = q.k": "DuckDB finds the rows",
    "UPDATE t SET n = 1 FROM (pair JOIN keys ON k = v) WHERE id = v": "its clauses have a form",
    "UPDATE plain SET k = 1 FROM pair WHERE k = b": "the table has no primary key",
    "INSERT INTO t (id) VALUES (52) RETURNING [id]": "DuckDB, captured: its RETURNING list",
    "INSERT OR REPLACE INTO keys VALUES (1)": "DuckDB, captured: the rule for conflicts",
    "UPDATE t SET n = 1 WHERE n = 1": "fast path: rows are found by a look at all in the key index",
    "UPDATE t SET n = 1": "fast path: DuckDB finds the rows",
    "UPDATE t SET id = 9 WHERE id = 1": "fast path: rows are found in the key index (id)",
    "UPDATE t SET n = DEFAULT WHERE id = 1": "DuckDB, captured",
    "INSERT INTO u VALUES (1, 2)": "UNIQUE keys in arrangements (b)",
    "INSERT INTO generated VALUES (1)": "since it has generated columns",
    "INSERT INTO clock (a) VALUES (1)": "the defaults of b are evaluated by DuckDB",
    "INSERT INTO named (a) VALUES (1)": "the default of b is neither a literal nor one of",
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("sql", WAYS)
def test_explain_tells_the_way_and_why(sql: str) -> None:
    both = twin()
    both.db.execute("CREATE TABLE generated (a INTEGER, b INTEGER AS (a + 1))")
    both.db.execute("CREATE TABLE u (a INTEGER PRIMARY KEY, b INTEGER UNIQUE)")
    both.db.execute("CREATE TABLE clock (a INTEGER, b TIME DEFAULT current_localtime())")
    both.db.execute("CREATE TABLE named (a INTEGER, b VARCHAR DEFAULT getvariable('x'))")
    before = both.db.epoch
    params = [1] if "?" in sql else None
    rows = both.db.execute(f"EXPLAIN {sql}", params).fetchall()
    assert [key for key, _ in rows] == ["physical_plan", "changed_by"]
    assert WAYS[sql] in rows[1][1]
    assert both.db.epoch == before
    with watched() as seen:
        both.db.execute(sql, params)
    assert bool(seen) == rows[1][1].startswith("DuckDB")


@pytest.mark.full
def test_prepared_arguments_keep_their_types() -> None:
    both = twin()
    both.run("PREPARE p AS UPDATE t SET n = n + ? WHERE id = ?")
    both.run("PREPARE q AS INSERT INTO t (id, n) VALUES (?, ?) ON CONFLICT DO UPDATE SET n = ?")
    for sql in (
        "EXECUTE p(127::TINYINT, 1)",
        "EXECUTE p(3, 1::BIGINT)",
        "EXECUTE q(1, 2, 9::UTINYINT)",
        "EXECUTE q(61, 2, 9)",
        "EXECUTE q(61, 2, '4')",
    ):
        both.run(sql)
        both.check()
