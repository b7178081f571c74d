"""Columns that nothing reads are pruned below windows whose order has ties: no answer changes."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.sql.plan.nodes import Plan, Scan
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import inputs
from ivm.storage.warehouse.duckdb.duck import Cursor
from tests.support.plan_oracle import multiset
from tests.support.plans import bound, planned
from tests.tiers import examples

COLUMNS = ["a", "b", "t", "d", "text", "u"]
TABLE = """CREATE TABLE r AS SELECT (i * 7) % 3 AS a, (i * 5) % 4 AS b, (i * i) % 5 AS t,
    [0.0, -0.0, 'nan'::DOUBLE][i % 3 + 1] AS d, 'x' || (i * 11) % 6 AS text, i % 2 AS u
    FROM range(60) rows(i)"""
MARK = "CASE WHEN t - 1 <= lag(t) OVER (PARTITION BY a ORDER BY t) THEN NULL ELSE t END"
SESSIONS = f"""(SELECT *, last_value(mark IGNORE NULLS) OVER (PARTITION BY a ORDER BY t) AS w
    FROM (SELECT *, {MARK} AS mark FROM r))"""

OTHERS = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW"


@pytest.fixture(scope="module")
def cursor() -> Iterator[Cursor]:
    with duckdb.connect() as connection:
        connection.execute(TABLE).fetchall()
        yield connection


def scanned(plan: Plan) -> list[str]:
    if isinstance(plan, Scan):
        return [name for name, _ in plan.schema]
    return [name for part in inputs(plan) for name in scanned(part)]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (f"SELECT a, w FROM {SESSIONS}", ["a", "t"]),
        (f"SELECT w, count(*) FROM {SESSIONS} GROUP BY w", ["a", "t"]),
        (f"SELECT b, w FROM {SESSIONS}", ["a", "b", "t"]),
        (f"SELECT u, w FROM {SESSIONS}", COLUMNS),
        (f"SELECT d, w FROM {SESSIONS}", COLUMNS),
        (f"SELECT mark, w FROM {SESSIONS}", ["a", "t"]),
        (f"SELECT a, w FROM {SESSIONS.replace(MARK, 'CASE WHEN b > 1 THEN u END')}", COLUMNS),
        (f"SELECT a, w FROM {SESSIONS.replace(MARK, 'if(b > 1, t, 9)')}", COLUMNS),
        (f"SELECT a, w FROM {SESSIONS.replace('t) AS w', f't {OTHERS}) AS w')}", COLUMNS),
        ("SELECT b, w FROM (SELECT *, row_number() OVER (ORDER BY t) AS w FROM r)",
         ["a", "b", "t"]),
        ("SELECT t, w FROM (SELECT *, row_number() OVER (ORDER BY t) AS w FROM r)", ["t"]),
        ("SELECT t, w FROM (SELECT *, list(b) OVER (ORDER BY t) AS w FROM r)", ["a", "b", "t"]),
        ("SELECT t, w FROM (SELECT *, max(u) OVER (ORDER BY t) AS w FROM r)", ["t", "u"]),
    ],
)  # fmt: skip
def test_what_a_scan_is_left_with(cursor: Cursor, query: str, columns: list[str]) -> None:
    assert scanned(planned(query, cursor)) == columns
    assert multiset(cursor, render(planned(query, cursor))) == multiset(
        cursor, render(bound(query, cursor))
    )


PLACES = ["row_number()", "lag({c})", "lead({c}, 2)", "ntile(4)"]
VALUES = ["first_value({c} IGNORE NULLS)", "last_value({c})", "last_value({c} IGNORE NULLS)",
          "nth_value({c}, 2)", "list({c})", "string_agg({c}, ',')", "max({c})",
          "count(*)"]  # fmt: skip
MARKS = ["nullif(u, 1)", "CASE WHEN u = 1 THEN NULL ELSE t END", "CASE WHEN b > 1 THEN u END",
         "CASE WHEN b > 1 THEN t WHEN u = 1 THEN t + 1 END"]  # fmt: skip
FRAMES = st.sampled_from(
    ["", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
     "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
     "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
     "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
     "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
     "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW"]
)  # fmt: skip
SOME = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True)


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Some columns of a subquery with windows over all of them, ranked perhaps."""
    part = draw(st.sampled_from(["", "PARTITION BY a", "PARTITION BY u, a"]))
    frames = st.builds("{} OVER ({{p}} ORDER BY t {})".format, st.sampled_from(VALUES), FRAMES)
    places = st.builds("{} OVER ({{p}} ORDER BY t)".format, st.sampled_from(PLACES))
    calls = draw(st.lists(places | frames, min_size=2, max_size=2))
    asked = [draw(st.sampled_from([*COLUMNS, "mark"])) for _ in calls]
    windows = [
        f"{call.format(c=column, p=part)} AS w{i}"
        for i, (call, column) in enumerate(zip(calls, asked, strict=True))
    ]
    below = f"(SELECT *, {draw(st.sampled_from(MARKS))} AS mark FROM r)"
    chosen = draw(SOME) + draw(st.sampled_from([["w0"], ["w1"], ["w0", "w1"]]))
    ranked = draw(st.sampled_from(["", f"WHERE n <= {draw(st.integers(1, 3))}"]))
    listed = ", ".join(["*", *windows, f"row_number() OVER ({part} ORDER BY t) AS n"])
    return f"SELECT {', '.join(chosen)} FROM (SELECT {listed} FROM {below}) {ranked}"


@settings(max_examples=examples(200), deadline=None)
@given(queries())
def test_pruned_windows_answer_as_they_did(cursor: Cursor, query: str) -> None:
    whole, pruned = render(bound(query, cursor)), render(planned(query, cursor))
    assert multiset(cursor, pruned) == multiset(cursor, whole)
