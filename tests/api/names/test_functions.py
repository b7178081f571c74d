"""Python functions in SQL and in views, also after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from duckdb import sqltypes
from duckdb.func import PythonUDFType

import ivm
from ivm.errors import EvaluationError, InputError, UnavailableError, UnsupportedError
from tests.support.view_oracle import assert_verified


def margin(price: float, cost: float) -> float:
    return round(price - cost, 2)


def doubled(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


MARGIN = ivm.Function("margin", margin, ["DOUBLE", "DOUBLE"], "DOUBLE")


@pytest.mark.full
def test_a_view_follows_with_a_python_function(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    with ivm.connect(file, functions=[MARGIN]) as db:
        db.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, price DOUBLE, cost DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(margin(price, cost)) AS m FROM t")
        assert db.views()[0].reason is None
        db.execute("INSERT INTO t VALUES (1, 5, 2), (2, 4, 3.5), (3, NULL, 1)")
        db.upsert("t", [{"k": 1, "price": 6.0}])
        assert db.execute("FROM v").fetchall() == [(4.5,)]
    with pytest.raises(UnavailableError, match=r"margin\(\).*connect\(functions="):
        ivm.connect(file)
    with ivm.connect(file, functions=[MARGIN]) as db:
        db.delete("t", {"k": [2]})
        assert db.execute("FROM v").fetchall() == [(4.0,)]
        assert_verified(db, "v")


@pytest.mark.full
def test_arrow_functions_and_inferred_types() -> None:
    with ivm.connect() as db:
        db.create_function(ivm.Function("doubled", doubled, ["BIGINT"], "BIGINT", type="arrow"))
        db.create_function(ivm.Function("inferred", margin))
        db.execute("CREATE TABLE t (x BIGINT)")
        query = "SELECT doubled(x) AS y, inferred(x, 1) AS z FROM t"
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        db.insert("t", {"x": [1, 2, 2]})
        assert sorted(db.execute("FROM v").fetchall()) == [(2, 0.0), (4, 1.0), (4, 1.0)]


def test_a_function_with_side_effects_is_refused_in_views() -> None:
    with ivm.connect() as db:
        noisy = ivm.Function("noisy", lambda x: x, ["INTEGER"], "INTEGER", side_effects=True)
        db.create_function(noisy)
        db.execute("CREATE TABLE t (x INTEGER)")
        db.execute("CREATE MACRO through(x) AS noisy(x)")
        for call in ("noisy(x)", "through(x)"):
            with pytest.raises(UnsupportedError, match=r"noisy\(\).*cannot stand in a material"):
                db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {call} FROM t")
        assert db.execute("SELECT noisy(3)").fetchall() == [(3,)]


@pytest.mark.full
def test_a_function_that_fails_refuses_the_change() -> None:
    def picky(x: int) -> int:
        if x > 5:
            raise ValueError("too large for me")
        return x

    with ivm.connect() as db:
        db.create_function(ivm.Function("picky", picky, ["BIGINT"], "BIGINT"))
        db.execute("CREATE TABLE t (x BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT picky(x) AS y FROM t")
        with pytest.raises(EvaluationError, match="too large for me"):
            db.insert("t", {"x": [1, 9]})
        db.insert("t", {"x": [1]})
        assert db.execute("FROM v").fetchall() == [(1,)]
        assert db.execute("FROM t").fetchall() == [(1,)]


def test_what_duckdb_does_not_take_is_refused() -> None:
    with ivm.connect() as db:
        db.create_function(MARGIN)
        with pytest.raises(InputError, match="'margin' cannot be registered"):
            db.create_function(MARGIN)
        with pytest.raises(InputError, match="'native' or 'arrow'"):
            db.create_function(ivm.Function("f", margin, type="pandas"))  # type: ignore[arg-type]


def failing(x: int | None) -> int:
    return 12 // (x or 0)


CALLS: list[tuple[list[Any], dict[str, Any]]] = [
    ([["BIGINT"], "BIGINT"], {"exception_handling": "return_null"}),
    (
        [[sqltypes.BIGINT], sqltypes.BIGINT],
        {"exception_handling": duckdb.PythonExceptionHandling.RETURN_NULL},
    ),
    ([["BIGINT"], "BIGINT"], {"null_handling": "special", "exception_handling": "return_null"}),
    ([], {"parameters": ["INTEGER"], "return_type": "DOUBLE", "exception_handling": "return_null"}),
    (
        [],
        {"exception_handling": "return_null", "side_effects": False, "type": PythonUDFType.NATIVE},
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(("given", "options"), CALLS)
def test_a_function_is_made_as_by_duckdb(given: list[Any], options: dict[str, Any]) -> None:
    query = "SELECT x, failing(x) AS y, typeof(failing(x)) AS z FROM t"
    with ivm.connect() as db, duckdb.connect() as plain:
        for one in (db, plain):
            one.execute("CREATE TABLE t (x INTEGER)")
            one.create_function("failing", failing, *given, **options)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for one in (db, plain):
            one.execute("INSERT INTO t VALUES (4), (0), (NULL), (4)")
            one.execute("DELETE FROM t WHERE x = 4; INSERT INTO t VALUES (5), (0)")
        expected = sorted(map(repr, plain.execute(query).fetchall()))
        assert sorted(map(repr, db.execute("FROM v").fetchall())) == expected
        assert sorted(map(repr, db.execute(query).fetchall())) == expected
        assert_verified(db)
        with pytest.raises(InputError, match="exception_handling 'default' or 'return_null'"):
            db.create_function("f", failing, exception_handling="ignore")  # type: ignore[arg-type]
