"""Foreign keys without DuckDB: checked both ways, at each statement, as DuckDB checks them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.engine.engine import Engine
from ivm.engine.opening import opening
from ivm.engine.tables import key_indexes
from tests.support.change_ways import demand_fast, demand_same_words, run_history
from tests.support.duckdb_twin import Twin, watched
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TABLES = """
CREATE TABLE p (id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v INTEGER, l INTEGER[]);
CREATE TABLE pair (a VARCHAR, b INTEGER, v INTEGER, PRIMARY KEY (a, b));
CREATE TABLE c (id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p (id), w INTEGER, b INTEGER,
                a VARCHAR, FOREIGN KEY (a, b) REFERENCES pair (a, b));
CREATE TABLE d (n INTEGER, pu INTEGER REFERENCES p (u), cid INTEGER REFERENCES c (id));
CREATE TABLE f (id INTEGER PRIMARY KEY, pid INTEGER REFERENCES p (id),
                pu INTEGER REFERENCES p (u));
CREATE TABLE e (id INTEGER PRIMARY KEY REFERENCES p (id), x INTEGER);
INSERT INTO p VALUES (1, 10, 0, [1]), (2, 20, 0, NULL), (3, 30, 0, [3]), (4, NULL, 0, []);
INSERT INTO pair VALUES ('x', 1, 1), ('x', 2, 2), ('y', 1, 3);
INSERT INTO c VALUES (1, 1, 0, 1, 'x'), (2, NULL, 0, NULL, 'x'), (3, 2, 0, 1, NULL);
INSERT INTO d VALUES (1, 10, 1), (1, NULL, NULL);
INSERT INTO e VALUES (2, 1);
INSERT INTO f VALUES (1, 2, 10);
"""
VIEWS = """
CREATE MATERIALIZED VIEW m AS SELECT p.id, p.u, p.v, count(c.id) AS n, sum(c.w) AS w
FROM p LEFT JOIN c ON c.pid = p.id GROUP BY ALL;
CREATE MATERIALIZED VIEW o AS SELECT count(*) AS n, sum(pu) AS pu FROM d;
"""
NAMES = ("p", "pair", "c", "d", "e", "f")
FAST = [
    "INSERT INTO c VALUES (5, 3, 1, 2, 'x'), (6, NULL, 1, 9, NULL)",
    "INSERT INTO d VALUES (2, 20, 2), (2, NULL, 3) RETURNING *",
    "INSERT INTO e VALUES (3, 3)",
    "INSERT OR IGNORE INTO c VALUES (1, 77, 0, 0, 'q')",
    "INSERT INTO c (id, pid) VALUES (3, 9) ON CONFLICT DO UPDATE SET w = w + 1",
    "UPDATE c SET w = w + 1 WHERE id IN (1, 3)",
    "UPDATE f SET pid = 3, pu = 20 WHERE id = 1 RETURNING *",
    "INSERT OR REPLACE INTO f VALUES (1, 4, NULL) RETURNING id",
    "UPDATE p SET v = v + 1 WHERE id IN (1, 2)",
    "INSERT INTO p (id, u, v) VALUES (1, 10, 8) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "DELETE FROM p WHERE id IN (3, 4)",
    "DELETE FROM pair WHERE a = 'y' AND b = 1",
    "DELETE FROM c WHERE id = 3",
    "DELETE FROM e WHERE id = 2",
    "INSERT INTO c SELECT 10 + i, i, 0, NULL, NULL FROM range(1, 3) r(i)",
    "INSERT OR IGNORE INTO c (id, pid) SELECT id, id FROM p WHERE id < 4",
    "UPDATE f SET pid = q.k FROM (SELECT 1 AS i, 4 AS k) q WHERE id = i",
    "UPDATE p SET v = c.w + 1 FROM c WHERE p.id = c.id",
    "DELETE FROM p USING c WHERE p.id = c.id AND c.id = 3",
    "MERGE INTO e USING (SELECT id AS k FROM p WHERE id > 1) q ON id = k"
    " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (k, k)",
    "MERGE INTO f USING (SELECT id AS k FROM p WHERE id < 4) q ON id = k"
    " WHEN MATCHED THEN UPDATE SET pid = k + 2 WHEN NOT MATCHED THEN INSERT VALUES (k, k, 20)",
]
WRONG = [
    "INSERT INTO c (id, pid) VALUES (5, 2), (6, 9)",
    "INSERT INTO c (id, a, b) VALUES (5, 'x', 3)",
    "INSERT INTO d VALUES (1, 11, NULL)",
    "INSERT INTO e VALUES (9, 1)",
    "INSERT OR REPLACE INTO c VALUES (1, 77, 0, 1, 'x')",
    "INSERT OR IGNORE INTO c (id, pid) VALUES (8, 77)",
    "UPDATE c SET pid = 9 WHERE id = 1",
    "UPDATE c SET a = 'y', b = 2 WHERE id = 2",
    "UPDATE c SET id = 8 WHERE id = 1",
    "UPDATE f SET pid = 9 WHERE id = 1",
    "INSERT OR REPLACE INTO f VALUES (1, 4, 21)",
    "UPDATE p SET v = v + 1 WHERE id = 1 RETURNING v",
    "INSERT INTO p (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 5 RETURNING v",
    "DELETE FROM p WHERE id = 1",
    "DELETE FROM p WHERE id IN (3, 2)",
    "DELETE FROM pair WHERE a = 'x' AND b = 1",
    "DELETE FROM c WHERE id = 1",
    "UPDATE p SET u = 11 WHERE id = 1",
    "UPDATE p SET id = 9 WHERE id = 1",
    "UPDATE p SET l = [7] WHERE id = 1",
    "INSERT INTO p (id, u) VALUES (1, 12) ON CONFLICT (id) DO UPDATE SET u = excluded.u",
    "INSERT INTO c (id, pid) SELECT 5 + i, 3 + i FROM range(5) r(i)",
    "UPDATE f SET pid = k FROM (SELECT 1 AS i, 9 AS k) q WHERE id = i",
    "DELETE FROM p USING c WHERE p.id = c.id",
    "MERGE INTO p USING c ON p.id = c.id WHEN MATCHED THEN DELETE",
    "MERGE INTO f USING (SELECT 8 AS k) q ON id = k WHEN NOT MATCHED THEN INSERT VALUES (k, k, 20)",
]
NATIVE = [
    "INSERT OR REPLACE INTO c VALUES (3, 3, 5, 1, 'y') RETURNING id",
    "UPDATE c SET pid = 3, w = 2 WHERE id = 2 RETURNING *",
    "UPDATE c SET a = 'y' WHERE id = 2",
    "UPDATE p SET u = u + 1 WHERE id = 3",
    "UPDATE p SET l = [9] WHERE id = 3",
    "UPDATE p SET id = 8 WHERE id = 3",
    "DELETE FROM c WHERE pid > 5",
    "MERGE INTO c USING p ON c.id = p.id WHEN MATCHED THEN UPDATE SET w = p.id"
    " WHEN NOT MATCHED THEN INSERT (id, w) VALUES (p.id, 77 // p.v)",
    "UPDATE c SET pid = 1 WHERE w = 0 AND id > 9",
]


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEWS, NAMES, path)


@pytest.mark.full
@pytest.mark.cases(8)
@pytest.mark.parametrize("sql", FAST)
def test_no_duckdb_is_needed(sql: str) -> None:
    demand_fast(twin(), sql)


@pytest.mark.full
@pytest.mark.cases(7)
@pytest.mark.parametrize("sql", WRONG)
def test_what_duckdb_refuses_is_refused_in_its_words(sql: str) -> None:
    demand_same_words(twin(), sql)


few = st.integers(1, 5)
ends = st.sampled_from(["'x', 1", "'x', 2", "'y', 1", "NULL, 1", "'y', NULL"])


@st.composite
def statements(draw: st.DrawFn) -> str:
    a, b, n = draw(few), draw(few), draw(st.integers(0, 99))
    pid = draw(st.sampled_from([str(b), "NULL"]))
    end = draw(ends)
    return draw(
        st.sampled_from(
            [
                *FAST,
                *NATIVE,
                f"INSERT INTO p VALUES ({a}, {n}, 0, NULL)",
                f"INSERT OR IGNORE INTO p (id, u) VALUES ({a}, {n}), ({b}, {n + 1})",
                f"INSERT INTO p (id, u) VALUES ({a}, 5) ON CONFLICT (id) DO UPDATE SET v = {n}",
                f"INSERT OR REPLACE INTO f VALUES ({b}, {pid}, {a}0), ({n}, {a}, NULL)",
                f"UPDATE f SET pid = {pid} WHERE id = {a}",
                f"INSERT INTO c (id, pid) SELECT {n} + i, {pid} FROM range({a % 3}) r(i)",
                f"INSERT INTO p (id, u) SELECT {n} + i, {n} + i FROM range({a}) r(i)",
                f"UPDATE f SET pid = {pid} FROM p WHERE f.id = p.id AND p.id <> {b}",
                f"UPDATE p SET v = p.v + c.w FROM c WHERE p.id = c.id AND c.id <> {b}",
                f"DELETE FROM p USING e WHERE p.id = e.id + {a} - {b}",
                f"DELETE FROM p USING (SELECT {a} AS k UNION SELECT {b}) q WHERE p.id = q.k",
                f"MERGE INTO f USING (SELECT {a} + i AS k FROM range({b}) r(i)) q ON f.id = q.k"
                f" WHEN MATCHED AND k > {b} THEN DELETE WHEN MATCHED THEN UPDATE SET pid = k - {a}"
                f" WHEN NOT MATCHED THEN INSERT VALUES (k, {pid}, NULL)",
                f"MERGE INTO p USING (SELECT {a} + i AS k FROM range({b}) r(i)) q ON p.id = q.k"
                f" WHEN MATCHED AND k > {b} THEN DELETE WHEN MATCHED THEN UPDATE SET v = p.v + 1"
                f" WHEN NOT MATCHED THEN INSERT (id, u) VALUES (k, k * 10)",
                f"UPDATE f SET pu = {b}0, pid = {a} WHERE id = 1 RETURNING *",
                f"DELETE FROM f WHERE id IN ({a}, {b})",
                f"INSERT INTO pair VALUES ({end}, 5)"
                if "NULL" not in end
                else "DELETE FROM d WHERE n = 2",
                f"INSERT INTO c (id, pid, a, b) VALUES ({a}, {pid}, {end})",
                f"INSERT OR REPLACE INTO c (id, pid, w) VALUES ({a}, {pid}, {n}), ({b}, {a}, 1)",
                f"INSERT INTO d VALUES (3, {b}0, {a})",
                f"INSERT INTO e VALUES ({a}, {n})",
                f"UPDATE c SET pid = {pid} WHERE id = {a}",
                f"UPDATE c SET w = {n} WHERE id IN ({a}, {b})",
                f"UPDATE p SET v = {n} WHERE id = {a}",
                f"UPDATE p SET u = {n} WHERE id = {a}",
                f"DELETE FROM p WHERE id = {a}",
                f"DELETE FROM p WHERE id IN ({a}, {b})",
                f"DELETE FROM c WHERE id = {a}",
                f"DELETE FROM c WHERE pid = {a}",
                f"DELETE FROM d WHERE n = {a}",
                f"DELETE FROM e WHERE id = {a}",
                "DELETE FROM pair WHERE a = 'x' AND b IN (1, 2)",
            ]
        )
    )


@pytest.mark.full
@pytest.mark.parametrize("large", [False, True])
@settings(max_examples=examples(15), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), st.lists(statements(), max_size=6)), max_size=5),
    indexed=st.booleans(),
)
def test_any_history(
    large: bool,
    history: list[tuple[bool, list[str]]],
    indexed: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(key_indexes, "LARGE", 0)
        both = twin(tmp_path_factory.mktemp("twin") / "t.duckdb")
        if indexed:
            both.run("CREATE INDEX by_parent ON c (pid)")
            both.run("CREATE INDEX by_v ON pair (v)")
        run_history(both, history, again=6)


def test_a_child_and_its_parent_go_before_a_flush() -> None:
    """DuckDB refuses both removals in one transaction, so they are flushed in two."""
    both = twin()
    assert both.run("DELETE FROM p WHERE id IN (3, 4)")  # the arrangements are built
    assert both.run("INSERT INTO p VALUES (3, 30, 0, NULL)")
    with watched() as seen:
        for sql in (
            "UPDATE f SET pid = 3 WHERE id = 1",
            "DELETE FROM c WHERE id = 3",
            "DELETE FROM e WHERE id = 2",
            "DELETE FROM p WHERE id = 2",
            "INSERT INTO p VALUES (2, 21, 5, NULL)",
            "INSERT INTO c (id, pid) VALUES (7, 2)",
            "DELETE FROM c WHERE id = 7",
            "DELETE FROM p WHERE id = 2",
        ):
            assert both.run(sql)
        assert seen == []
    both.check()


@pytest.mark.full
def test_what_is_deleted_in_a_transaction_still_refers() -> None:
    both = twin()
    with watched() as seen:
        assert both.run("DELETE FROM c WHERE id = 3")
        assert both.run("DELETE FROM e WHERE id = 2")
        for sql in ("BEGIN", "UPDATE f SET pid = 3 WHERE id = 1"):
            assert both.run(sql)
        assert seen == []
        assert not both.run("DELETE FROM p WHERE id = 2")
    both.run("ROLLBACK")
    both.check()
    both.db.execute("BEGIN")
    both.db.delete("f", {"id": [1]})
    with pytest.raises(errors.ConstraintError, match="still referenced"):
        both.db.delete("p", {"id": [2]})
    both.db.execute("ROLLBACK")
    both.check()
    assert both.run("DELETE FROM f WHERE id = 1")
    assert both.run("DELETE FROM p WHERE id = 2")
    both.check()


def test_calls_with_foreign_keys() -> None:
    with ivm.connect() as db, watched() as seen:
        db.execute(TABLES)
        seen.clear()
        db.insert("c", {"id": [7, 8], "pid": [3, None]})
        with pytest.raises(errors.ConstraintError, match='"id: 9" does not exist'):
            db.insert("c", {"id": [9], "pid": [9]})
        with pytest.raises(errors.ConstraintError, match='"pid: 3" is still referenced'):
            db.delete("p", {"id": [3]})
        db.upsert("c", {"id": [7], "pid": [2]})
        db.delete("p", {"id": [3]})
        db.upsert("p", {"id": [2], "v": [5]})
        assert seen == []
        with pytest.raises(errors.ConstraintError, match="still referenced"):
            db.upsert("p", {"id": [2], "u": [5]})
        db.executemany("INSERT INTO c (id, pid) VALUES (?, ?)", [[i, 1] for i in range(20, 30)])
        with pytest.raises(errors.ConstraintError, match="does not exist"):
            db.executemany("INSERT INTO c (id, pid) VALUES (?, ?)", [[i, i] for i in range(30, 33)])
        assert db.execute("SELECT count(*) FROM c").fetchall() == [(15,)]


SELF = """
CREATE TABLE t (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t (id), n INTEGER);
CREATE TABLE pair (a INTEGER, b VARCHAR, ua INTEGER, ub VARCHAR, PRIMARY KEY (a, b),
                   FOREIGN KEY (ua, ub) REFERENCES pair (a, b));
