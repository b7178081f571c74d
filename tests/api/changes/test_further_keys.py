"""UNIQUE constraints and foreign keys without DuckDB: what it takes, refuses and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.engine.tables import key_indexes
from tests.support.change_ways import demand_fast, demand_same_words, run_history
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

UNIQUE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v INTEGER, w VARCHAR, n INTEGER,
                UNIQUE (v, w));
CREATE UNIQUE INDEX by_name ON t (w, n);
CREATE TABLE one (k VARCHAR UNIQUE, n INTEGER);
INSERT INTO t VALUES (1, 10, 0, 'a', 1), (2, 11, 0, 'b', 2), (3, NULL, 1, NULL, NULL);
INSERT INTO one VALUES ('a', 1), (NULL, 2), (NULL, 2);
"""
UNIQUE_VIEWS = """
CREATE MATERIALIZED VIEW x AS SELECT w, count(*) AS c, sum(u) AS u, max(n) AS n FROM t GROUP BY w;
CREATE MATERIALIZED VIEW y AS SELECT k, sum(n) AS n FROM one GROUP BY k
"""
MANY = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c, sum(u) AS u, sum(v) AS v FROM t"
FAST = [
    "INSERT INTO t VALUES (4, 12, 5, 'c', 3), (5, NULL, 5, NULL, NULL), (6, NULL, 5, NULL, NULL)",
    "INSERT OR IGNORE INTO t VALUES (9, 10, 7, 'q', 7), (8, 18, 8, 'r', 8) RETURNING id",
    "INSERT INTO t VALUES (9, 19, 0, 'b', 7) ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (1, 19, 9, 'b', 7) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t VALUES (9, 10, 9, 'x', 7) ON CONFLICT (u) DO UPDATE SET n = excluded.n, v = 9",
    "INSERT INTO t VALUES (9, 19, 0, 'a', 7) ON CONFLICT (w, v) DO UPDATE SET u = 30 RETURNING *",
    "INSERT INTO t VALUES (9, 19, 9, 'a', 1) ON CONFLICT (w, n) DO UPDATE SET u = u + 50",
    "INSERT INTO t VALUES (1, 19, 9, 'a', 1) ON CONFLICT (id) DO UPDATE SET u = excluded.u",
    "UPDATE t SET u = 14, w = 'z' WHERE id = 1 RETURNING *",
    "UPDATE t SET u = 21 - u WHERE id IN (1, 2)",
    "UPDATE t SET n = n + 1 WHERE u = 10",
    "UPDATE t SET n = 5 WHERE v = 0 AND w = 'b'",
    "DELETE FROM t WHERE u IN (10, 11) RETURNING id",
    "DELETE FROM t WHERE w = 'b' AND n = 2",
    "INSERT INTO one VALUES ('b', 1), (NULL, 2)",
    "INSERT OR IGNORE INTO one VALUES ('a', 5), ('c', 5), (NULL, 6) RETURNING *",
    "INSERT INTO one VALUES ('a', 5) ON CONFLICT (k) DO NOTHING",
    "INSERT INTO t SELECT 30 + i, 40 + i, 30, 's' || i, i FROM range(3) r(i)",
    "INSERT INTO t SELECT 1, 10 + i, 9, 'x', 9 FROM range(1) r(i) ON CONFLICT DO NOTHING",
    "UPDATE t SET u = 21 - t.u FROM (VALUES (1), (2)) q(k) WHERE id = k",
    "DELETE FROM t USING one WHERE id = one.n RETURNING id",
    "MERGE INTO t USING (VALUES (1), (9)) q(k) ON id = k WHEN MATCHED THEN UPDATE SET u = 50"
    " WHEN NOT MATCHED THEN INSERT VALUES (k, k, k, 'z', k)",
]
WRONG = [
    "INSERT INTO t VALUES (9, 10, 9, 'x', 9)",
    "INSERT INTO t VALUES (9, 19, 0, 'a', 9)",
    "INSERT INTO t VALUES (9, 19, 9, 'a', 1)",
    "INSERT INTO t VALUES (9, 19, 9, 'x', 9), (8, 19, 8, 'y', 8)",
    "INSERT INTO t VALUES (9, 19, 9, 'x', 9), (8, 18, 9, 'x', 8)",
    "INSERT INTO t VALUES (9, 10, 9, 'x', 9) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO t VALUES (9, 11, 9, 'x', 9) ON CONFLICT (id) DO UPDATE SET n = 1",
    "INSERT INTO t VALUES (1, 11, 9, 'x', 9) ON CONFLICT (id) DO UPDATE SET u = excluded.u",
    "INSERT INTO t VALUES (1, 5, 5, 'x', 9) ON CONFLICT (u) DO UPDATE SET n = 1",
    "UPDATE t SET u = 11 WHERE id = 1",
    "UPDATE t SET u = 60 FROM (VALUES (1), (2)) q(k) WHERE id = k",
    "INSERT INTO t SELECT 9, 10 + i, 9, 'x', 9 FROM range(2) r(i)",
    "MERGE INTO t USING (VALUES (9)) q(k) ON id = k"
    " WHEN NOT MATCHED THEN INSERT VALUES (k, 11, k, 'z', k)",
    "MERGE INTO t USING (VALUES (1), (9)) q(k) ON id = k WHEN MATCHED THEN UPDATE SET u = 50"
    " WHEN NOT MATCHED THEN INSERT VALUES (k, 50, k, 'z', k)",
    "UPDATE t SET u = 50 WHERE id IN (1, 2)",
    "UPDATE t SET v = 0, w = 'a' WHERE id = 2",
    "INSERT OR REPLACE INTO t VALUES (1, 10, 9, 'x', 9)",
    "INSERT INTO t VALUES (1, 10, 9, 'x', 9) ON CONFLICT DO UPDATE SET n = 1",
    "INSERT INTO t VALUES (1, 10, 9, 'x', 9) ON CONFLICT (v) DO NOTHING",
    "INSERT INTO one VALUES ('a', 1)",
]
NATIVE = [
    "INSERT OR REPLACE INTO one VALUES ('a', 9), ('d', 9)",
    "UPDATE one SET k = 'e' WHERE k = 'a'",
    "DELETE FROM one WHERE n = 2",
    "UPDATE t SET id = id + 20 WHERE id > 3",
    "INSERT OR IGNORE INTO one VALUES (NULL, 7), (NULL, 8) RETURNING n",
    "INSERT INTO t VALUES (7, NULL, 7, 'x', 7), (8, NULL, 8, 'x', 8) ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (7, 17, 7, NULL, 7), (8, 18, 7, NULL, 8) ON CONFLICT (id) DO NOTHING",
    "INSERT OR IGNORE INTO t(id) SELECT i FROM range(7, 9) r(i)",
]
COLLATED = """
CREATE TABLE t (k INTEGER DEFAULT 3, a VARCHAR COLLATE NOCASE UNIQUE, d VARCHAR DEFAULT 'x');
CREATE TABLE one (k INTEGER, a VARCHAR COLLATE NOCASE PRIMARY KEY);
CREATE TABLE given (k INTEGER, a VARCHAR COLLATE NOCASE);
INSERT INTO t VALUES (1, 'a', NULL); INSERT INTO one VALUES (1, 'a');
INSERT INTO given VALUES (1, 'i'), (2, 'I'), (3, 'A')
"""
BY_COLLATION = [
    "INSERT INTO t(k, a) VALUES (5, 'A'), (6, 'a') ON CONFLICT (a) DO UPDATE SET k = excluded.k",
    "INSERT INTO one VALUES (7, 'b'), (8, 'B') ON CONFLICT DO NOTHING",
    "INSERT OR REPLACE INTO one VALUES (7, 'd'), (8, 'D'), (9, 'A')",
    "INSERT INTO t VALUES (DEFAULT, 'e', DEFAULT), (8, 'E', 'y') ON CONFLICT DO NOTHING",
    "INSERT INTO t(k, a) SELECT k, a FROM given ON CONFLICT (a) DO UPDATE SET k = excluded.k",
    "WITH w AS (FROM given) INSERT OR REPLACE INTO one SELECT k + 9, a FROM w",
    "INSERT INTO one SELECT * FROM (VALUES (1, 'g'), (2, 'h')) ON CONFLICT DO NOTHING",
    "INSERT INTO t SELECT NULL, 'A', NULL ON CONFLICT (a) DO UPDATE SET d = excluded.d",
]


