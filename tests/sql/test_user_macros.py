"""Macros of the user's with the names of built-in functions: what we write never calls them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import UnsupportedError
from ivm.sql.parse.function_list import list_functions
from ivm.sql.parse.hiding_macros import refuse_caught
from ivm.sql.plan.built_in import _UNLISTED, synonyms
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.resolve.functions import _builtin
from ivm.storage.identifiers import quote
from tests.support import ROOT
from tests.support.view_oracle import assert_verified
from tests.tiers import TIER, examples

CALLED = re.compile(r"""(?:main\.|MAIN\}|(?:call|qualified)\(["'])([a-z_]+)""")
OURS = ("ivm", "sql", "delta_ops", "storage")
TABLES = [
    "CREATE TABLE t(id INT, a INT, s VARCHAR)",
    "CREATE TABLE k(id INT PRIMARY KEY, a INT)",
    "INSERT INTO t VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 2, NULL), (3, 3, 'z'), (3, 3, 'z')",
    "INSERT INTO k VALUES (1, 1), (2, 2)",
]
VIEWS = {
    "filtered": "SELECT id, a FROM t WHERE id > 0",
    "distinct_": "SELECT DISTINCT id FROM t",
    "joined": "SELECT t.id, k.a FROM t JOIN k ON t.id = k.id",
    "padded": "SELECT t.id, k.a FROM t LEFT JOIN k ON t.id = k.id",
    "first_two": "SELECT id FROM t ORDER BY a, id LIMIT 2",
    "scalar": "SELECT id, (SELECT a FROM k WHERE k.id = t.id) AS x FROM t",
    "existing": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM k WHERE k.id = t.id)",
    "closure": (
        "WITH RECURSIVE r AS (SELECT id FROM k UNION SELECT t.a FROM r JOIN t ON t.id = r.id)"
        " SELECT * FROM r"
    ),
    "united": "SELECT id FROM t UNION ALL SELECT a FROM k",
    "less": "SELECT id FROM t EXCEPT SELECT a FROM k",
    "in_query": "SELECT id, id IN (SELECT a FROM k) AS x FROM t",
    "above_all": "SELECT id, id > ALL (SELECT a FROM k) AS x FROM t",
    "any_row": "SELECT id, id = ANY (SELECT a FROM k) AS x FROM t",
}
CHANGES = [
    "DELETE FROM t WHERE a = 2",
    "INSERT INTO t VALUES (9, 9, 'n'), (9, 9, 'n')",
    "UPDATE t SET a = 7 WHERE id = 1",
    "UPDATE t SET a = k.a FROM k WHERE k.id = t.id",
    "INSERT INTO k VALUES (9, 9)",
    "UPDATE k SET a = 5 WHERE id = 1",
    "DELETE FROM k WHERE id = 2",
    "INSERT INTO t SELECT * FROM t",
    "INSERT INTO k VALUES (1, 2) ON CONFLICT DO UPDATE SET a = excluded.a",
    "MERGE INTO k USING (SELECT 4 AS id, 4 AS a) AS n ON n.id = k.id"
    " WHEN MATCHED THEN UPDATE SET a = n.a WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.a)",
    "BEGIN",
    "INSERT INTO t VALUES (5, 5, 'p')",
    "DELETE FROM t WHERE id = 9",
    "COMMIT",
    "ALTER TABLE k ADD COLUMN b INT",
    "UPDATE k SET b = 1",
]


SYNTAX = {"list_value", "struct_pack", "row", "array_extract", "array_slice", "struct_extract"}
READERS = {"python_arrow_scan", "pandas_scan"}


def built_in_names() -> list[str]:
    """Of the functions that our texts call, and others."""
    with duckdb.connect() as connection:
        sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE internal"
        found = sorted(name for (name,) in connection.execute(sql).fetchall())
    sources = [path for folder in OURS for path in (ROOT / folder).glob("*.py")]
    ours = set(CALLED.findall(" ".join(path.read_text() for path in sources)))
    every = 16 if TIER == "quick" else 1
    return [name for place, name in enumerate(found) if name in ours or place % every == 0]


def is_syntax(name: str) -> bool:
    """Whether an operator or a literal stands for the function."""
    return name in SYNTAX or not name.isidentifier()


def failing(name: str) -> list[str]:
    """Macros of that name that fail."""
    forms = [", ".join(f"p{i}" for i in range(count)) for count in range(4)]
    body = f"system.main.error('the macro {name}')"
    scalar = ", ".join(f"({form}) AS {body}" for form in forms)
    table = ", ".join(f"({form}) AS TABLE (SELECT {body} AS e)" for form in forms)
    made = [f"CREATE MACRO {quote(name)} {scalar}"]
    return made if name in READERS else [*made, f"CREATE MACRO {quote(name)} {table}"]