INSERT INTO t VALUES (1, NULL, 0);
"""
SELF_VIEWS = """
CREATE MATERIALIZED VIEW m AS SELECT up, count(*) AS c, sum(n) AS n FROM t GROUP BY up;
CREATE MATERIALIZED VIEW o AS SELECT a.b, count(*) AS n FROM pair AS a JOIN pair AS b
    ON a.ua = b.a AND a.ub = b.b GROUP BY a.b
"""


@st.composite
def own_references(draw: st.DrawFn) -> str:
    a, b, c = draw(few), draw(few), draw(few)
    up = draw(st.sampled_from([str(b), "NULL"]))
    return draw(
        st.sampled_from(
            [
                f"INSERT INTO t VALUES ({a}, {up}, 5)",
                f"INSERT INTO t VALUES ({a}, {up}, 5)",
                f"INSERT INTO t VALUES ({a}, {up}, 5), ({b}, {c}, 7)",
                f"INSERT OR IGNORE INTO t VALUES ({a}, {up}, 5), ({b}, {c}, 7)",
                f"INSERT OR REPLACE INTO t VALUES ({a}, {up}, 9)",
                f"UPDATE t SET n = n + 1 WHERE id IN ({a}, {b})",
                f"UPDATE t SET up = {up} WHERE id = {a}",
                f"UPDATE t SET id = id + 10 WHERE id = {a}",
                f"DELETE FROM t WHERE id = {a}",
                f"DELETE FROM t WHERE id IN ({a}, {b})",
                f"INSERT INTO pair VALUES ({a}, 'x', NULL, 'x'), ({b}, 'y', NULL, NULL)",
                f"INSERT INTO pair VALUES ({a}, 'y', {b}, 'x')",
                f"DELETE FROM pair WHERE a = {a} AND b = 'y'",
                f"DELETE FROM pair WHERE a = {a} AND b = 'x'",
            ]
        )
    )


@pytest.mark.full
@settings(max_examples=examples(15), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), st.lists(own_references(), max_size=8)), max_size=5)
)
def test_any_history_of_a_table_that_refers_to_itself(
    history: list[tuple[bool, list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("twin") / "t.duckdb"
    run_history(Twin(SELF, SELF_VIEWS, ("t", "pair"), path), history, again=6)


def test_a_row_that_goes_is_no_parent_of_one_that_comes() -> None:
    with ivm.connect() as db:
        db.execute(SELF)
        with pytest.raises(errors.ConstraintError, match="foreign key"):
            db.apply("t", {"id": [1, 2], "up": [None, 1], "n": [0, 0]}, [-1, 1])
        db.execute("INSERT INTO t VALUES (2, 1, 0)")
        with pytest.raises(errors.ConstraintError, match="foreign key"):
            db.execute(
                "MERGE INTO t USING (VALUES (1), (3)) q(k) ON id = k WHEN MATCHED THEN DELETE"
                " WHEN NOT MATCHED THEN INSERT VALUES (k, 1, 0)"
            )
        assert db.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]


@pytest.mark.full
def test_rows_are_flushed_after_those_they_refer_to() -> None:
    both = Twin(SELF, SELF_VIEWS, ("t", "pair"))
    with watched() as seen:
        for i in range(2, 40):
            assert both.run(f"INSERT INTO t VALUES ({i}, {i // 2}, {i})")
        assert both.run("BEGIN")
        for i in range(40, 60):
            assert both.run(f"INSERT INTO t VALUES ({100 - i}, {101 - i if i > 40 else 1}, {i})")
        assert both.run("INSERT INTO t VALUES (200, 50, 1), (201, 60, 1)")
        assert both.run("COMMIT")
        assert both.run("DELETE FROM t WHERE id IN (200, 201)")
        assert not both.run("DELETE FROM t WHERE id IN (20, 10)")
        assert seen == ["DELETE FROM t WHERE id IN (20, 10)"]  # for its words
    both.check()


CRASH = """
import os, random, sys
import ivm
from tests.api.changes.test_foreign_keys import TABLES, VIEWS
path, seed = sys.argv[1], int(sys.argv[2])
db = ivm.connect(path)
if not db.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'p'").fetchall():
    db.execute(TABLES)
    db.execute(VIEWS)