def twin(path: Path | None = None) -> Twin:
    return Twin(UNIQUE, UNIQUE_VIEWS, ("t", "one"), path)


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize("sql", FAST)
def test_no_duckdb_is_needed(sql: str) -> None:
    demand_fast(twin(), sql)


@pytest.mark.full
@pytest.mark.cases(5)
@pytest.mark.parametrize("sql", WRONG)
def test_what_duckdb_refuses_is_refused_in_its_words(sql: str) -> None:
    demand_same_words(twin(), sql)


@pytest.mark.parametrize("sql", NATIVE)
def test_what_duckdb_decides(sql: str) -> None:
    """Among the rows of one statement it takes NULLs for equal, as a UNIQUE constraint does not."""
    run_history(twin(), [(True, [sql])])


@pytest.mark.parametrize("sql", BY_COLLATION)
def test_rows_of_one_statement_are_compared_by_the_collation(sql: str) -> None:
    """Bug: they were copied without it, and both of two rows were kept, or refused."""
    views = "CREATE MATERIALIZED VIEW v AS SELECT lower(a) AS a, count(*), sum(k) FROM t GROUP BY 1"
    run_history(Twin(COLLATED, views, ("t", "one")), [(True, [sql, sql])])


KEYS = {
    "HUGEINT": "5", "BOOLEAN": "true", "FLOAT": "0.1", "BIT": "'101'", "TIMETZ": "'01:02:03+02'",
    "TIMESTAMP": "'infinity'", "TIMESTAMP_NS": "'2020-01-01 00:00:00.123456789'", "TIME": "'24:00'",
    "BLOB": r"'\xAA\x00b'", "UUID": "'00000000-0000-0000-0000-000000000001'", 
    "DECIMAL(30,2)": "1.5",
    "DATE": "'-infinity'", "ENUM('a', 'b')": "'b'",
}  # fmt: skip


