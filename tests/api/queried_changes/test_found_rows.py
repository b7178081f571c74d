"""How rows are found for UPDATE and DELETE by any condition; see `test_joined_changes`, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.changes import matching, source_rows
from ivm.ingest.key_index import KeyIndex
from ivm.storage.arrangement import merger, spine, write_buffer
from tests.support.change_ways import demand_fast, demand_native
from tests.support.duckdb_twin import Twin, watched
from tests.support.met_rows_cases import LOOKED, QUERIED, run, twin
from tests.tiers import examples


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize(("sql", "params"), LOOKED)
def test_a_look_at_all_needs_no_query(
    sql: str, params: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_rows, "described", None)
    demand_fast(twin(), sql, params, run)


@pytest.mark.full
@pytest.mark.cases(12)
@pytest.mark.parametrize(("sql", "params"), [*LOOKED, *QUERIED])
def test_duckdb_finds_the_rows_else(sql: str, params: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MOST_LOOKED_AT", -1)
    both = twin()
    demand_fast(both, sql, params, run)
    demand_fast(both, sql, params, run)  # over few rows, by now


@pytest.mark.full
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_a_look_at_all_entries_finds_the_rows_as_they_are_now(data: st.DataObject) -> None:
    """Random rows, changed so often that the index has many runs, with entries that cancel."""
    both = Twin(
        "CREATE TABLE t (a VARCHAR, b INTEGER, n INTEGER, s VARCHAR, PRIMARY KEY (a, b))",
        "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, min(s) AS s FROM t GROUP BY n",
        ("t",),
    )
    numbers = st.one_of(st.none(), st.integers(0, 4))
    for _ in range(data.draw(st.integers(1, 12))):
        n, m = data.draw(numbers), data.draw(numbers)
        sql, params = data.draw(
            st.sampled_from(
                [
                    (
                        f"INSERT OR REPLACE INTO t SELECT 'k' || i % 3, i, {m or 0}, 's' || i"
                        f" FROM range({n or 9}) r(i)",
                        None,
                    ),
                    ("UPDATE t SET n = ?, s = s || a WHERE n = ? OR s IS NULL", [n, m]),
                    ("UPDATE t SET n = n + 1 WHERE n BETWEEN ? AND ? RETURNING *", [m, n]),
                    ("UPDATE t SET s = NULL WHERE n IS NOT DISTINCT FROM ?", [n]),
                    ("DELETE FROM t WHERE n < ? AND s LIKE ?", [m, "s%"]),
                    ("DELETE FROM t WHERE a > 'k1' AND n = ?", [n]),
                    ("BEGIN", None),
                    ("COMMIT", None),
                    ("ROLLBACK", None),
                ]
            )
        )
        both.run(sql, params)
    both.run("ROLLBACK")
    both.check()


@pytest.mark.full
@pytest.mark.parametrize("where", ["id < 20", "n >= 0"])
def test_rows_that_were_updated_again_and_again_are_few(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their earlier updates have left in the index: no query, and so no flush."""
    monkeypatch.setattr(source_rows, "described", None)
    monkeypatch.setattr(matching, "MOST_ROWS", 20)
    monkeypatch.setattr(write_buffer, "TAIL_ROWS", 0)
    monkeypatch.setattr(spine, "schedule", merger.Merge)
    monkeypatch.setattr(spine, "FOREGROUND_ROWS", 0)
    both = Twin(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)",
        "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n",
        ("t",),
    )
    assert both.run("INSERT INTO t SELECT i, 0 FROM range(20) r(i)")
    for _ in range(4):
        assert both.run(f"UPDATE t SET n = n + 1 WHERE {where}")
    both.check()


@pytest.mark.full
def test_a_transaction_stays_fast_until_duckdb_must_see_its_changes() -> None:
    both = twin()
    with watched() as seen:
        for sql in (
            "BEGIN",
            "UPDATE t SET n = 4 WHERE n = 1",
            "UPDATE t SET s = 'q' WHERE id = 2",
            "UPDATE t SET x = 0 WHERE n = 4 OR s = 'q' RETURNING id",
        ):
            assert both.run(sql)
        assert seen == []
        assert both.run("UPDATE t SET x = 1 WHERE n = (SELECT max(n) FROM t) RETURNING id")
        assert len(seen) == 1
        assert both.run("UPDATE t SET x = 2 WHERE s = 'q'")
        assert both.run("COMMIT")
    both.check()


