"""Bounds of a search for the first rows: a value for each probe, from which on its rows are read.

Law: the values are of the first order key, which ascends. Read forwards, the rows of a probe are
those at or after its value; read backwards, those at or before it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.write_buffer import WriteBuffer
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.ordering.compare_rows import compare_rows
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.ranges import first_places, present


class Bound(NamedTuple):
    """The values from which on rows are read.

    Attributes:
        values: of the probes, by their numbers; none is NULL.
        strict: rows with the value itself are not read.
    """

    values: Column
    strict: bool = False

    def narrowed(
        self,
        run: Run,
        layout: Layout,
        ranges: tuple[Indexes, Indexes],
        probes: Indexes,
        *,
        backwards: bool,
    ) -> tuple[Indexes, Indexes]:
        """The parts of ranges of a run's rows that are read for the probes."""
        key = layout.order[0].column
        column, type = run.columns[key], layout.types[key]
        starts, stops = ranges
        stops = present(column, type, starts, stops)
        wanted = self.values.take(probes)
        right = self.strict != backwards
        places = first_places(column, type, starts, stops, wanted, right=right)
        return (starts, places) if backwards else (places, stops)

    def narrowed_one(
        self, run: Run, layout: Layout, start: int, stop: int, probe: int, *, backwards: bool
    ) -> tuple[int, int]:
        """The part of one range that is read for a probe."""
        key = layout.order[0].column
        column, values = run.columns[key], self.values
        if layout.types[key].is_ordered_word and column.valid is None:
            assert isinstance(column, FixedColumn)
            assert isinstance(values, FixedColumn)
            side: Literal["left", "right"] = "right" if self.strict != backwards else "left"
            place = start + int(column.values[start:stop].searchsorted(values.values[probe], side))
            return (start, place) if backwards else (place, stop)
        ranges = np.array([start]), np.array([stop])
        starts, stops = self.narrowed(run, layout, ranges, np.array([probe]), backwards=backwards)
        return starts.item(), stops.item()

    def holds(
        self,
        buffer: WriteBuffer,
        layout: Layout,
        rows: Indexes,
        probes: Indexes,
        *,
        backwards: bool,
    ) -> Mask:
        """A mask of rows of a write buffer that are read for the probes."""
        key = layout.order[0].column
        held, term = buffer.columns[key].take(rows), OrderTerm(0, layout.types[key])
        signs = compare_rows([held], np.arange(len(rows)), [self.values], probes, [term])
        signs = -signs if backwards else signs
        beyond: Mask = signs > 0 if self.strict else signs >= 0
        return beyond if held.valid is None else beyond & held.valid
