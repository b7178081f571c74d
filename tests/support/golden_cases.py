"""Golden files: a view, the plan that maintains it, a change, and the delta and rows it leads to.

A file has the sections `view`, `change` (input) and `plan`, `delta`, `rows` (output), each under a
line `== name`. `python -m tests.support.golden_cases` writes the outputs anew; look at the
difference.
"""

from __future__ import annotations

import re

import duckdb

from ivm.delta_ops.circuit import Circuit
from ivm.sql.bind.bind import bind
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.compile.explain import explain
from ivm.sql.plan.nodes import NotIncremental, Plan
from ivm.sql.plan.render import render
from ivm.sql.resolve.catalog import DuckCatalog
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.values.zset import ZSet, add, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, table
from tests.support import ROOT

FOLDER = ROOT / "tests" / "golden"
TABLES = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, region VARCHAR, segment VARCHAR);
CREATE TABLE orders
    (id BIGINT PRIMARY KEY, customer_id BIGINT, amount DECIMAL(10,2), status VARCHAR);
INSERT INTO customers VALUES
    (1, 'north', 'a'), (2, 'south', 'a'), (3, 'north', 'b'), (4, NULL, 'b');
INSERT INTO orders VALUES (1, 1, 10.5, 'new'), (2, 1, 20, 'paid'), (3, 2, 5, 'paid'),
    (4, 3, 7.25, NULL), (5, 4, 1, 'paid'), (6, NULL, 99, 'new');
"""
_STATE = re.compile(r"(  [\d,]+ rows?), [\d.]+ \w+")


def sections(text: str) -> dict[str, str]:
    """The parts of a golden file."""
    parts = re.split(r"^== (\w+)\n", text, flags=re.M)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def written(case: dict[str, str]) -> str:
    """The whole golden file of a case, its outputs computed."""
    outputs = answer(case["view"], case["change"])
    return "\n".join(f"== {k}\n{v}\n" for k, v in {**case, **outputs}.items())


def answer(query: str, change: str) -> dict[str, str]:
    """Plan, delta and rows of a view under a change."""
    with duckdb.connect() as cursor:
        cursor.execute("SET arrow_lossless_conversion = true")
        cursor.execute(TABLES)
        catalog = DuckCatalog(cursor)
        try:
            plan = rewrite(bind(query, catalog, cursor))
        except NotIncremental as verdict:
            compiler = CircuitCompiler(Circuit(), cursor.cursor)
            return {"plan": explain("v", None, verdict.reason, compiler)}
        return _maintained(cursor, plan, change)


def _maintained(cursor: Cursor, plan: Plan, change: str) -> dict[str, str]:
    circuit = Circuit()
    compiler = CircuitCompiler(circuit, cursor.cursor)
    compiler.add_view("v", plan)
    circuit.hydrate(compiler.fetch)
    tree = _STATE.sub(r"\1", explain("v", plan, None, compiler))
    relations = {scan.relation for scan in compiler.sources().values()}
    before = {name: _content(cursor, name) for name in relations}
    cursor.execute(change)
    changes = {n: add([_content(cursor, n), z.negate()]) for n, z in before.items()}
    sources = compiler.sources().items()
    deltas = circuit.step({s: changes[scan.relation].project(scan.columns) for s, scan in sources})
    delta = [row for view in deltas.values() for row in _weighted(cursor, plan, view)]
    return {"plan": tree, "delta": _lines(delta), "rows": _lines(rows(cursor, render(plan)))}


def _content(cursor: Cursor, relation: str) -> ZSet:
    schema = DuckCatalog(cursor).schema(relation)
    assert schema is not None
    return from_arrow(table(cursor, f"FROM {relation}"), schema)


def _weighted(cursor: Cursor, plan: Plan, delta: ZSet) -> list[tuple[object, ...]]:
    schema = tuple((f"c{i}", t) for i, (_, t) in enumerate(plan.schema))
    cursor.register("delta_rows", delta.to_arrow(schema))
    weights = delta.weights.tolist()
    found = zip(rows(cursor, "FROM delta_rows"), weights, strict=True)
    return [(*row, f"{weight:+d}") for row, weight in found]


def _lines(found: list[tuple[object, ...]]) -> str:
    return "\n".join(sorted(" | ".join(str(v) for v in row) for row in found))


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.txt")):
        path.write_text(written(sections(path.read_text())))
