"""Casts and conditional expressions against DuckDB."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from tests.support.scalar_oracle import check, check_pairs, column_lists, extremes
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

INTEGERS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UINTEGER", "UBIGINT"]
BIG = ["DECIMAL(18,0)", "DECIMAL(18,1)", "DECIMAL(38,0)", "DECIMAL(20,1)", "DECIMAL(38,37)"]
DECIMALS = ["DECIMAL(4,1)", "DECIMAL(9,0)", "DECIMAL(15,2)", "DECIMAL(18,18)", "DECIMAL(38,4)"]
CASTS = [(a, b) for a in [*INTEGERS, "HUGEINT"] for b in [*INTEGERS, "HUGEINT", "DOUBLE"]]
CASTS += [(a, b) for a in [*INTEGERS, "HUGEINT", *DECIMALS] for b in DECIMALS]
CASTS += [(a, b) for a in DECIMALS for b in [*INTEGERS, "HUGEINT", "DOUBLE", "VARCHAR"]]
CASTS += [(a, b) for a in ["DOUBLE", "FLOAT"] for b in [*INTEGERS, "DOUBLE", "FLOAT", "BOOLEAN"]]
CASTS += [(a, b) for a in INTEGERS for b in ["FLOAT", "BOOLEAN", "VARCHAR"]]
CASTS += [("BOOLEAN", b) for b in [*INTEGERS, "DOUBLE", "VARCHAR"]]
CASTS += [(a, "DOUBLE") for a in BIG]
CASTS += [("DOUBLE", b) for b in DECIMALS[:3]] + [("TIMESTAMP", "VARCHAR")]
CASTS += [("HUGEINT", "VARCHAR"), ("DATE", "VARCHAR"), ("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE")]


@pytest.mark.cases(4)
@pytest.mark.parametrize(("source", "target"), CASTS)
def test_cast(source: str, target: str) -> None:
    check(f"c0::{target}", [source], extremes(source))


@pytest.mark.full
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_random_casts(data: st.DataObject) -> None:
    source, target = data.draw(st.sampled_from(CASTS))
    check(f"c0::{target}", [source], *data.draw(st.composite(column_lists)([source])))


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("CASE WHEN c0 > 0 THEN c1 ELSE 0 END", ["INTEGER", "DECIMAL(15,2)"]),
        ("CASE WHEN c0 > 0 THEN c1 END", ["INTEGER", "VARCHAR"]),
        ("CASE WHEN c1 = 'a' OR c1 = 'abc' THEN 1 ELSE 0 END", ["INTEGER", "VARCHAR"]),
        ("CASE c1 WHEN 'a' THEN 'x' WHEN 'A' THEN 'y' ELSE c1 END", ["INTEGER", "VARCHAR"]),
        ("CASE WHEN c0 <> 0 THEN 10 // c0 ELSE c1 END", ["INTEGER", "BIGINT"]),
        ("CASE WHEN true THEN c0 ELSE c1 END", ["INTEGER", "BIGINT"]),
        ("CASE WHEN c0 > c1 THEN NULL ELSE c1 END", ["INTEGER", "HUGEINT"]),
        ("if(c0 > 1, c1, 1.5)", ["INTEGER", "DOUBLE"]),
        ("if(c0 IS NULL, c1, c1)", ["INTEGER", "DATE"]),
        ("coalesce(c0, c1)", ["INTEGER", "BIGINT"]),
        ("coalesce(c0, c1, 0)", ["DECIMAL(4,1)", "DECIMAL(38,4)"]),
        ("coalesce(c1, 'none')", ["INTEGER", "VARCHAR"]),
        ("coalesce(NULL, c1, c1, 'x')", ["INTEGER", "VARCHAR"]),
        ("coalesce('x', c1)", ["INTEGER", "VARCHAR"]),
        ("ifnull(c0, 10 // c1)", ["INTEGER", "INTEGER"]),
        ("nullif(c0, 0)", ["INTEGER", "INTEGER"]),
        ("nullif(c1, '')", ["INTEGER", "VARCHAR"]),
        ("nullif(c0, 1.5)", ["INTEGER", "INTEGER"]),
        ("c1 / nullif(c0, 0)", ["INTEGER", "INTEGER"]),
    ],
)
def test_conditional(text: str, types: list[str]) -> None:
    check_pairs(text, types)


@pytest.mark.full
@pytest.mark.parametrize("scale", [18, 19, 38])
def test_texts_of_decimals_with_many_digits_are_duckdbs(scale: int) -> None:
    """Bug: ten to the 19 does not fit into 64 bits, and a commit ended in an OverflowError."""
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (d DECIMAL(38, {scale}))")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT d::VARCHAR AS s FROM t")
        for value in ("0", f"1e-{scale}", "-0.5", "NULL"):
            db.execute(f"INSERT INTO t VALUES ({value})")
        assert db.execute("SELECT count(*) FROM v").fetchall() == [(4,)]
        assert_verified(db, "v")
