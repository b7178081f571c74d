"""Reads UPDATE and DELETE whose WHERE clause compares columns with values.

Contract: a `KeyedChange` means to the fast path what the statement means to DuckDB; statements with
FROM, USING, subqueries, or OR between the conditions have none. Whether an index can find the rows
by the columns compared is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ivm.sql.statements.changes.assignments import settings
from ivm.sql.statements.changes.clauses import Clauses
from ivm.sql.statements.nodes import values_list
from ivm.sql.statements.nodes.expressions import Expression, Marks
from ivm.sql.statements.nodes.nodes import Comparison, Dml, KeyedChange
from ivm.sql.statements.text.tokens import Reader, Token, split, text_of, top_level
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold

_NO_CELLS = values_list.LiteralRows((), 1)
_NO_CONJUNCTION = frozenset(("OR", "CASE"))


def keyed_change(
    script: str, tokens: Sequence[Token], clauses: Clauses, statement: Dml
) -> KeyedChange | None:
    """The change by a key that a statement without a WITH clause is; None for any other form."""
    marks = Marks()
    if clauses.source or not clauses.condition:
        return None
    sets = settings(script, clauses.sets.rest.of(tokens), marks) if clauses.sets else ()
    condition, called = clauses.condition.rest.of(tokens), clauses.alias or clauses.table[-1]
    conditions = _conditions(script, condition, called, marks)
    if sets is None or conditions is None or marks.mixed:
        return None
    cells, computed, rows = _cells(sets)
    compared = tuple([one for one in conditions if isinstance(one, Comparison)])
    if rows is None or not compared:
        return None
    return KeyedChange(
        **vars(statement),
        columns=tuple([name for name, _ in cells]),
        rows=rows,
        computed=tuple(computed),
        comparisons=compared,
        conditions=tuple([one for one in conditions if isinstance(one, Expression)]),
        returned=text_of(script, clauses.returning.rest.of(tokens)),
    )


def _conditions(
    script: str, tokens: Sequence[Token], table: str, marks: Marks
) -> list[Comparison | Expression] | None:
    """The conditions that AND connects; None if another word may connect them."""
    parts = conjuncts(tokens)
    if parts is None:
        return None
    found: list[Comparison | Expression] = []
    for part in parts:
        expression = marks.expression(script, part)
        if expression is None:
            return None
        found.append(_comparison(part, expression, table) or expression)
    return found


def conjuncts(tokens: Sequence[Token]) -> list[Sequence[Token]] | None:
    """Splits a condition at each AND but those of BETWEEN; None if other words may connect it."""
    if not tokens or any(tokens[i].word in _NO_CONJUNCTION for i in top_level(tokens)):
        return None
    cuts, between = [-1], 0
    for i in top_level(tokens):
        if tokens[i].word == "BETWEEN":
            between += 1
        elif tokens[i].word == "AND" and between:
            between -= 1
        elif tokens[i].word == "AND":
            cuts.append(i)
    return [tokens[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], len(tokens)], strict=True)]


def _comparison(part: Sequence[Token], condition: Expression, table: str) -> Comparison | None:
    """Reads `[table.]column = value` or `… IN (value, …)`; None for another condition."""
    reader = Reader(part)
    try:
        *qualifier, column = reader.name()
    except SqlError:
        return None
    if qualifier and [fold(name) for name in qualifier] != [fold(table)]:
        return None
    if reader.accept("="):
        texts = [part[reader.at :]]
    elif reader.accept("IN", "(") and part[-1].word == ")":
        texts = split(part[reader.at : -1])
    else:
        return None
    values = _values(texts, condition)
    return None if values is None else Comparison(column, values, condition)


def _values(
    texts: Sequence[Sequence[Token]], condition: Expression
) -> values_list.LiteralRows | None:
    """The values as one column; None if one is neither a literal nor a parameter."""
    parameters, cells = iter(condition.parameters), []
    for value in texts:
        if not value or any(a.text[0] == b.text[0] == "'" for a, b in pairwise(value)):
            return None  # strings on two lines are one, without the quotes between them
        mark = value[0].word in ("?", "$")
        cells.append(_mark(next(parameters)) if mark else "".join([_spaced(t) for t in value]))
    return _scan(cells, separator="), (")


def _spaced(token: Token) -> str:
    """The token's text; a word and a string that follows it are told apart by a blank."""
    return f"{token.text} " if token.word.isalpha() else token.text


def _mark(parameter: int | str) -> str:
    return f"${parameter + 1}" if isinstance(parameter, int) else f"${parameter}"


def _cells(
    sets: Sequence[tuple[str, Expression]],
) -> tuple[list[tuple[str, str]], list[tuple[str, Expression]], values_list.LiteralRows | None]:
    """The columns that are set to cells, with their texts; the others; and the row of the cells."""
    cells, computed, row = list[tuple[str, str]](), list[tuple[str, Expression]](), _NO_CELLS
    for name, value in sets:
        text = _written(value)
        read = _scan([text])
        if read is None:
            computed.append((name, value))
        else:
            row = read
            cells.append((name, text))
    return cells, computed, row if len(cells) < 2 else _scan([text for _, text in cells])


def _written(value: Expression) -> str:
    """The expression as the user wrote it, but with `$1` for `?`."""
    return _mark(value.parameters[0]) if value.is_parameter else value.text


def _scan(texts: Sequence[str], separator: str = ", ") -> values_list.LiteralRows | None:
    row = f"({separator.join(texts)})"
    return values_list.scan(row, 0, len(row))
