"""Texts of one skeleton have DuckDB's tokens but for their literals, and are read as each alone."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from ivm.sql.statements import parse as st
from ivm.sql.statements.text.skeletons import skeleton_of
from ivm.sql.statements.text.tokens import tokens
from ivm.storage.errors import SqlError
from tests.support.duckdb_twin import Twin
from tests.tiers import examples

PIECES = [
    *("0", "17", "1.5", "2.", ".5", "1e5", "0x1F", "1_000", "٣", "5a", "a5", "t.5", "?", "?1"),
    *("'a'", "'it''s'", "'-- 5'", "''", "'\n'", "'\"'", "'é 5'", "E'\\'5'", "e'a'", "x'00'"),
    *('"a 5"', '"it\'s"', '"a""5"', '"', "'", "$$ 'a 5' $$", "$1", "U&'a'"),
    *("-- it's 5\n", "/* ' 5 */", "--", "/*", " ", "\n", "\u00a0", ",", "(", ")", "-", "- ", "+"),
    *("=", ".", "::", "&", "\\", ";", "a", "é", "IN ", "€", "ी", "😀", "\u3000", "\u200b"),
]
TEXTS = [
    "INSERT INTO t SELECT i + {}, 'x' FROM range({}) r(i)",
    "UPDATE t SET a = o.i FROM range({}) o(i) WHERE a = o.i + {}",
    'MERGE INTO "t" USING (SELECT {} AS k) o ON t.a = o.k WHEN MATCHED THEN DELETE -- {}',
    "  \nWITH o AS (SELECT {} AS k) INSERT INTO t FROM o WHERE k = {} ;",
    "SELECT a FROM t WHERE a = {} AND b < {} ;\n",
    ";FROM t WHERE a IN ({}, {})",
    "COPY t FROM {} (FORMAT csv, HEADER {})",
    "EXPLAIN SELECT {} FROM t LIMIT {}",
    "EXPLAIN ANALYZE INSERT INTO t SELECT {}, {}",
    "INSERT INTO t VALUES ({}, {})",
    "DELETE FROM t WHERE a = {} AND b = {}",
    "PREPARE p AS SELECT {} + {}",
    "EXECUTE p({}, {})",
    "SET VARIABLE v = {} + {}",
    "SELECT {}; SELECT {}",
    "CREATE MATERIALIZED VIEW v AS SELECT {} AS a, {} AS b",
]
LITERALS = ["5", "60", "1.5", "-7", "'a'", "'it''s; -- 5'", "'a\nb'", "E'a'"]
LITERALS += ["NULL", "a", '"b"', "$1", "?"]


def is_open(text: str) -> bool:
    """Returns whether a text's last quote is not closed: no statement is such a text."""
    last = tokens(text)[-1].text if tokens(text) else ""
    return last[:1] in ("'", '"') and last.count(last[0]) % 2 == 1


def is_value_of(shown: str, text: str) -> bool:
    """Returns whether a token may stand for another one in a skeleton."""
    if shown == "''":
        return len(text) > 1 and text[0] == text[-1] == "'"
    whole, point, rest = text.partition(".")
    digits = text.isascii() and whole.isdecimal() and (rest.isdecimal() if point else True)
    return digits and shown == ("0." if point else "0")


@pytest.mark.full
@settings(max_examples=examples(5000), deadline=None)
@given(text=s.lists(s.sampled_from(PIECES), max_size=9).map("".join))
def test_the_tokens_are_those_of_the_skeleton(text: str) -> None:
    found = skeleton_of(text)
    if found is None or is_open(text):
        return
    pairs = zip(tokens(found), tokens(text), strict=True)
    for shown, token in pairs:
        assert shown.text == token.text or is_value_of(shown.text, token.text)


@pytest.mark.parametrize(
    ("text", "skeleton"),
    [
        ("SELECT 5, 1.50, -7 FROM t5", "SELECT 0, 0., -0 FROM t5"),
        ("WHERE a='it''s' AND b IN ('',' -- 5')", "WHERE a='' AND b IN ('','')"),
        ('SELECT "a 5", "a""5", 5', 'SELECT "a 5", "a""5", 0'),
        ("FROM t€1, बिक्री1, t😀1 WHERE a = 1", "FROM t€1, बिक्री1, t😀1 WHERE a = 0"),
        ("SELECT 5\u30005", "SELECT 0\u30000"),
        ('SELECT "it\'s", 5', None),
        ("SELECT 0x1F, 1e5, 1_000, .5, 5., t.5, ?1", "SELECT 0x1F, 1e5, 1_000, .5, 5., t.5, ?1"),
        ("SELECT E'\\'5'", None),
        ("SELECT x'00'", None),
        ("SELECT $1", None),
        ("SELECT $$ ' $$", None),
        ("SELECT 5 -- five", None),
        ("SELECT /* 5 */ 5", None),
    ],
)
def test_skeletons(text: str, skeleton: str | None) -> None:
    assert skeleton_of(text) == skeleton


def outcome(script: str) -> object:
    """The statements of a script, or the error."""
    try:
        return st.parse(script)
    except SqlError as error:
        return str(error), error.position


@settings(max_examples=examples(500), deadline=None)
@given(
    text=s.sampled_from(TEXTS),
    literals=s.lists(s.tuples(*[s.sampled_from(LITERALS)] * 2), min_size=2, max_size=4),
)
def test_each_is_read_as_if_it_were_the_first(text: str, literals: list[tuple[str, str]]) -> None:
    scripts = [text.format(*pair) for pair in literals]
    found = [outcome(script) for script in scripts]
    for script, statements in zip(scripts, found, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(st, "skeleton_of", lambda text: None)
            patch.setattr(st, "_parse", inspect.unwrap(st._parse))
            assert outcome(script) == statements


@pytest.mark.full
@pytest.mark.parametrize("name", ["t€", "बिक्री", "t😀", "té", "t$", "€"])
def test_a_digit_of_a_name_is_no_literal(name: str) -> None:
    """Signs and marks are no letters to Python, but parts of names to DuckDB."""
    setup = f"CREATE TABLE {name}1 (a INT PRIMARY KEY); CREATE TABLE {name}2 (a INT PRIMARY KEY)"
    view = f"CREATE MATERIALIZED VIEW {name}v AS FROM {name}1 UNION ALL FROM {name}2"
    twin = Twin(setup, view, tables=(f"{name}1", f"{name}2"))
    texts = ["INSERT INTO {}{} SELECT 7 FROM range(1)", "INSERT INTO {}{} VALUES (8)"]
    texts += ["UPDATE {}{} SET a = 9 WHERE a = 8", "DELETE FROM {}{} WHERE a > 8", "FROM {}{}"]
    with twin.db:
        for text in texts:
            for number in (1, 2, 2, 1):
                twin.run(text.format(name, number))
                twin.check()


def test_one_of_a_known_skeleton_is_not_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    st.parse("UPDATE t SET a = 7 FROM u WHERE u.b = 'first' ;")
    monkeypatch.setattr(st, "_read", None)
    script = "UPDATE t SET a = 45 FROM u WHERE u.b = 'it''s another' ;"
    (statement,) = st.parse(script)
    assert isinstance(statement, st.Dml)
    assert (statement.kind, statement.text) == ("update", script[:-2])
