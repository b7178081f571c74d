"""Arrow tables for users' tools: HUGEINT becomes decimal128(38, 0) where every value fits.

Invariant: no value changes; a column with a value of 39 digits stays in DuckDB's lossless form.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_DECIMAL = pa.decimal128(38, 0)
_LIMIT = 10**38 >> 64  # the high word of the first value with 39 digits


def plain(table: pa.Table) -> pa.Table:
    """The table with its HUGEINT columns as decimals: both have the same 16 bytes a value."""
    for i, field in enumerate(table.schema):
        if _is_hugeint(field.type):
            chunks = [_decimals(chunk) for chunk in table.column(i).chunks]
            if all(chunk is not None for chunk in chunks):
                column = pa.chunked_array(chunks, _DECIMAL)
                table = table.set_column(i, pa.field(field.name, _DECIMAL), column)
    return table


def _is_hugeint(type: pa.DataType) -> bool:
    return isinstance(type, pa.OpaqueType) and type.type_name == "hugeint"


def _decimals(array: pa.ExtensionArray) -> pa.Array | None:
    storage = array.storage
    validity, data = storage.buffers()
    if data is not None:
        words = np.frombuffer(data, "<i8")[2 * storage.offset :][: 2 * len(storage)]
        low, high = words[::2].view("<u8"), words[1::2]
        for i in np.flatnonzero((high >= _LIMIT) | (high < -_LIMIT)).tolist():
            if array[i].is_valid and abs((int(high[i]) << 64) + int(low[i])) >= 10**38:
                return None
    buffers = [validity, data]
    return pa.Array.from_buffers(_DECIMAL, len(storage), buffers, offset=storage.offset)
