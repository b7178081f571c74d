"""Texts that differ in their literals share a compiled query, and each means what DuckDB reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

import ivm
from ivm.reads.compiling import ReadCompiler
from ivm.reads.literals import shape_of
from ivm.session.results.state_result import StateResult
from tests.api.reads.test_parameters_from_state import outcome
from tests.api.reads.test_reads_from_state import oracle
from tests.tiers import examples

COLUMNS = {
    "ti": "TINYINT",
    "ub": "UBIGINT",
    "i": "INTEGER",
    "n": "BIGINT",
    "h": "HUGEINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(9,2)",
    "v": "VARCHAR",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP_S",
    "u": "UUID",
    "b": "BOOLEAN",
}
LITERALS = [
    "0", "1", "-1", "5", "127", "128", "300", "2147483648", "9007199254740993", "16777217",
    "9223372036854775807", "-9223372036854775808", "18446744073709551615", "1.5", "1e3", "-0",
    "''", "'1'", "'a'", "'it''s'", "'é'", "'2024-01-03'", "'true'", "NULL", "true",
    "'8ceadae7-9c71-4d89-b5e1-00bd5b811dd5'", "'1'::INT", "1::TINYINT", "1 + 1", "E'a'", "'a' 'b'",
    "(5)", "- 5", "1_0", "0x1F", "'2024-01-03 00:00:00'", "'2024-01-03 01:02:03.5'",
    "'2024-02-30'", "'0000-01-01'", "'9999-12-31'", "'2024-01-03 24:00:00'",
    "'2024-01-03T00:00:00'",
]  # fmt: skip
CONDITIONS = [
    "{c} = {l}",
    "{l} = {c}",
    "{c} < {l}",
    "{c} >= {l} AND k > 1",
    "{c} <> {l} OR k = 2",
    "{c} BETWEEN {l} AND {m}",
    "NOT {c} = {l}",
    "({c} = {l}) AND ({c} <= {m})",
    "{c} + 1 = {l}",
    "{c} = {l} + 1",
    "{c} IN ({l}, {m})",
    "{c} IS DISTINCT FROM {l}",
    "{l} BETWEEN k AND {c}",
    "CASE WHEN {c} = {l} THEN true ELSE k = 1 END",
    "{c} = (SELECT max({c}) FROM w WHERE k = {l})",
    "k = 1 AND {l} = {m}",
]
TEXTS = [
    "SELECT k, {c} FROM w WHERE {where}",
    "SELECT {c} AS found FROM w WHERE {where} ORDER BY 1 LIMIT 2",
    "SELECT count(*) AS n FROM w WHERE {where}",
    "SELECT k FROM w WHERE {where} GROUP BY k HAVING k = 1",
    "SELECT (SELECT count(*) FROM w WHERE {where}) FROM w",
]


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    """A view with values of each type that the literals may mean."""
    with ivm.connect() as opened:
        listed = ", ".join(f"{name} {sql}" for name, sql in COLUMNS.items())
        opened.execute(f"CREATE TABLE t (k INTEGER, {listed})")
        opened.execute("INSERT INTO t (k) VALUES (1), (2)")
        for k, number in enumerate(("0", "1", "5", "127", "16777217", "9007199254740993")):
            fits = {name: f"TRY_CAST({number} AS {sql})" for name, sql in COLUMNS.items()}
            fits |= {"v": f"'{number}'", "u": "'8ceadae7-9c71-4d89-b5e1-00bd5b811dd5'"}
            fits |= {"dt": f"DATE '2024-01-0{k + 1}'", "ts": f"TIMESTAMP '2024-01-0{k + 1}'"}
            fits |= {"tz": f"TIMESTAMP_S '2024-01-0{k + 1} 01:02:03'"}
            opened.execute(f"INSERT INTO t VALUES ({k}, {', '.join(fits.values())})")
        opened.execute("INSERT INTO t (k, v) VALUES (7, 'a'), (8, 'it''s'), (9, 'é'), (9, '')")
        opened.execute("INSERT INTO t (k, v) VALUES (9, '2024-01-03')")
        opened.execute("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
        yield opened


@pytest.mark.full
@settings(max_examples=examples(400), deadline=None)
@given(
    text=s.sampled_from(TEXTS),
    where=s.sampled_from(CONDITIONS),
    column=s.sampled_from([*COLUMNS]),
    literals=s.lists(s.tuples(*[s.sampled_from(LITERALS)] * 2), min_size=3, max_size=3),
)
def test_any_literal_of_any_type(
    db: ivm.Database, text: str, where: str, column: str, literals: list[tuple[str, str]]
) -> None:
    for first, second in literals:
        condition = where.format(c=column, l=first, m=second)
        query = text.format(c=column, where=condition)
        wanted = outcome(lambda query=query: oracle(db, query).fetchall())
        for _ in range(2):
            found = outcome(lambda query=query: db.execute(query).fetchall())
            assert isinstance(found, str) == isinstance(wanted, str), (query, found, wanted)
            assert isinstance(found, str) or found == wanted, query
        if isinstance(wanted, Counter):
            result, cursor = db.execute(query), oracle(db, query)
            shown = [(c[0], str(c[1])) for c in cursor.description]
            assert list(zip(result.columns, result.types, strict=True)) == shown


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("SELECT * FROM w WHERE i = {}", "5", "-1"),
        ("SELECT k FROM w WHERE ti = {}", "5", "3000000000"),
        ("SELECT k FROM w WHERE n BETWEEN {} AND 200 ORDER BY k", "5", "126"),
        ("SELECT k FROM w WHERE v = {} AND k > 1", "'a'", "'it''s'"),
        ("SELECT k FROM w WHERE d >= {}", "1", "6"),
        ("SELECT count(*) AS n FROM w WHERE i <> {}", "5", "6"),
        ("SELECT k FROM w WHERE dt > {}", "'2024-01-02'", "'2024-01-03'"),
        ("SELECT k FROM w WHERE ts = {}", "'2024-01-02'", "'2024-01-03'"),
        ("SELECT k FROM w WHERE ts > {}", "'2024-01-02 00:00:00.5'", "'2024-01-03 10:00:00'"),
        ("SELECT k FROM w WHERE v = {}", "'2024-01-02'", "'2024-01-03'"),
    ],
)
def test_a_text_of_a_known_shape_is_answered_from_memory_the_first_time(
    db: ivm.Database, text: str, first: str, second: str
) -> None:
    compiled: list[str] = []
    compile = ReadCompiler.compile

    def spied(self: ReadCompiler, text: str, *rest: Any, **further: Any) -> Any:
        compiled.append(text)
        return compile(self, text, *rest, **further)

    for literal in (first, second):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReadCompiler, "compile", spied)
            result = db.execute(text.format(literal))
        assert isinstance(result, StateResult)
        expected = oracle(db, text.format(literal))
        assert Counter(result.fetchall()) == Counter(expected.fetchall())
    assert len(compiled) == 1


@pytest.mark.parametrize(
    ("text", "shape", "literals"),
    [
        ("SELECT 5 FROM w WHERE a = 5", "SELECT 5 FROM w WHERE a = $ivm_1", {"ivm_1": 5}),
        ("FROM w WHERE a=-5", "FROM w WHERE a=$ivm_1", {"ivm_1": -5}),
        ("FROM w WHERE a = 'x''y' -- b = 7", "FROM w WHERE a = $ivm_1 -- b = 7", {"ivm_1": "x'y"}),
        ("FROM w WHERE a = 5::INT", "FROM w WHERE a = 5::INT", {}),
        ("FROM w WHERE a = 1.5 LIMIT 5", "FROM w WHERE a = 1.5 LIMIT 5", {}),
        ("FROM w WHERE a = 'ivm_1'", "FROM w WHERE a = 'ivm_1'", {}),
        ("FROM w WHERE a = ? AND b = 1", "FROM w WHERE a = ? AND b = $ivm_1", {"ivm_1": 1}),
        ("FROM w WHERE \"= 5\" = 'a' 'b'", "FROM w WHERE \"= 5\" = 'a' 'b'", {}),
    ],
)
def test_shapes(text: str, shape: str, literals: dict[str, Any]) -> None:
    found = shape_of(text)
    assert (found.text, found.literals) == (shape, literals)


@pytest.mark.parametrize(
    ("text", "shape", "literals"),
    [
        (
            "SELECT i, i % 7 + 12 AS a FROM range(5) r(i)",
            "SELECT i, i % $ivm_1 + $ivm_2 AS a FROM range($ivm_3) r(i)",
            [7, 12, 5],
        ),
        ("SELECT i -5, 6*i FROM v", "SELECT i -$ivm_1, $ivm_2*i FROM v", [5, 6]),
        ("SELECT -5, i + -5, i - - 5 FROM v", "SELECT -5, i + -5, i - - 5 FROM v", []),
        ("SELECT $1 + i, $1 + 2 FROM v", "SELECT $1 + i, $1 + $ivm_1 FROM v", [2]),
        ("SELECT ?1 + i, ? + 2 FROM v", "SELECT ?1 + i, ? + 2 FROM v", []),
        ("SELECT i + 0, i % 00 FROM v", "SELECT i + 0, i % 00 FROM v", []),
        ("SELECT i FROM range(-5, 5 - 2)", "SELECT i FROM range(-5, $ivm_1 - $ivm_2)", [5, 2]),
        ("SELECT i FROM v WHERE i + 5 = 3", "SELECT i FROM v WHERE i + 5 = $ivm_1", [3]),
    ],
)
def test_shapes_of_sources(text: str, shape: str, literals: list[int]) -> None:
    found = shape_of(text, of_source=True)
    assert (found.text, list(found.literals.values())) == (shape, literals)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("SELECT * FROM w WHERE dt = '2024-1-{:02}'", 1),  # a shape that has no meaning
        ("SELECT k + 1 AS more FROM w WHERE i + 1 = {}", 1),  # a literal whose type matters
        ("SELECT sum(d) AS s FROM w WHERE i > {}", 1),  # DuckDB rounds otherwise, whatever it is
        ("SELECT count(*) AS n FROM t WHERE i > {}", 1),
    ],
)
def test_texts_that_come_once_are_not_compiled_each(
    db: ivm.Database, text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile = ReadCompiler.compile

    def spied(self: ReadCompiler, text: str, *rest: Any, **further: Any) -> Any:
        compiled.append(text)
        return compile(self, text, *rest, **further)

    monkeypatch.setattr(ReadCompiler, "compile", spied)
    for i in range(1, 10):
        query = text.format(i)
        wanted = outcome(lambda query=query: oracle(db, query).fetchall())
        assert outcome(lambda query=query: db.execute(query).fetchall()) == wanted
    assert len(compiled) == most
    for _ in range(3):
        db.execute(query).fetchall()
    assert isinstance(db.execute(query), StateResult) == ("dt =" in text or "i + 1" in text)
