"""EXPLAIN and golden files: which operators maintain a view, and what they make of a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind.bind import bind
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.compile.explain import explain
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.errors import SqlError
from tests.support.golden_cases import FOLDER, TABLES, sections, written


@pytest.mark.full
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden_file_still_holds(path: Path) -> None:
    text = path.read_text()
    assert written(sections(text)) == text


def test_json_names_strategy_state_and_sharing() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        cursor.execute(TABLES)
        compiler = CircuitCompiler(Circuit(), cursor.cursor)
        query = "SELECT segment, count(*) FROM customers GROUP BY segment"
        plan = rewrite(bind(query, DuckCatalog(cursor), cursor))
        compiler.add_view("v", plan)
        compiler.add_view("w", rewrite(bind(query, DuckCatalog(cursor), cursor)))
        compiler.circuit.hydrate(compiler.fetch)
        tree = json.loads(explain("v", plan, None, compiler, format="json"))
    assert tree["strategy"] == "indexed"
    assert tree["state_rows"] == 2
    assert tree["views"] == 2
    assert tree["inputs"][0]["strategy"] == "linear"


def test_whole_recompute_says_why() -> None:
    compiler = CircuitCompiler(Circuit(), duckdb.connect)
    assert explain("v", None, "EXISTS", compiler).startswith("Recompute  [whole recompute: EXISTS")


@pytest.fixture
def shop() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k VARCHAR, v BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(v) FROM t WHERE v > 0 GROUP BY k")
        yield db


def asked(db: ivm.Database, sql: str) -> str:
    row = db.execute(sql).fetchone()
    assert row is not None
    return str(row[1])


@pytest.mark.full
def test_analyze_counts_steps_and_rows(shop: ivm.Database) -> None:
    shop.execute("INSERT INTO t VALUES ('a', 1), ('a', -1), ('b', 2)")
    shop.execute("INSERT INTO t VALUES ('c', 3)")
    tree = json.loads(asked(shop, "EXPLAIN (ANALYZE, FORMAT json) MATERIALIZED VIEW v"))
    assert (tree["steps"], tree["rows_in"], tree["rows_out"]) == (2, 3, 3)
    chosen = tree["inputs"][0]
    assert (chosen["steps"], chosen["rows_in"], chosen["rows_out"]) == (2, 4, 3)
    assert chosen["milliseconds"] > 0
    assert "2 steps, 3 rows in, 3 out" in asked(shop, "EXPLAIN ANALYZE MATERIALIZED VIEW v")
    assert "steps" not in asked(shop, "EXPLAIN MATERIALIZED VIEW v")


@pytest.mark.full
def test_analyze_counts_recomputations(shop: ivm.Database) -> None:
    shop.execute(
        "CREATE MATERIALIZED VIEW w AS WITH RECURSIVE best(k, n) USING KEY (k) AS"
        " (SELECT k, v FROM t UNION SELECT k, n + 1 FROM best WHERE n < 2) SELECT n FROM best"
    )
    shop.execute("INSERT INTO t VALUES ('a', 1)")
    assert shop.execute("FROM w").fetchall() == [(2,)]
    tree = json.loads(asked(shop, "EXPLAIN (ANALYZE, FORMAT json) MATERIALIZED VIEW w"))
    assert (tree["strategy"], tree["steps"], tree["rows_out"]) == ("whole recompute", 1, 1)


def test_mermaid_draws_each_operator_once(shop: ivm.Database) -> None:
    shop.execute("CREATE MATERIALIZED VIEW w AS SELECT a.k FROM v a JOIN v b ON a.k = b.k")
    lines = asked(shop, "EXPLAIN (FORMAT mermaid) MATERIALIZED VIEW w").splitlines()
    assert lines[0] == "flowchart BT"
    boxes = [line.split("[")[0] for line in lines if "[" in line]
    assert len(boxes) == len(set(boxes)) == 6
    assert all('"' not in line.partition('["')[2][:-2] for line in lines if "[" in line)
    assert sum("-->" in line for line in lines) == 5


def test_an_unknown_format_is_refused(shop: ivm.Database) -> None:
    with pytest.raises(SqlError, match="choose one of text, json, mermaid"):
        shop.execute("EXPLAIN (FORMAT xml) MATERIALIZED VIEW v")


@pytest.mark.full
def test_a_view_can_be_explained_in_the_transaction_that_creates_it() -> None:
    # The circuit does not hold it before the commit.
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        db.execute("BEGIN; CREATE MATERIALIZED VIEW v AS SELECT a, sum(b) AS s FROM t GROUP BY a")
        ((_, told),) = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()
        listed = db.execute("SHOW MATERIALIZED VIEWS").fetchall()
        db.execute("COMMIT")
        db.execute("SELECT * FROM v")
        ((_, later),) = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()
        assert told.replace("not hydrated yet", "0 rows, 1.5 kB") == later
        shown = db.execute("SHOW MATERIALIZED VIEWS").fetchall()  # also what is held in memory
        assert [row[: len(listed[0])] for row in shown] == listed


@pytest.mark.full
def test_other_sessions_list_the_views_that_are_committed() -> None:
    def listed() -> list[str]:
        shown = [name for name, *_ in db.execute("SHOW MATERIALIZED VIEWS").fetchall()]
        assert [view.name for view in db.views()] == shown
        return shown

    with ivm.connect() as db, ThreadPoolExecutor(1) as other:
        db.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        db.execute("BEGIN; CREATE MATERIALIZED VIEW w AS FROM t; DROP MATERIALIZED VIEW v")
        assert (listed(), other.submit(listed).result()) == (["w"], ["v"])
        db.execute("ROLLBACK")
        assert (listed(), other.submit(listed).result()) == (["v"], ["v"])
        db.execute("BEGIN; DROP MATERIALIZED VIEW v; COMMIT")
        assert (listed(), other.submit(listed).result()) == ([], [])
