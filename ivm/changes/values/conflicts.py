"""INSERT OR REPLACE, OR IGNORE and ON CONFLICT by a table's keys, without DuckDB.

Law: of several rows with one key the first counts, as DuckDB has it. A row whose key is not stored
is added; DO UPDATE sets columns of the stored row, by expressions over it and the row `excluded`,
which have values for all rows, whatever WHERE says.
Constraints hold for the rows that result; a row that is not used may violate them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ivm.changes.values.row_expressions import RowExpressions
from ivm.ingest.effect import Effect
from ivm.ingest.fast_path import FastPath
from ivm.ingest.first_per_key import first_of_each
from ivm.ingest.further_keys import Positions, whole_rows
from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.not_fast import VIOLATES, NotFastError
from ivm.ingest.table_rules import AT_ONCE
from ivm.sql.statements.nodes.expressions import Expression
from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, null_column
from ivm.storage.values.zset import ZSet, ones


@dataclass(frozen=True)
class Rule:
    """What is done with a row whose key is stored.

    Attributes:
        updates: position to the expression of its new value, None for that of `excluded`; without
            any, the stored row stays.
        where: which rows are updated; None for all.
        target: the key by which a row is stored already; None for any of several.
    """

    updates: Mapping[int, Expression | None]
    where: Expression | None = None
    target: Positions | None = None


class Resolved(NamedTuple):
    """The changes, and the rows added or updated as they are now."""

    changes: Sequence[TableChange]
    rows: ZSet


def resolve(
    path: FastPath,
    given: dict[int, Column],
    count: int,
    index: KeyIndex | None,
    rule: Rule,
    expressions: RowExpressions,
    *,
    returning: bool = False,
    in_turn: bool = False,
) -> Resolved:
    """Adds rows, or does with them what the rule says.

    Args:
        path: of a table with a key.
        given: column by position; the others take their default.
        count: rows.
        index: of the table, if it has a primary key; with all columns if the rule updates any.
        rule: for the rows whose key is stored.
        expressions: over the columns of the stored row and of `excluded`.
        returning: whether the rows are returned.
        in_turn: see `FastPath.check`.

    Raises:
        NotFastError: DuckDB must run the statement, perhaps to refuse it.
        ConstraintError: DuckDB would refuse it, and draw from sequences once more.
    """
    path.demand_at_once(rule.updates, count)
    draws = path.draws(given)  # then DuckDB, which would draw once more, has to be asked before
    if draws:
        _demand_resolvable(path, given, rule, expressions)
    rows = ZSet(path.complete(given, count), ones(count))
    if len(path.key) and len(whole_rows([rows.columns[i] for i in path.key])) < count:
        if draws:
            path.check_rows(rows)
        raise NotFastError(VIOLATES)
    first = _different(path, rows)
    rows = rows if len(first) == count else rows.take(first)
    found = _stored(path, rows, index, rule)
    every = bool(found.known.all())
    added = None if every else rows.filter(~found.known)
    updated, removed = None, None
    if rule.updates:  # also of no rows: DuckDB may refuse the expressions
        excluded: Sequence[Column] = rows.columns
        if not (every and len(rows) == 1):
            excluded = [column.take(found.probe) for column in rows.columns]
        at = found.probe if len(first) == count else first[found.probe]
        removed, updated = _updated(path, found.rows, excluded, rule, expressions.at(at))
        if added is not None:
            _demand_sets(path, added, rule, expressions.at(first[~found.known]))
    unmet = path.key if rule.target is None else rule.target
    effect = Effect(None, removed, updated, added, rule.updates.keys(), unmet)
    try:
        changes = path.check(effect, index, returning=returning, in_turn=in_turn)
    except NotFastError:
        if draws:
            path.refuse(effect, index, returning=returning, in_turn=in_turn)
        raise
    return Resolved(changes, rows.slice(0, 0) if effect.written is None else effect.written)


def _demand_resolvable(
    path: FastPath, given: Mapping[int, Column], rule: Rule, expressions: RowExpressions
) -> None:
    """Demands that DuckDB need not be asked, as far as it is known before values are drawn."""
    if rule.updates:
        _updated(path, *path.nothing_twice(), rule, expressions)
    path.demand_further()
    if not all(path.are_distinct(key, given) for key in path.keys if given.keys() >= {*key}):
        raise NotFastError(VIOLATES)


class _Stored(NamedTuple):
    """The rows that are stored under the keys of new ones.

    Attributes:
        known: the mask of the new rows that have one.
        probe: the new row of each of `rows`; empty if the rule updates none.
        rows: the stored ones.
    """

    known: Mask
    probe: Indexes
    rows: ZSet


def _stored(path: FastPath, rows: ZSet, index: KeyIndex | None, rule: Rule) -> _Stored:
    none = np.zeros(0, np.int64)
    if rule.target is None:
        known = np.zeros(len(rows), np.bool_)
        for key in path.keys:
            known |= _probed(path, key, rows, index)[0]
        return _Stored(known, none, rows.slice(0, 0))
    known, found = _probed(path, rule.target, rows, index)
    if not rule.updates:
        return _Stored(known, none, rows.slice(0, 0))
    if rule.target == path.key:
        return _Stored(known, found.probe, found.rows)
    assert index is not None
    by = path.index_by(rule.target)
    keys = [found.rows.columns[by.columns.index(i)] for i in path.key]
    stored = index.find(keys)
    return _Stored(known, found.probe[stored.probe], stored.rows)


def _probed(
    path: FastPath, key: Positions, rows: ZSet, index: KeyIndex | None
) -> tuple[Mask, Matches]:
    """The mask of the rows that have a stored one under a key, and the matches."""
    by = index if key == path.key else path.index_by(key)
    assert by is not None
    columns = [rows.columns[i] for i in key]
    if all(column.valid is None for column in columns):
        found = by.find(columns)
    else:
        whole = whole_rows(columns)
        found = by.find([column.take(whole) for column in columns])
        found = Matches(whole[found.probe], found.rows)
    return present(found, len(rows)), found


def _different(path: FastPath, rows: ZSet) -> Indexes:
    """The first row of each key; NotFastError if it depends on DuckDB which rows count.

    Among the rows of one statement it takes NULLs for equal, too.
    """
    count = len(rows)
    everything = np.arange(count)
    if count < 2:
        return everything
    for key in path.keys:
        types = [path.schema[i][1] for i in key]
        first = first_of_each([rows.columns[i] for i in key], types)
        if len(first) < count:
            if len(path.keys) > 1 or key != path.key or count > AT_ONCE:
                raise NotFastError("DuckDB decides which of several rows under one key count")
            return first
    return everything


def _updated(
    path: FastPath,
    stored: ZSet,
    excluded: Sequence[Column],
    rule: Rule,
    expressions: RowExpressions,
) -> tuple[ZSet, ZSet]:
    """The stored rows that are updated, before and after; NotFastError as of `RowExpressions`."""
    columns = [*stored.columns, *excluded]
    new = list(stored.columns)
    for position, expression in rule.updates.items():
        if expression is None:
            new[position] = columns[len(path.schema) + position]
        else:
            type = path.schema[position][1]
            new[position] = expressions.value(expression, type, columns, len(stored))
    updated = ZSet(tuple(new), ones(len(stored)))
    if rule.where is None:
        return stored, updated
    mask = expressions.mask(rule.where, columns, len(stored))
    return (stored, updated) if mask.all() else (stored.filter(mask), updated.filter(mask))


def _demand_sets(path: FastPath, added: ZSet, rule: Rule, expressions: RowExpressions) -> None:
    """Demands that all that is set has values for rows that have no stored one, too.

    DuckDB computes them, the stored row being NULL, and refuses the statement if one fails.
    """
    sets = [(i, expression) for i, expression in rule.updates.items() if expression is not None]
    if sets:
        columns = [*[null_column(type, len(added)) for _, type in path.schema], *added.columns]
        for i, one in sets:
            expressions.demand_values(one, path.schema[i][1], columns)