choose = random.Random(seed)
for i in range(60):
    a, b = choose.randint(1, 6), choose.randint(1, 6)
    sql = choose.choice([
        f"INSERT INTO p (id, u) VALUES ({a}, {a}0)", f"DELETE FROM p WHERE id = {a}",
        f"DELETE FROM f WHERE id = {a}", f"INSERT INTO f VALUES ({a}, {b}, NULL)",
        f"UPDATE f SET pid = {b} WHERE id = {a}", f"DELETE FROM c WHERE id = {a}",
        f"UPDATE p SET v = {i} WHERE id = {a}", f"DELETE FROM d WHERE n = 1",
        f"DELETE FROM e WHERE id = {a}", f"UPDATE p SET u = {i} WHERE id = {a}",
    ])
    try:
        db.execute(sql)
    except ivm.errors.ConstraintError:
        continue
    print(sql, flush=True)
    if choose.random() < 0.05:
        db.execute("SELECT * FROM f").fetchall()
for sql in ("INSERT INTO p (id) VALUES (70)", "INSERT INTO f VALUES (70, 70, NULL)",
            "DELETE FROM f WHERE id = 70", "DELETE FROM p WHERE id = 70"):
    db.execute(sql)
    print(sql, flush=True)
    if sql.startswith("INSERT INTO f"):
        db.execute("SELECT * FROM f").fetchall()
