"""Every aggregate function of the installed DuckDB in a view, under changes: none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import duckdb
import pytest

import ivm
from ivm.sql.parse.function_list import list_functions
from ivm.sql.resolve.functions import Functions
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=12)

TABLE = """CREATE TABLE m (
    g INTEGER, i INTEGER, j BIGINT, x DOUBLE, y DOUBLE, d DECIMAL(9, 2), s VARCHAR, b BOOLEAN,
    t TIMESTAMP, z BIT)"""

# A call of each; `_` stands for one column of numbers.
CALLS = {
    "approx_quantile": "approx_quantile(i, 0.5)",
    "approx_top_k": "approx_top_k(s, 2)",
    "bitstring_agg": "bitstring_agg(i, 0, 20)",
    "bool_and": "bool_and(b)",
    "bool_or": "bool_or(b)",
    "count_if": "count_if(b)",
    "countif": "countif(b)",
    "count_star": "count(*)",
    "decimal_average": "decimal_average(d)",
    "group_concat": "group_concat(s, '-')",
    "histogram_exact": "histogram_exact(i, [1, 2, 3])",
    "listagg": "listagg(s, '-')",
    "lttb": "lttb(x, y, 3)",
    "quantile": "quantile(i, 0.5)",
    "quantile_cont": "quantile_cont(x, [0.25, 0.5])",
    "quantile_disc": "quantile_disc(s, 0.5)",
    "reservoir_quantile": "reservoir_quantile(i, 0.5, 100)",
    "string_agg": "string_agg(s, ', ')",
    "variant_group_object": "variant_group_object(j::VARCHAR, i::VARIANT)",
    **{
        name: f"{name}(y, x)"
        for name in [
            "corr", "covar_pop", "covar_samp", "regr_avgx", "regr_avgy", "regr_count",
            "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy",
        ]
    },
    **{
        name: f"{name}(s, i)"
        for name in [
            "arg_max", "arg_max_null", "arg_max_nulls_last", "arg_min", "arg_min_null",
            "arg_min_nulls_last", "argmax", "argmin", "max_by", "min_by",
        ]
    },
}  # fmt: skip
REFUSED = {
    "combine_aggr": "takes the states of other aggregates, which no table can hold",
}
FURTHER = [
    "arg_max(s, i, 2)", "arg_min(i, s, 3)", "max(i, 3)", "min(s, 2)", "list(DISTINCT s)",
    "list(x ORDER BY t DESC, i)", "string_agg(s, '' ORDER BY i DESC) FILTER (b)", "avg(t)",
    "first(z)", "list(z)", "count(DISTINCT (i, s))", "sum(DISTINCT d)", "avg(DISTINCT i)",
    "mode(s ORDER BY i)", "median(t)", "quantile_disc(t, [0.1, 0.9])", "bit_xor(z)", "sum(b)",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY x DESC)", "mode() WITHIN GROUP (ORDER BY i)",
    "mode(ORDER BY i DESC)", "mode(ORDER BY s || 'x') FILTER (b)", "count(ORDER BY i)",
    "quantile_cont(0.3 ORDER BY x DESC)",
    "list({'i': i, 's': s} ORDER BY t)", "histogram(i, [1, 2])", "quantile_cont(d, 0.7)",
    "var_samp(d)", "max(x) - min(x) + count(*)", "sum(i) / median(i)", "list(i)[1:2]",
]  # fmt: skip


def aggregates() -> list[str]:
    """The names of all aggregates that the installed DuckDB has."""
    with duckdb.connect() as cursor:
        found = cursor.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions()"
            " WHERE function_type = 'aggregate' AND internal ORDER BY 1"
        ).fetchall()
        assert Functions(cursor, list_functions(cursor))
    return [name for (name,) in found]


def call_of(name: str) -> str:
    """A call of the function, over i unless it needs something else."""
    return CALLS.get(name, f"{name}(i)")


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    with ivm.connect(":memory:") as db:
        db.execute(TABLE)
        calls = [call_of(n) for n in aggregates() if n not in REFUSED] + FURTHER
        for number, call in enumerate(calls):
            query = f"SELECT g, {call} AS r FROM m GROUP BY g"
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        random = Random(3)
        for step in range(4):
            if step > 1:
                db.execute(f"DELETE FROM m WHERE i = {step} OR hash(s, x) % 5 = {step}")
            db.insert("m", [row(random, 12 * step + i) for i in range(12)])
        yield db


def row(random: Random, number: int) -> dict[str, object]:
    def some(*values: object) -> object:
        return random.choice([*values, None])

    return {
        "g": random.randrange(3), "i": some(1, 2, 3, 4, 5), "j": number,
        "b": some(True, False), "x": some(0.5, 1.25, -3.0), "y": some(2.0, 0.1),
        "d": some("1.25", "7.00"),
        "s": some("a", "b", "longer"), "t": some("2024-01-01", "2024-06-01 12:00:00"),
        "z": some("0101", "1100"),
    }  # fmt: skip


def test_every_aggregate_is_maintained_and_right(db: ivm.Database) -> None:
    assert_verified(db)
    strategies = {view.sql: view.strategy for view in db.views()}
    assert [sql for sql, word in strategies.items() if word == "whole recompute"] == []
