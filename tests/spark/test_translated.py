"""Expressions said in Spark SQL have DuckDB's bits, for the extreme values of every type.

A row on which DuckDB fails must fail on Spark too: some of them are tried alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pytest
import sqlglot

from ivm.spark_backfill.translation.not_translatable import NotTranslatableError
from ivm.spark_backfill.translation.translated import translator
from ivm.spark_backfill.workers.carriers import carrier
from ivm.sql.plan.nodes import Scan
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, registered, rows, run
from tests.support.scalar_oracle import extreme_pairs, make_column
from tests.support.spark import World, in_utc
from tests.tiers import some

pytestmark = pytest.mark.full(smoke=2)

INTEGERS = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
DECIMALS = ["DECIMAL(4,1)", "DECIMAL(15,2)", "DECIMAL(18,2)", "DECIMAL(38,4)"]
SIGNS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
ARITHMETIC = ["c0 + c1", "c0 - c1", "c0 * c1", "-c0"]
COMPARED = [f"c0 {sign} c1" for sign in SIGNS]
BRANCHES = ["CASE WHEN c0 = c1 THEN c0 END", "coalesce(c0, c1)", "nullif(c0, c1)", "c0 IS NULL"]
BRANCHES += ["CASE c0 WHEN c1 THEN 1 ELSE 2 END", "c0 BETWEEN c1 AND c1", "c0 IN (c1, c0)"]
CASES: list[tuple[tuple[str, ...], list[str]]] = [
    *[
        ((t, t), [*COMPARED, *BRANCHES, *ARITHMETIC, "c0 // c1", "c0 % c1", "greatest(c0, c1)"])
        for t in INTEGERS
    ],
    *[((t, t), [*COMPARED, *BRANCHES, *ARITHMETIC, "least(c0, c1)"]) for t in DECIMALS],
    *[((t, t), [*COMPARED, *BRANCHES]) for t in ("DOUBLE", "BOOLEAN", "DATE", "VARCHAR")],
    (("TIMESTAMP", "TIMESTAMP"), [*COMPARED, *BRANCHES]),
    (("DOUBLE", "DOUBLE"), ARITHMETIC),
    (("TINYINT", "BIGINT"), [*COMPARED, *ARITHMETIC, "c0 // c1", "coalesce(c0, c1)"]),
    (("INTEGER", "DECIMAL(15,2)"), [*COMPARED, *ARITHMETIC, "coalesce(c0, c1)"]),
    (("DECIMAL(4,1)", "DECIMAL(15,2)"), [*COMPARED, *ARITHMETIC, "coalesce(c0, c1)"]),
    (("DECIMAL(15,2)", "DECIMAL(15,2)"), ["c0 * (1 - c1)", "c0 * (1 - c1) * (1 + c1)"]),
    (("BOOLEAN", "BOOLEAN"), ["c0 AND c1", "c0 OR c1", "NOT c0", "if(c0, 1, 2)"]),
    (("VARCHAR", "VARCHAR"), ["c0 || c1", "length(c0)", "c0 LIKE 'a%'", "c0 LIKE '%_c%'"]),
    (("VARCHAR",), ["c0 NOT LIKE '%b%'", "c0 NOT IN ('a', 'b')", "c0 IS NOT NULL"]),
    (("INTEGER",), ["c0 NOT BETWEEN 1 AND 100", "NOT (c0 = 1)", "c0 IS NOT DISTINCT FROM NULL"]),
    (("VARCHAR",), ["c0 = 'ab\\c'", "c0 || 'it''s \\ é'", "c0 IN ('a', 'abc')", "c0 > ''"]),
    (("VARCHAR",), ["c0 || '${spark.app.name}'", "c0 <> '${env:PATH}'", "c0 LIKE '${env:PATH}%'"]),
    (("DATE",), ["year(c0)", "month(c0)", "day(c0)", "quarter(c0)", "extract(year FROM c0)"]),
    (("DATE",), ["c0 < '1995-03-15'", "c0 >= DATE '1995-03-15' + INTERVAL 3 MONTH"]),
    *[
        ((t,), [f"c0::{to}" for to in (*INTEGERS, "VARCHAR", "DECIMAL(18,2)", "DOUBLE")])
        for t in INTEGERS
    ],
    (("DECIMAL(4,1)",), ["c0::DECIMAL(15,2)", "c0::DOUBLE", "c0 > 0.5", "c0 * 2"]),
]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(("types", "texts"), some(CASES, of=6), ids=str)
def test_values_are_those_of_duckdb(types: tuple[str, ...], texts: list[str]) -> None:
    cursor = in_utc(duckdb.connect())
    run(cursor, "SET arrow_lossless_conversion = true")
    _fill(cursor, [type_of(t) for t in types], extreme_pairs(types))
    said = {text: _said(text, types) for text in texts}
    known = {text: s for text, s in said.items() if s is not None}
    assert known, "no text of these is said in Spark SQL"
    failing = _answers(cursor, list(known))
    with World(cursor) as world:
        _compare(world, known, types)
        for text, numbers in failing.items():
            for number in numbers[:: max(1, len(numbers) // 2)]:
                _demand_failure(world, known[text], types, number)
    cursor.close()


def test_what_is_not_on_the_list_is_named() -> None:
    for text, types, named in [
        ("upper(c0)", ["VARCHAR"], "upper"),
        ("c0 / c1", ["INTEGER", "INTEGER"], "Div"),
        ("c0 LIKE c1", ["VARCHAR", "VARCHAR"], "LIKE"),
        ("c0 = c1", ["BIGINT", "DOUBLE"], "comparison of BIGINT with DOUBLE"),
        ("c0 * c0", ["DECIMAL(38,4)"], "DECIMAL"),
        ("c0 BETWEEN SYMMETRIC 3 AND c0", ["INTEGER"], "Between with symmetric"),
        ("TRY_CAST(c0 AS INTEGER)", ["VARCHAR"], "try_cast"),
        ("c0 LIKE 'a%' ESCAPE '!'", ["VARCHAR"], "Escape"),
        ("c0 < DATE '290000-01-01'", ["DATE"], "constant"),
        *[
            (f"c0 > {type} '{sign}infinity'", [type], "constant")
            for type in ("DATE", "TIMESTAMP")
            for sign in ("", "-")
        ],
        ("c0 > '-infinity'", ["TIMESTAMP"], "constant"),
        ("c0 > DATE '-infinity'", ["TIMESTAMP"], "constant"),
        ("c0 < '0044-03-15 (BC)'", ["DATE"], "constant"),
        ("c0 > E'\\x01'", ["VARCHAR"], "control characters"),
    ]:
        with pytest.raises(NotTranslatableError, match=named):
            translator([type_of(t) for t in types], "UTC").say(
                sqlglot.parse_one(text, dialect="duckdb")
            )


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_constants_are_of_the_zone(zone: str) -> None:
    text = "c0 < CAST(TIMESTAMPTZ '2024-03-01 02:00:00+00' AS DATE)"
    day = {"America/New_York": "2024-02-29"}.get(zone, "2024-03-01")
    said = translator([type_of("DATE")], zone).say(sqlglot.parse_one(text, dialect="duckdb"))
    assert said == f"(c0 < CAST(DATE'{day}' AS DATE))"


def _fill(cursor: Cursor, types: Sequence[ColumnType], values: Sequence[tuple[Any, ...]]) -> None:
    """Makes the table `given` of the values, with the row's number as column `row`."""
    columns = [make_column(v, t) for v, t in zip(values, types, strict=True)]
    schema = tuple((f"c{i}", t) for i, t in enumerate(types))
    batch = ZSet(tuple(columns), np.ones(len(columns[0]), np.int64))
    with registered(cursor, {"batch": (batch, schema)}):
        run(cursor, "CREATE TABLE given AS SELECT row_number() OVER () AS row, * FROM batch")


