"""Our tokens are those that DuckDB parses, for every text: its parser and its tokenizer are asked.

The texts are the corpora's queries, random ones of odd pieces, and DuckDB's own test files where
IVM_SUITES says where they are.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from ivm.sql.statements import parse as st
from ivm.sql.statements.text.blanks import plain_blanks
from ivm.sql.statements.text.spelling import spelled
from ivm.sql.statements.text.tokens import Token, is_name, is_string, tokens, unquoted
from ivm.storage.errors import IvmError, SqlError
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII
from tests.corpus.plan_corpus import QUERIES
from tests.tiers import examples, some

DUCK = duckdb.connect()
PIECES = [
    *(
        "a",
        "b1",
        "é",
        "日本",
        "ſ",
        "K",
        "€",
        "a$b",
        "_x",
        "\x01",
        "a\0b",
        "\x7f",
        "\u0663",
        "x\x1cy",
    ),
    *('"a b"', '"a""b"', '"a`b"', '"it\'s"', "`a b`", "`a``b`", '`a"b`', "`it's`", "`;`", "`--`"),
    *("'a'", "'it''s'", "'--'", "';'", "'a\0b'", "'\u00a0'", "E'\\'5'", "e'\\\\'", "N'a'", "x'4A'"),
    *("$$a;'b$$", "$q$ $ $$ $q$", "$é$'$é$", "$1", "$name", "?", "?1", "U&'a'", 'U&"a"', "b'01'"),
    *("1", "1_000", "1__0", "0x1F", "0b101", "1.", ".5", "1.5e-3", "1e", "1..2", "5a", "1_", "2.a"),
    *("-- it's `\n", "-- x\r", "/* ` /* ' */ */", "/**/", "/*", "--", "'", '"', "`", "$$", "\\"),
    *(" ", "\n", "\t", "\v", "\f", "\u00a0", "\u2003", "\u200b", "\u200c", "\u3000", "\ufeff"),
    *("->>", "=>", "::", ":=", "<@", "**", "//", "||", "!~~*", "+", "-", "*", ",", "(", ")", "["),
    *("]", "{", "}", ":", ".", "=", "<>", "@", "#1", "^@", ";", "AS ", "FROM t ", "select ", "IN "),
]


def tree(query: str) -> object:
    """DuckDB's tree of a query, without places; None of a text that is none."""
    found = DUCK.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
    if json.loads(found)["error"]:
        return None
    return re.sub(r'"query_location(_length)?":\d+', "", found)


def parsed(text: str) -> list[str] | None:
    """The statements that DuckDB's parser makes of a text; None if it refuses it."""
    try:
        return [one.query for one in DUCK.extract_statements(text)]
    except duckdb.Error:
        return None


def squeezed(text: str) -> str:
    return re.sub(" +", " ", text)


PADDED = parsed("SELECT 1\u2003, 2") == ["SELECT 1   , 2"]
"""Some releases write as many plain blanks as the other one has bytes; given ours, all have one."""


def cut(text: str) -> list[str]:
    """The tokens of a text that the parser has prepared, without comments and semicolons."""
    data, found = text.encode(), duckdb.tokenize(text)
    ends = [*[start for start, _ in found[1:]], len(data)]
    kept = [
        data[start:end].decode().rstrip(" \t\r\n\f\v")
        for (start, kind), end in zip(found, ends, strict=True)
        if kind is not duckdb.token_type.comment
    ]
    return [each for each in kept if each != ";"]


def apart(found: Sequence[Token]) -> str:
    """The tokens with blanks between all that may stand apart."""
    text = ""
    for before, token in itertools.pairwise([Token("", "", 0), *found]):
        joined = before.word in ("?", "$") and before.end == token.start
        is_text = is_string(before) and is_string(token)  # on two lines they are one
        text += ("" if joined else "\n" if is_text else " ") + token.text
    return text


def check(text: str) -> None:
    """The tokens of a text are those that DuckDB parses, odd blanks at its end aside."""
    text = text.rstrip(BLANKS_BEYOND_ASCII)
    text = plain_blanks(text) if PADDED else text
    statements = parsed(text)
    if statements is None:
        return
    found = tokens(text)
    assert [t.text for t in found if t.word != ";"] == [w for one in statements for w in cut(one)]
    plain = plain_blanks(text)
    assert all(plain[t.start : t.end] == t.text for t in found)
    alone = apart([t for t in found if t.word != ";"])
    wanted = tree(statements[0]) if len(statements) == 1 and plain_blanks(alone) == alone else None
    assert wanted is None or tree(alone) == wanted
    try:
        ours = st.parse(text)
    except IvmError:
        return  # what we refuse is not looked at
    assert [[t.text for t in tokens(o.text)] for o in ours] == [
        words for one in statements if (words := cut(spelled(one).text))
    ]
    assert all(token.text[0] != "`" for one in ours for token in tokens(one.text))
    assert wanted is None or tree(ours[0].text) == wanted


@pytest.mark.full
@settings(max_examples=examples(3000), deadline=None)
@given(s.lists(s.sampled_from(PIECES), max_size=7).map("".join))
def test_of_random_texts(text: str) -> None:
    check("SELECT " + text)
    check(text)


@pytest.mark.full
def test_of_queries() -> None:
    for query in some(list(itertools.chain(*QUERIES.values())), 8):
        check(query)
        check(re.sub(r"\bt\b", "`t`", query))


def records(file: Path) -> Iterator[str]:
    """The statements and queries of a file of sqllogictest."""
    blocks = re.split(r"\n\s*\n", file.read_text("utf-8", errors="replace"))
    for block in blocks:
        found = re.search(r"^(?:statement|query)\b[^\n]*\n(.*)", block, re.DOTALL | re.MULTILINE)
        if found is not None:
            yield found[1].split("\n----")[0]


