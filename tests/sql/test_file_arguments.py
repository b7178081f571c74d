"""The places of a statement's text where it names files."""

from __future__ import annotations

import pytest

from ivm.sql.statements.text.cached_by_text import LONGEST
from ivm.sql.statements.text.file_arguments import file_arguments

CASES = [
    ("SELECT * FROM read_csv('a')", ["'a'"]),
    ("SELECT * FROM read_csv(E'a\\'b'), read_csv($$c$$)", ["E'a\\'b'", "$$c$$"]),
    ("select * from\n'a' -- 'b'\n, 'c' where 'd' = 'e'", ["'a'", "'c'"]),
    ("SELECT * FROM read_csv(['a', 'b'])", ["'a'", "'b'"]),
    ("COPY t (a, b) FROM '/dev/stdin' (FORMAT csv)", ["'/dev/stdin'"]),
    ("FROM \"x.csv\" JOIN 'y' USING (k)", ['"x.csv"', "'y'"]),
    ("SELECT * FROM t, '/a/b' WHERE s = 'c'", ["'/a/b'"]),
    ("SELECT ? FROM main.mine(?), read_csv($p)", [1, "p"]),
    ("FROM read_csv(?2) WHERE a = ?1", [1]),
    ("MERGE INTO t USING (FROM read_csv(?)) q ON q.k = t.k AND t.s = ?", [0]),
    ("UPDATE t SET a = 'x', b = '/y' FROM 'f.csv' q WHERE b = 'z'", ["'f.csv'"]),
    ("INSERT INTO u SELECT 'a', '/b' FROM 'c'", ["'c'"]),
    ("SELECT 'a', '/b', (FROM 'c') FROM d", ["'c'"]),
    ("SELECT (SELECT max(k) FROM parquet_scan('p')), '/b'", ["'p'"]),
    ("FROM m€(path := 'a''b')", ["'a''b'"]),
    ("FROM \"of mine\"('a', sep => ',')", ["'a'", "','"]),
    ("SELECT * FROM t JOIN LATERAL w('f', lower('g')) ON t.s = lower('h')", ["'f'", "'g'"]),
    ("INSERT INTO t VALUES ('a', '/b')", []),
    ("SELECT ?, lower('a') FROM t WHERE x IN ('/a', '/b') AND y = ?", []),
    ("SELECT * FROM (SELECT 'a', '/b'), (VALUES ('/c'))", []),
    ("COPY t TO '/x'", []),
    ("SELECT a IS DISTINCT FROM '/b'", []),
    ("SELECT 1", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
@pytest.mark.parametrize("long", [False, True])
def test_files_are_named_where_relations_stand(
    text: str, expected: list[str | int], long: bool
) -> None:
    text += "\n" + " " * LONGEST if long else ""
    found = file_arguments(text)
    names = [text[a.start : a.end] if a.parameter is None else a.parameter for a in found]
    quoted = ['"of mine"'] if "of mine" in text else []  # a name of no file, as it turns out
    assert names == [*quoted, *expected]