def _said(text: str, types: Sequence[str]) -> str | None:
    names = [f"c{i + 1}" for i in range(len(types))]  # c0 is the row's number
    try:
        saying = translator([type_of(t) for t in types], "UTC", names)
        return saying.say(sqlglot.parse_one(text, dialect="duckdb"))
    except NotTranslatableError:
        return None


def _answers(cursor: Cursor, texts: Sequence[str]) -> dict[str, list[int]]:
    """Makes the tables w0, w1, … of DuckDB's values; gives the rows on which each text fails."""
    numbers = [number for (number,) in rows(cursor, "SELECT row FROM given ORDER BY row")]
    failing: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        query = f"CREATE TABLE w{i} AS SELECT row, {text} AS v FROM given"
        failing[text] = []
        try:
            run(cursor, query)
        except duckdb.Error:
            failing[text] = bad = [number for number in numbers if _fails(cursor, text, number)]
            run(cursor, f"{query} WHERE row NOT IN ({', '.join(map(str, bad))})")
    return failing


def _fails(cursor: Cursor, text: str, number: int) -> bool:
    try:
        rows(cursor, f"SELECT {text} FROM (FROM given WHERE row = {number})")
    except duckdb.Error:
        return True
    return False


def _frame(world: World, types: Sequence[str]) -> Any:
    given = tuple((name, t) for name, t in describe(world.cursor, "FROM given"))
    scan = Scan("given", tuple(range(len(types) + 1)), given)
    return world.frames(scan).frame(scan)


def _compare(world: World, said: dict[str, str], types: Sequence[str]) -> None:
    cursor = world.cursor
    items = []
    for i, sql in enumerate(said.values()):
        ((good,),) = rows(cursor, f"SELECT list(row) FROM w{i}")
        items.append(
            f"CASE WHEN c0 IN ({', '.join(map(str, good or [-1]))}) THEN {sql} END AS x{i}"
        )
    cursor.register("found", _frame(world, types).selectExpr("c0", *items).toArrow())
    for i, text in enumerate(said):
        (_, (_, type)) = describe(cursor, f"FROM w{i}")
        query = f"""SELECT c0, ({carrier(type).back(f"x{i}")})::VARCHAR AS a, v::VARCHAR AS b
            FROM found JOIN w{i} ON c0 = row WHERE a IS DISTINCT FROM b"""
        assert rows(cursor, query) == [], text
    cursor.unregister("found")


def _demand_failure(world: World, sql: str, types: Sequence[str], number: int) -> None:
    from pyspark.errors import PySparkException

    try:
        found = _frame(world, types).where(f"c0 = {number}").selectExpr(sql).toArrow()
    except PySparkException:
        return
    raise AssertionError(f"DuckDB fails on row {number}, Spark: {sql} is {found.to_pylist()}")
