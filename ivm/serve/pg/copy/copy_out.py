"""COPY TO STDOUT: rows of a table or a query, as lines of text or CSV, or in the format binary."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.serve.batches import Batches
from ivm.serve.pg.copy.copy_binary import END, HEAD
from ivm.serve.pg.copy.copy_in import NAMED
from ivm.serve.pg.copy.copy_options import CopyOptions
from ivm.serve.pg.statements.actions import Action, CatalogQuery, Sql, actions_of
from ivm.serve.pg.statements.copy_syntax import CopyRows
from ivm.serve.pg.statements.describe import SHOWS
from ivm.serve.pg.values.columns import Wanted, data_rows, framed, one_buffer, value_bytes
from ivm.serve.pg.values.types import element_of
from ivm.serve.pg.wire import codec
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, SqlError

if TYPE_CHECKING:
    from ivm.serve.pg.statements.statements import Statements
    from ivm.session.results.result import Result

_SIZE = struct.Struct("!i")  # of a message, without its tag
_ENDLESS = np.iinfo(np.int64).max  # an infinite time
_ENDS = [pa.scalar(each, pa.large_binary()) for each in (b"\n", b"")]
_SIGNS = {"\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r"}


class CopyOut:
    """Rows that go to the client.

    Args:
        action: the statement.
        statements: of the connection.

    Attributes:
        binary: whether they go in the format binary.
        columns: the number of columns.
    """

    def __init__(self, action: CopyRows, statements: Statements) -> None:
        self._options = CopyOptions(action)
        self.binary = self._options.format == "binary"
        self._result: Result = statements.run(_asked(action)).result
        self._wanted = [Wanted(type, self.binary) for type in self._result.types]
        self._zone = statements.settings.get("timezone")
        self.columns = len(self._wanted)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """The rows' messages in pieces with their counts."""
        if self._options.header:
            yield 0, self._lines(self._names())
        batches, head = Batches(self._result), HEAD if self.binary else b""
        while (table := batches.next()) is not None:
            messages = self._messages(table)
            yield len(table), _headed(head, messages) if head else messages
            head = b""
        if self.binary:
            yield 0, codec.copy_data(head + END)

    def _names(self) -> list[pa.Array]:
        return [pa.array([name], pa.large_string()) for name in self._result.columns]

    def _messages(self, table: pa.Table) -> bytes:
        if self.binary:
            for column, wanted in zip(table.columns, self._wanted, strict=True):
                if "_NS" in wanted.type:
                    _demand_micros(column, wanted.type)
            return one_buffer(data_rows(table, self._wanted, self._zone, tag=b"d"))
        cells = value_bytes(table, self._wanted, self._zone)
        return self._lines([cell.cast(pa.large_string()) for cell in cells])

    def _lines(self, columns: Sequence[pa.Array]) -> bytes:
        """Rows as messages of one line each."""
        options = self._options
        told = [
            pc.fill_null(self._quoted(column, name), options.null)
            if options.format == "csv"
            else pc.fill_null(self._escaped(column), options.null)
            for column, name in zip(columns, self._result.columns, strict=True)
        ]
        delimiter = pa.scalar(options.delimiter, pa.large_string())
        lines = pc.binary_join_element_wise(*told, delimiter).cast(pa.large_binary())
        return one_buffer(framed(b"d", pc.binary_join_element_wise(lines, *_ENDS)))

    def _quoted(self, column: pa.Array, name: str) -> pa.Array:
        options = self._options
        signs = f"[{re.escape(options.delimiter + options.quote)}\r\n]"
        needs = pc.or_(pc.match_substring_regex(column, signs), pc.equal(column, options.null))
        if self.columns == 1:  # else the line would be the end of the rows
            needs = pc.or_(needs, pc.equal(column, "\\."))
        if options.is_quoted(name):
            needs = pc.is_valid(column)
        doubled = column
        for sign in dict.fromkeys((options.escape, options.quote)):
            doubled = pc.replace_substring(doubled, sign, options.escape + sign)
        mark, nothing = (pa.scalar(each, pa.large_string()) for each in (options.quote, ""))
        return pc.if_else(needs, pc.binary_join_element_wise(mark, doubled, mark, nothing), column)

    def _escaped(self, column: pa.Array) -> pa.Array:
        told = pc.replace_substring(column, "\\", "\\\\")
        for sign, written in _SIGNS.items():
            told = pc.replace_substring(told, sign, f"\\{written}")
        sign = self._options.delimiter
        return told if sign in _SIGNS else pc.replace_substring(told, sign, f"\\{sign}")


def _headed(head: bytes, messages: bytes) -> bytes:
    """Messages of which the first one has the header, too: clients take each for one row."""
    end = 1 + _SIZE.unpack_from(messages, 1)[0]
    return codec.copy_data(head + messages[1 + _SIZE.size : end]) + messages[end:]


def _demand_micros(column: pa.ChunkedArray, type: str) -> None:
    """Refuses nanoseconds, which PostgreSQL's binary values do not have."""
    element = element_of(type)
    if element is not None:
        _demand_micros(pc.list_flatten(column), element)
    elif type in ("TIMESTAMP_NS", "TIME_NS"):
        nanos = np.asarray(pc.drop_null(column).cast(pa.int64()))
        if (nanos[np.abs(nanos) != _ENDLESS] % 1000).any():
            raise InputError(f"COPY's format binary has microseconds: copy {type} in another one")


def _asked(action: CopyRows) -> Action:
    """What a COPY gives the rows of.

    Raises:
        SqlError: it is none that has rows, or several.
    """
    query = _query(action.relation)
    found = actions_of(query)
    if len(found) != 1 or not _has_rows(found[0]):
        reason = "syntax error: COPY gives the rows of one query, or of one change with RETURNING"
        raise SqlError(reason, max(action.text.find(query), 0))
    return found[0]


def _has_rows(action: Action) -> bool:
    if isinstance(action, Sql):
        statement = action.statement
        if isinstance(statement, st.Dml):
            return statement.returning or statement.kind == "other"
        return isinstance(statement, (st.Query, st.Execute, *SHOWS))
    return isinstance(action, CatalogQuery) or getattr(action, "verb", "") in ("SHOW", "FETCH")


def _query(relation: str) -> str:
    """The query whose rows a COPY gives."""
    if relation.startswith("("):
        return relation[1:-1]
    names = NAMED.fullmatch(relation)
    if names is None:
        raise InputError(f"COPY takes a table or a query in parentheses, not {relation!r}")
    return f"SELECT {names['columns'] or '*'} FROM {names['table']}"