@pytest.mark.parametrize("type", KEYS)
def test_a_key_is_shown_as_duckdb_writes_it(type: str) -> None:
    """Bug: of some types the bytes were, and an infinite time was a fault of ours."""
    said = list[str]()
    with ivm.connect() as db, duckdb.connect() as peer:
        for each in (db, peer):
            each.execute(f"CREATE TABLE t (k {type} UNIQUE)")
            each.execute(f"INSERT INTO t VALUES ({KEYS[type]})")
            with pytest.raises((errors.ConstraintError, duckdb.ConstraintException)) as caught:
                each.execute(f"INSERT INTO t VALUES ({KEYS[type]})")
            said.append(str(caught.value).partition("\n")[0])
    assert said[0] == said[1]


numbers = st.integers(0, 5)
texts = st.sampled_from(["'a'", "'b'", "'c'", "NULL"])


@st.composite
def unique_statements(draw: st.DrawFn) -> str:
    def row() -> str:
        few = [draw(numbers) for _ in range(4)]
        u = "NULL" if few[1] == 5 else few[1] + 10
        return f"({few[0]}, {u}, {few[2] % 3}, {draw(texts)}, {few[3]})"

    rows = ", ".join([row() for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3])))])
    a, b, c = draw(numbers), draw(numbers), draw(texts)
    return draw(
        st.sampled_from(
            [
                *FAST,
                *NATIVE,
                f"INSERT INTO t VALUES {rows}",
                # (of several rows that are in each other's way DuckDB keeps now one, now another)
                f"INSERT OR IGNORE INTO t VALUES {row()}",
                f"INSERT INTO t VALUES {rows} ON CONFLICT (id) DO UPDATE SET n = excluded.n",
                f"INSERT INTO t VALUES {rows} ON CONFLICT (u) DO UPDATE SET v = excluded.v",
                f"INSERT INTO t VALUES {rows} ON CONFLICT (v, w) DO UPDATE SET u = t.u + 1",
                f"UPDATE t SET u = {b} + 10 WHERE id = {a}",
                f"UPDATE t SET u = u + 1 WHERE id IN ({a}, {b})",
                f"UPDATE t SET v = {b}, w = {c} WHERE id = {a}",
                f"UPDATE t SET n = {b} WHERE u = {a} + 10",
                f"DELETE FROM t WHERE id = {a}",
                f"INSERT INTO t SELECT {a} + i, {b} + i + 10, i, {c}, {b} FROM range(2) r(i)",
                f"UPDATE t SET u = t.u + k - {b} FROM (SELECT {a} + i AS k FROM range({b}) r(i)) q"
                " WHERE id = k",
                f"UPDATE t SET v = q.n, w = {c} FROM t AS q WHERE t.id = q.id AND q.id <> {b}",
                f"MERGE INTO t USING (SELECT {a} + i AS k FROM range({b}) r(i)) q ON id = k"
                f" WHEN MATCHED AND k > {b} THEN DELETE WHEN MATCHED THEN UPDATE SET u = k + {a}"
                f" WHEN NOT MATCHED THEN INSERT VALUES (k, k + 10, k, {c}, {b})",
                f"MERGE INTO t USING (SELECT {a} + i AS k FROM range({b}) r(i)) q ON id = k"
                f" WHEN MATCHED AND k > {a} THEN UPDATE SET v = k, w = {c}"
                f" WHEN MATCHED THEN DELETE",
                f"DELETE FROM t WHERE u IN ({a} + 10, 12)",
            ]
        )
    )


