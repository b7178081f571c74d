"""Which conditions of an UPDATE or DELETE make its source smaller, or give it keys."""

from __future__ import annotations

from typing import Any

import pytest

from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.joined_clauses import JoinedChange, read_joined
from ivm.changes.read.key_queries import key_query
from ivm.changes.read.source_conditions import is_of_sources
from ivm.sql.statements.nodes.nodes import Dml
from ivm.sql.statements.parse import parse
from ivm.sql.statements.text.tokens import kept_tokens
from tests.support.change_ways import told_way
from tests.support.met_rows_cases import BY_KEY, twin

OF_SOURCE = [
    "s.a > 1",
    "S.a = s.b AND (s.c IS NOT NULL OR NOT s.d)",
    '"s"."Odd, name" LIKE \'%x%\'',
    "s.a BETWEEN $1 AND $low",
    "s.a IN (1, NULL, 's.b')",
    "-s.a + 1 < 2e3 -- t.b",
]
OF_SOURCE_BY_NAME = [
    "a > 1",
    "a = s.b AND c::INTEGER IN (1, 2)",
    "s > 1",
    'a = "current_date"',
    'a = "select"',
    "a > TIMESTAMP '2020-01-01' + INTERVAL 1 DAY",
]
TAKEN = frozenset(("t", "id", "d", "date", "rowid"))
OF_OTHERS = [
    "1 = 1",
    "$1 = 1",
    "ID > 1",
    "a > d",
    'a > "D"',
    "a > rowid",
    "t IS NULL",
    "s.a = t.a",
    "t.s.a > 1",
    "s.a.b > 1",
    "lower(s.a) = 'x'",
    "s.a.lower() = 'x'",
    "s.a = date",
    "s.a::DATE = d",
    "s.a = current_date",
    "s.a IN (SELECT s.b FROM s)",
    "a IN (FROM s)",
    "a = CASE WHEN b THEN 1 END",
    "lower(a) = 'x'",
]


@pytest.mark.parametrize("condition", [*OF_SOURCE, *OF_SOURCE_BY_NAME, *OF_OTHERS])
def test_conditions_of_the_source_alone_name_nothing_of_the_table(condition: str) -> None:
    tokens = kept_tokens(condition)
    assert is_of_sources(tokens, ["s"], TAKEN) == (condition not in OF_OTHERS)
    assert is_of_sources(tokens, ["s"], None) == (condition in OF_SOURCE)


KEYS = {
    "id IN (SELECT a FROM u)": (("id",), "SELECT a FROM u"),
    't."Id" IN (FROM u WHERE b IN (1, 2))': (("t", "Id"), "FROM u WHERE b IN (1, 2)"),
    "EXISTS (SELECT 1 FROM u WHERE u.a = t.id)": (("t", "id"), "SELECT u.a FROM u"),
    'EXISTS (FROM u AS o WHERE o.b > 1 AND t.id = o."A" AND o.c)': (
        ("t", "id"),
        'SELECT o."A" FROM u AS o WHERE (o.b > 1) AND (o.c)',
    ),
    "id NOT IN (SELECT a FROM u)": None,
    "id IN (1, 2)": None,
    "id IN (SELECT a FROM u) IS NULL": None,
    "id + 1 IN (SELECT a FROM u)": None,
    "EXISTS (SELECT max(u.a) FROM u WHERE u.a = t.id)": None,
    "EXISTS (SELECT 1 FROM u WHERE a = id)": None,
    "EXISTS (SELECT 1 FROM u WHERE u.a = t.id AND u.b > t.b)": None,
    "EXISTS (SELECT 1 FROM u WHERE u.a = t.id LIMIT 0)": None,
    "EXISTS (SELECT 1 FROM u WHERE u.a = t.id OR u.b)": None,
    "EXISTS (SELECT 1 FROM u, w WHERE u.a = t.id)": None,
    "EXISTS (SELECT 1 FROM t WHERE t.a = t.id)": None,
    "EXISTS (SELECT 1 FROM u)": None,
    "EXISTS ()": None,
}


@pytest.mark.parametrize("condition", KEYS)
def test_queries_for_keys_are_read(condition: str) -> None:
    found = key_query(condition, kept_tokens(condition))
    assert found == KEYS[condition]


def change_of(sql: str, params: Any) -> JoinedChange:
    (statement,) = parse(sql)
    assert isinstance(statement, Dml)
    found = read_joined(ChangeText(sql, params), statement, frozenset(("id", "n")))
    assert found is not None
    return found


OF_KEYS = [case for case in BY_KEY if change_of(*case).plain is not None]


@pytest.mark.full
@pytest.mark.parametrize(("sql", "params"), OF_KEYS)
def test_explain_tells_that_a_query_gives_the_keys(sql: str, params: Any) -> None:
    assert told_way(twin(), sql, params).startswith("fast path: the keys are given by")


def test_there_are_queries_for_keys() -> None:
    assert len(OF_KEYS) == 7


def test_a_source_is_read_as_far_as_its_own_conditions_let_through() -> None:
    sql = "UPDATE t SET n = p.x FROM price AS p WHERE t.id = p.id AND p.x > ? AND y AND n < p.x"
    change = change_of(sql, [1])
    assert change.source == "SELECT * FROM price AS p WHERE (p.x > $1) AND (y)"
    assert [each.expression.text for each in change.conjuncts] == ["t.id = p.id", "n < p.x"]
    merge = "MERGE INTO t USING p ON t.id = p.id AND p.x > 1 WHEN NOT MATCHED THEN INSERT"
    assert change_of(merge, None).source == "SELECT * FROM p"  # a row that is left out is unmatched


ROW = 'SELECT "a".*, true AS __ivm_between, "b".*'
OF_SEVERAL = {
    "x AS a, y b WHERE t.id = a.i AND a.k = b.k": f"{ROW} FROM x AS a, y b WHERE (a.k = b.k)",
    "x a LEFT JOIN y b ON a.k = b.k WHERE id = a.i": f"{ROW} FROM x a LEFT JOIN y b ON a.k = b.k",
    "a, LATERAL (SELECT a.k) AS b WHERE id = b.k": f"{ROW} FROM a, LATERAL (SELECT a.k) AS b",
}
APART = [
    "a, b WHERE t.id = a.i",
    "a, b WHERE t.id = a.i AND t.n = b.k",
    "a CROSS JOIN b WHERE t.id = a.i AND b.k > 1",
    "a JOIN b ON left(k, 1) = j WHERE t.id = a.i",
    "a, b, c WHERE t.id = a.i AND a.k = b.k",
]


@pytest.mark.parametrize("rest", [*OF_SEVERAL, *APART])
def test_several_sources_are_one_where_they_are_connected(rest: str) -> None:
    change = change_of(f"DELETE FROM t USING {rest}", None)
    assert change.apart == (rest in APART)
    assert change.source == OF_SEVERAL.get(rest, change.source)
    assert change.aliases[:2] == ("a", "b")


@pytest.mark.parametrize(
    "sources", ["a JOIN b USING (k)", "a NATURAL JOIN b", "(a JOIN b ON a.k = b.k)", "a, (FROM b)"]
)
def test_sources_that_share_a_column_or_have_no_name_are_not_read(sources: str) -> None:
    (statement,) = parse(f"DELETE FROM t USING {sources} WHERE t.id = a.i")
    assert isinstance(statement, Dml)
    assert read_joined(ChangeText(statement.text, None), statement, frozenset(("id",))) is None
