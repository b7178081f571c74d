"""Lengths of time among a statement's options: `'1 minute'`, or `INTERVAL 30 DAY`.

Law: DuckDB reads them, as it reads an INTERVAL.
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb

from ivm.sql.statements.text.tokens import Reader
from ivm.storage.errors import SqlError
from ivm.storage.scratch import Scratch
from ivm.storage.warehouse.duckdb.duck import rows

_EMPTY = Scratch.of()
_DAY = 86_400_000_000
_MOST_YEARS = 280_000  # DuckDB's timestamps reach so far back, and so far ahead
_PARTS = """
SELECT CAST(i AS VARCHAR), datepart('year', i) * 12 + datepart('month', i), datepart('day', i),
    datepart('hour', i) * 3600000000 + datepart('minute', i) * 60000000
    + datepart('microsecond', i)
FROM (SELECT CAST(({value}) AS INTERVAL) AS i)
"""


class Duration(NamedTuple):
    """A length of time.

    Attributes:
        text: as DuckDB writes it.
        months: of it.
        days: of it, besides the months.
        micros: the rest, in microseconds.
    """

    text: str
    months: int
    days: int
    micros: int


def duration(reader: Reader) -> Duration:
    """Reads a length of time: a text, or INTERVAL with a constant.

    Raises:
        SqlError: it is none, not more than nothing, or longer than timestamps reach.
    """
    begin = reader.at
    if not reader.done and reader.tokens[begin].text[:1] == "'":
        reader.at += 1
    elif reader.accept("INTERVAL"):
        while reader.peek() not in (",", ")", "BEHIND") and not reader.done:
            reader.at += 1
    value = " ".join(token.text for token in reader.tokens[begin : reader.at])
    wrong = "expected a length of time such as '1 minute' or INTERVAL 30 DAY"
    try:
        with _EMPTY.borrow() as cursor:
            found = rows(cursor, _PARTS.format(value=value or "NULL"))
    except duckdb.Error as error:
        raise _at(reader, begin, wrong) from error
    if found[0][0] is None:
        raise _at(reader, begin, wrong)
    length = Duration(*found[0])
    if min(length[1:]) < 0 or not any(length[1:]):
        raise _at(reader, begin, "expected more time than none")
    if length.months / 12 + (length.days + length.micros / _DAY) / 365 > _MOST_YEARS:
        raise _at(reader, begin, f"expected no more than {_MOST_YEARS} years")
    return length


def _at(reader: Reader, at: int, reason: str) -> SqlError:
    reader.at = at
    return reader.error(reason)
