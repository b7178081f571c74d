"""Whether the rows of a query may be cast to a table's types before an upsert looks at them.

DuckDB casts rows of VALUES at once, those of a query only as it writes them: it compares their keys
with the stored ones, and computes with `excluded`, in the types that the query gives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ivm.changes.values.conflicts import Rule
from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.text.tokens import Reader, kept_tokens
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import fold
from ivm.storage.values.types import ColumnType, Schema

_PARSED = frozenset(("BOOLEAN", "DATE", "TIMESTAMP", "UUID"))


def may_cast(
    given: Sequence[ColumnType],
    positions: Sequence[int],
    schema: Schema,
    rule: Rule,
    key: Collection[int],
) -> bool:
    """Returns whether a cast before makes no difference.

    Args:
        given: the types of the query's columns.
        positions: of the table's columns that get them.
        schema: of the table.
        rule: for the rows whose key is stored.
        key: the positions of the columns that are compared.
    """
    computes = _computes(schema, rule)
    for i, type in zip(positions, given, strict=True):
        target = schema[i][1]
        if _are_alike(type, target):
            continue
        if computes or (i in key and not _is_parsed(type, target)):
            return False
    return True


def _are_alike(type: ColumnType, target: ColumnType) -> bool:
    return type.sql in (target.sql, '"NULL"') or (type.is_integer and target.is_integer)


def _is_parsed(type: ColumnType, target: ColumnType) -> bool:
    """Returns whether texts are compared with the target's values as these."""
    return type.sql == "VARCHAR" and (target.is_integer or target.sql in _PARSED)


def _computes(schema: Schema, rule: Rule) -> bool:
    """Returns whether the rule does more with `excluded` than to set a column to its value."""
    found = [] if rule.where is None else [rule.where]
    for i, expression in rule.updates.items():
        if expression is not None and not _is_excluded(expression, schema[i][0]):
            found.append(expression)
    return any("excluded" in fold(expression.text) for expression in found)


def _is_excluded(expression: Expression, column: str) -> bool:
    reader = Reader(kept_tokens(expression.text))
    try:
        names = reader.name()
    except SqlError:
        return False
    return reader.done and [fold(name) for name in names] == ["excluded", fold(column)]
