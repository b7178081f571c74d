"""The values of columns that events do not carry, for rows that are new by them."""

from __future__ import annotations

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
    rows = events.operations != DELETE if path.key else np.ones(len(events), np.bool_)
    masks = {i: mask & rows for i, mask in events.unknown.items() if i not in path.key}
    masks = {i: mask for i, mask in masks.items() if mask.any()}
    evaluated = {i: path.evaluated[i] for i in masks if i in path.evaluated}
    if not masks:
        return events
    rows = np.logical_or.reduce(list(masks.values()))
    values: dict[int, Column] = {}
    if evaluated:
        assert path.evaluate is not None
        values = path.evaluate(evaluated, int(rows.sum()))
    columns = dict(events.columns)
    for i, mask in masks.items():
        columns[i] = _put(columns[i], values.get(i) or path.default(i, int(rows.sum())), rows, mask)
    return replace(events, columns=columns)


def _put(column: Column, values: Column, rows: Mask, chosen: Mask) -> Column:
    """The column with values, which are for certain rows, in the chosen ones of these."""
    count = len(column)
    place = np.arange(count)
    place[rows] = np.arange(count, count + len(values))
    return concat([column, values]).take(np.where(chosen, place, np.arange(count)))
