"""Reads INSERTs of literals and parameters completely.

Contract: an `Insert` means to the fast path what the statement means to DuckDB; any other INSERT is
a `Dml`, which DuckDB runs. Whether the columns of ON CONFLICT are a key is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.statements.changes.assignments import settings
from ivm.sql.statements.changes.clauses import Clauses
from ivm.sql.statements.nodes import values_list
from ivm.sql.statements.nodes.expressions import Marks
from ivm.sql.statements.nodes.nodes import Conflict, Dml, Insert, InsertRules
from ivm.sql.statements.text.tokens import Reader, SourceText, Token, text_of
from ivm.storage.errors import SqlError


def literal_insert(
    source: SourceText, tokens: Sequence[Token], clauses: Clauses, read: Dml
) -> Insert | None:
    """The INSERT of literals and parameters that a statement is; None if DuckDB must run it.

    Args:
        read: the statement.
    """
    rows_of, script = clauses.source, source.script
    if not rows_of or tokens[rows_of.begin].word != "VALUES" or clauses.naming:
        return None
    if read.or_action and read.on_conflict:
        return None
    rows = values_list.scan(script, tokens[rows_of.begin].end, tokens[rows_of.end - 1].end)
    if rows is None:
        return None
    conflict = None
    if read.or_action:
        conflict = Conflict(replaces=read.or_action == "replace")
    elif read.on_conflict:
        conflict = conflict_of(script, tokens[slice(*clauses.conflict)], _marks(rows))
        if conflict is None:
            return None
    returned = text_of(script, tokens[slice(*clauses.returning.rest)])
    return Insert(
        *(read.text, read.offset, "insert", read.table, read.alias, read.returning, 0),
        *(read.or_action, read.on_conflict, read.sources),
        rows=rows,
        rules=InsertRules(clauses.columns, conflict, returned),
    )


def conflict_of(script: str, tokens: Sequence[Token], marks: Marks) -> Conflict | None:
    """Reads ON CONFLICT; None if it has a form that is left to DuckDB."""
    reader = Reader(tokens)
    try:
        reader.expect("ON", "CONFLICT")
        target = reader.columns() if reader.peek() == "(" else None
        reader.expect("DO")
        if reader.accept("NOTHING"):
            return Conflict(target) if reader.done else None
        reader.expect("UPDATE", "SET")
    except SqlError:
        return None
    middle = reader.index("WHERE")
    sets = settings(script, tokens[reader.at : middle], marks)
    where = marks.expression(script, tokens[middle + 1 :])
    if sets is None or (where is None and middle < len(tokens)) or marks.mixed:
        return None
    return Conflict(target, sets, where)


def _marks(rows: values_list.LiteralRows) -> Marks:
    """Numbers the parameters behind those of the VALUES list."""
    marks = {cell[:1] for cells in rows.cells for cell in cells[:1]}
    counted = sum([len(names) for names in rows.column_parameters if names is not None])
    return Marks(counted if "?" in marks else 0, named="$" in marks)
