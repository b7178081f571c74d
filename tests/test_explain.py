"""EXPLAIN and golden files: which operators maintain a view, and what they make of a change."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind import bind
from ivm.sql.catalog import DuckCatalog
from ivm.sql.compile import Compiler
from ivm.sql.explain import explain
from ivm.sql.rewrite import rewrite
from tests.golden_cases import FOLDER, TABLES, sections, written


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden_file_still_holds(path: Path) -> None:
    text = path.read_text()
    assert written(sections(text)) == text


def test_json_names_strategy_state_and_sharing() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        cursor.execute(TABLES)
        compiler = Compiler(Circuit(), cursor.cursor)
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
    compiler = Compiler(Circuit(), duckdb.connect)
    assert explain("v", None, "EXISTS", compiler).startswith("Recompute  [whole recompute]: EXISTS")
