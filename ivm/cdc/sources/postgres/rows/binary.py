"""How the columns of a copied table are asked for, and their values as the driver gives them.

Law: a value is the one that `types` reads from PostgreSQL's text of it. Types whose binary form has
the same values are sent in it, which costs neither side a text; all others are sent as texts.

https://www.postgresql.org/docs/current/sql-copy.html (Binary Format)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.cdc.sources.postgres.connections.types import Reading
from ivm.cdc.sources.postgres.rows.texts import Typed
from ivm.storage.errors import InternalError
from ivm.storage.values.column import FixedColumn, Mask, column_from_arrow
from ivm.storage.values.types import ColumnType, type_of

_DAY = 86_400_000_000  # microseconds
_DAYS_BEFORE = 10_957  # from 1970 to 2000, where PostgreSQL's time begins
_CYCLE = 146_097  # days of 400 years, after which the calendar repeats
_LEAST, _MOST = [int(bound) for bound in (np.iinfo(np.int64).min, np.iinfo(np.int64).max)]


@dataclass(frozen=True)
class Form:
    """How a column is sent.

    Attributes:
        sql: what is selected, from the quoted name of the column.
        read: the values from what arrives; large strings where they are sent as texts.
    """

    sql: Callable[[str], str]
    read: Callable[[pa.Array], Typed | pa.Array]


def form(reading: Reading) -> Form:
    """How a column is sent whose values are read like this."""
    known = _FORMS.get(reading.binary)
    return known(type_of(reading.type), reading.binary) if known else _AS_TEXT


def _as_text(column: str) -> str:
    """What the type's output function writes, which a cast to text is not for every type."""
    return f"CASE pg_catalog.num_nulls({column}) WHEN 0 THEN pg_catalog.concat({column}) END"


def _texts(array: pa.Array) -> pa.Array:
    return array.cast(pa.large_string())


_AS_TEXT = Form(_as_text, _texts)


def _same_text(type: ColumnType, name: str) -> Form:
    return Form(lambda column: f"CAST({column} AS pg_catalog.text)", _texts)


def _same(type: ColumnType, name: str) -> Form:
    return Form(
        lambda column: f"CAST({column} AS pg_catalog.{name})",
        lambda array: Typed(type, column_from_arrow(array, type)),
    )


def _number(type: ColumnType, name: str) -> Form:
    """Sent as text: the binary form of NUMERIC, of digits to the base 10 000, is no shorter."""

    def read(array: pa.Array) -> Typed | pa.Array:
        if not type.is_decimal:
            return _texts(array)
        try:
            return Typed(type, column_from_arrow(array.cast(type.arrow), type))
        except pa.ArrowInvalid:  # NaN, which `decode` refuses
            return _texts(array)

    return Form(lambda column: f"CAST({column} AS pg_catalog.text)", read)


def _day(type: ColumnType, name: str) -> Form:
    def read(array: pa.Array) -> Typed:
        sent, valid = _words(array, ">i4")
        infinite = np.where(sent > 0, 2**31 - 1, 1 - 2**31)
        is_finite = (sent != 2**31 - 1) & (sent != -(2**31))
        days = np.where(is_finite, sent + _DAYS_BEFORE, infinite).astype(np.int32)
        return Typed(type, _fixed(days, valid))

    return Form(_sent(name), read)


def _time(type: ColumnType, name: str) -> Form:
    def read(array: pa.Array) -> Typed:
        sent, valid = _words(array, ">i8")
        return Typed(type, _fixed(sent, valid))

    return Form(_sent(name), read)


def _moment(type: ColumnType, name: str) -> Form:
    zone = "+00" if name == "timestamptz" else ""

    def read(array: pa.Array) -> Typed | pa.Array:
        sent, valid = _words(array, ">i8")
        is_finite = (sent != _LEAST) & (sent != _MOST)
        if (is_finite & (sent >= _MOST - _DAYS_BEFORE * _DAY)).any():  # beyond DuckDB's
            texts = [_moment_text(micros, zone) for micros in sent.tolist()]
            return pa.array(texts, pa.large_string(), mask=None if valid is None else ~valid)
        shifted = np.where(is_finite, sent, 0) + _DAYS_BEFORE * _DAY
        micros = np.where(is_finite, shifted, np.where(sent > 0, _MOST, -_MOST))
        return Typed(type, _fixed(micros, valid))

    return Form(_sent(name), read)


def _sent(name: str) -> Callable[[str], str]:
    return lambda column: f"pg_catalog.{name}_send({column})"


def _words(array: pa.Array, dtype: str) -> tuple[npt.NDArray[np.int64], Mask | None]:
    """Numbers from binaries of their size, 0 for NULL, and which are not NULL."""
    _, ends, data = array.buffers()
    count, width = len(array), np.dtype(dtype).itemsize
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    present = count - array.null_count
    if not present:
        return np.zeros(count, np.int64), valid
    first, last = np.frombuffer(ends, np.int32, count + 1, 4 * array.offset)[[0, -1]].tolist()
    if last - first != present * width:
        raise InternalError(f"PostgreSQL has sent values of another size than {dtype}")
    values = np.frombuffer(data, dtype, present, first).astype(np.int64)
    if valid is None:
        return values, None
    every = np.zeros(count, np.int64)
    every[valid] = values
    return every, valid


def _fixed(
    values: npt.NDArray[np.int32] | npt.NDArray[np.int64], valid: Mask | None
) -> FixedColumn:
    return FixedColumn(values if valid is None else np.where(valid, values, 0), valid)


def _moment_text(micros: int, zone: str) -> str:
    """A timestamp as PostgreSQL writes it, from microseconds since 2000."""
    if micros in (_LEAST, _MOST):
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, _DAY)
    cycles, day = divmod(days, _CYCLE)
    within = date(2000, 1, 1) + timedelta(day)
    year = within.year + 400 * cycles
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    point = f".{fraction:06}".rstrip("0") if fraction else ""
    era = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04}-{within:%m-%d} {clock}{point}{zone}{era}"


_FORMS: dict[str, Callable[[ColumnType, str], Form]] = {
    **dict.fromkeys(("bool", "int2", "int4", "int8", "float4", "float8", "bytea"), _same),
    "text": _same_text,
    "numeric": _number,
    "date": _day,
    "time": _time,
    "timestamp": _moment,
    "timestamptz": _moment,
}
