"""Values of two types meet in queries answered from memory as they do in DuckDB.

Compared, joined, combined and computed with: rows, types, names, Python values and order are those
of DuckDB's own answer.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_parameters_from_state import outcome
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples

VALUES = {
    "BOOLEAN": ["true", "false"],
    "INTEGER": ["1", "0", "16777217", "-1"],
    "BIGINT": ["1", "0", "9007199254740993", "9223372036854775807"],
    "UBIGINT": ["1", "0", "18446744073709551615"],
    "HUGEINT": ["1", "0", "170141183460469231731687303715884105727"],
    "FLOAT": ["1.12346", "1", "16777216", "-0.0", "'nan'"],
    "DOUBLE": ["1.12346", "1", "-0.0", "9007199254740992", "'nan'", "'-inf'"],
    "DECIMAL(9,2)": ["1.12", "1", "0", "0.5"],
    "DECIMAL(18,9)": ["1.123456789", "1.12346", "0", "1"],
    "DECIMAL(38,5)": ["1.12346", "0", "-1", "123456789012345678901234567890.12345"],
    "DECIMAL(38,38)": ["0.12346", "0", "-0.5"],
    "VARCHAR": ["'1'", "'1.0'", "'x'", "'2024-01-01'", "''"],
    "DATE": ["'2024-01-01'", "'infinity'", "'0001-01-01'"],
    "TIMESTAMP": ["'2024-01-01'", "'2024-01-01 00:00:01'", "'infinity'"],
    "TIMESTAMP_S": ["'2024-01-01'", "'1969-12-31 23:59:59'"],
    "TIMESTAMP_NS": ["'2024-01-01 00:00:00.000000001'", "'2024-01-01'"],
}
PAIRS = list(itertools.permutations(VALUES, 2))
QUERIES = [
    "SELECT x.k, y.k FROM v x JOIN v y ON x.a = y.b ORDER BY 1, 2",
    "SELECT x.k FROM v x LEFT JOIN v y ON x.a = y.b AND x.a <> y.a ORDER BY x.k",
    "SELECT k FROM v WHERE a IN (SELECT b FROM v) ORDER BY k",
    "SELECT k FROM v WHERE a NOT IN (SELECT b FROM v WHERE b IS NOT NULL) ORDER BY k",
    "SELECT k FROM v WHERE a > (SELECT min(b) FROM v) ORDER BY k",
    "SELECT k, a = b AS c, a < b AS d, a IS DISTINCT FROM b AS e FROM v ORDER BY k",
    "SELECT k FROM v WHERE a BETWEEN b AND b OR a IN (b, NULL) ORDER BY k",
    "SELECT k, coalesce(a, b) AS c, nullif(a, b) AS d, greatest(a, b) AS e FROM v ORDER BY k",
    "SELECT a FROM v UNION ALL SELECT b FROM v",
    "SELECT a FROM v EXCEPT SELECT b FROM v",
    "SELECT k, CASE a WHEN b THEN a ELSE b END AS c FROM v ORDER BY k",
    "SELECT k, a + b AS c, a - b AS d FROM v ORDER BY k",
    "SELECT k, a * b AS c FROM v ORDER BY k",
    "SELECT k, a / b AS c FROM v ORDER BY k",
    "SELECT k, a % b AS c FROM v ORDER BY k",
]


def compare(db: ivm.Database, text: str) -> bool:
    """Compares an answer with DuckDB's; returns whether it came from memory."""
    wanted = outcome(lambda: oracle(db, text).fetchall())
    for _ in range(3):
        found = outcome(lambda: db.execute(text).fetchall())
        assert isinstance(found, str) == isinstance(wanted, str), (text, found, wanted)
        assert isinstance(found, str) or found == wanted, text
    if isinstance(wanted, str):
        return False
    result, cursor = db.execute(text), oracle(db, text)
    shown = [(c[0], str(c[1])) for c in cursor.description]
    assert list(zip(result.columns, result.types, strict=True)) == shown, text
    if "ORDER BY" in text:
        assert repr(result.fetchall()) == repr(cursor.fetchall()), text
    return isinstance(result, StateResult)


@settings(max_examples=examples(16), deadline=None)
@given(data=s.data(), pair=s.sampled_from(PAIRS))
def test_any_two_types(data: s.DataObject, pair: tuple[str, str]) -> None:
    value = [s.sampled_from(["NULL", *VALUES[type]]) for type in pair]
    rows = data.draw(s.lists(s.tuples(*value), min_size=2, max_size=5))
    queries = data.draw(s.lists(s.sampled_from(QUERIES), min_size=4, max_size=4, unique=True))
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (k INTEGER, a {pair[0]}, b {pair[1]})")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        listed = [f"({k}, {a}::{pair[0]}, {b}::{pair[1]})" for k, (a, b) in enumerate(rows)]
        db.execute(f"INSERT INTO t VALUES {', '.join(listed)}")
        for query in queries:
            compare(db, query)


@pytest.mark.full
def test_these_come_from_memory() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k INTEGER, a DECIMAL(9,2), b BIGINT)")
        db.execute("INSERT INTO t VALUES (1, 1.5, 2), (2, 2, 1), (NULL, NULL, NULL)")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        for query in QUERIES:
            assert compare(db, query) == ("NOT IN" not in query)