os.kill(os.getpid(), 9)
"""


@pytest.mark.full(smoke=1)
@pytest.mark.parametrize("outdated", [False, True])
def test_commits_are_replayed_in_an_order_that_duckdb_takes(
    tmp_path: Path, outdated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = duckdb.connect()
    plain.execute(TABLES)
    path = tmp_path / "t.duckdb"
    for seed in range(3):
        command = [sys.executable, "-c", CRASH, str(path), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -9, done.stderr
        statements = done.stdout.splitlines()
        assert len(statements) > 20
        for sql in statements:
            plain.execute(sql)
    if outdated:  # DuckDB's log is longer than we left it: the views are filled anew
        size = tmp_path / "t.duckdb.ivm" / "wal.size"
        size.write_bytes(bytes(8) + size.read_bytes()[8:])
    seen: list[object] = []
    whole = opening._replay_tables

    def noted(engine: Engine) -> None:
        seen.append(engine)
        whole(engine)

    monkeypatch.setattr(opening, "_replay_tables", noted)
    with ivm.connect(path) as db:
        assert bool(seen) == outdated
        for name in NAMES:
            query = f"SELECT * FROM {name} ORDER BY ALL"
            assert db.execute(query).fetchall() == plain.execute(query).fetchall()
        assert_verified(db)
