"""UPDATE … FROM, DELETE … USING and MERGE by the fast path do what DuckDB does."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from tests.support.change_ways import (
    demand_fast,
    demand_native,
    demand_refused,
    few_rows_expected,
    run_history,
)
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id BIGINT PRIMARY KEY, n TINYINT DEFAULT 7, s VARCHAR DEFAULT 'd',
                x DOUBLE CHECK (x < 1000), m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE pair (a VARCHAR, b UTINYINT, v INTEGER, PRIMARY KEY (a, b));
CREATE TABLE plain (k INTEGER, v VARCHAR);
CREATE TABLE u (i INTEGER, w VARCHAR, c DOUBLE);
INSERT INTO t SELECT i, i, 's' || i, i / 2, i FROM range(12) r(i);
INSERT INTO pair VALUES ('x', 1, 10), ('x', 2, 20), ('it''s', 1, 30);
INSERT INTO plain VALUES (1, 'a'), (1, 'a'), (NULL, NULL);
INSERT INTO u SELECT 2 * i, chr(97 + i::INTEGER), i / 4 FROM range(9) r(i);
INSERT INTO u VALUES (NULL, 'none', 1);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1;
CREATE MATERIALIZED VIEW w AS SELECT t.s, v, b FROM t JOIN pair ON n = b
"""
NAMES = ("t", "pair", "plain", "u")
MERGE = "MERGE INTO t USING u ON id = i"
FAST: list[tuple[str, Any]] = [
    ("UPDATE t SET n = i + 1, s = w || s FROM u WHERE id = i", None),
    ("UPDATE t AS k SET n = k.n + 1, x = NULL FROM u AS o WHERE o.i = k.id AND o.c > 0.5", None),
    ("UPDATE t SET n = i + ?, s = ? FROM u WHERE id = i AND c > ? AND s <> w", [3, "z", 0.5]),
    ("UPDATE t SET n = i + $p FROM u WHERE id = i AND c > $q", {"p": 1, "q": 0.5}),
    (
        "UPDATE t SET m = q.a FROM (SELECT i AS a, w FROM u) q WHERE id = q.a RETURNING id, m",
        None,
    ),
    ("UPDATE t SET m = a FROM (SELECT 3, 9.999) q(k, a) WHERE t.id = q.k RETURNING *", None),
    ("WITH c AS (SELECT 4 AS k) UPDATE t SET n = c.k + 1 FROM c WHERE c.k = t.id", None),
    ("UPDATE t SET n = o.n + 1 FROM t AS o WHERE t.id = o.id", None),
    ("UPDATE t SET n = 5 FROM (SELECT 100 AS k) q WHERE id = k", None),
    ("UPDATE t SET n = 5 FROM u WHERE id = i AND false", None),
    (
        "UPDATE pair SET v = 7 FROM (SELECT 'x' AS k, 2 AS l) q WHERE a = k AND b = l",
        None,
    ),
    ("UPDATE t SET n = q.c FROM v AS q WHERE t.id = q.odd", None),
    ("DELETE FROM t USING u WHERE id = i", None),
    ("DELETE FROM t USING u WHERE id = i AND n > c + 3 RETURNING *", None),
    ("DELETE FROM t USING (VALUES (1), (1), (2)) q(k) WHERE t.id = q.k RETURNING id", None),
    ("DELETE FROM pair USING u WHERE a = w AND b = i", None),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET n = i, s = w", None),
    (f"{MERGE} WHEN MATCHED AND c > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET x = c", None),
    (f"{MERGE} WHEN MATCHED THEN DO NOTHING", None),
    (
        "MERGE INTO t USING (SELECT 50 AS id, 5 AS n) q ON t.id = q.id"
        " WHEN NOT MATCHED AND n > 1 THEN INSERT (id, n) VALUES (id, n)",
        None,
    ),
    ("UPDATE t SET s = k FROM (SELECT 3 AS id, 'k' AS k, 2.5 AS x) q WHERE t.id = q.id", None),
    (
        f"{MERGE} AND i IS NOT NULL WHEN NOT MATCHED AND i > 13 THEN INSERT (s, id) VALUES (w, i)",
        None,
    ),
    (
        "MERGE INTO t AS k USING (SELECT i + ? AS id, c AS x FROM u WHERE i > ?) q ON q.id = k.id"
        " WHEN MATCHED THEN UPDATE SET x = q.x + k.x"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (id, x, m) VALUES (q.id, q.x * 2, 3)",
        [1, 2],
    ),
    (
        "MERGE INTO t USING (SELECT i + 5, 1, 'n', 2.5, 1 FROM u WHERE i > 3) q(id, n, s, x, m)"
        " ON t.id = q.id WHEN MATCHED THEN UPDATE SET s = q.s WHEN NOT MATCHED THEN INSERT",
        None,
    ),
    (
        "MERGE INTO pair USING (SELECT 'x' AS a, 1 AS b UNION ALL SELECT 'y', 3) q"
        " ON pair.a = q.a AND pair.b = q.b WHEN MATCHED AND pair.v > 5 THEN DELETE"
        " WHEN NOT MATCHED AND q.b = 3 THEN INSERT VALUES (q.a, q.b, 4)",
        None,
    ),
]
NATIVE: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 1 FROM u, pair WHERE id = i AND b = i", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = c", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = i OR id = 1", None),
    ("UPDATE t SET n = 1 FROM (VALUES (1), (1)) q(k) WHERE id = k", None),
    ("UPDATE t SET n = DEFAULT FROM u WHERE id = i", None),
    ("UPDATE t SET id = 100 FROM u WHERE id = i AND i = 2", None),
    ("UPDATE t SET n = (SELECT max(b) FROM pair) FROM u WHERE id = i", None),
    ("UPDATE plain SET v = 'x' FROM u WHERE k = i + 1", None),
    ("MERGE INTO t USING u ON id = i WHEN NOT MATCHED BY SOURCE THEN DELETE", None),
    (f"{MERGE} WHEN MATCHED THEN UPDATE SET s = w RETURNING merge_action, id", None),
    ("MERGE INTO t USING (SELECT 3 AS id) q USING (id) WHEN MATCHED THEN DELETE", None),
]
WRONG: list[tuple[str, Any]] = [
    ("UPDATE t SET n = 300 FROM u WHERE id = i", None),
    ("UPDATE t SET n = n + 127 FROM u WHERE id = i", None),
    ("UPDATE t SET m = NULL FROM u WHERE id = i", None),
    ("UPDATE t SET x = 5000 FROM u WHERE id = i", None),
    ("UPDATE t SET nope = 1 FROM u WHERE id = i", None),
    ("UPDATE t SET n = 1 FROM u WHERE id = nope", None),
    ("UPDATE t SET n = nope FROM u WHERE id = i", None),
    ("UPDATE t SET n = 1, n = 2 FROM u WHERE id = i", None),
    ("UPDATE t SET n = 1 FROM (SELECT 1 AS id) q WHERE id = q.id", None),
    ("UPDATE t SET n = m FROM (SELECT 1 AS k, 2 AS m) q WHERE id = k", None),
    (
        "MERGE INTO t USING (SELECT 1 AS id, 5 AS n) q ON t.id = q.id"
        " WHEN MATCHED THEN UPDATE SET n = n + 1",
        None,
    ),
    ("UPDATE t SET n = u.n FROM u WHERE id = i", None),
    ("UPDATE t AS k SET n = t.n FROM u WHERE id = i", None),
    ("UPDATE t SET n = ? FROM u WHERE id = i", []),
    ("UPDATE t SET n = ? FROM u WHERE id = i", [1, 2]),
    ("UPDATE t SET n = count(*) FROM u WHERE id = i", None),
    ("DELETE FROM t USING nope WHERE id = i", None),
    ("DELETE FROM t USING u WHERE id = i RETURNING nope", None),
    (
        "MERGE INTO t USING (VALUES (1), (1)) q(k) ON id = k WHEN MATCHED THEN DELETE",
        None,
    ),
    (
        "MERGE INTO t USING (VALUES (71), (71)) q(k) ON id = k"
        " WHEN NOT MATCHED THEN INSERT (id) VALUES (k)",
        None,
    ),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id) VALUES (i)", None),
    (f"{MERGE} AND c > 100 WHEN NOT MATCHED THEN INSERT (id) VALUES (i)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (i)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (i, t.s)", None),
    (f"{MERGE} WHEN NOT MATCHED THEN INSERT", None),
    (f"{MERGE} WHEN MATCHED THEN INSERT (id) VALUES (i)", None),
]


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEWS, NAMES, path)


