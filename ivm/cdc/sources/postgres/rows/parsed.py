"""Texts of PostgreSQL as values by Arrow's kernels, which need no statement.

Law: what is read here is what the SQL of the `Reading` reads. Texts in a form that PostgreSQL
writes rarely (infinities, years before 1 and after 9999, NaN) are left to that SQL.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.sources.postgres.connections.types import Reading
from ivm.storage.values.column import Column, column_from_arrow
from ivm.storage.values.types import type_of

_CAST = frozenset(
    {"int2", "int4", "int8", "float4", "float8", "numeric", "date", "timestamp", "timestamptz"}
)


def parsed(texts: pa.Array, reading: Reading) -> Column | None:
    """The values of texts, or None if that is left to the reading's SQL.

    Args:
        texts: large strings.
        reading: how they are read.
    """
    if reading.binary == "bool":
        return _truths(texts, reading)
    if reading.binary not in _CAST or reading.type == "VARCHAR":
        return None
    type = type_of(reading.type)
    try:
        values = texts.cast(type.arrow)
    except pa.ArrowInvalid:
        return None
    if type.is_float and not pc.all(pc.is_finite(values), min_count=0).as_py():
        return None
    return column_from_arrow(values, type)


def _truths(texts: pa.Array, reading: Reading) -> Column | None:
    true = pc.equal(texts, "t")
    if not pc.all(pc.or_(true, pc.equal(texts, "f")), min_count=0).as_py():
        return None
    return column_from_arrow(true, type_of(reading.type))
