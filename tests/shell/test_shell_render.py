"""Tables fit the terminal, show what DuckDB would write, and format only what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ivm.shell.display.cell_text import csv_lines, json_lines, texts
from ivm.shell.display.output import Paint
from ivm.shell.display.table import Shown, box, clip, fit, line_by_line, markdown, pad, shown_part

PLAIN = Paint(False)


def query(sql: str) -> tuple[list[str], list[str], pa.Table]:
    with duckdb.connect() as connection:
        connection.execute("SET arrow_lossless_conversion = true").complete()
        relation = connection.sql(sql)
        return relation.columns, [str(t) for t in relation.types], relation.to_arrow_table()


def table_of(sql: str, width: int | None = None, limit: int | None = 40) -> list[str]:
    names, types, rows = query(sql)
    return list(box(shown_part(names, types, rows, limit), width, PLAIN))


def test_a_table_has_names_types_and_aligned_rows() -> None:
    assert table_of("SELECT * FROM (VALUES (1, 'one'), (20, NULL)) t(n, word)") == [
        "┌─────────┬─────────┐",
        "│    n    │  word   │",
        "│ integer │ varchar │",
        "├─────────┼─────────┤",
        "│       1 │ one     │",
        "│      20 │ NULL    │",
        "└─────────┴─────────┘",
    ]


def test_an_empty_result_has_a_head() -> None:
    assert table_of("SELECT 1 AS a WHERE false")[1:3] == ["│    a    │", "│ integer │"]


def test_long_results_show_both_ends() -> None:
    lines = table_of("SELECT range AS first, range AS second FROM range(1000)", limit=6)
    assert [line.strip("│ ").split(" ")[0] for line in lines[4:-1]] == [
        *("0", "1", "2", "…", "997", "998", "999")
    ]
    assert "… 994 rows" in lines[7]


def test_a_narrow_table_marks_the_gap_with_dots() -> None:
    assert "⋮" in table_of("SELECT range AS a FROM range(10)", limit=2)[5]


def test_wide_columns_are_cut_and_middle_columns_left_out() -> None:
    columns = ", ".join(f"repeat('x', 30) AS column_{i}" for i in range(12))
    lines = table_of(f"SELECT {columns}", width=80)
    assert {cell_len(line) for line in lines} == {cell_len(lines[0])}
    assert cell_len(lines[0]) <= 80
    assert "column_0" in lines[1]
    assert "column_11" in lines[1]
    assert "│ … │" in lines[1]


def test_wide_characters_keep_the_borders_straight() -> None:
    lines = table_of("SELECT * FROM (VALUES ('日本語', 'é'), ('a', 'b')) t(x, y)")
    assert len({cell_len(line) for line in lines}) == 1


def test_no_value_moves_the_cursor() -> None:
    lines = table_of("SELECT 'a' || chr(27) || '[31m' || chr(10) || chr(7) AS x")
    assert "a\\e[31m\\n\\x07" in lines[4]
    assert all(line.isprintable() for line in lines)
    lines = table_of("SELECT chr(8238) || 'a' || chr(8232) AS x")  # would turn the line round
    assert "\\u202ea\\u2028" in lines[4]


EXTREMES = """
SELECT 170141183460469231731687303715884105727::HUGEINT a, 1.50::DECIMAL(38,2) b, 'nan'::DOUBLE c,
  DATE '0044-03-15 (BC)' d, INTERVAL '1 month 3 days' e, '101'::BIT f, '\\xFF'::BLOB g,
  '{"a": 1}'::JSON h, {'x': [1, NULL]} i, MAP {'k': 1} j, 'b'::ENUM('a', 'b') k,
  '123e4567-e89b-12d3-a456-426614174000'::UUID l, TIME '12:00:01' m, -0.0::DOUBLE n,
  [1, 2]::INTEGER[2] o, [(1, ('a', NULL))] q, TIMESTAMP_NS '2020-01-01 00:00:00.123456789' p
