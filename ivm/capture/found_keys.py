"""An UPDATE or DELETE by any condition, as one by the keys of the rows that meet it.

Law: the source, which DuckDB computes, has a row for each row of the table and of its own source
that meet the condition, with the key of the former. The condition is the user's text; the table
stands last, so that no query before it can read its columns: UPDATE and DELETE forbid that, too.
What DuckDB refuses and such a query would not is left to it: our own names, a WITH clause that
hides the table.
"""

from __future__ import annotations

import re

from ivm.capture.joined_clauses import Conjunct, JoinedChange, Pieces
from ivm.sql.statements.expressions import Expression
from ivm.sql.statements.nodes import Dml, Name
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.table_info import TableInfo

_OURS, _ALIAS, _KEY = "__ivm_", "__ivm_found", "__ivm_key_"


def by_found_keys(change: JoinedChange, statement: Dml, info: TableInfo) -> JoinedChange | None:
    """Lets DuckDB find the rows, unless the condition compares the key with columns of the source.

    Args:
        change: what the statement says.
        statement: changes the table.
        info: the table; it has a primary key.

    Returns:
        None if DuckDB must run the statement.
    """
    assert statement.table is not None
    alias, reference = statement.alias, statement.alias or statement.table[-1]
    if change.pieces is None or _compares_key(change, info, reference):
        return change
    if _OURS in fold(statement.text) or _may_hide(change.pieces.prefix, statement.table[-1]):
        return None
    found = change.alias or _ALIAS
    names = [(name, f"{_KEY}{i}") for i, (name, _) in enumerate(info.key_columns)]
    conjuncts = [_equal((reference, name), (found, key)) for name, key in names]
    keys = [f"{quote(reference)}.{quote(name)} AS {key}" for name, key in names]
    table = info.qualified if alias is None else f"{info.qualified} AS {quote(alias)}"
    source = _query(change.pieces, keys, table, quote(change.alias))
    return change._replace(source=source, alias=found, conjuncts=tuple(conjuncts), found=True)


def _may_hide(prefix: str, table: str) -> bool:
    """Returns whether a WITH clause may define a query of the table's name."""
    named = rf'{re.escape(fold(table))}"?\s*(\([^)]*\)\s*)?(as|using)\b'
    return re.search(named, fold(prefix)) is not None


def _compares_key(change: JoinedChange, info: TableInfo, reference: str) -> bool:
    """Returns whether each column of the key seems to be equal to another column."""
    compared = [name for conjunct in change.conjuncts for name in conjunct.names or ()]
    own = [name for name in compared if len(name) == 1 or fold(name[-2]) == fold(reference)]
    return {fold(name) for name, _ in info.key_columns} <= {fold(name[-1]) for name in own}


def _equal(left: Name, right: Name) -> Conjunct:
    return Conjunct((left, right), Expression("true"))


def _query(pieces: Pieces, keys: list[str], table: str, alias: str) -> str:
    listed, relations = keys, [table]
    if pieces.relation:
        listed, relations = [*keys, f"{alias}.*"], [pieces.relation, table]
    query = f"SELECT {', '.join(listed)} FROM {', '.join(relations)} {pieces.where}"
    return f"{pieces.prefix} {query}" if pieces.prefix else query
