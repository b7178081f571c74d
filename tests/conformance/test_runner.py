"""The runner itself: it must see what is wrong, and only that."""

from __future__ import annotations

import datetime

import pytest

from tests.conformance import duckdb_tests
from tests.conformance.compare import difference
from tests.conformance.dialect import split, translate
from tests.conformance.known import Known, entries, settled, stale
from tests.conformance.outcome import Outcome
from tests.conformance.pair import NotDuckDBError, Pair, WrongError
from tests.conformance.text_form import words, written
from tests.conformance.tpcc_rows import Content, tables

SCHEMA = """
CREATE TABLE ITEM (I_ID INT NOT NULL PRIMARY KEY, I_PRICE DECIMAL(5, 2), I_DATA VARCHAR(50));
CREATE TABLE HISTORY (H_W_ID INT, H_AMOUNT DECIMAL(6, 2));
"""


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ([(1, None), (1, None)], [(1, None), (1, None)], True),
        ([(1,)], [(1,), (1,)], False),
        ([(0.1 + 0.2, "a")], [(0.3, "a")], True),
        ([(1.0,)], [(1.00001,)], False),
        ([(float("nan"),)], [(float("nan"),)], True),
        ([([1, 2],)], [([2, 1],)], False),
        ([(1.0, "b"), (2.0, "a")], [(1.0 + 1e-15, "b"), (2.0 + 1e-15, "a")], True),
    ],
)
def test_rows_are_compared_as_multisets(
    found: list[tuple[object, ...]], wanted: list[tuple[object, ...]], same: bool
) -> None:
    assert (difference(found, wanted) == "") is same


def test_rows_are_written_as_postgres_writes_them() -> None:
    row = (None, True, "", [1, None], {"a": 1, "b": {"c": 2}}, datetime.timedelta(hours=2))
    assert written(row) == words('NULL t (empty) {1,NULL} (1,"(2)") 02:00:00')
    assert written((1.50, 2)) == words("1.5 2.000")


def test_statements_are_translated() -> None:
    made = translate("create materialized view v as select a::int from t;", "risingwave")
    assert made is not None
    assert made.ours == "CREATE MATERIALIZED VIEW v AS SELECT CAST(a AS INT) FROM t"
    assert made.plain == "CREATE VIEW v AS SELECT CAST(a AS INT) FROM t"
    assert translate("flush", "risingwave") is None
    assert split("SELECT ';' -- ; \n; SELECT 2;", "postgres") == ["SELECT ';' -- ; \n", "SELECT 2"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "starts"),
    [
        ("TUMBLE(b, ts, INTERVAL '10' SECOND)", ["00:00:10"]),
        ("HOP(b, ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)", ["00:00:05", "00:00:10"]),
    ],
)
def test_windows_in_from(call: str, starts: list[str]) -> None:
    sql = f"SELECT window_start, window_end - window_start FROM {call}"
    statement = translate(sql, "risingwave")
    assert statement is not None
    with Pair() as pair:
        pair.db.execute("CREATE TABLE b (ts TIMESTAMP)")
        pair.db.execute("INSERT INTO b VALUES ('2020-01-01 00:00:12')")
        found = sorted(pair.db.execute(statement.ours).fetchall())
    assert [f"{start:%H:%M:%S}" for start, _ in found] == starts
    assert {length for _, length in found} == {datetime.timedelta(seconds=10)}


@pytest.mark.full
def test_a_pair_tells_foreign_from_wrong() -> None:
    with Pair() as pair:
        create, foreign, random, reader = (
            translate(sql, "postgres")
            for sql in (
                "CREATE TABLE t (a INT)",
                "CREATE MATERIALIZED VIEW v AS SELECT no_function(a) FROM t",
                "CREATE MATERIALIZED VIEW r AS SELECT random() FROM t",
                "SELECT * FROM v",
            )
        )
        assert create
        assert foreign
        assert random
        assert reader
        pair.answer(create)
        with pytest.raises(NotDuckDBError, match="no_function"):
            pair.answer(foreign)
        with pytest.raises(NotDuckDBError, match="needs v"):
            pair.answer(reader)
        with pytest.raises(WrongError, match="random"):
            pair.answer(random)
        pair.db.execute("INSERT INTO t VALUES (1)")
        wrong = translate("SELECT a FROM t", "postgres")
        assert wrong
        with pytest.raises(WrongError, match="another number of rows"):
            pair.answer(wrong)


def test_an_unknown_reason_fails() -> None:
    outcomes = [Outcome("s", "1", "foreign", "", "no such thing"), Outcome("s", "2", "pass")]
    assert [o.verdict for o in settled(outcomes, [])] == ["fail", "pass"]
    assert [o.verdict for o in settled(outcomes, [Known("such", "why")])] == ["known", "pass"]


def test_an_entry_that_explains_nothing_is_stale() -> None:
    first, shadowed, unused = Known("^no", "a"), Known("such", "b"), Known("other", "c")
    known = [first, shadowed, unused]
    outcomes = settled([Outcome("s", "1", "fail", "", "no such thing")], known)
    assert stale(outcomes, known) == [shadowed, unused]
    reasons = [entry.reason for entry in entries()]
    assert len(set(reasons)) == len(reasons)


@pytest.mark.full
def test_generated_changes_are_valid_and_change_every_table() -> None:
    made = tables(SCHEMA)
    assert [t.key for t in made] == [("I_ID",), ()]
    content = Content(made, seed=3)
    with Pair() as pair:
        for table in made:
            pair.db.execute(table.ddl)
        statements = [*content.fill()]
        statements += [
            s for epoch in content.epochs(["UPDATE ITEM SET I_PRICE = 1"]) for s in epoch
        ]
        for statement in statements:
            pair.db.execute(statement)
    kinds = {(s.split()[0], t.name) for s in statements for t in made if t.name in s}
    assert len(kinds) == 6


def test_a_halt_of_duckdbs_tests_is_told() -> None:
    found = {"file": "x", "state": "done", "views": {}, "issues": {}, "notes": ["stopped", "end"]}
    (outcome,) = duckdb_tests._outcomes(found)
    assert (outcome.verdict, outcome.detail) == ("fail", "note: stopped")
