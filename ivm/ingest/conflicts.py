"""INSERT OR REPLACE, OR IGNORE and ON CONFLICT by a table's primary key, without DuckDB.

Law: of several rows with one key the first counts, as DuckDB has it. A row whose key is not stored
is added; DO UPDATE sets columns of the stored row, by expressions over it and the row `excluded`.
Constraints hold for the rows that result; a row that is not used may violate them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ivm.ingest.fast_path import FastPath, first_of_each
from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.row_expressions import RowExpressions
from ivm.sql.statements.expressions import Expression
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, add, ones

_AT_ONCE = 2048
"""Rows that DuckDB inserts at once: of equal keys further apart, it updates by the later ones."""


@dataclass(frozen=True)
class Rule:
    """What is done with a row whose key is stored.

    Attributes:
        updates: position to the expression of its new value, None for that of `excluded`; without
            any, the stored row stays.
        where: which rows are updated; None for all.
    """

    updates: Mapping[int, Expression | None]
    where: Expression | None = None


class Resolved(NamedTuple):
    """The change, and the rows added or updated as they are now."""

    change: TableChange
    rows: ZSet


def resolve(
    path: FastPath,
    given: dict[int, Column],
    count: int,
    index: KeyIndex,
    rule: Rule,
    expressions: RowExpressions,
) -> Resolved | None:
    """Adds rows, or does with them what the rule says.

    Args:
        path: of a table with a primary key.
        given: column by position; the others take their default.
        count: rows.
        index: of the table; with all columns if the rule updates any.
        rule: for the rows whose key is stored.
        expressions: over the columns of the stored row and of `excluded`.

    Returns:
        None if DuckDB must run the statement, perhaps to refuse it.
    """
    draws = path.draws(given)  # then DuckDB, which would draw once more, has to be asked before
    if draws and rule.updates and _updated(path, *path.nothing_twice(), rule, expressions) is None:
        return None
    rows = ZSet(path.complete(given, count), ones(count))
    keys = [rows.columns[i] for i in path.key]
    if any(key.valid is not None and not key.valid.all() for key in keys):
        return _refused(path, rows, draws)
    first = first_of_each(keys, [path.schema[i][1] for i in path.key])
    if len(first) < count:
        if count > _AT_ONCE:
            return None
        rows = ZSet(tuple([column.take(first) for column in rows.columns]), ones(len(first)))
        keys = [rows.columns[i] for i in path.key]
    matches = index.find(keys)
    added = rows.filter(~present(matches, len(rows)))
    updated = removed = None
    if rule.updates:  # also of no rows: DuckDB may refuse the expressions
        excluded = [column.take(matches.probe) for column in rows.columns]
        found = _updated(path, matches.rows, excluded, rule, expressions.at(matches.probe))
        if found is None:
            return None
        removed, updated = found
    result = added if updated is None else add([updated, added])
    if next(path.violations(result), None) is not None:
        return _refused(path, result, draws)
    return Resolved(path.change(result, removed, index), result)


def _refused(path: FastPath, rows: ZSet, draws: bool) -> Resolved | None:
    """None, so that DuckDB refuses the rows; in words of ours where it would draw once more.

    Raises:
        ConstraintError: if `draws`.
    """
    if draws:
        path.check(rows)
    return None


def _updated(
    path: FastPath,
    stored: ZSet,
    excluded: Sequence[Column],
    rule: Rule,
    expressions: RowExpressions,
) -> tuple[ZSet, ZSet] | None:
    """The stored rows that are updated, before and after; None if DuckDB must evaluate them."""
    columns = [*stored.columns, *excluded]
    if rule.where is not None:
        mask = expressions.mask(rule.where, columns, len(stored))
        if mask is None:
            return None
        if not mask.all():
            stored = stored.filter(mask)
            columns = [column.filter(mask) for column in columns]
            expressions = expressions.at(mask.nonzero()[0])
    new = list(stored.columns)
    for position, expression in rule.updates.items():
        if expression is None:
            value: Column | None = columns[len(path.schema) + position]
        else:
            type = path.schema[position][1]
            value = expressions.value(expression, type, columns, len(stored))
        if value is None:
            return None
        new[position] = value
    return stored, ZSet(tuple(new), ones(len(stored)))