def test_of_duckdbs_own_tests() -> None:
    if "IVM_SUITES" not in os.environ:
        pytest.skip("IVM_SUITES is not set")
    files = sorted(Path(os.environ["IVM_SUITES"], "duckdb", "test").rglob("*.test"))
    for file in some(files, 40):
        for text in records(file):
            check(text)


@pytest.mark.full
@settings(max_examples=examples(3000), deadline=None)
@given(s.lists(s.sampled_from([*PIECES[:40], *PIECES[-70:]]), max_size=9).map("".join))
def test_blanks_are_plain_where_the_parser_reads_plain_ones(text: str) -> None:
    statements = parsed("SELECT " + text)
    if statements is not None and len(statements) == 1 and ";" not in text:
        plain = plain_blanks("SELECT " + text)
        assert (squeezed(plain) == squeezed(statements[0])) if PADDED else plain == statements[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"a"', "a"), ("`a`", "a"), ("`a``b`", "a`b"), ('"a""b"', 'a"b'), ('`a"b`', 'a"b'),
        ("`a``b\"\"c`", 'a`b""c'), ("a$b", "a$b"), ("\x01a", "\x01a"), ("ſet", "ſet"),
        ("\u0663", "\u0663"), ("a\u200cb", "a\u200cb"), ("`a\u00a0b`", "a b"),
    ],
)  # fmt: skip
def test_names_are_duckdbs(text: str, name: str) -> None:
    (token,) = tokens(text)
    assert is_name(token)
    assert not is_string(token)
    assert unquoted(token) == name
    described = DUCK.execute(f"SELECT 1 AS {text}, 2").description
    assert described[0][0] == name or (PADDED and squeezed(described[0][0]) == name)


@pytest.mark.parametrize("text", ["'a'", "E'a'", "N'a'", "x'4A'", "b'1'", "$$a$$", "$q$a$q$"])
def test_strings_are_no_names(text: str) -> None:
    (token,) = tokens(text)
    assert is_string(token)
    assert not is_name(token)


def test_letters_beyond_ascii_are_in_no_keyword() -> None:
    assert [t.word for t in tokens("ſelect ıN vıew kind")] == ["ſELECT", "ıN", "VıEW", "KIND"]


@pytest.mark.parametrize(
    "word",
    [
        *("from", "distinct", "order", "by", "fetch", "limit", "end", "desc", "case", "set"),
        *("values", "table", "on", "using", "as", "and", "select", "with", "all", "in", "is"),
    ],
)
def test_a_word_of_clauses_is_a_name_behind_a_dot_or_as(word: str) -> None:
    """Bug: `u.distinct FROM u` hid the FROM, and `a AS from` the end of the select list."""
    for query in (
        f"SELECT 1 AS {word}, 'a' AS b",
        f"SELECT x.{word} FROM (SELECT 1 AS {word}) AS x ORDER BY x.{word}",
        f"CREATE OR REPLACE TABLE y AS SELECT 1 AS {word} WHERE true",
        f"DELETE FROM y RETURNING 1 AS {word}, y.{word}",
        f"MERGE INTO y USING y AS s ON true WHEN MATCHED THEN DELETE RETURNING 1 AS {word}",
    ):
        DUCK.execute(query)
        found = [token.word for token in tokens(query) if token.text == word]
        assert found == [word] * query.count(word)


@pytest.mark.parametrize("word", ["FROM t", "SELECT 1", "VALUES (1)", "TABLE t", "PIVOT t ON a"])
@pytest.mark.parametrize(
    "head", ["CREATE VIEW v AS", "PREPARE p AS", "SELECT 1 AS a; CREATE OR REPLACE TABLE x (b) AS"]
)
def test_what_as_defines_begins_a_statement(head: str, word: str) -> None:
    first = word.split()[0]
    assert [token.word for token in tokens(f"{head} {word}")].count(first) == 1 + head.count(first)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('DROP MATERIALIZED VIEW "v1', 23), ("DROP MATERIALIZED VIEW `v1", 23), ("SELECT 'a", 7),
        ("VERIFY MATERIALIZED VIEW v; SELECT $$a", 35), ("SHOW USERS /* a", 11),
        ("PREPARE p AS SELECT E'a\\'", 20), ("SELECT $q$ $$", 7), ("SELECT 1 /* /* */", 9),
        ("/* a", 0), ("SELECT 1; /* a", 10), ("'", 0),
        (f"INSERT INTO t VALUES {'(1),' * 2000}(1) /*", 8025),
    ],
)  # fmt: skip
def test_what_is_open_at_the_end_is_refused(text: str, place: int) -> None:
    with pytest.raises(SqlError, match="unterminated") as raised:
        st.parse(text)
    assert raised.value.position == place


@pytest.mark.parametrize("last", ["SELECT 2 2", "DROP TABLE s.'"])
def test_errors_are_at_their_place_in_the_users_script(last: str) -> None:
    script = 'SELECT 1 AS `a``b`, `c"d`; SELECT `"`; ' + last
    with pytest.raises(SqlError) as raised:
        st.parse(script if last[-1] != "'" else f"{script}'")
    assert raised.value.position == len(script) - 1


def test_statements_are_at_their_place_in_the_users_script() -> None:
    script = 'SELECT 1 AS `a``b`, `c"d`; SELECT `"`, 2 2'
    (_, second) = st.parse(script[:-2])
    assert script[second.offset :].startswith("SELECT `")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 /* -- */ AS\u00a0b",
        "SELECT 1 AS a$b\u00a0c",
        "SELECT 1 /* ' */; SELECT /* ' */ '\u00a0'",
    ],
)
def test_a_blank_that_duckdb_reads_oddly_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="write a plain one"):
        st.parse(text)
