"""The rows that the WHERE clause of an UPDATE or DELETE finds by a key index, and their new values.

Law: the rows are those for which the whole clause is true. The index finds them by the columns that
the clause compares with values; the other conditions are evaluated for the rows found, where no row
of the table could make them fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.changes.values.compared_values import compared_values
from ivm.changes.values.row_expressions import RowExpressions, repeated
from ivm.ingest.first_per_key import first_of_each
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.literal_columns import Parameters
from ivm.ingest.not_fast import NotFastError
from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.nodes.nodes import Comparison, KeyedChange
from ivm.storage.values.column import Column, Mask
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.tables.table_info import TableInfo

_MOST_KEYS = 100_000  # combinations of the values of several key columns


class Search(NamedTuple):
    """How the rows are found.

    Attributes:
        by: a comparison for each column of the key.
        conditions: the rest of the clause.
    """

    by: tuple[Comparison, ...]
    conditions: tuple[Expression, ...]


def search_of(statement: KeyedChange, info: TableInfo, key: Sequence[int]) -> Search | None:
    """Splits the WHERE clause; None if it does not compare all columns of the key."""
    by: dict[int | None, Comparison] = {}
    rest = list(statement.conditions)
    for comparison in statement.comparisons:
        position = info.position(comparison.column)
        if position not in key or position in by:
            rest.append(comparison.condition)
        else:
            by[position] = comparison
    if not key or len(by) < len(key):
        return None
    return Search(tuple([by[position] for position in key]), tuple(rest))


def keys_of(
    search: Search, schema: Schema, key: Sequence[int], parameters: Parameters
) -> list[Column]:
    """The different keys that the clause asks for; NotFastError if DuckDB must compare them."""
    types = [schema[i][1] for i in key]
    pairs = zip(search.by, types, strict=True)
    columns = [compared_values(each.values, type, parameters) for each, type in pairs]
    counts = [len(column) for column in columns]
    if len(columns) > 1:
        if np.prod(counts, dtype=np.float64) > _MOST_KEYS:
            raise NotFastError("it compares the key with very many values")
        grid = np.indices(counts).reshape(len(counts), -1)
        columns = [c.take(rows) for c, rows in zip(columns, grid, strict=True)]
    if len(columns[0]) < 2:
        return columns
    first = first_of_each(columns, types)
    return [column.take(first) for column in columns]


def found_rows(
    index: KeyIndex, keys: Sequence[Column], search: Search, expressions: RowExpressions
) -> ZSet:
    """The stored rows, with the columns of the index; NotFastError as of `condition_mask`."""
    rows = index.find(keys).rows.one_by_one()
    return rows.filter(condition_mask(search, rows, expressions)) if search.conditions else rows


def condition_mask(search: Search, rows: ZSet, expressions: RowExpressions) -> Mask:
    """The mask of the rows that meet the other conditions.

    Raises:
        NotFastError: DuckDB must evaluate one.
    """
    met = np.ones(len(rows), np.bool_)
    for condition in search.conditions:
        met &= expressions.mask(condition, rows.columns, len(rows), of_all=True)
    return met


class Assignments(NamedTuple):
    """The columns that an UPDATE sets, by position.

    Attributes:
        literal: those set to a literal or parameter, in the order of the statement's cells.
        computed: those set to other expressions.
    """

    literal: tuple[int, ...]
    computed: Mapping[int, Expression]

    @property
    def all(self) -> set[int]:
        """All columns set."""
        return {*self.literal, *self.computed}


def assignments_of(statement: KeyedChange, info: TableInfo) -> Assignments:
    """The columns set; NotFastError if one is unknown or set twice."""
    names = itertools.chain(statement.columns, [name for name, _ in statement.computed])
    found = [info.position(name) for name in names]
    known = [position for position in found if position is not None]
    if len({*known}) < len(found):
        raise NotFastError("it sets an unknown column, or one twice")
    count = len(statement.columns)
    expressions = [expression for _, expression in statement.computed]
    computed = dict(zip(known[count:], expressions, strict=True))
    return Assignments(tuple(known[:count]), computed)


def new_rows(
    sets: Assignments,
    schema: Schema,
    stored: ZSet,
    index: KeyIndex,
    expressions: RowExpressions,
    literal: Mapping[int, Column],
) -> ZSet:
    """The rows after an UPDATE, with all columns.

    Args:
        stored: the rows found, with the columns of the index.
        expressions: over the stored rows: SET reads the old values.
        literal: the values of literals and parameters by position, one or as many as rows.

    Raises:
        NotFastError: DuckDB must compute them.
    """
    count = len(stored)
    new: list[Column] = []
    for position, (_, type) in enumerate(schema):
        if position in literal:
            value = repeated(literal[position], count)
        elif position in sets.computed:
            value = expressions.value(sets.computed[position], type, stored.columns, count)
        else:
            value = stored.columns[index.columns.index(position)]
        new.append(value)
    return ZSet(tuple(new), ones(count))
