"""CSV as PostgreSQL reads it where it is not that of others, sign by sign.

A quote in the middle of a value begins or ends a quoted part of it, and an escape that is not the
quote itself stands for what follows only in such a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ivm.serve.pg.copy.copy_options import CopyOptions
from ivm.serve.pg.wire.errors import BAD_COPY, PgError

Row = tuple[str | None, ...]


def csv_rows(text: str, options: CopyOptions, count: int) -> list[Row]:
    """The rows of a text, None for NULL.

    Raises:
        PgError: one has more or fewer values, or a quote has no end.
    """
    rows: list[Row] = []
    row: list[str | None] = []
    for value, ends in _values(text, options):
        row.append(value)
        if ends:
            if len(row) != count:
                raise PgError(
                    BAD_COPY,
                    f"row {len(rows) + 1} of COPY has too few or too many values: {len(row)}, "
                    f"not {count}",
                )
            rows.append(tuple(row))
            row = []
    return rows


def _values(text: str, options: CopyOptions) -> Iterator[tuple[str | None, bool]]:
    """Values, and whether a row ends with them."""
    delimiter, quote, escape = map(re.escape, (options.delimiter, options.quote, options.escape))
    plain = re.compile(rf"[^{delimiter}{quote}\r\n]*")
    quoted = re.compile(rf"(?:{escape}[{escape}{quote}]|[^{quote}])*")
    pair = re.compile(rf"{escape}([{escape}{quote}])")
    at, size = 0, len(text)
    while at < size:
        parts, was_quoted = [], False
        while True:
            found = plain.match(text, at)
            assert found is not None
            parts.append(found[0])
            at = found.end()
            if text[at : at + 1] != options.quote:
                break
            inner = quoted.match(text, at + 1)
            assert inner is not None
            at, was_quoted = inner.end() + 1, True
            if at > size:
                raise PgError(BAD_COPY, "a quoted value of COPY has no end")
            parts.append(pair.sub(r"\1", inner[0]))
        ends = text[at : at + 1] != options.delimiter
        value = "".join(parts)
        yield (None if value == options.null and not was_quoted else value), ends
        if text.startswith("\r", at) and not text.startswith("\r\n", at):
            raise PgError(BAD_COPY, "a carriage return in a value: quote it")
        at += 2 if text.startswith("\r\n", at) else 1
        if not ends and at == size:  # an empty value behind the last delimiter
            yield (None if options.null == "" else ""), True