@pytest.fixture(params=["calls", "syntax"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A database in which built-in names are macros that fail."""
    found, syntax = tmp_path / "x.duckdb", request.param == "syntax"
    names = [name for name in built_in_names() if is_syntax(name) == syntax]
    with duckdb.connect(str(found)) as connection:
        connection.execute(f"BEGIN; {';'.join(m for n in names for m in failing(n))}; COMMIT")
    return found


def same(db: ivm.Database, plain: duckdb.DuckDBPyConnection) -> None:
    for name in ("t", "k", *VIEWS):
        assert sorted(map(repr, db.execute(f"FROM {name}").fetchall())) == sorted(
            map(repr, plain.execute(f"FROM {name}").fetchall())
        ), name


@pytest.mark.full(smoke=2)
def test_the_life_of_a_database_in_which_every_name_is_a_macro(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    plain = duckdb.connect(shutil.copy(path, tmp_path / "plain.duckdb"))
    views = [f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()]
    with ivm.connect(path) as db:
        for statement in [*TABLES, *views, *CHANGES]:
            plain.execute(statement)
            db.execute(statement.replace("CREATE VIEW", "CREATE MATERIALIZED VIEW"))
        db.insert("t", [{"id": 8, "a": 8, "s": "q"}, {"id": 3, "a": 1, "s": None}])
        plain.execute("INSERT INTO t VALUES (8, 8, 'q'), (3, 1, NULL)")
        same(db, plain)
        whole = [row[1] == "whole recompute" for row in db.execute("SHOW MATERIALIZED VIEWS")]
        assert whole == [request.node.callspec.params["path"] == "syntax"] * len(VIEWS)
    with ivm.connect(path) as db:
        for statement in ("DELETE FROM t WHERE a = 5", "UPDATE k SET a = 3 WHERE id = 1"):
            plain.execute(statement)
            db.execute(statement)
        same(db, plain)
        for name in VIEWS:
            assert_verified(db, name)


@pytest.mark.full
def test_a_macro_that_hides_min_costs_no_row(tmp_path: Path) -> None:
    with ivm.connect(tmp_path / "x.duckdb") as db:
        db.execute("CREATE TABLE t(id INT, a INT)")
        db.execute("INSERT INTO t VALUES (1, 1), (1, 2), (2, 2)")
        db.execute("CREATE MACRO min(x) AS NULL")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, a FROM t WHERE id > 0")
        db.execute("DELETE FROM t WHERE a = 1")
        assert sorted(db.execute("FROM v").fetchall()) == [(1, 2), (2, 2)]


def test_facts_about_functions_are_not_read_through_a_macro() -> None:
    """They are kept for the process: a macro of the first database would spoil the others."""
    for facts in (synonyms, _builtin):
        facts.cache_clear()
    with ivm.connect() as db:
        db.execute("CREATE TABLE t(a INT)")
        db.execute("CREATE MACRO lower(x) AS upper(x)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) FROM t")
        assert db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1] == "indexed"
    assert all(name == name.lower() for name in synonyms())


def test_aliases_that_duckdb_does_not_list_are_the_same_functions() -> None:
    overloads = (
        "SELECT parameter_types, return_type, description FROM duckdb_functions()"
        " WHERE function_name = ? ORDER BY ALL"
    )
    assert _UNLISTED.items() <= synonyms().items()
    with duckdb.connect() as duck:
        for alias, chief in _UNLISTED.items():
            found = [duck.execute(overloads, [name]).fetchall() for name in (alias, chief)]
            assert found[0] == found[1] != []


CALLS = [  # a macro that hides a built-in function, and a query whose plan has the function
    ("max(x) AS 5", "SELECT a > ALL (SELECT b FROM t) FROM t", "indexed"),
    ("max(x) AS 5", "SELECT max(a) FROM t", "linear"),
    ("count(x) AS 0", "SELECT a IN (SELECT b FROM t) FROM t", "indexed"),
    ("list_contains(x, y) AS false", "SELECT a = ANY([1, 2]) FROM t", "linear"),
    ("row_number() AS 3", "SELECT a FROM t ORDER BY a, b LIMIT 2", "indexed"),
    ("lower(x) AS 'k'", "SELECT s COLLATE nocase = 'HELLO' COLLATE nocase FROM t", "linear"),
    ("any_value(x) AS 1", "SELECT DISTINCT ON (b) b, a FROM t ORDER BY b, a", "indexed"),
    # the user's text means the macro exactly where DuckDB says so
    ("mod(x, y) AS x + y", "SELECT mod(a, b), a % b FROM t", "linear"),
    ("substr(x, y) AS 'm'", "SELECT substr(s, 2), substring(s, 2) FROM t", "linear"),
    ("substring(x, y) AS 'm'", "SELECT substr(s, 2) FROM t", "linear"),
    ("substring(x, y) AS 'm'", "SELECT substring(s FROM 2) FROM t", "whole recompute"),
    ("upper(x) AS 'm'", "SELECT ucase(s), upper(s) FROM t", "linear"),
    ("ucase(x) AS 'm'", "SELECT ucase(s), upper(s) FROM t", "linear"),
    ("lcase(x) AS 'm'", "SELECT lcase(s), lower(s) FROM t", "linear"),
    ("list(x) AS 'k'", "SELECT list(a) FROM t", "linear"),
    ("array_agg(x) AS 'k'", "SELECT min(array_agg(a)) FROM t", "indexed"),
    ("sum(x) AS max(x)", "SELECT b, sum(a) FROM t GROUP BY b", "indexed"),
    ("abs(x, y := 2) AS x + y", "SELECT abs(a), abs(a, 3) FROM t", "whole recompute"),
    ("abs(x) AS 1", "SELECT main.abs(-a), system.main.abs(-a) FROM t", "whole recompute"),
    ("ln(x) AS 1", "SELECT geomean(a) FROM t", "indexed"),  # a macro of DuckDB's that calls ln
    ("floor(x) AS 1", "SELECT fdiv(a, 2) FROM t", "whole recompute"),
    ("list_aggr(x, y) AS 7", "SELECT list_sum([a, b]) FROM t", "whole recompute"),
    # operators, literals and clauses stand for calls
    ('"+"(x, y) AS 7', "SELECT a + b FROM t", "whole recompute"),
    ("list_value(x, y) AS 7", "SELECT [a, b] FROM t", "whole recompute"),
    ("date_part(x, y) AS 7", "SELECT extract(year FROM d), year(d) FROM t", "whole recompute"),
    ("to_days(x) AS 5", "SELECT d + INTERVAL 1 DAY FROM t", "whole recompute"),
    ("count_star() AS 0", "SELECT count(*) FROM t", "whole recompute"),
    ("count(x) AS 0", "SELECT count(*) FROM t", "whole recompute"),
    ("contains(x, y) AS true", "SELECT a IN [1, 2] FROM t", "whole recompute"),
    ("contains(x, y) AS true", "SELECT COLUMNS(lambda c: contains(c, 'a')) FROM t", None),
    ("length(x) AS 1", "SELECT a FROM t ORDER BY a LIMIT length('abc')", "whole recompute"),
    ("range(x) AS TABLE SELECT 7 AS r", "SELECT * FROM range(3), t", "indexed"),
    ("unnest(x) AS TABLE SELECT 7 AS r", "SELECT * FROM t, unnest([1, 2])", None),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("macro", "query", "strategy"), CALLS[:: max(1, len(CALLS) // examples(len(CALLS)))]
)
def test_calls_mean_what_duckdb_means(macro: str, query: str, strategy: str | None) -> None:
    before = [
        "CREATE TABLE t(a INT, b INT, s VARCHAR, d DATE)",
        "INSERT INTO t VALUES (1, 2, 'Hello', '2020-01-01'), (2, 2, 'hullo', '2020-02-03')",
        f"CREATE MACRO {macro}",
    ]
    after = [
        "INSERT INTO t VALUES (3, 5, NULL, NULL), (7, 2, 'xHl', '2021-01-01')",
        "DELETE FROM t WHERE a = 2",
        "UPDATE t SET b = 3 WHERE a = 7",
    ]
    plain = duckdb.connect()
    with ivm.connect() as db:
        for statement in [*before, f"CREATE VIEW v AS {query}", *after]:
            plain.execute(statement)
            db.execute(statement.replace("CREATE VIEW", "CREATE MATERIALIZED VIEW"))
        wanted = sorted(map(repr, plain.execute(query).fetchall()))
        assert sorted(map(repr, db.execute("FROM v").fetchall())) == wanted
        assert sorted(map(repr, db.execute(query).fetchall())) == wanted
        found = db.execute("SHOW MATERIALIZED VIEWS").fetchall()[0][1]
        assert strategy in (None, found)


@pytest.mark.full
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MACRO python_arrow_scan(a, b, c) AS TABLE (SELECT 1)",
        "CREATE TEMP TABLE _ivm_delta(a INT)",
        "CREATE TEMP VIEW _IVM_delta AS SELECT 1",
    ],
)
def test_names_by_which_rows_are_lent_are_refused(statement: str) -> None:
    with ivm.connect() as db:
        with pytest.raises(UnsupportedError, match="works with: choose another"):
            db.execute(statement)
        db.execute("CREATE TABLE t(a INT)")
        db.insert("t", [{"a": 1}, {"a": 1}])
        db.delete("t", [{"a": 1}])
        assert db.execute("FROM t").fetchall() == [(1,)]


def test_what_duckdb_does_not_read_back_has_no_plan_beside_a_macro_that_hides() -> None:
    with duckdb.connect() as cursor:
        cursor.execute("CREATE MACRO upper(s) AS s")
        with pytest.raises(NotIncremental, match="does not serialize"):
            refuse_caught("PIVOT t ON a USING max(upper(s))", cursor, list_functions(cursor))
