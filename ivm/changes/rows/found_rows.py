"""An UPDATE or DELETE by any condition, as one of the rows that DuckDB finds to meet it.

Law: the query has a row for each row of the table and of its source that meet the condition: the
columns of the former, then those of the latter. The condition is the user's text; the table
stands last, so that no query before it can read its columns: UPDATE and DELETE forbid that, too.
What DuckDB refuses and such a query would not is left to it: our own names, a WITH clause that
hides the table.
"""

from __future__ import annotations

import re

from ivm.changes.read.joined_clauses import JoinedChange
from ivm.changes.read.set_queries import ALIAS, listed_queries
from ivm.changes.read.sources import between, listed
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.tables.table_info import TableInfo

_OURS = "__ivm_"


def by_found_rows(change: JoinedChange, statement: Dml, info: TableInfo) -> JoinedChange | None:
    """Lets DuckDB find the rows, unless the condition compares the key with columns of the source.

    Args:
        change: what the statement says.
        statement: changes the table.
        info: the table; it has a primary key.

    Returns:
        None if DuckDB must run the statement.
    """
    assert statement.table is not None
    reference = statement.alias or statement.table[-1]
    if change.pieces is None:
        return change
    if _may_hide(change.pieces.prefix, statement.table[-1]):
        return None
    if not change.apart and not change.queries and _compares_key(change, info, reference):
        return change
    change = change.plain or change
    if _OURS in fold(statement.text):
        return None
    alias, own = statement.alias, quote(reference)
    table = info.qualified if alias is None else f"{info.qualified} AS {own}"
    columns = [f"{own}.{quote(name)} AS {_OURS}{i}" for i, (name, _) in enumerate(info.schema)]
    sources = (*change.aliases, ALIAS) if change.queries else change.aliases
    query = _query(change, columns, table)
    return change._replace(source=query, aliases=sources, conjuncts=(), found=True)


def _may_hide(prefix: str, table: str) -> bool:
    """Returns whether a WITH clause may define a query of the table's name."""
    named = rf'{re.escape(fold(table))}"?\s*(\([^)]*\)\s*)?(as|using)\b'
    return re.search(named, fold(prefix)) is not None


def _compares_key(change: JoinedChange, info: TableInfo, reference: str) -> bool:
    """Returns whether each column of the key seems to be equal to another column."""
    compared = [name for conjunct in change.conjuncts for name in conjunct.names or ()]
    own = [name for name in compared if len(name) == 1 or fold(name[-2]) == fold(reference)]
    return {fold(name) for name, _ in info.key_columns} <= {fold(name[-1]) for name in own}


def _query(change: JoinedChange, columns: list[str], table: str) -> str:
    assert change.pieces is not None
    prefix, relation, where, _ = change.pieces
    given = [listed(change.aliases)] if relation else []
    if change.queries:
        given.append(listed_queries(change.queries))
    if given:
        columns = [*columns, between(given)]
    tables = f"{relation}, {table}" if relation else table
    return f"{prefix} SELECT {', '.join(columns)} FROM {tables} {where}".lstrip()