histories = st.lists(
    st.tuples(st.booleans(), st.lists(unique_statements(), max_size=6)), max_size=5
)


def _run(both: Twin, sql: str, params: Any = None) -> bool:
    """Runs a statement on both sides; whether it went well.

    In a transaction DuckDB updates what was written in it apart from the other rows, and refuses a
    key that is only then given up. Ours then has keys that are distinct.
    """
    try:
        return both.run(sql, params)
    except pytest.fail.Exception:
        if both.db._session().transaction is None or not sql.startswith(("UPDATE", "MERGE")):
            raise
        for key in ("u", "v, w", "w, n"):
            whole = " AND ".join(f"{column} IS NOT NULL" for column in key.split(", "))
            twice = f"SELECT {key} FROM t WHERE {whole} GROUP BY ALL HAVING count(*) > 1"
            assert both.db.execute(twice).fetchall() == []
        return False


@pytest.mark.full
@pytest.mark.parametrize("large", [False, True])
@settings(max_examples=examples(15), deadline=None)
@given(history=histories)
def test_any_history_of_unique_keys(
    large: bool, history: list[tuple[bool, list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(key_indexes, "LARGE", 0)
        run_history(twin(tmp_path_factory.mktemp("twin") / "t.duckdb"), history, _run, again=6)


def test_a_key_that_a_row_of_the_transaction_gives_up_is_free() -> None:
    """DuckDB refuses it there alone: it updates such rows apart."""
    both = twin()
    both.run("BEGIN")
    assert both.run("UPDATE t SET n = 5 WHERE v = 0 AND w = 'b'")
    assert not _run(both, "UPDATE t SET u = u + 1 WHERE id IN (1, 2)")
    both.run("ROLLBACK")
    both.check()
    both.db.close()


@pytest.mark.full
def test_keys_that_rows_further_on_leave_are_not_free_in_duckdb() -> None:
    """It updates 2048 rows at once."""
    setup = "CREATE TABLE t (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v INTEGER);"
    both = Twin(f"{setup} INSERT INTO t SELECT i, i, i FROM range(2100) r(i)", MANY)
    some, all_ = ", ".join(map(str, range(2000))), ", ".join(map(str, range(2100)))
    for column in ("id", "u"):
        assert both.run(f"UPDATE t SET {column} = {column} + 5000 WHERE id IN ({some})")
        assert both.run(f"UPDATE t SET {column} = {column} - 5000 WHERE {column} >= 5000")
        assert not both.run(f"UPDATE t SET {column} = {column} + 1 WHERE id IN ({all_})")
    joined = "FROM (SELECT i FROM range(2100) r(i)) q WHERE id = i"
    assert not both.run(f"UPDATE t SET u = u + 1 {joined}")
    assert both.run(f"UPDATE t SET v = v + 1 {joined}")
    both.check()


@pytest.mark.full
def test_calls_with_unique_keys() -> None:
    with ivm.connect() as db, watched() as seen:
        db.execute(UNIQUE)
        seen.clear()
        db.insert("t", {"id": [7, 8], "u": [70, None]})
        for rows in ({"id": [9], "u": [70]}, {"id": [9, 10], "u": [90, 90]}):
            with pytest.raises(errors.ConstraintError, match=r"(unique|UNIQUE) constraint"):
                db.insert("t", rows)
            with pytest.raises(errors.ConstraintError, match=r"(unique|UNIQUE) constraint"):
                db.upsert("t", rows)
        db.upsert("t", {"id": [7, 8], "u": [71, 70]})
        with pytest.raises(errors.ConstraintError, match='"u: 70" violates unique'):
            db.upsert("t", {"id": [7], "u": [70]})
        given = {"id": [8, 9], "u": [70, 70], "v": [None, 1], "w": [None, "q"], "n": [None, 1]}
        db.apply("t", given, [-1, 1])
        with pytest.raises(errors.ConstraintError, match='"u: 71" violates unique'):
            db.apply("t", given | {"id": [9, 10], "u": [70, 71]}, [-1, 1])
        found = db.execute("SELECT id, u FROM t WHERE id > 3 ORDER BY id").fetchall()
        assert found == [(7, 71), (9, 70)]
        assert seen == []


@pytest.mark.full
def test_an_index_is_of_the_columns_that_it_names() -> None:
    """Bug: one of "u,v" was taken for one of u and v, and the file refused what was committed."""
    with ivm.connect() as db:
        db.execute('CREATE TABLE t (u INTEGER, v INTEGER, "u,v" INTEGER, "it\'s ""q""" INTEGER)')
        db.execute('CREATE UNIQUE INDEX i ON t ("U,v"); CREATE UNIQUE INDEX j ON t ("it\'s ""q""")')
        with watched() as seen:
            db.execute("INSERT INTO t VALUES (1, 1, 1, 1), (1, 1, 2, 2)")
            for row in ("(2, 2, 1, 3)", "(2, 2, 3, 1)"):
                with pytest.raises(errors.ConstraintError, match="violates unique"):
                    db.execute(f"INSERT INTO t VALUES {row}")
        assert seen == []
        db.flush()


def test_executemany_with_unique_keys() -> None:
    both = twin()
    inserted = [[i, i + 20, i, f"s{i}", i] for i in range(20, 40)]
    both.db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", inserted)
    both.duck.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", inserted)
    for sql, rows in (
        ("UPDATE t SET u = ? WHERE id = ?", [[100 + i, i] for i in range(20, 30)]),
        ("UPDATE t SET u = ? WHERE id = ?", [[200, 20], [120, 21], [121, 20]]),
        ("INSERT OR IGNORE INTO t (id, u) VALUES (?, ?)", [[50, 120], [51, 300], [52, 300]]),
        (
            "INSERT INTO t (id, u) VALUES (?, ?) ON CONFLICT (u) DO UPDATE SET n = 9",
            [[60, 120], [61, 300]],
        ),
    ):
        both.db.executemany(sql, rows)
        both.duck.executemany(sql, rows)
        both.check()
    with pytest.raises(errors.ConstraintError):
        both.db.executemany("UPDATE t SET u = ? WHERE id = ?", [[121, 22], [122, 20]])
    both.check()


@pytest.mark.full
def test_explain_says_which_keys_are_looked_up() -> None:
    both = twin()
    told = both.db.execute("EXPLAIN INSERT INTO t VALUES (9, 9, 9, 'x', 9)").fetchall()[-1][1]
    assert "key index (id); UNIQUE keys in arrangements (u), (v, w), (w, n)" in told
    told = both.db.execute("EXPLAIN DELETE FROM t WHERE u = 1").fetchall()[-1][1]
    assert told == "fast path: rows are found in an arrangement of the index (u)"
