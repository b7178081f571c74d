"""Values that UPDATE and DELETE compare with a key find the rows that DuckDB's comparison does."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.support.duckdb_twin import Twin

KEYS = {
    "DECIMAL(9, 2)": "0.01, 0, 1, 55, -0.1",
    "DECIMAL(38, 20)": "0.1, 0.01, 1",
    "INTEGER": "0, 1, 55, -1",
    "UTINYINT": "0, 1, 255",
    "BIGINT": "0, 1, 9007199254740993",
    "HUGEINT": "0, 1, 18446744073709551616",
    "DOUBLE": "0.01, 0.005, 0.1, 0, 'nan'::DOUBLE, 9007199254740992",
    "FLOAT": "0.01, 0.1, 1",
    "VARCHAR": "'a', 'A', '1', '0.01', '2024-01-01', 'true', ''",
    "DATE": "DATE '2024-01-01', DATE '2024-01-02'",
    "TIMESTAMP": "TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-01 10:00:00'",
    "TIMESTAMPTZ": "TIMESTAMPTZ '2024-01-01 10:00:00+00'",
    "TIMESTAMP_S": "'2024-01-01 10:00:00'::TIMESTAMP_S",
    "BOOLEAN": "true, false",
    "UUID": "'00000000-0000-0000-0000-000000000001'::UUID",
    "BLOB": "'a'::BLOB, ''::BLOB",
    "TIME": "TIME '10:00:00'",
}
VALUES: list[Any] = [
    *map(Decimal, str.split("0.005 0.01 0.010 0.0149 1.004 1 1E+1 -0.1 123456789.123")),
    *(0.005, 0.01, 0.1, 1.0, -0.0, float("nan"), 9007199254740993.0, 0, 1, 255, 256, 2**64),
    *("0.01", "0.005", "1", "a", "A", "", "true", "2024-01-01", "2024-01-01 10:00:00"),
    *("2024-01-01 12:00:00+02", "00000000-0000-0000-0000-000000000001", "10:00:00"),
    *(True, None, date(2024, 1, 1), datetime(2024, 1, 1, 10), time(10), timedelta(days=1)),
    *(datetime(2024, 1, 1, 10, tzinfo=UTC), UUID(int=1), b"a", b""),
]
LITERALS = str.split(
    "0.005;0.01;0.010;0.0149;1.0;1;1e0;1e-2;5e-3;'0.01';'0.005';true;NULL;0.1;9007199254740993;"
    "0.10000000000000000001;-0.0;256;'a';'2024-01-01';DATE '2024-01-01';0.01::DOUBLE;"
    "TIMESTAMP '2024-01-01 10:00:00';'2024-01-01 10:00:00';1::TINYINT;''",
    ";",
)
CONDITIONS = ["k = {}", "k IN ({}, 7)", "k >= {} AND k <= {}", "x = {}", "k BETWEEN {} AND {}"]


@pytest.mark.cases(20)
@pytest.mark.parametrize("type", KEYS)
def test_values_of_every_type_find_the_same_rows(type: str) -> None:
    """Each change is undone, so that the next one meets the same rows."""
    rows = ", ".join(f"({key}, {key})" for key in KEYS[type].split(", "))
    table = f"CREATE TABLE t (k {type} PRIMARY KEY, x {type}, n INTEGER); CREATE INDEX i ON t (x)"
    both = Twin(
        table, "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n", ("t",)
    )
    assert both.run(f"INSERT INTO t (k, x) VALUES {rows}")
    for condition in CONDITIONS:
        marks = condition.count("{}")
        tried: list[tuple[str, Any]] = [
            (condition.format(*["?"] * marks), [value] * marks) for value in VALUES
        ]
        tried += [(condition.format(*[text] * marks), None) for text in LITERALS]
        for where, params in tried:
            for change in ("UPDATE t SET n = 1", "DELETE FROM t"):
                both.run("BEGIN")
                both.run(f"{change} WHERE {where} RETURNING k", params)
                both.run("ROLLBACK")
    both.check()
