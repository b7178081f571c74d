"""COPY FROM STDIN: the rows that come are kept in a file, which one INSERT then reads.

Law: what has come is applied by one statement, with the table's keys, constraints and views; if the
client ends it, or a row is refused, nothing has changed.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.serve.pg.copy.copy_binary import BinaryRows
from ivm.serve.pg.copy.copy_lines import Lines
from ivm.serve.pg.copy.copy_options import CopyOptions
from ivm.serve.pg.statements.copy_syntax import CopyRows
from ivm.serve.pg.values import types
from ivm.serve.pg.values.parameters import array_from_text, bytes_from_text
from ivm.serve.pg.values.text_sql import value_sql
from ivm.serve.pg.values.types import element_of, pg_type
from ivm.sql.statements import parse as st
from ivm.storage.errors import EvaluationError, InputError
from ivm.storage.warehouse.duckdb.duck import rows
from ivm.storage.warehouse.own_parquet import reading

if TYPE_CHECKING:
    from ivm.serve.pg.statements.statements import Statements

NAMED = re.compile(r'(?P<table>(?:"(?:[^"]|"")*+"|[^()"])+?)\s*(?:\((?P<columns>.*)\))?', re.DOTALL)


class CopyIn:
    """Rows that come from the client.

    Args:
        action: the statement.
        statements: of the connection; the result is one of them.

    Attributes:
        binary: whether they come in the format binary.
        columns: the number of columns.

    Raises:
        UnsupportedError: an option that is not offered.
        SqlError: there is no such table.
    """

    def __init__(self, action: CopyRows, statements: Statements) -> None:
        self._relation = action.relation
        self._statements = statements
        options = CopyOptions(action)
        names = NAMED.fullmatch(action.relation)
        if names is None:
            raise InputError(f"COPY takes a table, not {action.relation!r}")
        described = _described(statements, names["table"], names["columns"] or "*")
        self._types = [type for _, type in described]
        self.binary, self.columns = options.format == "binary", len(described)
        arrow = [_arrow(type) for type in self._types]
        if self.binary:
            oids = [pg_type(type).oid for type in self._types]
            self._source: BinaryRows | Lines = BinaryRows(oids, arrow)
        else:
            self._source = Lines(options, [name for name, _ in described])
        handle, name = tempfile.mkstemp(prefix="ivm-copy-", suffix=".parquet")
        os.close(handle)
        self._path = Path(name)
        fields = [pa.field(f"c{i}", type) for i, type in enumerate(arrow)]
        self._writer = pq.ParquetWriter(
            self._path, pa.schema(fields), compression="none", use_dictionary=False
        )
        self._count = 0

    def write(self, data: bytes) -> None:
        """Takes a piece of the rows.

        Raises:
            PgError: they are none.
        """
        for table in self._source.feed(data):
            self._keep(table)

    def finish(self) -> int:
        """Copies the rows into the table; returns their count."""
        for table in self._source.end():
            self._keep(table)
        self._writer.close()
        if not self._count:
            return 0
        cells = ", ".join(value_sql(type, f"c{i}") for i, type in enumerate(self._types))
        read = reading([self._path])
        asked = _insert(self._relation, f"VALUES ({', '.join(['NULL'] * self.columns)})")
        outcome = self._statements.change(
            _insert(self._relation, f"SELECT {cells} FROM {read}"), asked
        )
        return max(outcome.rowcount, 0)

    def _keep(self, table: pa.Table) -> None:
        columns = [
            _converted(column, type) if not self.binary else column
            for column, type in zip(table.columns, self._types, strict=True)
        ]
        self._writer.write_table(pa.table(columns, self._writer.schema))
        self._count += len(table)

    def drop(self) -> None:
        """Removes the file."""
        if self._writer.is_open:
            self._writer.close()
        self._path.unlink(missing_ok=True)


def _described(statements: Statements, table: str, listed: str) -> list[tuple[str, str]]:
    """The names and types of the columns that are copied."""
    statements.demand(f"INSERT INTO {table} VALUES (NULL)")
    statements.demand(f"SELECT {listed} FROM {table}")
    sql = f"DESCRIBE SELECT {listed} FROM {table}"
    found = statements.with_session(lambda session: rows(session.cursor, sql))
    return [(name, type) for name, type, *_ in found]


def _insert(relation: str, source: str) -> st.Statement:
    (found,) = st.parse(f"INSERT INTO {relation} {source}")
    return found


def _arrow(type: str) -> pa.DataType:
    """The type in which a column's values are kept."""
    element = element_of(type)
    if element is not None:
        return pa.list_(_arrow(element))
    return pa.binary() if type == "BLOB" else pa.string()


def _converted(column: pa.ChunkedArray, type: str) -> pa.ChunkedArray | pa.Array:
    """A column of texts in the type in which it is kept."""
    element = element_of(type)
    if element is None and type != "BLOB":
        return column
    oid = types.BYTEA if element == "BLOB" else types.TEXT
    try:
        return pa.array(
            [
                None if text is None
                else bytes_from_text(text) if element is None
                else array_from_text(text, oid)
                for text in column.to_pylist()
            ],
            _arrow(type),
        )  # fmt: skip
    except (ValueError, UnicodeError) as error:
        raise EvaluationError(f"invalid value of type {type} in COPY: {error}") from error
