"""MERGE INTO: watches the target rows that the source matches.

The source is evaluated once, into a temporary table under its own alias, without columns that no
branch reads, as they may fail where DuckDB does not evaluate them. MERGE changes matched rows
and adds new ones, unless a branch is for rows NOT MATCHED BY SOURCE: then, and where the source has
no plain alias, the whole table is compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ivm.capture.result import Captured, run_shown
from ivm.capture.row_diff import run_rewritten, watching
from ivm.capture.trial import Trial
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.sources import alias_of
from ivm.ingest.parameters import Params
from ivm.sql.statements.nodes.nodes import Dml
from ivm.sql.statements.text.tokens import Reader, unquoted
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, run, temporary
from ivm.storage.warehouse.flush.row_ids import same_row
from ivm.storage.warehouse.tables.table_info import TableInfo

_SOURCE = "__ivm_source"


class _Merge(NamedTuple):
    """The pieces of a MERGE.

    Attributes:
        query: selects its source.
        condition: its ON or USING clause.
        mentioned: names that this and the branches may read, folded; None if they read all.
    """

    prefix: str
    target: str
    reference: str
    query: str
    alias: str
    condition: str
    branches: str
    mentioned: frozenset[str] | None
    returning: bool


def capture_merge(cursor: Cursor, statement: Dml, info: TableInfo, params: Params) -> Captured:
    """Runs the MERGE from a copy of its source, and watches the rows that the source matches."""
    written = ChangeText(statement.text, params)

    def from_a_copy(trial: Trial) -> Captured | None:
        merge = _read(written, statement, info)
        return None if merge is None else _from_a_copy(trial, cursor, written, merge, info)

    return run_rewritten(cursor, statement, info, params, from_a_copy)


def _from_a_copy(
    trial: Trial, cursor: Cursor, written: ChangeText, merge: _Merge, info: TableInfo
) -> Captured:
    values = written.params(merge.query)
    with temporary(cursor, _SOURCE, f"AS {_pruned(cursor, merge, values)}", values) as source:
        matched, sql = _matched(merge, source), _merge(merge, source)
        same = f"t.rowid {same_row(cursor, info.qualified)} m.id"
        known = f"EXISTS (SELECT 1 FROM ({matched}) AS m(id) WHERE {same})"
        with watching(cursor, info, known, written.params(matched)) as watch:
            run(cursor, f"EXPLAIN {sql}", written.params(sql))
            trial.commit()
            result = run_shown(cursor, sql, written.params(sql), merge.returning)
            return result.with_changes({info.name: watch.changes()})


def _pruned(cursor: Cursor, merge: _Merge, values: Any) -> str:
    """The source's query with the columns that the statement mentions."""
    if merge.mentioned is None:
        return merge.query
    names = [name for name, _ in describe(cursor, merge.query, values)]
    if len({fold(name) for name in names}) < len(names):
        return merge.query
    read = [quote(name) for name in names if fold(name) in merge.mentioned]
    return f"SELECT {', '.join(read) or 'NULL'} FROM ({merge.query})"


def _matched(merge: _Merge, source: str) -> str:
    """Writes the SELECT of the row ids of matched target rows."""
    joined = f"{merge.target} JOIN {source} AS {quote(merge.alias)} {merge.condition}"
    return f"SELECT {merge.reference}.rowid FROM {joined}"


def _merge(merge: _Merge, source: str) -> str:
    prefix = merge.prefix if "SELECT" in (merge.condition + merge.branches).upper() else ""
    using = f"USING {source} AS {quote(merge.alias)} {merge.condition}"
    return f"{prefix} MERGE INTO {merge.target} {using} {merge.branches}"


# --- reading the clauses ---


def _read(written: ChangeText, statement: Dml, info: TableInfo) -> _Merge | None:
    """The pieces; None for a statement that this module does not take apart."""
    hidden = info.position("rowid") is not None  # DuckDB's fault `hidden_row_ids`
    if hidden or statement.table is None:
        return None
    clauses = written.clauses
    if "SOURCE" in [t.word for t in written.tokens]:  # WHEN NOT MATCHED BY SOURCE
        return None
    source = clauses.source.rest
    alias = alias_of(written.within(source))
    if alias is None or not clauses.condition:
        return None
    return _Merge(
        written.prefix,
        written.piece(clauses.target),
        quote(statement.alias or statement.table[-1]),
        f"{written.prefix} SELECT * FROM {written.piece(source)}",
        alias,
        written.piece(clauses.condition),
        written.behind(clauses.condition.end),
        _mentioned(written, alias),
        statement.returning,
    )


def _mentioned(written: ChangeText, alias: str) -> frozenset[str] | None:
    """The names from the condition on; None if columns may be read without their names."""
    clauses = written.clauses
    read = written.tokens[clauses.condition.begin :]
    names = [fold(unquoted(token)) for token in read]
    followers = [*[token.word for token in read[1:]], ""]
    whole = any(a == fold(alias) and b != "." for a, b in zip(names, followers, strict=True))
    if whole or "*" in [token.word for token in written.tokens[clauses.condition.end :]]:
        return None
    branches = [Reader(written.within(branch)) for branch in clauses.branches]
    return None if any(map(_takes_all, branches)) else frozenset(names)


def _takes_all(branch: Reader) -> bool:
    """Returns whether a branch is an INSERT or UPDATE that does not say what it writes."""
    writes = branch.find("INSERT") or branch.find("UPDATE")
    return writes and not (branch.find("VALUES") or branch.find("SET"))