def run(both: Twin, sql: str, params: Any) -> bool:
    """Runs a statement in both; for the plain DuckDB, a query stands in the place of the view."""
    query = "(SELECT n % 2 AS odd, count(*) AS c FROM t GROUP BY 1)"
    plain = sql.replace("FROM v AS q", f"FROM {query} AS q")
    return both.compare(lambda db: db.execute(plain if db is both.duck else sql, params))


@pytest.mark.parametrize(("sql", "params"), FAST)
def test_the_source_alone_is_read_by_duckdb(sql: str, params: Any) -> None:
    demand_fast(twin(), sql, params, run)


@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(sql: str, params: Any) -> None:
    demand_native(twin(), sql, params)


@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(sql: str, params: Any) -> None:
    demand_refused(twin(), sql, params, "UPDATE t SET n = 3 FROM u WHERE id = i")


statements = st.lists(st.sampled_from([*FAST, *FAST, *NATIVE, *WRONG]), max_size=8)


@settings(max_examples=examples(20), deadline=None)
@given(history=st.lists(st.tuples(st.booleans(), statements), max_size=4), few=st.booleans())
def test_any_history_leaves_what_duckdb_has(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[bool, Any]], few: bool
) -> None:
    with few_rows_expected() if few else contextlib.nullcontext():
        run_history(twin(tmp_path_factory.mktemp("twin") / "t.duckdb"), history, run)


