"""Rows of COPY's formats text and csv as they come, as tables of texts.

Law: what PostgreSQL reads in these formats is read here, or refused. The lines are cut into cells
by Arrow; text has its escapes undone afterwards, and CSV that Arrow reads in another way than
PostgreSQL goes to `copy_csv`. Rows end at LF or CR LF.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from ivm.serve.pg.copy.copy_csv import csv_rows
from ivm.serve.pg.copy.copy_options import CopyOptions
from ivm.serve.pg.wire.errors import BAD_COPY, BAD_TEXT, PgError

_PIECE = 1 << 23  # bytes that are made rows of at a time
_MARK = re.compile(rb"(?:\A|(?<=\n))\\\.(?:\r?\n|\Z)")
_LAST_MARK = re.compile(rb"(?:\A|(?<=\n))\\\.\r?\n?\Z")
_EMPTY = re.compile(rb"(?:\A|\n)\r?\n")
_BOM = codecs.BOM_UTF8
_COUNT = "a row of COPY has too few or too many values"
_PAIR = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_NAMED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Lines:
    """Makes tables of the bytes of a COPY.

    Args:
        options: of the COPY, in the format text or csv.
        columns: their names.
    """

    def __init__(self, options: CopyOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._is_csv = options.format == "csv"
        self._quote = options.quote.encode()
        self._begins, self._ended = options.header, False
        self._left = bytearray()

    def feed(self, data: bytes) -> Iterator[pa.Table]:
        """Takes a piece; yields rows that have come whole, each cell a text.

        Raises:
            PgError: they are none.
        """
        if not self._ended:
            self._left += data
            if len(self._left) >= _PIECE and (end := self._end_of_rows()):
                piece = bytes(self._left[:end])
                del self._left[:end]
                yield from self._tables(piece)

    def end(self) -> Iterator[pa.Table]:
        """Yields the rows that are left."""
        piece, self._left = bytes(self._left), bytearray()
        if self._is_csv:
            piece = _LAST_MARK.sub(b"", piece)
        if piece and not self._ended:
            yield from self._tables(piece)

    def _end_of_rows(self) -> int:
        """The end of the last row that is whole; 0 if none can be told yet."""
        if self._is_csv and self._options.escape != self._options.quote:
            return 0
        data, quote = self._left, self._quote
        end = len(data)
        quoted = data.count(quote) % 2 if self._is_csv else 0
        while (at := data.rfind(b"\n", 0, end)) >= 0:
            if self._is_csv:
                quoted = (quoted + data.count(quote, at, end)) % 2
            elif (at - len(data[:at].rstrip(b"\\"))) % 2:
                quoted = 1
            else:
                quoted = 0
            if not quoted:
                return at + 1
            end = at
        return 0

    def _tables(self, piece: bytes) -> Iterator[pa.Table]:
        if not self._is_csv:
            mark = _MARK.search(piece)
            if mark is not None:
                piece, self._ended = piece[: mark.start()], True
            piece = self._escaped(piece)
        if self._begins and not self._options.checks_header:
            self._begins = False
            piece = piece[self._header_end(piece) :]
        if not piece:
            return
        table = self._read(piece)
        if self._begins:
            self._begins = False
            self._check_header(table)
            table = table.slice(1)
        yield table if self._is_csv else _unescaped(table)

    def _read(self, piece: bytes) -> pa.Table:
        quotes = self._is_csv and self._quote in piece
        empty = len(self._columns) > 1 and _EMPTY.search(piece) is not None
        if quotes and (empty or not self._is_regular(piece)):
            rows = csv_rows(_decoded(piece), self._options, len(self._columns))
            return pa.table(
                [pa.array(column, pa.string()) for column in zip(*rows, strict=True)],
                [str(i) for i in range(len(self._columns))],
            )
        if not quotes and piece.count(b"\r") not in (0, piece.count(b"\n")):
            raise PgError(BAD_COPY, "a carriage return in a value: write it as \\r, or quote it")
        if empty:  # Arrow takes it for a row of empty values
            raise PgError(BAD_COPY, f"{_COUNT}: a line is empty")
        return _by_arrow(piece, self._options, len(self._columns), quotes=quotes)

    def _is_regular(self, piece: bytes) -> bool:
        """Whether quotes are around whole values alone, as Arrow has them."""
        if self._options.escape != self._options.quote:
            return False
        quote, delimiter = map(re.escape, (self._quote, self._options.delimiter.encode()))
        plain = rb"[^" + quote + delimiter + rb"\r\n]*+"
        quoted = quote + rb"(?:[^" + quote + rb"]|" + quote * 2 + rb")*+" + quote
        cell = rb"(?>" + quoted + rb"|" + plain + rb")"
        rows = rb"(?>" + cell + rb"(?:" + delimiter + rb"|\r?\n))*+" + cell
        return re.fullmatch(rows, piece) is not None

    def _escaped(self, piece: bytes) -> bytes:
        """Text whose delimiters and ends of lines in values are written by their numbers."""
        signs = b"\r\n" + self._options.delimiter.encode()
        if not any(b"\\" + bytes([sign]) in piece for sign in signs):
            return piece

        def told(found: re.Match[bytes]) -> bytes:
            return b"\\x%02x" % found[1][0] if found[1] in signs else found[0]

        return _PAIR.sub(told, piece)

    def _header_end(self, piece: bytes) -> int:
        """The end of the first line: which names it has, and how many, is not looked at."""
        line = rb"(?:[^\\\n]|\\.?)*+\n?"
        if self._is_csv:
            quote, escape = map(re.escape, (self._quote, self._options.escape.encode()))
            sign = escape + rb".|[^" + escape + quote + rb"]"
            if escape == quote:
                sign = rb"[^" + quote + rb"]"
            quoted = quote + rb"(?:" + sign + rb")*+(?:" + quote + rb"|\Z)"
            line = rb"(?:[^" + quote + rb"\n]|" + quoted + rb")*+\n?"
        found = re.match(line, piece, re.DOTALL)
        assert found is not None
        return found.end()

    def _check_header(self, table: pa.Table) -> None:
        found = [column[0].as_py() for column in table.columns]
        if found != self._columns:
            raise PgError(
                BAD_COPY, f"the header has the columns {found}, and the table {self._columns}"
            )


def _by_arrow(piece: bytes, options: CopyOptions, count: int, *, quotes: bool) -> pa.Table:
    names = [str(i) for i in range(count)]
    if piece.startswith(_BOM):
        piece = _BOM + piece  # Arrow leaves one out, which is part of a value
    try:
        return csv.read_csv(
            pa.BufferReader(piece),
            csv.ReadOptions(use_threads=False, block_size=len(piece) + 1, column_names=names),
            csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote if quotes else False,
                double_quote=True,
                escape_char=False,
                newlines_in_values=quotes,
                ignore_empty_lines=False,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[options.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error):
            raise PgError(BAD_TEXT, "a row of COPY has a text that is no UTF-8") from error
        reason = str(error).removeprefix("CSV parse error: ")
        raise PgError(BAD_COPY, f"{_COUNT}: {reason}") from error


def _unescaped(table: pa.Table) -> pa.Table:
    for i, column in enumerate(table.columns):
        marked = pc.fill_null(pc.match_substring(column, "\\"), False)
        if pc.any(marked).as_py():
            texts = [_without_escapes(text) for text in column.filter(marked).to_pylist()]
            told = pc.replace_with_mask(
                column.combine_chunks(), marked.combine_chunks(), pa.array(texts, pa.string())
            )
            table = table.set_column(i, table.field(i), told)
    return table


def _without_escapes(text: str) -> str:
    return _decoded(_ESCAPE.sub(_byte_meant, text.encode()))


def _byte_meant(found: re.Match[bytes]) -> bytes:
    sign = found[1]
    if len(sign) > 1 and sign[:1] == b"x":
        return bytes([int(sign[1:], 16)])
    if sign[0] in b"01234567":
        return bytes([int(sign, 8) & 0xFF])
    return _NAMED.get(sign, sign)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PgError(BAD_TEXT, f"a row of COPY has a text that is no UTF-8: {error}") from error