"""


def test_cells_are_duckdbs_own_text() -> None:
    _, types, rows = query(EXTREMES)
    with duckdb.connect() as connection:
        expected = connection.execute(f"SELECT COLUMNS(*)::VARCHAR FROM ({EXTREMES})").fetchall()
    assert [column[0] for column in texts(rows, types)] == list(expected[0])


def test_every_number_of_json_lines_is_json() -> None:
    # DuckDB's own JSON has `.5` for a DECIMAL(p, p), and a bare NaN in a list.
    names, _, rows = query("SELECT -0.5::DECIMAL(18, 18) AS x, ['nan'::DOUBLE] AS l, '[.5' AS t")
    assert json.loads("".join(json_lines(names, rows))) == [{"x": -0.5, "l": ["NaN"], "t": "[.5"}]


def test_times_with_a_zone_are_written_in_the_sessions_zone() -> None:
    _, types, rows = query("SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00' AS t")
    assert texts(rows, types, "Asia/Tokyo") == [["2020-01-01 09:00:00+09"]]
    assert texts(rows, types, "UTC") == [["2020-01-01 00:00:00+00"]]


def test_columns_of_one_name_stay_apart() -> None:
    names, types, rows = query("SELECT 1 AS a, 2 AS b")
    assert list(csv_lines(["a", "a"], rows, types)) == ["a,a", "1,2"]
    assert names == ["a", "b"]


def test_csv_reads_back_as_it_was() -> None:
    sql = (
        """SELECT * FROM (VALUES (1, 'a,b', NULL), (2, 'q"q', ''), (3, e'x\\ny', 'z')) t(i, s, n)"""
    )
    names, types, rows = query(sql)
    lines = list(csv_lines(names, rows, types))
    assert lines == ["i,s,n", '1,"a,b",', '2,"q""q",""', '3,"x\ny",z']


def test_json_is_json() -> None:
    sql = """SELECT * FROM (VALUES
        (1, 'a"b', NULL, 1.5::DOUBLE, [1, 2]), (2, e'\\n', true, 'nan'::DOUBLE, NULL)
    ) t(i, s, b, d, "l""x")"""
    names, _, rows = query(sql)
    assert json.loads("\n".join(json_lines(names, rows))) == [
        {"i": 1, "s": 'a"b', "b": None, "d": 1.5, 'l"x': [1, 2]},
        {"i": 2, "s": "\n", "b": True, "d": "nan", 'l"x': None},
    ]
    assert list(json_lines(names, rows.slice(0, 0))) == ["[]"]


def test_markdown_escapes_bars() -> None:
    names, types, rows = query("SELECT 1 AS n, 'a|b' AS \"x|y\"")
    assert list(markdown(shown_part(names, types, rows, None))) == [
        "|   n | x\\|y |",
        "| --: | ---- |",
        "|   1 | a\\|b |",
    ]


def test_no_name_breaks_a_line() -> None:
    shown = shown_part(*query('SELECT 1 AS "a\nb\x1b[2J"'))
    assert list(line_by_line(shown, PLAIN)) == ["a\\nb\\e[2J = 1"]
    assert next(markdown(shown)) == "| a\\nb\\e[2J |"
    assert list(box(shown, None, PLAIN))[1] == "│ a\\nb\\e[2J │"


def test_line_mode_names_every_value() -> None:
    names, types, rows = query("SELECT 1 AS n, NULL::INT AS other")
    assert list(line_by_line(shown_part(names, types, rows), PLAIN)) == [
        "    n = 1",
        "other = NULL",
    ]


def test_only_shown_rows_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of 10⁵ rows costs what its 40 shown rows cost."""
    seen: list[int] = []

    def counting(table: pa.Table, *given: Any) -> Iterator[Any]:
        seen.append(table.num_rows)
        return iter(texts(table, *given))

    monkeypatch.setattr("ivm.shell.display.table.texts", counting)
    assert len(table_of("SELECT range AS a FROM range(100000)", 80)) == 46
    assert seen == [40]


def test_colours_leave_the_text_alone() -> None:
    shown = Shown(["a"], ["INTEGER"], [["1", None]], 2, 0)
    coloured = "\n".join(box(shown, 80, Paint(True), frozenset({("1",)})))
    for code in ("0", "1", "2", "32"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured.split("\n") == list(box(shown, 80, PLAIN))


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Mn", "Me", "Cf"]), max_size=30)


@given(TEXT, st.integers(1, 40))
def test_clipped_text_fits(text: str, width: int) -> None:
    clipped = clip(text, width)
    assert cell_len(clipped) <= max(width, 1)
    assert cell_len(pad(clipped, width, False)) == max(width, cell_len(clipped))
    assert clipped == text or clipped.endswith("…")


@given(st.lists(st.integers(1, 200), min_size=1, max_size=30), st.integers(20, 200))
def test_columns_share_the_line(rooms: list[int], width: int) -> None:
    kept, widths = fit(rooms, width)
    assert sum(widths) + 3 * len(widths) + 1 <= width
    assert kept[0] == 0
    assert all(w >= 1 for w in widths)
    shown = [i for i in kept if i is not None]
    assert shown == sorted(shown)
    assert (None in kept) == (len(shown) < len(rooms))
