"""UPDATE and DELETE find rows by the user's own indexes, as DuckDB would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.engine.tables import key_indexes
from tests.support.change_ways import told_way
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s VARCHAR, m DECIMAL(9,2) DEFAULT 1);
INSERT INTO t SELECT i, i % 4, CASE WHEN i % 5 > 0 THEN 's' || i % 3 END, i FROM range(30) r(i);
CREATE INDEX by_n ON t (n);
CREATE INDEX by_both ON t ("s", m);
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS c, sum(n) AS n FROM t GROUP BY s"
FAST: list[tuple[str, Any]] = [
    ("UPDATE t SET m = m + 1 WHERE n = 1", None),
    ("UPDATE t SET n = n + 1 WHERE n IN (?, ?) AND m > 3 RETURNING id, n", [2, 0]),
    ("UPDATE t SET s = ? WHERE s = 's1' AND m IN (4, 10, 1.5)", ["s2"]),
    ("UPDATE t SET n = NULL, s = upper(s) WHERE n = ? RETURNING *", [3]),
    ("UPDATE t SET n = 2 WHERE n = NULL", None),
    ("DELETE FROM t WHERE n = 2 AND id >= 20 RETURNING id", None),
    ("DELETE FROM t WHERE n IN (1, 7)", None),
]
OTHERS: list[tuple[str, Any]] = [
    ("INSERT OR REPLACE INTO t VALUES (3, 1, 's2', 4), (40, 2, 's1', 10)", None),
    ("INSERT INTO t (id, n) SELECT 50 + i, i FROM range(3) r(i) ON CONFLICT DO NOTHING", None),
    ("DELETE FROM t WHERE id = 5", None),
    ("UPDATE t SET n = 1, m = 4 WHERE id > 15", None),
    ("UPDATE t SET s = 's1' WHERE s = 's2'", None),
]


@pytest.mark.parametrize("large", [False, True])
@settings(max_examples=examples(15), deadline=None)
@given(
    history=st.lists(
        st.tuples(st.booleans(), st.lists(st.sampled_from([*FAST, *FAST, *OTHERS]), max_size=5)),
        max_size=4,
    )
)
def test_any_history(
    large: bool, history: list[tuple[bool, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(key_indexes, "LARGE", 0)
        both = Twin(TABLES, VIEW, path=tmp_path_factory.mktemp("twin") / "t.duckdb")
        for number, (keep, statements) in enumerate(history):
            both.run("BEGIN")
            for sql, params in statements:
                assert both.run(sql, params)
            both.run("COMMIT" if keep else "ROLLBACK")
            for sql, params in statements[:2]:
                both.run(sql, params)
            both.check()
            if number == 1:
                both.reopen()
        both.db.close()


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), FAST)
def test_no_duckdb_is_needed(sql: str, params: Any, tmp_path: Path) -> None:
    both = Twin(TABLES, VIEW, path=tmp_path / "t.duckdb")
    for _ in range(2):
        with watched() as seen:
            assert both.run(sql, params)
            assert both.run("UPDATE t SET n = 1 WHERE n = 2")
            assert seen == []
        both.check()
        both.reopen()
    both.db.close()


def test_it_is_dropped_with_the_index() -> None:
    both = Twin(TABLES, VIEW)
    sql = "UPDATE t SET m = m + 7 WHERE n = 1"
    by_index = "fast path: rows are found in an arrangement of the index (n)"
    both.run(sql)
    assert told_way(both, sql) == by_index
    both.run("DROP INDEX by_n")
    both.run(sql)
    assert told_way(both, sql).startswith("fast path: rows are found by a look at all")
    both.run("CREATE INDEX again ON t (n)")
    both.run(sql)
    assert told_way(both, sql) == by_index
    both.check()
    both.run("ALTER TABLE t ADD COLUMN z INTEGER")
    both.run("UPDATE t SET z = 9 WHERE n = 1")
    both.check()


@pytest.mark.full
def test_an_update_of_other_columns_leaves_it_as_it_is() -> None:
    both = Twin(TABLES, VIEW)
    assert both.run("UPDATE t SET m = 7 WHERE n = 1")
    index = both.db._engine.indexes.secondary._known["t", (1,)]
    held = index._rows
    for sql in (
        "UPDATE t SET m = 8, s = 'new' WHERE n = 1",
        "UPDATE t SET m = m + 1 WHERE id = 4",
        "UPDATE t SET m = o.m FROM (SELECT i, i * 2 AS m FROM range(25) r(i)) o WHERE id = o.i",
    ):
        assert both.run(sql)
        assert index._rows is held
    assert both.run("UPDATE t SET n = 2 WHERE n = 1 AND id > 10")
    assert index._rows is not held
    both.check()
