"""Scripts are cut where DuckDB cuts them, and Enter knows when a statement is whole."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.shell.editing.script import complete, open_sign, parts


def texts(script: str) -> list[str]:
    return [part.text for part in parts(script)]


@pytest.mark.parametrize(
    "script",
    [
        "select 1; select 2",
        "select 'a;b'; select 2;",
        "select 'it''s; here'; select 2",
        'select 1 as "a;""b"; select 2',
        "select 1 as `a;``b`, 2 as `'`; select 2 as `;`",
        "select 1 -- a;b\r; select 2",
        "select $$ ; $$; select $x$ ; $y$ ; $x$",
        "select e'a\\';b'; select 2",
        "select E'a''b\\''; select 2",
        "select 'a\\'; select 2",
        "select 1 -- a;b\n; select 2",
        "select 1 /* a /* b */ ; */ ; select 2",
        "select 1 as a$b$; select 2 as c$b$",
        "select 1 as a€$b$; select 2 as c€$b$",
        "select $€$ ; $€$; select $ी$ ; $€$ $ी$",
        ";;select 1;;",
        "/* only */ ; -- comments\n",
    ],
)
def test_statements_are_duckdbs(script: str) -> None:
    with duckdb.connect() as connection:
        expected = len([s for s in connection.extract_statements(script) if s.query.strip("; \n")])
    assert len(texts(script)) == expected or "only" in script
    assert ("only" in script) == (texts(script) == [])


LITERALS = st.sampled_from(
    ["1", "'a;b'", "'x''y'", '"c;d"', "$$;$$", "$t$;$$;$t$", "e'\\';'", "/* ; */ 2", "-- ;\n 3"]
)


@given(st.lists(st.lists(LITERALS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_joining_statements_and_cutting_them_is_the_identity(found: list[list[str]]) -> None:
    statements = ["select " + ", ".join(cells) for cells in found]
    script = ";\n".join(statements)
    assert texts(script) == statements
    for part in parts(script):
        assert script[part.offset :].startswith(part.text)


def test_commands_stand_on_lines_of_their_own() -> None:
    script = ".mode csv\nselect 1;\n  .read it's.sql\nselect\n.5;"
    assert texts(script) == [".mode csv", "select 1", ".read it's.sql", "select\n.5"]
    assert [part.is_command for part in parts(script)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("   ", True),
        ("select 1", False),
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1; select 2", False),
        ("select 'a;", False),
        ("select 1; /* open", False),
        (".tables", True),
        (".mode csv\nselect 1", False),
        (".read it's.sql", True),
        ('select 1;\n.schema a"b\n', True),
        ("-- only a comment", True),
    ],
)
def test_enter_runs_only_whole_statements(text: str, expected: bool) -> None:
    assert complete(text) is expected


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("'a", "'"),
        ("'a'", None),
        ('"a', '"'),
        ("$x$ $$", "$x$"),
        ("/* /* */", "/*"),
        ("-- a", "--"),
    ],
)
def test_what_is_open_at_the_end(text: str, sign: str | None) -> None:
    assert open_sign(text) == sign


@pytest.mark.full
def test_a_long_script_is_cut_in_a_moment() -> None:
    script = "insert into t values (1, 'a;b');\n" * 50_000
    assert len(texts(script)) == 50_000
