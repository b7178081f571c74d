"""The clauses of changes: what a statement is put together from is what is read of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.sql.statements.changes.assignments import assignments
from ivm.sql.statements.changes.clauses import Clauses, Span, clauses_of
from ivm.sql.statements.text.tokens import kept_tokens, text_of

PREFIXES = [
    "",
    "WITH q AS (SELECT 1 AS k)",
    "WITH RECURSIVE q(k) USING KEY (k) AS (SELECT 1 UNION FROM q), r AS MATERIALIZED (FROM q)",
    "WITH \"update\" AS (SELECT 'delete from' AS k)",
]
NAMES = ["t", 'main."T x"', "a.b.returning_", '"set"']
ALIASES = ["", "AS x", "x", 'AS "from"', "conflict"]
EXPRESSIONS = [
    "1",
    "a.k + $1",
    "'RETURNING' || ' WHERE '",
    "extract(year FROM d)",
    "(SELECT max(k) FROM q WHERE k > 1)",
    "k IS DISTINCT FROM x.k",
    "CASE WHEN k THEN 1 ELSE [2, {'from': 3}] END",
    "k -- WHERE\n",
    "d::TIMESTAMP WITH TIME ZONE",
    "x.returning",
    "x . /* WHERE */ where",
    "$from + $Returning",
    "{'set': 1}.set",
]
RELATIONS = ["q", "q AS s, main.r", "(SELECT k FROM r WHERE k = 1) AS s", "read_csv('a from b') s"]
LISTS = ["*", "t.returning AS set", "k, t.k AS where_", "count(*) FILTER (WHERE k)"]
QUERIES = [
    "SELECT k FROM q JOIN r ON conflict WHERE k",
    "FROM q SELECT k ORDER BY ALL",
    "VALUES (1, 'ON CONFLICT DO NOTHING'), (?, DEFAULT)",
    "DEFAULT VALUES",
    "(SELECT 1 UNION ALL FROM q)",
    "TABLE q",
    "(TABLE q)",
    "(PIVOT q ON k USING count(*) GROUP BY l)",
    "SELECT 7 AS returning, 8 AS on",
    "SELECT s.returning, $on FROM s",
    "WITH s AS (FROM q) FROM s",
]
CONFLICTS = ["DO NOTHING", "(k) DO UPDATE SET k = excluded.k WHERE t.k > 1", "(k, l) DO NOTHING"]
COLUMNS = {"": None, "(k)": ("k",), '(k, "l m")': ("k", "l m")}
BRANCHES = [
    "WHEN MATCHED THEN DELETE",
    "WHEN MATCHED AND CASE WHEN k THEN true END THEN UPDATE SET k = s.k",
    "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
    "WHEN NOT MATCHED BY SOURCE AND k > 1 THEN DO NOTHING",
]
ON = ["ON t.k = s.k", "USING (k)", "ON (t.k = s.k AND EXISTS (FROM q))"]


def chosen(texts: Sequence[str], word: str = "") -> st.SearchStrategy[str]:
    """A clause, or none."""
    return st.sampled_from(["", *[f"{word} {text}".lstrip() for text in texts]])


prefixes, names, aliases = map(st.sampled_from, (PREFIXES, NAMES, ALIASES))
expressions, lists = st.sampled_from(EXPRESSIONS), chosen(LISTS, "RETURNING")
conditions = chosen(EXPRESSIONS, "WHERE")
sets = st.lists(expressions, min_size=1, max_size=3).map(
    lambda values: "SET " + ", ".join([f"c{i} = {value}" for i, value in enumerate(values)])
)


def read(parts: Sequence[str]) -> tuple[Clauses, list[str]]:
    """The clauses of a statement, and the texts of the spans that tests look at."""
    text = " ".join(filter(None, parts))
    tokens, clauses = kept_tokens(text), clauses_of(text)
    spans = [Span(0, clauses.verb), clauses.target, clauses.sets, clauses.source]
    spans += [clauses.condition, *clauses.branches, clauses.conflict, clauses.returning]
    return clauses, [text_of(text, tokens[slice(*span)]) for span in spans if span]


def told(*parts: str) -> list[str]:
    """The texts that there are, as tokens have them: without a comment behind the last."""
    return [text_of(part, kept_tokens(part)) for part in parts if part]


@given(st.tuples(prefixes, names, aliases, sets, chosen(RELATIONS, "FROM"), conditions, lists))
def test_updates(parts: Sequence[str]) -> None:
    prefix, name, alias, *rest = parts
    clauses, found = read([prefix, "UPDATE", name, alias, *rest])
    assert found == told(prefix, f"{name} {alias}", *rest)
    assert clauses.alias == (alias.removeprefix("AS ").strip('"') or None)


@given(st.tuples(prefixes, names, aliases, chosen(RELATIONS, "USING"), conditions, lists))
def test_deletes(parts: Sequence[str]) -> None:
    prefix, name, alias, *rest = parts
    assert read([prefix, "DELETE FROM", name, alias, *rest])[1] == told(
        prefix, f"{name} {alias}", *rest
    )


@given(
    st.tuples(prefixes, st.sampled_from(["", "OR REPLACE", "OR IGNORE"]), names),
    st.sampled_from(["", "AS x"]),
    st.sampled_from(sorted(COLUMNS)),
    st.sampled_from(["", "NAME", "POSITION"]),
    st.tuples(st.sampled_from(QUERIES), chosen(CONFLICTS, "ON CONFLICT"), lists),
)
def test_inserts(
    begin: Sequence[str], alias: str, columns: str, naming: str, rest: Sequence[str]
) -> None:
    prefix, action, name = begin
    by = f"BY {naming}" if naming else ""
    head = [prefix, "INSERT", action, "INTO", name, alias, columns, by]
    clauses, found = read([*head, *rest])
    assert found == told(prefix, f"{name} {alias}", *rest)
    assert (clauses.columns, clauses.naming) == (COLUMNS[columns], naming)


@given(
    prefixes,
    names,
    aliases,
    st.sampled_from(["q", "(FROM r WHERE k) AS s", "q s"]),
    st.sampled_from(ON),
    st.lists(st.sampled_from(BRANCHES), min_size=1, max_size=4),
    lists,
)
def test_merges(
    prefix: str, name: str, alias: str, source: str, on: str, branches: list[str], listed: str
) -> None:
    parts = [f"USING {source}", on, *branches, listed]
    assert read([prefix, "MERGE INTO", name, alias, *parts])[1] == told(
        prefix, f"{name} {alias}", *parts
    )


@given(names, st.sampled_from(sorted(COLUMNS)), st.sampled_from(["", "(FORMAT csv)", "CSV HEADER"]))
def test_copies(name: str, columns: str, options: str) -> None:
    source = f"FROM 'returning.csv' {options}"
    clauses, found = read(["COPY", name, columns, source])
    assert found == told(name, source)
    assert clauses.columns == COLUMNS[columns]


@pytest.mark.parametrize("head", ["TRUNCATE", "TRUNCATE TABLE"])
def test_truncates(head: str) -> None:
    assert read([head, 'main."T x"'])[1] == ['main."T x"']


ASSIGNMENTS = {
    "a = 1, (b, c) = (x + 1, f(y, 2)), (d) = 5": ["a: 1", "b: x + 1", "c: f(y, 2)", "d: 5"],
    '("A b", c,) = ROW (1, (SELECT 2, 3),)': ["A b: 1", "c: (SELECT 2, 3)"],
    "(a) = (5) + 1": ["a: (5) + 1"],
    "(a) = ROW (5)": ["a: 5"],
    "(a) = (5,)": ["a: 5"],
    '(a) = ((main."row"((5))))': ["a: (5)"],
    "(a, b) = ((1, 2))": ["a: 1", "b: 2"],
    "(a) = (ROW (5)).x": ["a: (ROW (5)).x"],
    "(a) = ROW (5, 6)": None,
    "(a) = ()": None,
    "(a, b) = ()": None,
    "(a) = ROW ()": ["a: ROW ()"],
    "a = ROW (5)": ["a: ROW (5)"],
    "a = (SELECT 1, 2)": ["a: (SELECT 1, 2)"],
    "(a, b) = (SELECT 1, 2)": None,
    "(a, b) = (1, 2, 3)": None,
    "(a, b) = (1, 2) + 1": None,
    "(a, b) = x": None,
    "t.a = 1": None,
    "a": None,
}


@pytest.mark.parametrize("text", ASSIGNMENTS)
def test_assignments_are_read_column_by_column(text: str) -> None:
    found = assignments(kept_tokens(text))
    told = None if found is None else [f"{a.column}: {text_of(text, a.value)}" for a in found]
    assert told == ASSIGNMENTS[text]