KEYS = {
    "INTEGER": ["-1", "0", "2"],
    "HUGEINT": ["-1", "0", "170141183460469231731687303715884105727"],
    "DECIMAL(9,2)": ["1.5", "-0.01", "0"],
    "DOUBLE": ["0.0", "-0.0", "1.5", "'inf'", "'nan'"],
    "VARCHAR": ["''", "'a'", "'A'", "'ä'"],
    "DATE": ["'0001-01-01'", "'1969-12-31'", "'infinity'"],
    "TIMESTAMPTZ": ["'1969-12-31 23:00:00Z'", "'2024-02-29'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'f0000000-0000-0000-0000-000000000001'"],
    "BOOLEAN": ["true", "false"],
    "BLOB": ["''", "'a'", r"'\x00'"],
}


@pytest.mark.parametrize("type", KEYS)
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_keys_of_every_type(type: str, data: st.DataObject) -> None:
    """Random sources, with NULLs and repeated keys, against tables of any key."""
    both = Twin(
        f"CREATE TABLE t (v INTEGER, k {type} PRIMARY KEY, w INTEGER DEFAULT 3);"
        f"CREATE TABLE s (k {type}, v INTEGER)",
        "CREATE MATERIALIZED VIEW s_of_v AS SELECT sum(v) AS v, sum(w) AS w FROM t",
        ("t", "s"),
    )
    keys = st.sampled_from([*KEYS[type], "NULL"])
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(st.lists(st.tuples(keys, st.integers(0, 9)), min_size=1, max_size=4))
        cells = ", ".join(f"(CAST({key} AS {type}), {value})" for key, value in rows)
        both.run("DELETE FROM s")
        assert both.run(f"INSERT INTO s VALUES {cells}")
        sql = data.draw(
            st.sampled_from(
                [
                    "INSERT INTO t (k, v) SELECT k, v FROM s",
                    "INSERT INTO t (k, v) SELECT k, v FROM s ON CONFLICT DO NOTHING",
                    "DELETE FROM t USING s WHERE t.k = s.k AND s.v > 3 RETURNING t.k",
                    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.v > 5 THEN DELETE"
                    " WHEN MATCHED THEN UPDATE SET v = s.v + t.v"
                    " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
                ]
            )
        )
        both.run(sql)
        both.run("UPDATE t SET w = t.w + 1 FROM (SELECT DISTINCT k FROM s) q WHERE t.k = q.k")
    both.check()


def test_a_transaction_stays_fast_and_sees_its_own_changes() -> None:
    both = twin()
    assert both.run("UPDATE t SET n = 1 FROM u WHERE id = i")  # the index has all columns now
    with watched() as seen:
        for sql in (
            "BEGIN",
            "INSERT INTO t (id) VALUES (40)",
            "UPDATE t SET n = q.k FROM (SELECT 40 AS i, 3 AS k) q WHERE id = i RETURNING *",
            "DELETE FROM t USING u WHERE id = i",
            "MERGE INTO t USING u ON id = i AND i > 3 WHEN NOT MATCHED AND i > 3"
            " THEN INSERT (id, n) VALUES (i, 1)",
        ):
            assert both.run(sql)
        assert seen == []
        assert both.run("UPDATE u SET c = t.n FROM t WHERE i = id")
        assert both.run("UPDATE t SET x = c FROM u WHERE id = i")
        assert len(seen) == 2
        assert both.run("COMMIT")
    both.check()


def test_a_collation_of_the_source() -> None:
    both = Twin(
        "CREATE TABLE t (k VARCHAR PRIMARY KEY, n INTEGER); INSERT INTO t VALUES ('a', 0);"
        "CREATE TABLE s (k VARCHAR COLLATE NOCASE); INSERT INTO s VALUES ('A')",
        "CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS n FROM t",
    )
    assert both.run("UPDATE t SET n = n + 1 FROM s WHERE t.k = s.k")
    assert both.run("UPDATE t SET n = n + 1 FROM (SELECT 'A' COLLATE NOCASE AS j) q WHERE k = j")
    assert both.run("CREATE TEMP TABLE mine (j VARCHAR COLLATE NOCASE)")
    assert both.run("INSERT INTO mine VALUES ('A')")
    assert both.run("UPDATE t SET n = n + 1 FROM mine WHERE k = j")
    both.check()


def test_triggers_and_other_constraints_go_through_duckdb() -> None:
    db = ivm.connect()
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, g INTEGER AS (n * 2))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(g) AS g FROM t")
    with watched() as seen:
        db.execute("INSERT INTO t (id, n) SELECT i, i FROM range(5) r(i)")
        db.execute("UPDATE t SET n = 7 FROM (SELECT 3 AS i) q WHERE id = i")
        assert len(seen) == 2
    assert db.execute("FROM v").fetchall() == [(28,)]
    db.close()


def test_a_late_index_finds_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is still being read while the first statements change it."""
    monkeypatch.setattr("ivm.engine.key_indexes.LARGE", 1)
    both = twin(tmp_path / "t.duckdb")
    for sql, params in FAST:
        assert run(both, sql, params)
    both.check()
    both.reopen()
    both.check()
    both.db.close()
