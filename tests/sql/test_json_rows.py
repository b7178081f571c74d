"""json_each and json_tree of columns: a change reads the changed documents and no others.

DuckDB is the oracle: VERIFY compares each view with its query after every step.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.linear.unnest import DuckUnnest
from ivm.storage.errors import EvaluationError, SqlError
from tests.support.operator_bench import Bench, Duck, Row, drive, streams, types_of
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER, examples

STEPS = {"quick": 9}.get(TIER, 18)
FUNCTIONS = ("json_each", "json_tree")
DOCUMENTS = (
    """'{"a":1,"b":[1,{"c":null}]}'""", "'[1, 2 ]'", "'[]'", "'{}'", "'5'", "'null'",
    """'{"a":"x","a":2}'""", """'{"d.e":{"f":[]}}'""", "NULL",
)  # fmt: skip
PATHS = ("'$'", "'$.a'", "'$.b[1]'", "'$[#-1]'", "'b'", "NULL")
VIEWS = {
    "SELECT d.id, x.* FROM d, json_each(d.doc) AS x": "linear",
    "SELECT d.id, x.* EXCLUDE (id), x.rowid AS place FROM d, json_tree(doc, path) AS x": "linear",
    "SELECT d.id, k, v, x.root, x.json, x.rowid AS r FROM d, json_tree(doc, path) x(k, v)":
        "linear",
    "SELECT tag, key FROM d CROSS JOIN json_tree(text) WHERE atom IS NOT NULL": "linear",
    "SELECT tag, x.key FROM d LEFT JOIN LATERAL json_each(doc, '$.a') AS x ON true": "linear",
    "SELECT d.id, x.key, tag FROM d LEFT JOIN json_each(doc) AS x ON x.key > 'a'": "indexed",
    "SELECT d.id, x.key FROM d JOIN LATERAL json_each(text) AS x ON x.type <> 'NULL'": "linear",
    "SELECT x.key, y.fullkey FROM d, json_each(doc) AS x, json_each(x.value) AS y": "linear",
    "WITH w AS (SELECT tag, key, value FROM d, json_tree(doc)) "
    "SELECT key, count(*) AS n, count(DISTINCT tag) AS tags FROM w GROUP BY key": "indexed",
    "SELECT count(*) AS n FROM d, json_each(doc)": "indexed",
    "SELECT id FROM d WHERE EXISTS (FROM json_tree(doc) WHERE key = 'a')": "indexed",
    "SELECT id, (SELECT max(value::VARCHAR) FROM json_each(doc)) AS most FROM d": "indexed",
    "SELECT d.id, x.n FROM d, LATERAL (SELECT count(*) AS n FROM json_each(text, path)) AS x":
        "indexed",
    "SELECT n, k FROM (SELECT id AS n, tag FROM d) AS e, json_each([n, tag]) AS x(k)": "linear",
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("function", FUNCTIONS)
@given(st.data(), st.booleans())
@settings(max_examples=examples(12), deadline=None)
def test_operator(function: str, data: st.DataObject, outer: bool) -> None:
    types = types_of("INTEGER", "JSON", "VARCHAR")
    elements = types_of("VARCHAR", "JSON", "UBIGINT")
    columns = [f"x.{name}" for name in ("key", "value", "id")]
    call = f"{function}(t.c1, t.c2) AS x"
    beside = f" AS t LEFT JOIN {call} ON TRUE" if outer else f" AS t, {call}"
    listed = ", ".join(f"{c} AS c{i + 2}" for i, c in enumerate(columns))
    sql = f"SELECT t.c0 AS c0, t.c1 AS c1, {listed} FROM i0{beside}"

    def make(circuit: Circuit, sources: list[int]) -> int:
        kept = [(types[0], 0), (types[1], 1)]
        arguments = [(types[1], 1), (types[2], 2)]
        operator = DuckUnnest(kept, arguments, elements, columns, f"delta{beside}", Duck.cursor)
        return circuit.add("rows", lambda _: operator, sources)

    def as_documents(row: Row) -> Row:
        places = [0 if v == "NULL" else int(v) for v in row]
        return (row[0], DOCUMENTS[places[1] % len(DOCUMENTS)], PATHS[places[2] % len(PATHS)])

    stream = data.draw(streams(types_of("INTEGER", "INTEGER", "INTEGER")))
    documents = [
        tuple([[(as_documents(row), weight) for row, weight in delta] for delta in step])
        for step in stream
    ]
    drive(Bench(make, [types], sql), documents)


def document(random: Random, depth: int = 0) -> Any:
    """A random JSON value."""
    choice = random.randrange(8 if depth < 3 else 6)
    if choice == 6:
        return [document(random, depth + 1) for _ in range(random.randrange(4))]
    if choice == 7:
        keys = random.sample(["a", "b", "d.e", "é", 'q"'], random.randrange(4))
        return {key: document(random, depth + 1) for key in keys}
    return random.choice([None, True, random.randint(-3, 3), 1.5, "", "x", "\u0001"])


def text(random: Random) -> str | None:
    return None if random.random() < 0.15 else json.dumps(document(random, -1))


def step(random: Random) -> tuple[str, list[Any]]:
    """A random statement and its values."""
    path = random.choice(["$", "$.a", "$.b[1]", "$[#-1]", "b", None])
    row = [random.randrange(4), text(random), text(random), path, random.randrange(3)]
    statements: list[tuple[str, list[Any]]] = [
        ("INSERT INTO d VALUES (?, ?, ?, ?, ?)", row),
        ("INSERT INTO d VALUES (?, ?, ?, ?, ?)", row),
        ("INSERT INTO d SELECT * FROM d WHERE id = ?", row[:1]),
        ("UPDATE d SET doc = ?, text = ? WHERE id = ?", [row[1], row[2], row[0]]),
        ("UPDATE d SET path = ? WHERE tag = ?", [path, row[4]]),
        ("DELETE FROM d WHERE id = ? AND tag = ?", [row[0], row[4]]),
    ]
    return random.choice(statements)


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", range(2))
def test_views_follow_their_documents(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    path = tmp_path / "d.duckdb"
    db = documents(path)
    for number, query in enumerate(VIEWS):
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    for number in range(STEPS):
        if number % 8 == 7:
            db.close()
            db = ivm.connect(path)
        else:
            db.execute(*step(random))
        assert_verified(db)
    db.close()


def documents(path: Path | str = ":memory:") -> ivm.Database:
    """A database with a table of documents."""
    db = ivm.connect(path)
    db.execute("CREATE TABLE d (id INTEGER, doc JSON, text VARCHAR, path VARCHAR, tag INTEGER)")
    db.execute("""INSERT INTO d VALUES (1, '{"a":[1,2]}', '[3, 4]', '$.a', 0)""")
    return db


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize(("query", "strategy"), VIEWS.items())
def test_strategy(query: str, strategy: str) -> None:
    with documents() as db:
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1] == strategy


def test_only_the_columns_that_are_read_are_asked_for() -> None:
    with documents() as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT value, d.id FROM d, json_tree(doc)")
        plan = db.execute("EXPLAIN MATERIALIZED VIEW v").fetchall()[0][1]
        assert "Unnest json_tree(c1) (value)  [linear: applied to the change alone" in plan
        found = [value for (value,) in db.execute("SELECT value FROM v ORDER BY 1").fetchall()]
        assert found == ["1", "2", "[1,2]", '{"a":[1,2]}']


def test_a_change_reads_its_own_documents_only() -> None:
    with documents() as db:
        db.execute("INSERT INTO d SELECT i, '[1, 2]', NULL, NULL, 0 FROM range(1000) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT d.id, key FROM d, json_each(doc)")
        db.execute("INSERT INTO d VALUES (5, '[7, 8, 9]', NULL, NULL, 0)")
        plan = db.execute("EXPLAIN ANALYZE MATERIALIZED VIEW v").fetchall()[0][1]
        assert "1 row in, 3 out" in plan.splitlines()[0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("query", "row", "words"),
    [
        ("SELECT key FROM d, json_each(text)", "(2, NULL, '{bad', NULL, 0)", "Malformed JSON"),
        ("SELECT key FROM d, json_each(doc, path)", "(2, '[]', NULL, '/a', 0)", "start with '$'"),
        ("SELECT key FROM d, json_tree(doc, path)", "(2, '[]', NULL, '$.*', 0)", "Wildcard"),
    ],
)
def test_a_row_that_duckdb_refuses_is_refused(query: str, row: str, words: str) -> None:
    with documents() as db:
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        before = db.execute("FROM v").fetchall()
        with pytest.raises(EvaluationError, match="'v'") as refused:
            db.execute(f"INSERT INTO d VALUES {row}")
        assert words in str(refused.value)
        assert db.execute("FROM v").fetchall() == before
        assert len(db.execute("FROM d").fetchall()) == 1


def test_rows_that_where_drops_are_not_read() -> None:
    """As in DuckDB, which filters before it calls the function."""
    query = "SELECT d.id, key FROM d, json_each(text) WHERE json_valid(text)"
    with documents() as db:
        db.execute("INSERT INTO d VALUES (2, NULL, '{bad', NULL, 0)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.execute("INSERT INTO d VALUES (3, NULL, '[bad', NULL, 0), (4, NULL, '[5]', NULL, 0)")
        assert db.execute("FROM v ORDER BY ALL").fetchall() == [(1, "0"), (1, "1"), (4, "0")]


def test_what_duckdb_refuses_has_its_message() -> None:
    with documents() as db:
        for query, words in {
            "FROM d RIGHT JOIN json_each(d.doc) ON true": "INNER or LEFT",
            "FROM d, json_each(doc, '$.*')": "Wildcard",
            "FROM d, json_each(doc, 5)": "No function matches",
        }.items():
            with pytest.raises(SqlError, match=words):
                db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")


def test_a_view_with_a_column_named_rowid() -> None:
    with documents() as db:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT x.rowid FROM d, json_each(text) AS x")
        db.execute("INSERT INTO d SELECT * FROM d")
        assert sorted(db.execute("FROM v").fetchall()) == [(0,), (0,), (1,), (1,)]
        db.execute("UPDATE d SET text = '[9]'")
        assert db.execute("FROM v").fetchall() == [(0,), (0,)]


@pytest.mark.full
def test_a_macro_of_that_name_comes_first() -> None:
    with documents() as db:
        db.execute("CREATE MACRO json_tree(a) AS TABLE SELECT 1 AS key")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT x.key FROM json_tree(1) AS x, d")
        assert db.execute("FROM v").fetchall() == [(1,)]
