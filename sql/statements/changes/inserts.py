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
from ivm.sql.statements.nodes.nodes import Conflict, Dml, Insert, Insertion
from ivm.sql.statements.text.tokens import Reader, Token, text_of
from ivm.storage.errors import SqlError


def literal_insert(
    script: str, tokens: Sequence[Token], clauses: Clauses, statement: Dml
) -> Insert | None:
    """The INSERT of literals and parameters that a statement is; None if DuckDB must run it."""
    cells = clauses.source.of(tokens)
    if not cells or cells[0].word != "VALUES" or clauses.naming:
        return None
    if statement.or_action and statement.on_conflict:
        return None
    rows = values_list.scan(script, cells[0].end, cells[-1].end)
    if rows is None:
        return None
    conflict = None
    if statement.or_action:
        conflict = Conflict(replaces=statement.or_action == "replace")
    elif statement.on_conflict:
        conflict = conflict_of(script, clauses.conflict.of(tokens), _marks(rows))
        if conflict is None:
            return None
    returned = text_of(script, clauses.returning.rest.of(tokens))
    insertion = Insertion(clauses.columns, conflict, returned)
    return Insert(**vars(statement), rows=rows, insertion=insertion)


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
