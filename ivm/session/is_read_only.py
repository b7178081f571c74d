"""Which queries need no transaction that forbids them to write.

Law: a query that is told to write nothing calls functions of DuckDB's that are known to compute or
to read, and no view or macro of the user's, whose text would have to be looked at. Others may write
all the same: by a change in a WITH clause, a sequence, a table function that runs statements.
"""

from __future__ import annotations

import functools
import re

from ivm.session.session import Session
from ivm.sql.plan.built_in import FACTS
from ivm.sql.plan.known_functions import OF_THE_SESSION, computes, own_functions
from ivm.storage.identifiers import BLANKS_BEYOND_ASCII, WORD_CHARACTER, fold, words_in
from ivm.storage.warehouse.duckdb.duck import rows

_COMMENT = re.compile(r"--|/\*")
_CALL = re.compile(rf'({WORD_CHARACTER}+)"?[\s{BLANKS_BEYOND_ASCII}]*\(')
_COLUMNS = re.compile(rf"\)\s*(?:as\s+)?{WORD_CHARACTER}+\s*\(")  # (query) alias (columns)
_CHANGES = frozenset(("insert", "update", "delete", "merge", "truncate"))
_CLAUSES = frozenset(
    ("over", "filter", "group", "join", "exclude", "replace", "rename", "recursive")
)
_READERS = frozenset(
    [
        "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
        "glob", "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "read_text",
        "read_blob", "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto",
    ]
)  # fmt: skip
_KNOWN = """
SELECT keyword_name FROM duckdb_keywords()
    WHERE keyword_category IN ('reserved', 'column_name')
UNION SELECT type_name FROM duckdb_types() WHERE internal
"""


def is_read_only(session: Session, query: str) -> bool:
    """Returns whether it is certain that a query writes nothing."""
    if session.sees_more() or _COMMENT.search(query) is not None:
        return False
    text = fold(query)
    words = words_in(text)
    if not words.isdisjoint(_CHANGES):
        return False
    if session.engine.definitions.relations.may_name_definition(text):
        return False
    calls = text if "distinct" in words else _COLUMNS.sub(")(", text)
    return _harmless().issuperset(_CALL.findall(calls))


@functools.cache
def _harmless() -> frozenset[str]:
    """The words before a parenthesis that say of nothing written."""
    with FACTS.borrow() as facts:
        words = frozenset([fold(name) for (name,) in rows(facts, _KNOWN)])
    called = frozenset([name for name in own_functions() if computes(name)])
    return words | called | OF_THE_SESSION | _READERS | _CLAUSES
