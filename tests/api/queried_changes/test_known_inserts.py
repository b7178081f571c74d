"""INSERT … SELECT with other literals than one of which memory has given the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.changes import insert_select
from ivm.session.insert_templates import InsertTemplates
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.tables.table_info import TableInfo
from tests.support.change_ways import sources_in_memory
from tests.support.duckdb_twin import Twin
from tests.tiers import examples

SETUP = """
CREATE TABLE p (k BIGINT PRIMARY KEY, i INTEGER, s VARCHAR, ts TIMESTAMP);
CREATE TABLE t (k BIGINT PRIMARY KEY, n SMALLINT, s VARCHAR DEFAULT 'none', CHECK (n < 90));
CREATE TABLE o (k BIGINT, n BIGINT, s VARCHAR);
INSERT INTO p SELECT i, i % 7, 'it''s ' || i % 3, TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR
    FROM range(60) r(i);
"""
VIEWS = """
CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, sum(k) AS k FROM t GROUP BY n;
"""
FILTERED = "VIEW w AS SELECT k, i, s, ts FROM p WHERE i <> 3"
FILLED = "INSERT INTO t SELECT i + {}, i % 50, 'x' FROM range({}) r(i)"
TEXTS = [
    FILLED,
    "INSERT INTO t SELECT i + {}, i, 'a' FROM range({}, {}) r(i)",
    "INSERT INTO t SELECT k + {}, i, s FROM p WHERE k = {}",
    "insert into main.t (s, k) SELECT s, k * {} FROM p WHERE k BETWEEN {} AND {}",
    "INSERT INTO t SELECT k + {}, i, s FROM w WHERE s = {}",
    "INSERT INTO t SELECT k + {}, i, s FROM w WHERE ts >= {} AND i < {}",
    "INSERT INTO t AS told (k) SELECT {} + k FROM w WHERE i = {} AND k <> {}",
    "INSERT INTO t (k, n) SELECT k + {}, {} FROM p WHERE k = {}",
    "INSERT INTO t (k) SELECT i + {} FROM p WHERE k = {}",
]
NUMBERS = ["0", "1", "2", "5", "-1", "- 3", "40", "007"]
LARGE = ["1000", "99999999999", "9" * 18, "9" * 19, "-9223372036854775808"]
OTHERS = ["-0", "1.5", "1e3", "0x1F", "1_0", "NULL", "(5)", "'5'", "5 -- five\n", "i", "1 + 1"]
STRINGS = ["'it''s 1'", "'it''s 2'", "'a'", "''", "E'it\\'s 1'"]
TIMES = ["'2024-01-01'", "'2024-01-02 03:00:00'"]
SMALL = s.sampled_from(NUMBERS) | s.sampled_from(STRINGS + TIMES) | s.sampled_from(OTHERS)
ANY = SMALL | s.sampled_from(LARGE)
STATEMENTS = s.tuples(
    s.sampled_from(["", "\n ", ";"]),
    s.sampled_from(TEXTS),
    s.tuples(ANY, SMALL, SMALL) | s.tuples(ANY, *[s.sampled_from(NUMBERS)] * 2),
    s.sampled_from(["", ";", " ; \n", " -- ; told", "; SELECT 1", " RETURNING k"]),
)


@contextmanager
def known_ones() -> Iterator[list[bool]]:
    """Collects of each statement that looks known whether its rows came from memory."""
    seen: list[bool] = []
    whole = insert_select._as_known

    def noted(*given: Any) -> Any:
        seen.append(False)
        result = whole(*given)
        seen[-1] = True
        return result

    with pytest.MonkeyPatch.context() as patch, sources_in_memory():
        patch.setattr(insert_select, "_as_known", noted)
        yield seen


@contextmanager
def twin_of(*tables: str) -> Iterator[Twin]:
    twin = Twin(SETUP, f"{VIEWS} CREATE MATERIALIZED {FILTERED}", tables)
    twin.duck.execute(f"CREATE {FILTERED}")
    with twin.db:
        yield twin


@pytest.fixture
def both() -> Iterator[Twin]:
    with twin_of("t") as twin:
        yield twin


@pytest.fixture(scope="module")
def kept_twin() -> Iterator[Twin]:
    with twin_of("t", "p") as twin:
        yield twin


@pytest.mark.full
@settings(max_examples=examples(200), deadline=None)
@given(
    statements=s.lists(STATEMENTS, min_size=2, max_size=8), begun=s.booleans(), kept=s.booleans()
)
def test_any_literals_give_what_duckdb_gives(
    kept_twin: Twin,
    statements: list[tuple[str, str, tuple[str, ...], str]],
    begun: bool,
    kept: bool,
) -> None:
    kept_twin.run("DELETE FROM t")
    with known_ones():
        if begun:
            kept_twin.run("BEGIN")
        for before, text, literals, after in statements:
            went_well = kept_twin.run(before + text.format(*literals) + after)
            if begun and not went_well:
                kept_twin.run("ROLLBACK")
                begun = False
        if begun:
            kept_twin.run("COMMIT" if kept else "ROLLBACK")
    kept_twin.check()


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (FILLED, ("100", "10"), ("2000", "9")),
        (TEXTS[1], ("100", "0", "9"), ("800", "0", "20")),
        (TEXTS[2], ("100", "5"), ("200", "7")),
        (TEXTS[3], ("100", "5", "9"), ("10000", "1", "7")),
        (TEXTS[4], ("100", "'it''s 1'"), ("1000", "'it''s 2'")),
        (TEXTS[5], ("100", "'2024-01-01 10:00:00'", "4"), ("900", "'2024-01-02 00:00:00'", "5")),
        (TEXTS[6], ("100", "2", "-1"), ("1000", "5", "-7")),
        ("\n" + FILLED + " ;\n", ("100", "10"), ("2000", "9")),
    ],
)
def test_it_is_not_read_anew(
    both: Twin, text: str, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    with known_ones() as seen, pytest.MonkeyPatch.context() as patch:
        both.run(text.format(*first))
        patch.setattr(insert_select, "source_of", None)
        both.run(text.format(*second))
        assert seen == [True]
    both.check()


CHANGES = {
    "a column more": ["ALTER TABLE t ADD COLUMN more INTEGER DEFAULT 4"],
    "another type": ["ALTER TABLE t ALTER n TYPE BIGINT"],
    "another table of the name": ["DROP TABLE t", "CREATE TABLE t (k VARCHAR, n INTEGER, s TEXT)"],
    "a table before it": ["CREATE TEMP TABLE t (k BIGINT, n INTEGER, s VARCHAR)"],
    "a unique column": ["CREATE UNIQUE INDEX u ON t (n)"],
    "a table function": ["CREATE MACRO range(a) AS TABLE SELECT 5 + a"],
}


@pytest.mark.full
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_names_mean_is_looked_up(both: Twin, changes: list[str]) -> None:
    both.db.execute("DROP MATERIALIZED VIEW v")
    with known_ones() as seen:
        both.run(FILLED.format("100", "10"))
        for statement in changes:
            both.run(statement)
        both.run(FILLED.replace("INTO t", "INTO o").format("100", "10"))  # the query is known now
        for number in ("200", "300", "400"):
            both.run(FILLED.format(number, "10"))
            both.run("SELECT * FROM t")
        assert seen[:1] in ([], [False])
    both.run("DROP TABLE IF EXISTS temp.t")
    both.check()


@pytest.mark.full
def test_what_the_query_names_is_looked_up(both: Twin) -> None:
    text = "INSERT INTO t SELECT k + {}, i, s FROM w WHERE s = {}"
    with known_ones() as seen:
        both.run(text.format(100, "'it''s 1'"))
        other = "VIEW w AS SELECT k + 7 AS k, i, s || '!' AS s FROM p"
        both.db.execute(f"CREATE OR REPLACE MATERIALIZED {other}")
        both.duck.execute(f"CREATE OR REPLACE {other}")
        for number in (200, 300, 400):
            both.run(text.format(number, "'it''s 1!'"))
        assert seen == [False, True, True]
    both.check()


@pytest.mark.full
def test_a_literal_that_does_not_fit(both: Twin) -> None:
    text = "INSERT INTO t (k) SELECT i + {} FROM p WHERE k = {}"
    with known_ones() as seen:
        for literals in ((5, 1), (2147483647, 7), (2147483648, 2), (3000000000, 3), (50, 4)):
            both.run(text.format(*literals))
        assert seen == [True, False, False, True]
    both.check()


@pytest.mark.full
@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "INSERT OR IGNORE"])
def test_one_that_minds_conflicts_is_read(both: Twin, verb: str) -> None:
    with known_ones() as seen:
        for literals in ((50, 10), (50, 9), (5, 20)):
            both.run(
                f"{verb} INTO t SELECT i % {literals[0]}, i, 'r' FROM range({literals[1]}) r(i)"
            )
        assert not seen
    both.check()


@pytest.mark.full
def test_a_relation_that_was_changed_in_the_transaction(both: Twin) -> None:
    with known_ones() as seen:
        text = "INSERT INTO t SELECT k + {}, i, s FROM p WHERE k = {}"
        both.run(text.format(100, 1))
        both.run("BEGIN")
        both.run("UPDATE p SET s = 'new' WHERE k = 2")
        both.run(text.format(200, 2))
        both.run("DELETE FROM p WHERE k = 3")
        both.run(text.format(300, 3))
        both.run("CREATE TABLE more (a INTEGER)")
        both.run(text.format(400, 2))
        both.run("COMMIT")
        both.run(text.format(500, 2))
        assert seen[:2] == [True, True]
    both.check()


def test_a_key_twice_and_a_check_are_duckdbs_errors(both: Twin) -> None:
    with known_ones() as seen:
        both.run(FILLED.format("100", "10"))
        for literals in (("105", "10"), ("100", "9"), ("-5", "3")):
            both.run(FILLED.format(*literals))
        both.run("INSERT INTO t SELECT k + 300, i + 3, s FROM p WHERE k = 6")
        assert both.run("INSERT INTO t SELECT k + 400, i + 80, s FROM p WHERE k = 6")
        assert not both.run("INSERT INTO t SELECT k + 500, i + 86, s FROM p WHERE k = 5")
        assert not both.run("INSERT INTO t SELECT k + 500, i + 40000, s FROM p WHERE k = 5")
        assert seen == [False, False, True, False, False]
    both.check()


@pytest.mark.full
def test_a_transaction_that_only_reads(both: Twin) -> None:
    with known_ones():
        both.run(FILLED.format("100", "10"))
        both.db.execute("BEGIN TRANSACTION READ ONLY")
        with pytest.raises(ivm.errors.IvmError, match="READ ONLY"):
            both.db.execute(FILLED.format("200", "10"))
        both.db.execute("ROLLBACK")
    both.check()


@pytest.mark.full
def test_objects_of_the_caller_are_found(both: Twin) -> None:
    text = "INSERT INTO t SELECT k + {}, i, s FROM p WHERE k = {}"
    with known_ones() as seen:
        both.run(text.format(100, 1))
        both.run(text.format(200, 2))
        both.db.execute("DROP MATERIALIZED VIEW w")
        both.duck.execute("DROP VIEW w")
        both.run("DROP TABLE p")
        p = pa.table({"k": [3, 4], "i": [5, 6], "s": ["mine", "other"]})
        for db in (both.db, both.duck):
            db.execute(text.format(300, 3)).fetchall()
        assert p.num_rows == 2
        assert seen == [True, False]
    both.check()


def known(text: str) -> InsertTemplates:
    """What one statement lets be known."""
    (statement,) = st.parse(text)
    assert isinstance(statement, st.Dml)
    found, info = InsertTemplates(), cast(TableInfo, None)
    found.learn(statement, text[text.index("SELECT") :], info, [])
    return found


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        (FILLED.format("8", "30"), [8, 50, 30]),
        (FILLED.format("9" * 18, "1"), [10**18 - 1, 50, 1]),
        (FILLED.format("0", "30"), None),
        (FILLED.format("-8", "30"), None),
        (FILLED.format("8", "0"), None),
        (FILLED.format("08", "30"), None),
        (FILLED.format("9" * 19, "1"), None),
        (FILLED.format("8", "30.0"), None),
        (FILLED.format("٣", "30"), None),
        (FILLED.format("8", "30") + "; SELECT 1", None),
        (FILLED.format("8", "30") + " LIMIT 1", None),
        (FILLED.format("8", "30").lower(), None),
        (FILLED.replace("'x'", "'y'").format("8", "30"), None),
    ],
)
def test_what_looks_known(text: str, literals: list[int] | None) -> None:
    found = known(FILLED.format("5", "10")).find(text)
    assert (None if found is None else [*found.literals.values()]) == literals


def test_strings_and_signs() -> None:
    text = "INSERT INTO t (k, s) SELECT k, s FROM w WHERE s = {} AND k > {} AND k < {}"
    one = known(text.format("'a'", "-5", "0"))
    found = one.find(text.format("'it''s; \n'", "-7", "12"))
    assert found is not None
    assert [*found.literals.values()] == ["it's; \n", -7, 12]
    assert one.find(text.format("'a'", "-0", "12")) is None
    assert one.find(text.format("'a'", "7", "12")) is None
    assert one.find(text.format("'a\0'", "-7", "12")) is None
    assert one.find(text.format("E'a'", "-7", "12")) is None
    assert one.find(text.format("'a' 'b'", "-7", "12")) is None
    assert one.find(text.format("'a", "-7", "12")) is None
