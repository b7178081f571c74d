"""Takes INSERT and COPY … FROM apart: the query that gives their rows, and what follows it.

Contract: the query's rows, cast to the types of the columns named, are those that the statement
would insert, in this order. A statement of which that is not certain has no such query.
"""

from __future__ import annotations

import os.path
from typing import NamedTuple

from ivm.changes.read.clauses import Clauses
from ivm.sql.statements.text.tokens import Reader, split
from ivm.storage.errors import SqlError

_QUERIES = frozenset(("SELECT", "FROM", "WITH", "TABLE"))
_COLUMNS_END = frozenset(("SELECT", "FROM", "WITH", "VALUES", "("))
_PATTERN = frozenset("*?[{")


class InsertClauses(NamedTuple):
    """The pieces of an INSERT.

    Attributes:
        prefix: the WITH clause before the verb, "" without.
        columns: the columns named, None for all.
        by_name: the query's own names say which columns its values are for.
        source: the query.
        rest: the token at which ON CONFLICT or RETURNING begins.
    """

    prefix: str
    columns: tuple[str, ...] | None
    by_name: bool
    source: str
    rest: int


def read_insert(clauses: Clauses) -> InsertClauses | None:
    """The pieces; None if the rows are no query, or may be cast otherwise outside of an INSERT."""
    verb = clauses.verb("INSERT")
    reader = clauses.reader(clauses.find(verb, "INTO") + 1)
    try:
        reader.name()
        if reader.accept("AS"):
            reader.identifier()
        listed = reader.peek() == "(" and reader.peek(1) not in _COLUMNS_END
        columns = reader.columns() if listed else None
    except SqlError:
        return None
    by_name = reader.accept("BY", "NAME")
    if not by_name:
        reader.accept("BY", "POSITION")
    rest = min(clauses.find(reader.at, "ON", "CONFLICT"), clauses.find(reader.at, "RETURNING"))
    if (by_name and listed) or not _is_query(clauses, reader.at, rest):
        return None
    source = clauses.piece(reader.at, rest)
    return InsertClauses(clauses.piece(0, verb), columns, by_name, source, rest)


def _is_query(clauses: Clauses, begin: int, end: int) -> bool:
    """Returns whether the source is a query, or a single row of VALUES without DEFAULT.

    The values of several rows get one type in a query, and each its own cast in an INSERT.
    """
    words = clauses.words(begin, end)
    if words[:1] == ["VALUES"]:
        single = words[-1] == ")" and len(split(clauses.tokens[begin + 1 : end])) == 1
        return single and "DEFAULT" not in words
    return clauses.first_word(begin, end) in _QUERIES and "VALUES" not in words


class CopyClauses(NamedTuple):
    """The pieces of COPY table [(columns)] FROM 'file' [options].

    Attributes:
        columns: the columns named, None for all.
        file: the path.
        query: that reads a Parquet file; "" for other formats.
        text: what follows the table's name.
    """

    columns: tuple[str, ...] | None
    file: str
    query: str
    text: str


def read_copy(clauses: Clauses) -> CopyClauses | None:
    """The pieces; None if it does not read one file, or writes down what it rejects."""
    reader = clauses.reader(1)
    try:
        reader.name()
        after = reader.at
        columns = reader.columns() if reader.peek() == "(" else None
        reader.expect("FROM")
    except SqlError:
        return None
    token = clauses.tokens[reader.at] if not reader.done else None
    if token is None or token.text[:1] != "'" or not token.text.endswith("'"):
        return None
    file = token.text[1:-1].replace("''", "'")
    reader.at += 1
    if not _PATTERN.isdisjoint(file) or not os.path.isfile(file):
        return None
    end = len(clauses.tokens)
    if any("REJECT" in word for word in clauses.words(reader.at, end)):
        return None
    query = ""
    if _is_parquet(reader, file):
        query = f"SELECT * FROM system.main.read_parquet({token.text}, hive_partitioning = false)"
    return CopyClauses(columns, file, query, clauses.piece(after, end))


def _is_parquet(reader: Reader, file: str) -> bool:
    """Returns whether the options, at the reader's token, say no more than FORMAT parquet."""
    if reader.done:
        return file.lower().endswith(".parquet")
    reader.accept("WITH")
    rest = [token.text.strip("'").upper() for token in reader.tokens[reader.at :]]
    return rest == ["(", "FORMAT", "PARQUET", ")"]