RANGES = {
    "BIGINT": ["-5", "0", "3", "9223372036854775807", "3.5", "NULL"],
    "UTINYINT": ["0", "3", "255", "256", "-1"],
    "DATE": ["'2024-01-01'", "DATE '2024-01-05'", "'infinity'"],
    "TIMESTAMP": ["'2024-01-01'", "TIMESTAMP '2024-01-01 12:00:00'", "DATE '2024-01-03'"],
    "DOUBLE": ["0.5", "'nan'", "'-inf'", "-0.0", "2"],
    "VARCHAR": ["''", "'b'", "'k1'"],
}
STORED = {
    "BIGINT": "i - 3", "UTINYINT": "i", "DATE": "DATE '2024-01-01' + i::INTEGER",
    "TIMESTAMP": "TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR", "DOUBLE": "i / 2 - 1",
    "VARCHAR": "'k' || i",
}  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize("type", RANGES)
@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_ranges_of_the_key(type: str, data: st.DataObject) -> None:
    """Bounds of any kind and to any side, with further conditions, on rows that have changed."""
    both = Twin(
        f"CREATE TABLE t (n INTEGER, k {type} PRIMARY KEY, m INTEGER);"
        f"INSERT INTO t SELECT i, {STORED[type]}, 0 FROM range(20) r(i)",
        "CREATE MATERIALIZED VIEW v AS SELECT m, count(*) AS c, sum(n) AS n FROM t GROUP BY m",
        ("t",),
    )
    values = st.sampled_from(RANGES[type])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "MOST_LOOKED_AT", data.draw(st.sampled_from([-1, 1 << 20])))
        for _ in range(data.draw(st.integers(1, 5))):
            a, b = data.draw(values), data.draw(values)
            found = data.draw(
                st.sampled_from(
                    [
                        f"k BETWEEN {a} AND {b}",
                        f"k >= {a} AND k < {b}",
                        f"{a} < k AND n % 2 = 0",
                        f"(k > {a} OR n = 3) AND k <= {b}",
                        f"n > 5 AND ({b} >= t.k AND (k <> {a}))",
                        f"NOT k > {a}",
                    ]
                )
            )
            verb = data.draw(
                st.sampled_from(["UPDATE t SET m = m + 1, n = n + 1", "DELETE FROM t"])
            )
            both.run(f"{verb} WHERE {found} RETURNING *")
            both.check()


@pytest.mark.full
def test_a_range_of_the_key_needs_no_look_at_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    both = twin()
    both.run("UPDATE t SET n = 1 WHERE id = 3")  # the index is there
    monkeypatch.setattr(KeyIndex, "where", None)
    monkeypatch.setattr(source_rows, "described", None)
    both.run("DELETE FROM t WHERE id > ? AND id <= ? AND n < 9 RETURNING *", [3, 7])
    both.check()


@pytest.mark.full
def test_a_python_function_is_called_once_a_row() -> None:
    both = twin()
    calls: list[int] = []

    def counted(n: int) -> int:
        calls.append(n)
        return n

    both.db.create_function(ivm.Function("counted", counted, ["BIGINT"], "BIGINT"))
    both.db.execute("DELETE FROM t WHERE counted(id) = 3")
    assert sorted(calls) == [*range(12), 77]
    assert both.db.execute("SELECT count(*) FROM t").fetchone() == (12,)


@pytest.mark.full
def test_what_is_drawn_by_chance_is_drawn_once() -> None:
    """Whatever rows are chosen, the views and the count tell of the same ones."""
    both = twin()
    for _ in range(5):
        (gone,) = both.db.execute("DELETE FROM t WHERE random() < 0.3").fetchone() or ()
        left = both.db.execute("SELECT count(*) FROM t").fetchone()
        assert both.db.execute("SELECT coalesce(sum(c), 0) FROM v").fetchone() == left
        both.db.execute(
            f"INSERT INTO t (id) SELECT 1000 + max(id) + i FROM t, range({gone}) r(i) GROUP BY i"
        )


@pytest.mark.full
@pytest.mark.parametrize("most", [-1, 1 << 20])
def test_many_rows_are_left_to_duckdb(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("ivm.changes.rows.evaluation.MOST_ROWS", 5)
    monkeypatch.setattr(matching, "MOST_ROWS", 5)
    monkeypatch.setattr(matching, "MOST_LOOKED_AT", most)
    demand_native(twin(), "UPDATE t SET n = 3 WHERE id > 1")
