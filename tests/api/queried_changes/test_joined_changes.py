"""UPDATE, DELETE and MERGE by the fast path do what DuckDB does, whoever finds the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.changes import matching
from tests.support.change_ways import (
    WAYS,
    demand_fast,
    demand_native,
    demand_refused,
    run_history,
    sources_in_memory,
)
from tests.support.duckdb_twin import Twin, watched
from tests.support.met_rows_cases import (
    BY_KEY,
    LOOKED,
    NATIVE,
    QUERIED,
    WRONG,
    run,
    twin,
)
from tests.tiers import examples


@pytest.mark.full
@pytest.mark.cases(12)
@pytest.mark.parametrize(("sql", "params"), BY_KEY)
def test_the_source_alone_is_read_by_duckdb(sql: str, params: Any) -> None:
    demand_fast(twin(), sql, params, run)


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), BY_KEY)
def test_the_source_may_be_in_memory(sql: str, params: Any) -> None:
    with sources_in_memory():
        demand_fast(twin(), sql, params, run)


@pytest.mark.full
@pytest.mark.cases(6)
@pytest.mark.parametrize(("sql", "params"), NATIVE)
def test_anything_else_is_left_to_duckdb(sql: str, params: Any) -> None:
    demand_native(twin(), sql, params)


@pytest.mark.cases(12)
@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_is_refused(sql: str, params: Any) -> None:
    demand_refused(twin(), sql, params, "UPDATE t SET n = 3 FROM u WHERE id = i")


statements = st.lists(
    st.sampled_from([*BY_KEY, *LOOKED, *BY_KEY, *LOOKED, *QUERIED, *NATIVE, *WRONG]), max_size=8
)


@pytest.mark.full
@settings(max_examples=examples(30), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), statements), max_size=4),
    way=st.sampled_from(list(WAYS)),
    most=st.sampled_from([-1, 1 << 20]),
)
def test_any_history_leaves_what_duckdb_has(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[bool, Any]],
    way: str,
    most: int,
) -> None:
    with WAYS[way](), pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "MOST_LOOKED_AT", most)
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


@pytest.mark.full
@pytest.mark.cases(6)
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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
    monkeypatch.setattr("ivm.engine.tables.key_indexes.LARGE", 1)
    both = twin(tmp_path / "t.duckdb")
    for sql, params in BY_KEY:
        assert run(both, sql, params)
    both.check()
    both.reopen()
    both.check()
    both.db.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET (a, b) = (c, d || b) FROM s WHERE id = i RETURNING *",
        "UPDATE t SET (a, b) = ROW (a + 1, 'q') WHERE a > 2",
        "UPDATE t SET (b) = (c,) FROM s WHERE id = i RETURNING *",
        'UPDATE t SET (b) = (("row"(a))), a = 7 WHERE a > 2',
        "INSERT INTO t SELECT i, c, d FROM s ON CONFLICT (id) DO UPDATE SET (b) = ROW(excluded.a)",
        "UPDATE t SET (a, b) = ((SELECT max(c) FROM s), 'q') WHERE id = 1",
        "MERGE INTO t USING s ON id = i WHEN MATCHED THEN UPDATE SET (b, a) = (d, c)"
        " WHEN NOT MATCHED THEN INSERT VALUES (i, c, d)",
    ],
)
def test_lists_of_columns_are_set_one_by_one(sql: str) -> None:
    setup = """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b VARCHAR);
        CREATE TABLE s (i INTEGER, c INTEGER, d VARCHAR);
        INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y');
        INSERT INTO s VALUES (1, 9, 'z')
    """
    view = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS a FROM t"
    demand_fast(Twin(setup, view), sql)
