"""Errors show the place they mean."""

from __future__ import annotations

import duckdb
import pytest
from rich.cells import cell_len

from ivm.errors import InternalError, IvmError, SqlError, UnsupportedError
from ivm.shell.display.errors import report
from ivm.shell.display.output import Paint

PLAIN = Paint(False)


def lines(error: Exception, statement: str, where: str = "") -> list[str]:
    return report(error, statement, PLAIN, where)


def test_a_position_gets_a_caret() -> None:
    statement = "select\n  random()\nfrom t"
    error = UnsupportedError("random() has no meaning in a view", statement.index("random"))
    assert lines(error, statement) == [
        "Error: random() has no meaning in a view",
        "",
        "LINE 2:   random()",
        "          ^",
    ]


def test_tabs_and_wide_characters_do_not_shift_the_caret() -> None:
    statement = "\tselect '日本' || x"
    shown, caret = lines(SqlError("no x", statement.index("x")), statement)[-2:]
    assert shown == "LINE 1:     select '日本' || x"
    assert caret.index("^") == len("LINE 1:     select '日本' || ") + 2  # two wide characters


def test_a_long_line_is_cut_around_the_place() -> None:
    statement = "select " + "a, " * 100 + "b" + ", c" * 100
    shown, caret = lines(SqlError("no b", statement.index("b")), statement)[-2:]
    assert len(shown) < 120
    assert shown[caret.index("^")] == "b"


@pytest.mark.parametrize("width", [16, 20, 40, 80, 200])
@pytest.mark.parametrize(
    "statement",
    [
        "select ?",
        "select " + "a, " * 100 + "?" + ", c" * 100,
        "select '" + "日本" * 40 + "' || ?語",
    ],
)
def test_the_caret_keeps_its_column_on_a_narrow_terminal(statement: str, width: int) -> None:
    error = SqlError("it is wrong", statement.index("?"))
    shown, caret = report(error, statement, PLAIN, width=width)[-2:]
    assert cell_len(shown) <= width
    assert cell_len(shown[: shown.index("?")]) == caret.index("^")


def test_a_position_at_the_end_points_behind_the_text() -> None:
    assert lines(SqlError("more is missing", 8), "select 1")[-1].index("^") == len(
        "LINE 1: select 1"
    )


@pytest.mark.parametrize("statement", ["select nope", "select 1 + nope\nfrom range(3)"])
def test_duckdbs_own_caret_is_kept(statement: str) -> None:
    with pytest.raises(duckdb.Error) as raised:
        duckdb.connect().execute(statement)
    shown = lines(raised.value, statement)
    assert shown[0].startswith("Binder Error: Referenced column")
    assert shown[-1].strip() == "^^^^"
    assert shown[-2][shown[-1].index("^") :].startswith("nope")


def test_a_script_is_named_with_its_line() -> None:
    assert lines(IvmError("it broke"), "", "a.sql:3") == ["Error: a.sql:3: it broke"]


def test_a_fault_of_ours_asks_for_a_report() -> None:
    assert "please report" in "\n".join(lines(InternalError("impossible"), ""))


def test_colours_are_only_for_terminals() -> None:
    assert "\x1b[" in "".join(report(IvmError("x"), "", Paint(True)))
    assert "\x1b[" not in "".join(lines(IvmError("x"), ""))
