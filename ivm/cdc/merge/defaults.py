"""The values of columns that events do not carry, for rows that are new by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ivm.cdc.formats.events import DELETE, Events
from ivm.ingest.fast_path import FastPath
from ivm.storage.values.column import Column, Mask, concat


def with_defaults(path: FastPath, events: Events) -> Events:
    """The events with the table's defaults in the place of values that were not sent.

    They stay marked as unknown: where there is a row, its values stay. A sequence is advanced
    whether there is one or not.

    Args:
        path: of the table, in a transaction.
        events: with every column.

    Raises:
        NotFastError: a default cannot be evaluated in this transaction.
    """
    # A delete of a row without a key has to tell the whole row.
    told = events.operations != DELETE if path.key else np.ones(len(events), np.bool_)
    masks = {i: mask & told for i, mask in events.unknown.items() if i not in path.key}
    masks = {i: mask for i, mask in masks.items() if mask.any()}
    if not masks:
        return events
    rows = np.logical_or.reduce(list(masks.values()))
    values, columns = _values(path, list(masks), int(rows.sum())), dict(events.columns)
    for i, mask in masks.items():
        columns[i] = _put(columns[i], values[i], rows, mask)
    return replace(events, columns=columns)


def _values(path: FastPath, positions: Sequence[int], count: int) -> dict[int, Column]:
    """The defaults of columns for so many rows."""
    constant = {i: path.default(i, count) for i in positions if i not in path.evaluated}
    evaluated = {i: path.evaluated[i] for i in positions if i in path.evaluated}
    if not evaluated:
        return constant
    assert path.evaluate is not None
    return constant | path.evaluate(evaluated, count)


def _put(column: Column, values: Column, rows: Mask, chosen: Mask) -> Column:
    """The column with values, which are for certain rows, in the chosen ones of these."""
    count = len(column)
    place = np.arange(count)
    place[rows] = np.arange(count, count + len(values))
    return concat([column, values]).take(np.where(chosen, place, np.arange(count)))
