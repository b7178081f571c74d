"""Parameters and look-ups by key of queries that are answered from memory mean what DuckDB means.

The oracle is DuckDB itself, on the file after a flush, with the user's own text and values.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.engine.views import held_views
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples

COLUMNS = {
    "i": "INTEGER",
    "n": "BIGINT",
    "u": "UTINYINT",
    "d": "DOUBLE",
    "v": "VARCHAR",
    "m": "DECIMAL(9,2)",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "id": "UUID",
}
ONE = uuid.UUID("8ceadae7-9c71-4d89-b5e1-00bd5b811dd5")
VALUES: list[Any] = [
    *(0, 1, -1, 2, 255, 256, 2**31, 2**40, -(2**63), 2**63, 2**70),
    *(0.0, -0.0, 1.0, 1.5, float("nan"), float("inf")),
    *("", "1", "a", "é", "1.5", "2024-01-01", "x'y", "2024-01-01 00:00:00"),
    *(True, False, None, b"a", decimal.Decimal("1.50"), ONE),
    *(datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), datetime.time(1)),
    datetime.datetime(2024, 1, 1, 12, 30, 0, 5),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
]
QUERIES = [
    "SELECT * FROM w WHERE {c} = ?",
    "SELECT k, {c} FROM w WHERE ? = {c} AND k > 0",
    "SELECT k FROM w WHERE {c} < ? ORDER BY k",
    "SELECT k FROM w WHERE {c} IN (?)",
    "SELECT k, ? AS given FROM w",
    "SELECT count(*) FROM w WHERE {c} <> ?",
    "SELECT k, ? FROM w WHERE k = 1",
    "SELECT k FROM w LIMIT ?",
    "SELECT k FROM w WHERE k = 1 AND {c} = ?",
    "SELECT a.k FROM w a JOIN w b ON a.k = b.k WHERE a.{c} = ?",
    "SELECT k, o.x FROM w JOIN (VALUES (1, ?), (2, NULL)) o(k, x) USING (k)",
    "SELECT k FROM w JOIN (VALUES (?)) o(x) ON {c} = x",
    "SELECT k, r.i FROM w JOIN range(?) r(i) ON k = r.i WHERE k > 0",
    "SELECT k, {c} FROM w UNION ALL SELECT 5, ?",
]


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    """A view with two rows under each key, and a column of each type."""
    with ivm.connect() as opened:
        columns = ", ".join(f"{name} {sql}" for name, sql in COLUMNS.items())
        opened.execute(f"CREATE TABLE t (k INTEGER, {columns})")
        for k, text in ((1, "'1'"), (1, "'1'"), (2, "NULL"), (0, "'0'")):
            numbers = ", ".join([text] * 4)
            opened.execute(
                f"INSERT INTO t VALUES ({k}, {numbers}, {text}, {text},"
                f" DATE '2024-01-01', TIMESTAMP '2024-01-01', '{ONE}')"
            )
        opened.execute("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
        yield opened


def outcome(run: Any) -> Any:
    """Rows in any order, or the kind of error."""
    try:
        return Counter(map(repr, run()))
    except Exception as error:
        return str(error).splitlines()[0][:60]


@settings(max_examples=examples(400), deadline=None)
@given(
    query=s.sampled_from(QUERIES), column=s.sampled_from([*COLUMNS]), value=s.sampled_from(VALUES)
)
def test_any_value_of_any_type(db: ivm.Database, query: str, column: str, value: Any) -> None:
    text = query.format(c=column)
    wanted = outcome(lambda: oracle(db, text, [value]).fetchall())
    for _ in range(3):
        found = outcome(lambda: db.execute(text, [value]).fetchall())
        assert isinstance(found, str) == isinstance(wanted, str), (text, value, found, wanted)
        if not isinstance(found, str):
            assert found == wanted, (text, value)


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("SELECT k FROM w WHERE i = ?", [1]),
        ("SELECT k FROM w WHERE i = $1 OR n = $1", [1]),
        ("SELECT k FROM w WHERE i = $Key AND v = $v", {"key": 1, "v": "1"}),
        ("SELECT k FROM w WHERE v = ? ORDER BY k LIMIT 1", ["1"]),
        ("SELECT k, ? + i AS more FROM w WHERE dt >= ?", [5, datetime.date(2024, 1, 1)]),
        (
            "SELECT count(*) AS n FROM w WHERE ts = ? AND id = ?",
            [datetime.datetime(2024, 1, 1), ONE],
        ),
        ("SELECT sum(k) AS s FROM w WHERE d BETWEEN ? AND ?", [0.5, 1.5]),
    ],
)
def test_these_come_from_memory(db: ivm.Database, text: str, params: Any) -> None:
    for _ in range(3):
        result = db.execute(text, params)
    assert isinstance(result, StateResult)
    expected = oracle(db, text, params)
    assert result.columns == [c[0] for c in expected.description]
    assert result.types == [str(c[1]) for c in expected.description]
    assert Counter(result.fetchall()) == Counter(expected.fetchall())


def test_too_few_values_are_refused_as_always(db: ivm.Database) -> None:
    text = "SELECT k FROM w WHERE i = ? AND n = ?"
    for params in ([1], [1, 2, 3], None, {"a": 1}):
        for _ in range(4):
            with pytest.raises(ivm.errors.IvmError):
                db.execute(text, params)


@pytest.mark.parametrize(
    "params",
    [(1, "1"), {1: 1, 2: "1"}, {"1": 1, "2": "1"}, {"1": 1, "2": "1", "3": 5}, range(1, 3)],
)
def test_odd_collections_are_taken_as_duckdb_takes_them(db: ivm.Database, params: Any) -> None:
    text = "SELECT k FROM w WHERE i = $1 AND v = $2"
    wanted = outcome(lambda: oracle(db, text, params).fetchall())
    for _ in range(4):
        found = outcome(lambda: db.execute(text, params).fetchall())
        assert isinstance(found, str) == isinstance(wanted, str), (found, wanted)
        assert isinstance(found, str) or found == wanted


KEYS: dict[str, list[Any]] = {
    "INTEGER": [0, 1, -5, 2**31 - 1, 2**31, "1", 1.0],
    "VARCHAR": ["", "a", "é", "A", 1],
    "DATE": [datetime.date(2024, 1, 1), datetime.date(1, 1, 1), "2024-01-01"],
    "DOUBLE": [0.0, -0.0, 1.5, float("nan"), 1],
    "UUID": [ONE, uuid.UUID(int=0)],
}


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize("name", KEYS)
def test_rows_under_a_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a view that is too large to be held whole, while it changes."""
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    keys = [k for k in KEYS[name] if not isinstance(k, str) or name == "VARCHAR"]
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (a {name}, b INTEGER, c INTEGER)")
        db.execute("INSERT INTO t SELECT NULL, i % 3, i FROM range(10) r(i)")
        db.execute("CREATE MATERIALIZED VIEW one AS SELECT a, sum(c) AS s FROM t GROUP BY a")
        db.execute("CREATE MATERIALIZED VIEW two AS SELECT a, b, max(c) AS m FROM t GROUP BY a, b")
        texts = [
            ("SELECT * FROM one WHERE a = ?", 1),
            ("SELECT m FROM two WHERE b = ? AND a = ?", 2),
        ]
        came = set()

        @settings(max_examples=examples(30), deadline=None)
        @given(
            rows=s.lists(
                s.tuples(s.sampled_from([*keys, None]), s.integers(0, 2), s.integers(0, 9))
            ),
            key=s.sampled_from(KEYS[name]),
            gone=s.integers(0, 9),
        )
        def changed(rows: list[tuple[Any, int, int]], key: Any, gone: int) -> None:
            db.execute(f"DELETE FROM t WHERE c = {gone}")
            for a, b, c in rows:
                if a != 2**31:
                    db.execute("INSERT INTO t VALUES (?, ?, ?)", [a, b, c])
            for text, count in texts:
                params = [1, key][-count:]
                wanted = outcome(oracle(db, text, params).fetchall)
                for _ in range(3):
                    result = db.execute(text, params)
                    came.add(isinstance(result, StateResult))
                    assert outcome(result.fetchall) == wanted, (text, params)

        changed()
        assert True in came


def test_literals_look_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_views, "MOST_ROWS", 0)
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a DATE, b INTEGER)")
        db.execute("INSERT INTO t SELECT DATE '2024-01-01' + i::INT, i FROM range(9) r(i)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, b, count(*) AS n FROM t GROUP BY a, b")
        for where in ("a = '2024-01-03' AND b = 2", "2 = b AND a = DATE '2024-01-03' AND n = 1"):
            for _ in range(3):
                result = db.execute(f"SELECT b FROM v WHERE {where}")
                assert result.fetchall() == [(2,)]
        assert isinstance(
            db.execute("SELECT b FROM v WHERE a = '2024-01-03' AND b = 2"), StateResult
        )
        for where in ("b = 2", "a > '2024-01-03' AND b = 2", "a = '2024-01-03' OR b = 2"):
            for _ in range(4):
                result = db.execute(f"SELECT b FROM v WHERE {where}")
            assert not isinstance(result, StateResult)
