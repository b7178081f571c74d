"""The query that gives the rows of an INSERT or COPY … FROM.

Contract: the query's rows, cast to the types of the columns named, are those that the statement
would insert, in this order. A statement of which that is not certain has no such query.
"""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ivm.changes.read.change_text import ChangeText
from ivm.sql.statements.text.tokens import Reader, split

_QUERIES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))
_PATTERN = frozenset("*?[{")


def is_query(written: ChangeText) -> bool:
    """Returns whether the rows of an INSERT are a query's, or a single row of VALUES without
    DEFAULT.

    The values of several rows get one type in a query, and each its own cast in an INSERT.
    """
    clauses = written.clauses
    words = written.words(clauses.source)
    if clauses.naming == "NAME" and clauses.columns is not None:
        return False
    if words[:1] == ["VALUES"]:
        single = words[-1] == ")" and len(split(written.within(clauses.source.rest))) == 1
        return single and "DEFAULT" not in words
    return written.first_word(clauses.source) in _QUERIES and "VALUES" not in words


class CopyClauses(NamedTuple):
    """The pieces of COPY table [(columns)] FROM 'file' [options].

    Attributes:
        file: the path.
        query: that reads a Parquet file; "" for other formats.
        text: what follows the table's name.
    """

    file: str
    query: str
    text: str


def read_copy(written: ChangeText) -> CopyClauses | None:
    """The pieces; None if it does not read one file, or writes down what it rejects."""
    clauses = written.clauses
    reader = Reader(written.within(clauses.source.rest))
    token = reader.tokens[0] if reader.tokens else None
    if token is None or token.text[:1] != "'" or not token.text.endswith("'"):
        return None
    file = token.text[1:-1].replace("''", "'")
    reader.at += 1
    if not _PATTERN.isdisjoint(file) or not os.path.isfile(file):
        return None
    if any("REJECT" in word for word in written.words(clauses.source)):
        return None
    query = ""
    if _is_parquet(reader, file):
        query = f"SELECT * FROM system.main.read_parquet({token.text}, hive_partitioning = false)"
    return CopyClauses(file, query, written.behind(clauses.target.end))


def _is_parquet(reader: Reader, file: str) -> bool:
    """Returns whether the options, at the reader's token, say no more than FORMAT parquet."""
    if reader.done:
        return file.lower().endswith(".parquet")
    reader.accept("WITH")
    rest = [token.text.strip("'").upper() for token in reader.tokens[reader.at :]]
    return rest == ["(", "FORMAT", "PARQUET", ")"]
